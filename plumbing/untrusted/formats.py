"""HTML and YAML from users, as text and values.

Their parsers can be slowed down by crafted input, so long input is read in a process with limits:
see plumbing/untrusted/apart.py.
"""

import re
from html.parser import HTMLParser
from typing import Any

import yaml

from plumbing.untrusted import apart

SHORT = 2_000  # characters
UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u200b\u2060\ufeff]")
BLOCKS = frozenset(
    ["p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "ul", "ol", "pre"]
)
HIDDEN = frozenset(["script", "style", "head", "title", "template", "noscript"])
TOO_COMPLEX = "[This HTML is too complex to be read.]"
HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")  # no character has such a number
ANY_TAG = re.compile(r"<[^<>]*>")


def clean(text: str) -> str:
    """Line ends as \\n, without control and invisible characters, which can hide instructions and which databases
    refuse.
    """
    return UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def html_text(source: str) -> str:
    """The visible text of the HTML, one line per block, without scripts, styles and the head."""
    if len(source) <= SHORT:
        return html_text_here(source)
    try:
        text: str = apart.read("html", source)
    except apart.TooMuch:
        return TOO_COMPLEX
    return text


def html_text_here(source: str) -> str:
    """Never raises: what Python's parser gives up on is read without its tags."""
    reader = Reader()
    source = HUGE_REFERENCE.sub("\ufffd", source)  # Python refuses to read a number of thousands of digits
    try:
        reader.feed(source)
        reader.close()
    except (AssertionError, LookupError, TypeError, ValueError):
        return ANY_TAG.sub(" ", source)
    return "".join(reader.parts)


class Reader(HTMLParser):
    """Collects the text outside hidden elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden: list[str] = []

    def parse_html_declaration(self, i: int) -> int:
        """Python's parser raises for `<![x`; browsers read it as a comment up to the next `>`."""
        if not self.rawdata.startswith("<![", i):
            return super().parse_html_declaration(i)
        end = self.rawdata.find(">", i + 3)
        return end + 1 if end >= 0 else -1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN:
            self.hidden.append(tag)
        elif tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hidden:
            del self.hidden[self.hidden.index(tag) :]
        elif tag in BLOCKS and tag != "br":
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(re.sub(r"[ \t\r\n]+", " ", data))


class PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases, which could expand a few lines to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)


def yaml_value_here(text: str) -> Any:
    """The value of a YAML text, dates as they are written. Raises ValueError."""
    try:
        return yaml.load(text, Loader=PlainLoader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)[:200]) from None


# Dates stay text: JSON has none, and an example in a schema must not change its type.
PlainLoader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
