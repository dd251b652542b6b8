"""Fills a JSON Schema from a message without a language model. Plain Python, deterministic.

It looks for `name: value` and `name 7` first, then takes numbers, dates, quoted words and
expressions from the message in order.
"""

import json
import re
from typing import Any

JSON = Any
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
QUOTED = re.compile(r"\"([^\"]*)\"|“([^”]*)”|(?<!\w)'([^']*)'(?!\w)|`([^`]*)`")
# Begins where its run of characters begins: tried inside of it as well, a long run takes the square of its length.
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w")
URL = re.compile(r"https?://[^\s\"'<>]+[^\s\"'<>.,;:!?)]")
EXPRESSION = re.compile(r"(?<![-(])[-(]*\d[\d\s.+\-*/()%^]*[\d)]|\d+")
LISTED = re.compile(r"[^,;]+")
NOTHING = object()


class Finder:
    """Takes values out of one message, each at most once. `values` are offered first, by property
    name.
    """

    def __init__(self, text: str, values: dict[str, JSON] | None = None) -> None:
        self.text = text
        self.values = values or {}
        plain = DATE.sub(" ", TIME.sub(" ", text))
        self.numbers = NUMBER.findall(plain)
        self.dates = DATE.findall(text)
        self.quoted = [next(filter(None, groups), "") for groups in QUOTED.findall(text)]

    def fill(self, schema: dict[str, JSON], *, optional: bool = True) -> dict[str, JSON]:
        """Properties that were found. A required property that was not found is absent."""
        properties: dict[str, JSON] = schema.get("properties", {})
        written = self.numbers_after_names(properties) | self.written_object()
        # A list keeps its order in every database, the keys of an object do not: `required` gives the order.
        required = schema.get("required", list(properties))
        in_order = [name for name in required if name in properties]
        in_order += [name for name in properties if name not in required]
        arguments: dict[str, JSON] = {}
        for name in dict.fromkeys(in_order):
            if name in written:
                value = written[name]
            else:
                value = self.value(name, properties[name], name in required)
            if value is not NOTHING:
                arguments[name] = value
        return {name: arguments[name] for name in properties if name in arguments}

    def missing(self, schema: dict[str, JSON], arguments: dict[str, JSON]) -> list[str]:
        required = schema.get("required", [])
        return [name for name in required if name not in arguments]

    def written_object(self) -> dict[str, JSON]:
        """A JSON object contained in the message."""
        start = self.text.find("{")
        if start < 0:
            return {}
        try:
            value, _ = json.JSONDecoder().raw_decode(self.text[start:])
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def value(self, name: str, rule: JSON, required: bool) -> JSON:
        if not isinstance(rule, dict):
            rule = {}
        if name in self.values:
            return self.values[name]
        if "const" in rule:
            return rule["const"]
        kind = find_wanted_type(rule)
        named = self.named(name, kind)
        if "enum" in rule:
            return self.choice(rule, named, required)
        if named is not None and (value := convert_argument(named, kind)) is not NOTHING:
            return value
        if not required:
            return NOTHING
        return self.unnamed(name, rule, kind)

    def named(self, name: str, kind: str) -> str | None:
        """The value after `name:` or `name=`: a quoted text, a list or a word; for strings,
        everything up to the next `name:`.
        """
        spelling = re.escape(name).replace("_", "[_ ]")
        bare = r"[^\s,;]+"
        if kind == "string":
            bare = r".+?(?=(?: and)?\s*(?:[,;\n]|\b\w+\s*[:=]|$))"
        pattern = rf"\b{spelling}\s*[:=]\s*(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|{bare})"
        match = re.search(pattern, self.text, re.IGNORECASE)
        if match is None:
            return None
        return match.group(1)

    def numbers_after_names(self, properties: dict[str, JSON]) -> dict[str, JSON]:
        """Numbers directly after a property's name, as in “rate 7” or “a rate of 7”; no other
        property uses them then.
        """
        values: dict[str, JSON] = {}
        for name, rule in properties.items():
            # A value out of a list, or a fixed one, is no number of the text.
            if not isinstance(rule, dict) or "enum" in rule or "const" in rule:
                continue
            kind = find_wanted_type(rule)
            if kind not in ("number", "integer"):
                continue
            spelling = re.escape(name).replace("_", "[_ ]")
            match = re.search(rf"\b{spelling}\s+(?:of\s+|is\s+)?({NUMBER.pattern})", self.text, re.IGNORECASE)
            if match is None or match.group(1) not in self.numbers:
                continue
            number = match.group(1)
            value = convert_argument(number, kind)
            if value is not NOTHING:
                self.numbers.remove(number)
                values[name] = value
        return values

    def choice(self, rule: dict[str, JSON], named: str | None, required: bool) -> JSON:
        options = rule["enum"]
        text = (named or self.text).lower()
        for option in options:
            word = re.escape(str(option).lower())
            if re.search(rf"(?<!\w){word}(?!\w)", text):
                return option
        if "default" in rule or not required or not options:
            return NOTHING
        return options[0]

    def unnamed(self, name: str, rule: dict[str, JSON], kind: str) -> JSON:
        if kind in ("number", "integer"):
            return self.number(rule, kind)
        if kind == "boolean":
            return not re.search(r"\b(no|not|false|off)\b", self.text, re.IGNORECASE)
        if kind == "array":
            return self.items(rule)
        if kind == "object":
            return self.fill(rule)
        if kind == "null":
            return None
        return self.string(name, rule)

    def number(self, rule: dict[str, JSON], kind: str) -> JSON:
        if not self.numbers:
            return NOTHING
        value = convert_argument(self.numbers.pop(0), kind)
        return value if value is not NOTHING else self.number(rule, kind)

    def items(self, rule: dict[str, JSON]) -> JSON:
        each = rule.get("items")
        if not isinstance(each, dict):
            each = {}
        kind = find_wanted_type(each)
        if kind in ("number", "integer"):
            values = [convert_argument(number, kind) for number in self.numbers]
            self.numbers = []
            return [value for value in values if value is not NOTHING]
        if kind == "object":
            return [self.fill(each)]
        if self.quoted:
            quoted = self.quoted
            self.quoted = []
            return quoted
        parts = [part.strip(" .") for part in LISTED.findall(self.tail())]
        return [part for part in parts if part]

    def string(self, name: str, rule: dict[str, JSON]) -> JSON:
        form = rule.get("format", "")
        label = name.lower()
        if form == "email" or "email" in label:
            return find_first_match(EMAIL, self.text)
        if form in ("uri", "url") or label in ("url", "uri", "link"):
            return find_first_match(URL, self.text)
        if form == "date-time":
            return find_first_match(TIME, self.text)
        is_date = form == "date" or "date" in label.split("_")
        # These names mean a date only where the message has one.
        may_be_date = label in ("day", "start", "end", "first", "second")
        if is_date and not self.dates:
            return NOTHING
        if self.dates and (is_date or may_be_date):
            return self.dates.pop(0)
        if self.quoted:
            return self.quoted.pop(0)
        if "expression" in label or "formula" in label:
            expressions = [text.strip() for text in EXPRESSION.findall(self.text)]
            return max(expressions, key=len, default=NOTHING)
        return self.preposition(label) or self.tail()

    def preposition(self, name: str) -> str:
        """`to_unit` is the word after "to", `from_unit` the word after "from" or after the number."""
        patterns = {
            "to": r"\b(?:to|into|in)\s+([\w°/%]+)\s*[?.!]?\s*$",
            "from": r"(?:\bfrom\s+|\d\s*)([a-zA-Z°%/]+)",
        }
        head, *_ = re.split(r"[_-]", name)
        if head not in patterns:
            return ""
        match = re.search(patterns[head], self.text)
        if match is None:
            return ""
        return match.group(1)

    def tail(self) -> str:
        """The text after the first colon, else the whole message."""
        _, _, rest = self.text.partition(": ")
        return rest.strip() or self.text.strip()


def find_wanted_type(rule: dict[str, JSON]) -> str:
    """The type a rule asks for; of several, the first one that is not null."""
    kind = rule.get("type")
    if isinstance(kind, list):
        return next((one for one in kind if one != "null"), "null")
    if kind is not None:
        return str(kind)
    for key in ("anyOf", "oneOf"):
        for option in rule.get(key, []):
            if not isinstance(option, dict):
                continue
            wanted_type = find_wanted_type(option)
            if wanted_type != "null":
                return wanted_type
    if "properties" in rule:
        return "object"
    return "string"


def convert_argument(text: str, kind: str) -> JSON:
    """The text converted to that type, or NOTHING."""
    text = text.strip("\"'") if kind not in ("array", "object") else text
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            value = float(text)
            return int(value) if value.is_integer() and "." not in text and "e" not in text.lower() else value
        if kind == "boolean":
            return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}[text.lower()]
        if kind in ("array", "object"):
            return json.loads(text)
    except (ValueError, KeyError, RecursionError):
        return NOTHING
    return text.rstrip(".!?") or NOTHING


def find_first_match(pattern: re.Pattern[str], text: str) -> JSON:
    match = pattern.search(text)
    if match is None:
        return NOTHING
    return match.group(0)
