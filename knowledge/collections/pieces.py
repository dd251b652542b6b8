"""Cuts a text into pieces that are long enough to be understood and short enough for a prompt. Plain Python."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LENGTH = 1200  # characters of a piece, about 200 words
SHORT = 200  # a rest that is shorter joins the piece before it
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


def pieces_of(parts: Iterable[Part]) -> Iterator[Piece]:
    for part in parts:
        for text in cut(part.text):
            yield Piece(text, storable(part.heading)[:200], part.page)


def storable(text: str) -> str:
    """The text without what a database refuses: NUL characters, and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def cut(text: str) -> Iterator[str]:
    """The pieces of a text. A piece ends with a paragraph, line or sentence if one ends in its second half."""
    text = storable(text).strip()
    start = 0
    while start < len(text):
        end = len(text) if len(text) - start <= LENGTH + SHORT else break_in(text, start)
        if piece := text[start:end].strip():
            yield piece
        start = end


def break_in(text: str, start: int) -> int:
    least, most = start + LENGTH // 2, start + LENGTH
    for sign in BREAKS:
        if (position := text.rfind(sign, least, most)) >= 0:
            return position + len(sign)
    return most


def parts_of_markdown(text: str) -> Iterator[Part]:
    """The text below each heading. Lines that begin with # inside a block of code are no headings."""
    heading, is_code = "", False
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
