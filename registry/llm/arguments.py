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
        required = schema.get("required", list(properties))
        arguments: dict[str, JSON] = {}
        # A list keeps its order in every database, the keys of an object do not: `required` gives the order.
        for name in sorted(properties, key=lambda name: required.index(name) if name in required else len(required)):
            value = written[name] if name in written else self.value(name, properties[name], name in required)
            if value is not NOTHING:
                arguments[name] = value
        return {name: arguments[name] for name in properties if name in arguments}

    def missing(self, schema: dict[str, JSON], arguments: dict[str, JSON]) -> list[str]:
        return [name for name in schema.get("required", []) if name not in arguments]

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
        bare = r".+?(?=(?: and)?\s*(?:[,;\n]|\b\w+\s*[:=]|$))" if kind == "string" else r"[^\s,;]+"
        pattern = rf"\b{spelling}\s*[:=]\s*(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|{bare})"
        match = re.search(pattern, self.text, re.IGNORECASE)
        return match.group(1) if match else None

    def numbers_after_names(self, properties: dict[str, JSON]) -> dict[str, JSON]:
        """Numbers directly after a property's name, as in “rate 7” or “a rate of 7”; no other
        property uses them then.
        """
        values: dict[str, JSON] = {}
        for name, rule in properties.items():
            kind = find_wanted_type(rule) if isinstance(rule, dict) and not {"enum", "const"} & rule.keys() else ""
            spelling = re.escape(name).replace("_", "[_ ]")
            match = re.search(rf"\b{spelling}\s+(?:of\s+|is\s+)?({NUMBER.pattern})", self.text, re.IGNORECASE)
            if kind in ("number", "integer") and match and match.group(1) in self.numbers:
                value = convert_argument(match.group(1), kind)
                if value is not NOTHING:
                    self.numbers.remove(match.group(1))
                    values[name] = value
        return values

    def choice(self, rule: dict[str, JSON], named: str | None, required: bool) -> JSON:
        text = (named or self.text).lower()
        for option in rule["enum"]:
            if re.search(rf"(?<!\w){re.escape(str(option).lower())}(?!\w)", text):
                return option
        if "default" in rule or not required:
            return NOTHING
        return rule["enum"][0] if rule["enum"] else NOTHING

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
        each = rule.get("items") if isinstance(rule.get("items"), dict) else {}
        kind = find_wanted_type(each or {})
        if kind in ("number", "integer"):
            batch, self.numbers = self.numbers, []
            return [value for text in batch if (value := convert_argument(text, kind)) is not NOTHING]
        if kind == "object":
            return [self.fill(each or {})]
        if self.quoted:
            batch, self.quoted = self.quoted, []
            return batch
        return [part.strip(" .") for part in LISTED.findall(self.tail()) if part.strip(" .")]

    def string(self, name: str, rule: dict[str, JSON]) -> JSON:
        form, label = rule.get("format", ""), name.lower()
        if form == "email" or "email" in label:
            return find_first_match(EMAIL, self.text)
        if form in ("uri", "url") or label in ("url", "uri", "link"):
            return find_first_match(URL, self.text)
        if form == "date-time":
            return find_first_match(TIME, self.text)
        if (
            form == "date"
            or "date" in label.split("_")
            or label in ("day", "start", "end", "first", "second")
            and self.dates
        ):
            return self.dates.pop(0) if self.dates else NOTHING
        if self.quoted:
            return self.quoted.pop(0)
        if "expression" in label or "formula" in label:
            return max((text.strip() for text in EXPRESSION.findall(self.text)), key=len, default=NOTHING)
        return self.preposition(label) or self.tail()

    def preposition(self, name: str) -> str:
        """`to_unit` is the word after "to", `from_unit` the word after "from" or after the number."""
        patterns = {
            "to": r"\b(?:to|into|in)\s+([\w°/%]+)\s*[?.!]?\s*$",
            "from": r"(?:\bfrom\s+|\d\s*)([a-zA-Z°%/]+)",
        }
        head = re.split(r"[_-]", name)[0]
        match = re.search(patterns[head], self.text) if head in patterns else None
        return match.group(1) if match else ""

    def tail(self) -> str:
        """The text after the first colon, else the whole message."""
        _, colon, rest = self.text.partition(": ")
        return (rest if colon and rest.strip() else self.text).strip()


def find_wanted_type(rule: dict[str, JSON]) -> str:
    """The type a rule asks for; of several, the first one that is not null."""
    kind = rule.get("type")
    if kind is None:
        options = [option for key in ("anyOf", "oneOf") for option in rule.get(key, []) if isinstance(option, dict)]
        kinds = [kind for kind in map(find_wanted_type, options) if kind != "null"]
        return kinds[0] if kinds else ("object" if "properties" in rule else "string")
    if isinstance(kind, list):
        return next((one for one in kind if one != "null"), "null")
    return str(kind)


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
    return match.group(0) if match else NOTHING
