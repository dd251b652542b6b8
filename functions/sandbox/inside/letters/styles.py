"""What the styles of an HTML element say of whether a person sees its text.

Only what hides text is read, of style attributes and of simple rules in style sheets: a class, an id or the name of an
element. Rules for certain screens (`@media`) do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Declarations = dict[str, str]
# None: it cannot be said, such as of a picture.
Color = tuple[int, int, int] | None
WHITE: Color = (255, 255, 255)
COLORS: dict[str, Color] = {"white": WHITE, "black": (0, 0, 0), "snow": (255, 250, 250), "ivory": (255, 255, 240)}
# Sum of the differences of red, green and blue that no reader sees.
ALIKE = 24
# Pixels: outside of every window.
FAR = -900.0
# Rules of a style sheet that are read.
RULES = 2_000
OF_SIGHT = frozenset(
    ["display", "visibility", "opacity", "font-size", "font", "color", "background", "background-color", "height",
     "max-height", "width", "max-width", "position", "text-indent", "clip", "clip-path", "transform"]
)  # fmt: skip
COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
SELECTOR = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+)*)")
NUMBER = re.compile(r"(-?\d{0,9}(?:\.\d{1,9})?)\s*(px|pt|em|rem|%|ex|cm|mm|in|vw|vh)?")
UNITS = {"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "cm": 38.0, "mm": 3.8, "in": 96.0}
TRANSPARENT = frozenset(["transparent", "rgba(0,0,0,0)", "rgba(255,255,255,0)"])


def read_declarations(text: str) -> Declarations:
    """The properties of a style attribute in lower case, without spaces; of equal ones the last counts."""
    declarations: Declarations = {}
    for one in unescape(COMMENT.sub("", text)).lower().split(";"):
        name, _, value = one.partition(":")
        plain = value.strip()
        is_important = plain.endswith("!important")
        name = name.strip()
        if is_important or f"{name}!" not in declarations:
            declarations[name] = plain.removesuffix("!important").strip()
        if is_important:
            declarations[f"{name}!"] = "important"
    return declarations


def unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(min(int(match[1], 16), 0x10FFFF)), text)


class Sheet:
    """The simple rules of a page's style sheets."""

    def __init__(self) -> None:
        self.count = 0
        self.rules: dict[str, list[tuple[str, frozenset[str], Declarations]]] = {}
        self.has_unread_backgrounds = False

    def read(self, text: str) -> None:
        for selectors, body in find_rules(COMMENT.sub("", text).replace("<!--", "").replace("-->", "")):
            declarations = read_declarations(body)
            if not may_hide(declarations):
                continue
            for selector in selectors.split(","):
                self.add_rule(selector.strip().lower(), declarations)

    def add_rule(self, selector: str, declarations: Declarations) -> None:
        match = SELECTOR.fullmatch(selector)
        if not match or not match[0] or self.count >= RULES:
            if "background" in declarations or "background-color" in declarations:
                self.has_unread_backgrounds = True
            return
        names = re.findall(r"[.#][\w-]+", match[2])
        element = match[1] or "*"
        # By what is rarest, so that few rules are looked at for each element.
        key = names[0] if names else element
        self.rules.setdefault(key, []).append((element, frozenset(names), declarations))
        self.count += 1

    def find_declarations(self, tag: str, attributes: dict[str, str]) -> Declarations:
        matching: Declarations = {}
        if not self.rules:
            return matching
        names = {f".{word}" for word in attributes.get("class", "").lower().split()[:50]}
        names.add(f"#{attributes.get('id', '').lower()}")
        for name in ("*", tag, *sorted(names)):
            for element, needed, declarations in self.rules.get(name, ()):
                if element in ("*", tag) and needed <= names:
                    matching.update(declarations)
        return matching


