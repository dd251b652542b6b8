"""What a reader gives: parts of text with their places, and a list of what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

CHARS = 8_000_000  # of a document
MOST_LEFT_OUT = 100  # entries of the list; the last one counts the others
PLACE, REASON = 120, 300  # characters
PICTURE = "Pictures are not read: text in them must be recognised (OCR) before."
Part = dict[str, Any]  # text, and heading or page


class Refused(Exception):
    """This document cannot be read, with a code for programs and a message for its owner."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LeftOut:
    """What of a document is not in its text: places and reasons, for a person."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.more = 0

    def add(self, place: str, reason: str) -> None:
        """The same place and reason stand in the list once, with their number."""
        entry = place.strip()[:PLACE] or "document", reason[:REASON]
        if entry in self.counts:
            self.counts[entry] += 1
        elif len(self.counts) < MOST_LEFT_OUT - 1:
            self.counts[entry] = 1
        else:
            self.more += 1

    def entries(self) -> list[dict[str, str]]:
        entries = []
        for (place, reason), count in self.counts.items():
            entries.append({"place": place if count == 1 else f"{place} ({count} times)", "reason": reason})
        if self.more:
            entries.append({"place": "document", "reason": f"{self.more} more places are left out."})
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
