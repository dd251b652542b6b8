"""The visible text of HTML, in parts below its headings."""

from __future__ import annotations

import html.parser
import re
from typing import Any

from .report import PICTURE, LeftOut, Part

HIDDEN = frozenset(["script", "style", "template", "noscript", "svg", "head"])
HEADINGS = frozenset(["h1", "h2", "h3"])
BLOCKS = frozenset(
    ["p", "div", "br", "li", "tr", "table", "section", "article", "header", "footer", "h4", "h5", "h6", "pre",
     "blockquote", "dt", "dd", "option", "caption", "figcaption", "summary", "legend"]
)  # fmt: skip
OTHER_PAGES = {"iframe": "src", "object": "data", "embed": "src", "frame": "src"}
# From the first white space on: tried at each one, a long run of `&nbsp;` would cost the square of its length.
LINE_BREAKS = re.compile(r"(?<!\s)\s*\n\s*")
HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")  # no character has such a number


class Page(html.parser.HTMLParser):
    """Collects the visible text of one page."""

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__()
        self.left_out = left_out
        self.parts: list[Part] = []
        self.heading: list[str] = []
        self.text: list[str] = []
        self.title: list[str] = []
        self.hidden: list[str] = []
        self.is_heading = self.is_title = False

    def parse_html_declaration(self, i: int) -> int:
        """Python's parser raises for `<![x`; browsers read it as a comment up to the next `>`."""
        if not self.rawdata.startswith("<![", i):
            return super().parse_html_declaration(i)
        end = self.rawdata.find(">", i + 3)
        return end + 1 if end >= 0 else -1

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        named = dict(attributes)
        if tag == "title" and "svg" not in self.hidden:
            self.is_title = True
        elif tag in HIDDEN:
            self.hidden.append(tag)
        elif tag == "body":
            self.hidden.clear()
        elif self.hidden:
            return
        elif tag in OTHER_PAGES:
            self.left_out.add(f"<{tag}> {named.get(OTHER_PAGES[tag]) or ''}", "A page inside the page is not read.")
        elif tag == "img":
            self.add_picture(named)
        elif tag in ("input", "textarea") and named.get("type") != "hidden":
            self.add(f" {named.get('value') or named.get('placeholder') or ''} ")
        elif tag in HEADINGS:
            self.close_part()
            self.heading, self.is_heading = [], True
        elif tag in BLOCKS:
            self.add("\n")

    def add_picture(self, named: dict[str, str | None]) -> None:
        """Its alternative text; a picture is listed unless the page makes it too small for text."""
        if alternative := (named.get("alt") or "").strip():
            self.add(f"[picture: {alternative}]")
        if not is_small(named.get("width"), 200) and not is_small(named.get("height"), 50):
            self.left_out.add("pictures", PICTURE)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self.is_title = False
        elif tag in self.hidden:
            del self.hidden[self.hidden.index(tag) :]
        elif tag in HEADINGS:
            self.is_heading = False
        elif tag in BLOCKS:
            self.add("\n")
        elif tag in ("td", "th"):
            self.add(" | ")

    def handle_data(self, data: str) -> None:
        if self.is_title:
            self.title.append(data)
        elif not self.hidden:
            self.add(data)

    def add(self, text: str) -> None:
        (self.heading if self.is_heading else self.text).append(text)

    def close_part(self) -> None:
        text = re.sub(r"[ \t]+", " ", "".join(self.text))
        text = LINE_BREAKS.sub("\n", text)
        self.parts.append({"text": text, "heading": " ".join("".join(self.heading).split())})
        self.text = []

    def close_page(self) -> list[Part]:
        """The title of a page stands before its text, unless a heading says the same."""
        self.close_part()
        title = " ".join("".join(self.title).split())
        if title and title not in {part["heading"] for part in self.parts}:
            self.parts.insert(0, {"text": title, "heading": ""})
        return self.parts


def is_small(size: str | None, pixels: int) -> bool:
    digits = (size or "").strip().removesuffix("px")
    return digits.isdecimal() and int(digits[:9]) < pixels


def read_page(text: str, left_out: LeftOut) -> list[Part]:
    """Never raises: what Python's parser gives up on is read without its tags."""
    reader = Page(left_out)
    text = HUGE_REFERENCE.sub("\ufffd", text)  # Python refuses to read such numbers
    try:
        reader.feed(text)
        reader.close()
    except (AssertionError, LookupError, TypeError, ValueError):
        return [{"text": re.sub(r"<[^<>]*>", " ", text), "heading": ""}]
    return reader.close_page()
