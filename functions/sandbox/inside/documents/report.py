"""What a reader gives: parts of text with their places, and a list of what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

CHARS = 8_000_000  # of a document
MOST_LEFT_OUT = 100  # entries of the list; the last one counts the others
PLACE, REASON = 120, 300  # characters
PICTURE = "Pictures are not read: text in them must be recognised (OCR) before."
HIDDEN_SHEET = "The sheet is hidden in the file. Its text was read."
HIDDEN_SLIDE = "The slide is hidden in the file. Its text was read."
Part = dict[str, Any]  # text, and heading or page
Entry = dict[str, Any]  # place, reason, and is_lost: false for a note on a text that is there


class Refused(Exception):
    """This document cannot be read, with a code for programs and a message for its owner."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LeftOut:
    """What of a document is not in its text, and what a person should know of it: places and reasons."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, bool], int] = {}
        self.more = 0

    def note(self, place: str, reason: str) -> None:
        """Say something of a text that is not lost."""
        self.add(place, reason, is_lost=False)

    def add(self, place: str, reason: str, *, is_lost: bool = True) -> None:
        """The same place and reason stand in the list once, with their number."""
        entry = place.strip()[:PLACE] or "document", reason[:REASON], is_lost
        if entry in self.counts:
            self.counts[entry] += 1
        elif len(self.counts) < MOST_LEFT_OUT - 1:
            self.counts[entry] = 1
        else:
            self.more += 1

    def entries(self) -> list[Entry]:
        entries: list[Entry] = []
        for (place, reason, is_lost), count in self.counts.items():
            counted = place if count == 1 else f"{place} ({count} times)"
            entries.append({"place": counted, "reason": reason, "is_lost": is_lost})
        if self.more:
            reason = f"{self.more} more places are left out."
            entries.append({"place": "document", "reason": reason, "is_lost": True})
        return entries


def describe_refusal(error: Exception) -> tuple[str, str]:
    """The code and the message of what a reader raised."""
    if isinstance(error, Refused):
        return error.code, str(error)
    if isinstance(error, ImportError) or type(error).__name__ == "DependencyError":  # of pypdf
        library = getattr(error, "name", None) or "cryptography"
        return "library_missing", (
            f"The library {library} is needed to read this file. The administrator must run "
            "`manage.py install_libraries`; then read the document again."
        )
    if isinstance(error, MemoryError):
        return "too_large", "Reading the file needs too much memory."
    return "broken_file", f"The file cannot be read ({type(error).__name__})."


def limit_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts that have text or a heading. Raises Refused if they have too much text together."""
    room = CHARS
    for part in parts:
        if not part["text"].strip() and not part.get("heading", "").strip():
            continue
        room -= len(part["text"])
        if room < 0:
            raise Refused("too_much_text", f"The document has more than {CHARS:,} characters.")
        yield part