def find_rules(text: str) -> Iterator[tuple[str, str]]:
    """(selectors, declarations) of the rules that stand in no other: not those of `@media`."""
    depth = begin = 0
    head = ""
    for match in re.finditer(r"[{}]|;(?=\s*@)", text):
        if match[0] == "{":
            if depth == 0:
                head, begin = text[begin : match.start()], match.end()
            depth += 1
        elif match[0] == "}" and depth:
            depth -= 1
            if depth == 0:
                if not head.strip().startswith("@"):
                    yield head.rpartition(";")[2], text[begin : match.start()]
                begin = match.end()
        elif depth == 0:
            begin = match.end()


def may_hide(declarations: Declarations) -> bool:
    return not OF_SIGHT.isdisjoint(declarations)


def hides_all(declarations: Declarations) -> bool:
    """Whether nothing in this element is seen, whatever stands in it."""
    if declarations.get("display") == "none" or is_below(declarations.get("opacity"), 0.06):
        return True
    is_clipped = declarations.get("overflow", "").startswith(("hidden", "clip"))
    sizes = ("max-height", "max-width", "height", "width")
    if is_clipped and any(is_below(declarations.get(name), 1.01) for name in sizes):
        return True
    if any(is_below(declarations.get(name), FAR) for name in ("text-indent", "margin-left", "margin-top")):
        return True
    is_moved = declarations.get("position") in ("absolute", "fixed", "relative")
    if is_moved and any(is_below(declarations.get(name), FAR) for name in ("left", "top", "right", "bottom")):
        return True
    clip, path = declarations.get("clip", ""), declarations.get("clip-path", "")
    shape = declarations.get("transform", "")
    return (
        bool(re.match(r"rect\(\s*[01](px)?[\s,]+[01](px)?[\s,]+[01](px)?[\s,]+[01](px)?\s*\)", clip))
        or path.startswith(("inset(50%", "inset(100%", "circle(0"))
        or bool(re.match(r"scale[xy]?\(\s*0?\.?0*[\s,)]", shape))
    )


def is_below(value: str | None, limit: float) -> bool:
    """Whether a length or number is smaller than the limit; false if it is not a number."""
    number = read_length(value)
    return number is not None and number < limit


def read_length(value: str | None) -> float | None:
    """The length in pixels, estimated for relative units; None for a percentage above zero and for other values."""
    match = NUMBER.fullmatch((value or "").strip())
    if not match or not match[1].strip("-."):
        return None
    number = float(match[1])
    if number == 0:
        return 0.0
    unit = UNITS.get(match[2] or "")
    return number * unit if unit else None


def read_color(value: str) -> Color:
    """Red, green and blue of a color; None for one that is not known."""
    value = value.strip().removesuffix("!important").strip()
    if value in COLORS:
        return COLORS[value]
    digits = value.removeprefix("#")
    if re.fullmatch(r"[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8}", digits):
        short = len(digits) < 6
        parts = [one * 2 for one in digits[:3]] if short else [digits[0:2], digits[2:4], digits[4:6]]
        red, green, blue = (int(part, 16) for part in parts)
        return red, green, blue
    match = re.fullmatch(r"rgba?\(\s*(\d{1,3})\s*[, ]\s*(\d{1,3})\s*[, ]\s*(\d{1,3})\s*(?:[,/][^)]*)?\)", value)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def is_alike(one: Color, other: Color) -> bool:
    if one is None or other is None:
        return False
    difference = sum(abs(left - right) for left, right in zip(one, other, strict=True))
    return difference <= ALIKE


def find_background(declarations: Declarations, attributes: dict[str, str], inherited: Color) -> Color:
    """The color behind the text; None behind a picture or an unknown color."""
    if attributes.get("background") or declarations.get("background-image", "none") not in ("none", ""):
        return None
    background = declarations.get("background-color") or declarations.get("background") or ""
    background = background or attributes.get("bgcolor", "").lower()
    if not background or background in TRANSPARENT or background in ("none", "inherit", "initial", "unset"):
        return inherited
    if "url(" in background or "gradient" in background:
        return None
    words = background.split() if "(" not in background else [background]
    colors = [color for word in words if (color := read_color(word)) is not None]
    return colors[0] if colors else None
