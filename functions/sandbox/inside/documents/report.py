"""What a reader gives: parts of text with their places, and a list of what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..letters.left_out import PICTURE, Entry, LeftOut

__all__ = ["PICTURE", "Entry", "LeftOut", "Part", "Refused", "describe_refusal", "limit_parts"]

# Characters of a document.
CHARS = 8_000_000
HIDDEN_SHEET = "The sheet is hidden in the file. Its text was read."
HIDDEN_SLIDE = "The slide is hidden in the file. Its text was read."
# Has text, and heading or page.
Part = dict[str, Any]


class Refused(Exception):
    """This document cannot be read, with a code for programs and a message for its owner."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def describe_refusal(error: Exception) -> tuple[str, str]:
    """The code and the message of what a reader raised."""
    if isinstance(error, Refused):
        return error.code, str(error)
    if isinstance(error, ImportError) or type(error).__name__ == "DependencyError":
        # An error of pypdf.
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
