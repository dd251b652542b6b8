"""The text of HTML that a person sees, and what is left out of it.

Python's parser gives tags; which element a text stands in is decided here as browsers do it, as far as that says
whether the text is hidden: elements that end without a tag, and tags that end nothing.
"""

from __future__ import annotations

import html.parser
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from . import styles
from .left_out import PICTURE, LeftOut

Attributes = dict[str, str]
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
     "bgsound", "basefont", "frame", "keygen", "command"]
)  # fmt: skip
# What no browser shows. Mail programs run no scripts, so they show `noscript`.
UNSEEN = frozenset(["script", "style", "template", "head", "title", "datalist", "iframe", "object", "noembed",
                    "noframes", "audio", "video", "canvas", "dialog"])  # fmt: skip
# No text for people, whatever the page is for.
SILENT = frozenset(["script", "style", "head", "title", "template"])
OF_HEAD = frozenset(["base", "basefont", "bgsound", "link", "meta", "title", "script", "noscript", "noframes", "style",
                     "template", "head", "html"])  # fmt: skip
# Characters of a title from which on it is a text.
LONG_TITLE = 300
BLOCKS = frozenset(
    ["p", "div", "br", "hr", "li", "tr", "table", "section", "article", "header", "footer", "main", "nav", "aside",
     "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "dl", "dt", "dd", "ul", "ol", "option", "caption", "form",
     "fieldset", "figure", "figcaption", "summary", "details", "legend", "address", "center", "listing", "xmp",
     "plaintext", "textarea"]
)  # fmt: skip
CELLS = frozenset(["td", "th"])
OTHER_PAGES = {"iframe": "src", "object": "data", "embed": "src", "frame": "src"}
FORMATTING = frozenset(
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
)
OTHER_SPECIAL = frozenset(
    ["tbody", "thead", "tfoot", "colgroup", "button", "select", "marquee", "body", "html", "noscript", "applet"]
)
NOT_SPECIAL = frozenset(["br", "option", "legend", "audio", "video", "canvas", "datalist"])
SPECIAL = (BLOCKS | UNSEEN | CELLS | OTHER_SPECIAL) - NOT_SPECIAL
SCOPES = frozenset(["td", "th", "caption", "table", "html", "template", "marquee", "object", "applet", "button"])
LIST_SCOPES = SCOPES | {"ul", "ol"}
# Without `table`: in old pages, it stands in the paragraph.
ENDS_P = BLOCKS - {"br", "caption", "option", "tr", "legend", "textarea", "table"} | {
    "menu",
    "dir",
    "dialog",
    "hgroup",
    "search",
}
# These mean nothing outside of a table.
OF_TABLES = CELLS | {"tr", "tbody", "thead", "tfoot", "caption", "colgroup"}
IN_ITEMS = SPECIAL - {"address", "div", "p"}
# A tag ends these open elements, if they stand above the nearest of the others.
ENDED_BY: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(["li"]), IN_ITEMS - {"li"}),
    "dt": (frozenset(["dt", "dd"]), IN_ITEMS - {"dt", "dd"}),
    "dd": (frozenset(["dt", "dd"]), IN_ITEMS - {"dt", "dd"}),
    "td": (CELLS, frozenset(["tr", "table"])),
    "th": (CELLS, frozenset(["tr", "table"])),
    "tr": (frozenset(["tr", "td", "th", "caption"]), frozenset(["table", "tbody", "thead", "tfoot"])),
    "tbody": (frozenset(["tbody", "thead", "tfoot", "caption"]), frozenset(["table"])),
    "thead": (frozenset(["tbody", "thead", "tfoot", "caption"]), frozenset(["table"])),
    "tfoot": (frozenset(["tbody", "thead", "tfoot", "caption"]), frozenset(["table"])),
    "button": (frozenset(["button"]), SCOPES - {"button"}),
}
# From the first white space on: tried at each one, a long run of `&nbsp;` would cost the square of its length.
LINE_BREAKS = re.compile(r"(?<!\s)\s*\n\s*")
AROUND_BREAK = re.compile(r"(?<![ \t])[ \t]*\n[ \t]*")
INDENT = re.compile(r"(?<=\n)[ \t]+")
SPACES = re.compile(r"[ \t\r\n\f]+")
# No character has such a number.
HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")
# Open elements; deeper ones count as their parent.
DEEPEST = 1_000
MOST_UNENDED = 50
# Style attributes kept.
PARSED = 1_000


