"""Cuts a text into pieces that are long enough to be understood and short enough for a prompt. Plain Python."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

# Characters of a piece, about 200 words.
LENGTH = 1200
# A rest that is shorter joins the piece before it.
SHORT = 200
# Characters of the place of a piece.
HEADING_LENGTH = 200
# Characters of what is left out.
PLACE_LENGTH, REASON_LENGTH = 200, 300
HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
BREAKS = ("\n\n", "\n", ". ", "; ", ", ", " ")


@dataclass(frozen=True, slots=True)
class Piece:
    """`page` counts from 1."""

    text: str
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The text of a page or below a heading, as a parser found it."""

    text: str
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of a document is not in its text: where, and why. `is_lost` is false for a note on a text that is there."""

    place: str
    reason: str
    is_lost: bool = True

    @classmethod
    def read(cls, entry: Any) -> Self:
        """From what a reader wrote. Raises KeyError, TypeError."""
        place = clean_database_text(str(entry["place"]))
        reason = clean_database_text(str(entry["reason"]))
        return cls(place[:PLACE_LENGTH], reason[:REASON_LENGTH], bool(entry["is_lost"]))

    def as_json(self) -> dict[str, str | bool]:
        return {"place": self.place, "reason": self.reason, "is_lost": self.is_lost}


def cut_parts(parts: Iterable[Part]) -> Iterator[Piece]:
    """A heading without text below it, and one that is longer than a place can be, is a text itself."""
    for part in parts:
        heading = clean_database_text(part.heading).strip()
        text = part.text
        if len(heading) > HEADING_LENGTH or not part.text.strip():
            text = f"{heading}\n{part.text}"
        for piece in split_text_pieces(text):
            yield Piece(piece, heading[:HEADING_LENGTH], part.page)


def clean_database_text(text: str) -> str:
    """The text without what a database refuses: NUL characters, and halves of surrogate pairs."""
    encoded = text.replace("\0", "").encode("utf-8", "replace")
    return encoded.decode()


def split_text_pieces(text: str) -> Iterator[str]:
    """The pieces of a text. A piece ends with a paragraph, line or sentence if one ends in its second half."""
    text = clean_database_text(text).strip()
    start = 0
    while start < len(text):
        end = len(text)
        if end - start > LENGTH + SHORT:
            end = find_piece_end(text, start)
        if piece := text[start:end].strip():
            yield piece
        start = end


def find_piece_end(text: str, start: int) -> int:
    """Where a piece that begins here ends: behind the best break in its second half, such as the end of a paragraph."""
    least = start + LENGTH // 2
    most = start + LENGTH
    for sign in BREAKS:
        position = text.rfind(sign, least, most)
        if position >= 0:
            return position + len(sign)
    return most


def split_markdown(text: str) -> Iterator[Part]:
    """The text below each heading. Lines that begin with # inside a block of code are no headings."""
    heading = ""
    is_code = False
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        match = None if is_code else HEADING.match(line)
        if match:
            yield Part("\n".join(lines), heading)
            heading, lines = match[2].strip("# \t"), []
        else:
            lines.append(line)
    yield Part("\n".join(lines), heading)
