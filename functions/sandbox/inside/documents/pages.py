"""The text of HTML, in parts below its headings.

A page is kept whole, with what stands in folded or hidden elements: its owner added it to be searched. Of a mail, only
what a person sees is read (inside/letters).
"""

from __future__ import annotations

import re

from ..letters.markup import LINE_BREAKS, Attributes, Markup
from .report import LeftOut, Part

HEADINGS = frozenset(["h1", "h2", "h3"])


class Page(Markup):
    """Collects the text of one page."""

    reads_hidden = True
    keeps_indents = False

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__(left_out)
        self.parts: list[Part] = []
        self.heading: list[str] = []
        self.title: list[str] = []
        self.is_heading = False

    def show(self, tag: str, attributes: Attributes) -> None:
        if tag in HEADINGS:
            self.close_part()
            self.heading, self.is_heading = [], True
        else:
            super().show(tag, attributes)

    def show_end(self, tag: str) -> None:
        if tag in HEADINGS:
            self.is_heading = False
        else:
            super().show_end(tag)

    def handle_silent(self, data: str) -> None:
        if self.open[-1].name == "title" and not any(one.name == "svg" for one in self.open):
            self.title.append(data)

    def add(self, text: str) -> None:
        if self.is_heading:
            self.heading.append(text)
        else:
            self.text.append(text)

    def close_part(self) -> None:
        text = re.sub(r"[ \t]+", " ", "".join(self.text))
        text = LINE_BREAKS.sub("\n", text)
        words = "".join(self.heading).split()
        self.parts.append({"text": text, "heading": " ".join(words)})
        self.text = []

    def close_page(self) -> list[Part]:
        """The title of a page stands before its text, unless a heading says the same."""
        self.close_part()
        title = " ".join("".join(self.title).split())
        if title and title not in {part["heading"] for part in self.parts}:
            self.parts.insert(0, {"text": title, "heading": ""})
        return self.parts


def read_page(text: str, left_out: LeftOut) -> list[Part]:
    """Never raises: what Python's parser gives up on is left out, and listed."""
    reader = Page(left_out)
    reader.read(text)
    return reader.close_page()