@dataclass(frozen=True, slots=True)
class Look:
    """How the text of an element looks, as far as that can hide it."""

    # Nothing in it is shown.
    is_gone: bool = False
    # Unless an element in it is visible.
    is_invisible: bool = False
    # Unless an element in it has a size of its own.
    is_tiny: bool = False
    is_verbatim: bool = False
    color: styles.Color = None
    background: styles.Color = styles.WHITE
    # Its letters are transparent.
    is_clear: bool = False
    # Its text is not for people.
    is_silent: bool = False

    @property
    def is_hidden(self) -> bool:
        is_unseen = self.is_gone or self.is_invisible or self.is_tiny or self.is_clear
        return is_unseen or styles.is_alike(self.color, self.background)


@dataclass(frozen=True, slots=True)
class Element:
    """An element that has begun."""

    name: str
    look: Look
    # By itself, wherever it stands.
    hides: bool


class Markup(html.parser.HTMLParser):
    """Collects the text of one page; `add` gets it piece by piece."""

    reads_hidden = False
    # Indents of code.
    keeps_indents = True

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__(convert_charrefs=True)
        self.left_out = left_out
        self.text: list[str] = []
        self.open: list[Element] = []
        # How many elements are open, by name.
        self.counts: Counter[str] = Counter()
        # Names of formatting that goes on hiding behind the element that ended.
        self.unended: list[str] = []
        self.sheet = styles.Sheet()
        self.parsed: dict[str, styles.Declarations] = {}
        self.has_content = False
        # Whether a cell of the row has ended.
        self.is_behind_cell = False
        self.title_letters = 0
        self.hidden_letters = 0
        self.lost_addresses = 0

    # -- what Python's parser reads otherwise than browsers ----------------------------------------------------------

    def read(self, source: str) -> None:
        """Read the whole page. Never raises: what Python's parser gives up on is left out, and listed."""
        # Python refuses to read such numbers.
        source = HUGE_REFERENCE.sub("\ufffd", source.replace("\0", ""))
        for sheet in find_sheets(source) if not self.reads_hidden else ():
            self.sheet.read(sheet)
        try:
            self.feed(source)
            self.close()
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            self.left_out.add("HTML", f"The HTML cannot be read from one place on ({type(error).__name__}).")
        self.end_page()

    def end_page(self) -> None:
        rest = self.rawdata.strip()
        if self.cdata_elem and rest:
            self.left_out.add(f"<{self.cdata_elem}>", f"{len(rest)} characters stand in an element that does not end.")
        if self.title_letters > LONG_TITLE:
            self.hidden_letters += self.title_letters
        if self.hidden_letters:
            self.left_out.add("hidden text", f"{self.hidden_letters} characters are hidden in the HTML and not shown.")
        if self.lost_addresses:
            self.left_out.add("links", f"The text has links; the addresses of {self.lost_addresses} are not in it.")

    def parse_html_declaration(self, i: int) -> int:
        """Python's parser raises for `<![x`; browsers read it as a comment up to the next `>`."""
        if self.rawdata[i : i + 9].lower() == "<!doctype" or self.rawdata.startswith("<!--", i):
            return super().parse_html_declaration(i)
        return self.skip_to_bracket(i)

    def parse_comment(self, i: int, report: int = 1) -> int:
        """A comment that does not end hides the rest of the page, as in browsers."""
        for short in ("<!-->", "<!--->"):
            if self.rawdata.startswith(short, i):
                return i + len(short)
        end = self.rawdata.find("-->", i + 4)
        last = end
        if last < 0:
            last = len(self.rawdata)
        other = self.rawdata.find("--!>", i + 4, last)
        if other >= 0:
            return other + len("--!>")
        if end >= 0:
            return end + len("-->")
        return self.skip_rest(i)

    def parse_starttag(self, i: int) -> int:
        """A tag that does not end hides the rest of the page, as in browsers."""
        if self.rawdata.find(">", i) < 0:
            return self.skip_rest(i, "a tag")
        return super().parse_starttag(i)

    def parse_endtag(self, i: int) -> int:
        if self.rawdata.find(">", i) < 0 and not self.cdata_elem:
            return self.skip_rest(i, "a tag")
        return super().parse_endtag(i)

    def parse_pi(self, i: int) -> int:
        return self.skip_to_bracket(i)

    def skip_to_bracket(self, i: int) -> int:
        end = self.rawdata.find(">", i + 2)
        if end < 0:
            return self.skip_rest(i)
        return end + 1

    def skip_rest(self, i: int, what: str = "a comment") -> int:
        self.left_out.add("HTML", f"{len(self.rawdata) - i} characters stand in {what} that does not end.")
        return len(self.rawdata)

    # -- elements ----------------------------------------------------------------------------------------------------

    @property
    def look(self) -> Look:
        if not self.open:
            return Look()
        return self.open[-1].look

    @property
    def behind(self) -> styles.Color:
        """The color of the page; not known if a rule that is not read may set another."""
        if self.sheet.has_unread_backgrounds:
            return None
        return styles.WHITE

    @property
    def is_hidden(self) -> bool:
        return bool(self.unended) or self.look.is_hidden

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes: Attributes = {}
        for name, value in attrs:
            # Of equal ones, browsers take the first.
            attributes.setdefault(name, value or "")
        self.end_head(tag)
        if tag not in OF_TABLES or self.is_in_table():
            self.end_implied(tag)
        was_hidden = self.is_hidden
        look = self.find_look(tag, attributes, self.look)
        if tag in ("html", "body"):
            self.begin_body(tag, look)
        elif self.is_ignored(tag):
            pass
        elif tag not in VOID and (len(self.open) < DEEPEST or look.is_hidden):
            hides = tag in FORMATTING and look.is_hidden and self.find_look(tag, attributes, Look()).is_hidden
            self.begin(Element(tag, look, hides=hides))
        is_shown = not was_hidden and (not look.is_hidden or tag in OTHER_PAGES)
        if is_shown or self.reads_hidden and not look.is_silent:
            self.show(tag, attributes)
        elif tag == "img":
            self.hidden_letters += len(attributes.get("alt", ""))
        if tag in CELLS or tag == "tr":
            self.is_behind_cell = False

    def end_head(self, tag: str) -> None:
        """What cannot stand in a head ends it."""
        if tag in OF_HEAD:
            return
        self.has_content = True
        while self.open and self.open[-1].name in ("head", "noscript") and self.is_in_head():
            self.end_one(len(self.open) - 1)

    def is_in_head(self) -> bool:
        return any(one.name == "head" for one in self.open[-3:])

    def is_ignored(self, tag: str) -> bool:
        if tag == "form":
            return self.counts["form"] > 0
        return tag == "head" and self.has_content or tag in OF_TABLES and not self.is_in_table()

    def is_in_table(self) -> bool:
        return self.counts["table"] > 0

    def begin(self, element: Element) -> None:
        self.open.append(element)
        self.counts[element.name] += 1

    def end_one(self, place: int) -> None:
        """End one element alone: those in it stay open."""
        element = self.open.pop(place)
        self.counts[element.name] -= 1

    def begin_body(self, tag: str, look: Look) -> None:
        """Only the first one counts."""
        if not self.counts[tag]:
            self.begin(Element(tag, look, hides=look.is_hidden))

    def find_look(self, tag: str, attributes: Attributes, outer: Look) -> Look:
        """How the text of an element looks, by its own styles and what it takes from the one around it."""
        declared = self.sheet.find_declarations(tag, attributes)
        if "style" in attributes:
            own = self.read_style(attributes["style"])
            fixed = {name: value for name, value in declared.items() if f"{name}!" in declared}
            declared = {**declared, **own, **{name: v for name, v in fixed.items() if f"{name}!" not in own}}
        is_gone = outer.is_gone or is_unseen(tag, attributes) or styles.hides_all(declared)
        visibility = declared.get("visibility", "")
        is_invisible = visibility in ("hidden", "collapse") if visibility else outer.is_invisible
        color = read_text_color(declared, attributes, outer, tag)
        return Look(
            is_gone=is_gone,
            is_invisible=is_invisible,
            is_tiny=is_tiny(declared, outer),
            is_verbatim=outer.is_verbatim or tag in ("pre", "textarea", "listing", "xmp", "plaintext"),
            color=color,
            background=styles.find_background(declared, attributes, outer.background if self.open else self.behind),
            is_clear=declared["color"] in styles.TRANSPARENT if "color" in declared else outer.is_clear,
            is_silent=outer.is_silent or tag in SILENT,
        )

    def read_style(self, text: str) -> styles.Declarations:
        if text not in self.parsed:
            if len(self.parsed) >= PARSED:
                self.parsed.clear()
            self.parsed[text] = styles.read_declarations(text)
        return self.parsed[text]

    def end_implied(self, tag: str) -> None:
        """End the elements that this tag ends without saying so."""
        if tag in ENDS_P:
            self.close_to("p", SCOPES)
        if tag == "a":
            self.end_formatting("a")
        if tag == "option" and self.open and self.open[-1].name == "option":
            self.end_one(len(self.open) - 1)
        ended, barriers = ENDED_BY.get(tag, (frozenset(), frozenset()))
        if not any(self.counts[name] for name in ended):
            return
        for place in range(len(self.open) - 1, -1, -1):
            name = self.open[place].name
            if name in barriers:
                return
            if name in ended:
                self.close_at(place)
                if tag not in OF_TABLES:
                    return
                self.end_implied(tag)
                return

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """`<p/>` is `<p>`, as in browsers; only drawings end so."""
        self.handle_starttag(tag, attrs)
        if self.counts["svg"] or self.counts["math"]:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("body", "html"):
            return
        was_hidden = self.is_hidden and not self.reads_hidden
        if tag == "br":
            self.handle_starttag("br", [])
        elif tag in FORMATTING:
            self.end_formatting(tag)
        elif tag == "form":
            self.end_form()
        elif tag in CELLS or tag in ("tr", "table", "tbody", "thead", "tfoot", "caption"):
            self.close_to(tag, frozenset(["table"]) - {tag})
        elif tag in SPECIAL:
            self.close_to(tag, LIST_SCOPES if tag == "li" else SCOPES - {tag})
        else:
            self.close_to(tag, SPECIAL)
        if not was_hidden or not self.is_hidden:
            self.show_end(tag)

    def end_formatting(self, tag: str) -> None:
        for place in range(len(self.unended) - 1, -1, -1):
            if self.unended[place] == tag:
                del self.unended[place]
                return
        if not self.counts[tag]:
            return
        # A block in it stays open.
        has_block = False
        for place in range(len(self.open) - 1, -1, -1):
            name = self.open[place].name
            if name == tag and has_block:
                self.end_one(place)
                return
            if name == tag:
                self.close_at(place, is_formatting=True)
                return
            if name in SCOPES:
                return
            has_block = has_block or name in SPECIAL

    def end_form(self) -> None:
        """What stands in a form stays open behind its end."""
        for place in range(len(self.open) - 1, -1, -1):
            if self.open[place].name == "form":
                self.end_one(place)
                return
            if self.open[place].name in SCOPES:
                return

    def close_to(self, tag: str, barriers: frozenset[str]) -> None:
        """End the nearest open element of this name, and all in it, unless a barrier stands between."""
        if not self.counts[tag]:
            return
        for place in range(len(self.open) - 1, -1, -1):
            name = self.open[place].name
            if name == tag:
                self.close_at(place)
                return
            if name in barriers:
                return

    def close_at(self, place: int, *, is_formatting: bool = False) -> None:
        """End all elements from this one on. Formatting in them goes on behind them, but not out of a cell."""
        ended = self.open[place:]
        del self.open[place:]
        names = {one.name for one in ended}
        self.counts.subtract(one.name for one in ended)
        if ended and ended[0].name in CELLS:
            self.is_behind_cell = True
        if names & (CELLS | {"caption", "object", "template"}):
            return
        if is_formatting:
            # The element itself was ended by its own tag.
            ended = ended[1:]
        self.unended += [one.name for one in ended if one.hides]
        del self.unended[MOST_UNENDED:]

    # -- text --------------------------------------------------------------------------------------------------------

    def show(self, tag: str, attributes: Attributes) -> None:
        """An element that a person sees begins."""
        if tag in OTHER_PAGES:
            address = attributes.get(OTHER_PAGES[tag], "")
            self.left_out.add(f"<{tag}> {address}", "A page inside the page is not read.")
        elif tag == "img":
            self.add_picture(attributes)
        elif tag == "emoji":  # of Teams
            self.add(attributes.get("alt", ""))
        elif tag in ("input", "textarea"):
            self.add(f" {attributes.get('value') or attributes.get('placeholder') or ''} ")
        elif tag == "sup" and self.text and not self.text[-1][-1:].isspace():
            # Otherwise 10 to the third is read as 103.
            self.add("^")
        elif tag == "a" and attributes.get("href", "").strip().lower().startswith(("http", "ftp:")):
            self.lost_addresses += 1
        elif tag in CELLS and self.is_behind_cell:
            self.add(" | ")
        elif tag in BLOCKS:
            self.add("\n")

    def show_end(self, tag: str) -> None:
        if tag in BLOCKS and tag not in ("br", "tr", "li", "option"):
            self.add("\n")

    def add_picture(self, attributes: Attributes) -> None:
        """Its alternative text; a picture is listed unless the page makes it too small for text."""
        alternative = attributes.get("alt", "").strip()
        if alternative:
            self.add(f"[picture: {alternative}]")
        is_narrow = is_small(attributes.get("width"), 200)
        is_low = is_small(attributes.get("height"), 50)
        if not is_narrow and not is_low:
            self.left_out.add("pictures", PICTURE)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1].name in ("head", "html") and data.strip():
            self.end_head("")
        look = self.look
        if look.is_silent:
            self.handle_silent(data)
        elif self.is_hidden and not self.reads_hidden:
            self.hidden_letters += len(data.strip())
        elif look.is_verbatim:
            self.add(self.keep_indents(data))
        else:
            self.add(SPACES.sub(" ", data))

    def keep_indents(self, data: str) -> str:
        if not self.keeps_indents:
            return data
        return INDENT.sub(lambda match: "\0" * len(match[0].expandtabs(8)), data.replace("\0", ""))

    def handle_silent(self, data: str) -> None:
        """Text that no page shows, such as its title."""
        name = self.open[-1].name
        if name == "title" and not self.has_content:
            self.title_letters += len(data.strip())
        elif name not in ("script", "style", "head"):
            self.hidden_letters += len(data.strip())

    def add(self, text: str) -> None:
        self.text.append(text)


def find_sheets(source: str) -> Iterator[str]:
    """The style sheets of a page, which also hold for what stands before them."""
    lower = source.lower()
    at, begin, comment = 0, lower.find("<style"), lower.find("<!--")
    while begin >= 0 and at >= 0:
        if 0 <= comment < begin:
            at = lower.find("-->", comment + 4)
        else:
            opened = lower.find(">", begin)
            at = lower.find("</style", opened) if opened >= 0 else -1
            if at >= 0:
                yield source[opened + 1 : at]
        begin = lower.find("<style", at) if begin < at else begin
        comment = lower.find("<!--", at) if 0 <= comment < at else comment


def is_unseen(tag: str, attributes: Attributes) -> bool:
    """Whether browsers do not show this element, whatever its styles."""
    if "hidden" in attributes:
        return True
    if tag == "dialog":
        return "open" not in attributes
    is_hidden_field = tag == "input" and attributes.get("type", "").lower() == "hidden"
    return is_hidden_field or tag in UNSEEN


def is_tiny(declared: styles.Declarations, outer: Look) -> bool:
    size = declared.get("font-size")
    if size is None and "font" in declared:
        match = re.search(r"(?:^|\s)(\S+?)(?:/\S+)?\s+\S", declared["font"])
        if match:
            size = match[1]
    if size is None:
        return outer.is_tiny
    is_relative = size.endswith(("em", "%")) and not size.endswith("rem")
    if outer.is_tiny and is_relative:
        # A part of a tiny size is tiny.
        return True
    return styles.is_below(size, 2.0)


def read_text_color(declared: styles.Declarations, attributes: Attributes, outer: Look, tag: str) -> styles.Color:
    """The color of the letters; None for one that is not known."""
    value = declared.get("color")
    if not value and tag == "font":
        value = attributes.get("color", "").lower()
    if not value and tag == "body":
        value = attributes.get("text", "").lower()
    if not value or value in ("inherit", "unset"):
        return outer.color
    return styles.read_color(value)


def is_small(size: str | None, pixels: int) -> bool:
    digits = (size or "").strip().removesuffix("px")
    return digits.isdecimal() and int(digits[:9]) < pixels


def read_markup(source: str, left_out: LeftOut) -> str:
    """The visible text, one line a block, cells divided by bars. Never raises."""
    reader = Markup(left_out)
    reader.read(source)
    text = AROUND_BREAK.sub("\n", "".join(reader.text))
    lines = [line.rstrip() for line in text.split("\n") if line.strip(" |") or not line]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().replace("\0", " ")
