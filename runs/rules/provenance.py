"""Finds the origin of each value in a call's arguments. Pure: texts of the run in, one finding per
value out.

A value is the user's if it occurs in their own words or in a record found with their words; trusted
if it occurs in another record not written by others; untrusted if it occurs in a marked text;
otherwise unknown. Matching with the user's words is strict (whole words, the same letters).
Matching with untrusted text is lenient.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from .addresses_in_text import find_handles
from .dates import parse_day
from .words import Marked, Words, longer_words

PERSON, TRUSTED, STRANGER, UNKNOWN = "person", "trusted", "stranger", "unknown"
# Yes or no, an option of the schema, a date; prose written by the model.
NEUTRAL, MODEL = "neutral", "model"
CLEAN = frozenset({PERSON, TRUSTED, NEUTRAL})
# Arguments that contain prose: the content, not the recipient or place.
CONTENT = frozenset(
    ["body", "caption", "comment", "content", "description", "details", "html", "markdown", "message", "note", "notes",
     "question", "reason", "subject", "summary", "text", "title"]
)  # fmt: skip
# Effects whose prose may be the model's own.
LENIENT = frozenset({"idempotent", "write", "sends_out"})
# Effects that change only what is the user's own.
OWN_WORK = frozenset({"idempotent", "write"})
# Effects whose words may be in any order.
SEARCHES = frozenset({"read", "read_out"})
# Characters of a name in a record.
NAME_LIMIT = 64
# Records that one lookup may return.
FEW = 10
# Letters: shorter words occur in every text and identify nothing.
NAMING = 3
# Categories of characters that do not show.
HIDDEN = ("Cf", "Cc", "Co")


@dataclass(frozen=True, slots=True)
class Finding:
    """One value of the arguments: its place, its origin, and for an untrusted one the text it was
    read in.
    """

    path: str
    value: Any
    source: str
    origin: str = ""

    @property
    def is_foreign(self) -> bool:
        return self.source in (STRANGER, UNKNOWN)

    @property
    def names_something(self) -> bool:
        """Whether the user wrote it, and it is long enough to identify a record."""
        if self.source != PERSON:
            return False
        return not isinstance(self.value, str) or len(self.value) >= NAMING

    def as_json(self) -> dict[str, Any]:
        text = str(self.value)[:200]
        return {
            "path": show_invisible_characters(self.path),
            "value": show_invisible_characters(text),
            "source": self.source,
            "origin": self.origin,
        }


@dataclass(frozen=True, slots=True)
class Call:
    """A call for checking its values. `fields` are the fields of its result that the service itself
    sets.
    """

    name: str
    arguments: Any
    effect: str = "read"
    schema: Any = None
    untrusted: bool = False
    fields: Collection[str] = ()

    def vouches_for(self, path: str, value: Any) -> bool:
        """Whether the service itself sets this field."""
        return name_field(path) in self.fields and is_name(value)


class Origins:
    """Every text that the run has received, in order: from the user, from trusted records, from others."""

    def __init__(self) -> None:
        self.user_words = Words()
        self.looked_up = Words()
        self.trusted = Words()
        self.marked: list[tuple[str, Marked]] = []

    def say(self, value: Any) -> None:
        """The user's own words."""
        self.user_words.add(value)

    def trust(self, value: Any) -> None:
        self.trusted.add(value)

    def mark(self, value: Any, origin: str) -> None:
        """An untrusted text, and its origin."""
        self.marked.append((origin, Marked(value)))

    def record(self, call: "Call", result: Any) -> None:
        """Remembers an answered call. If it was requested with untrusted words, the answer is untrusted,
        whatever tool gives it.
        """
        origin = f"the result of “{call.name}”"
        findings = self.examine(call, explain=False)
        # Before the first untrusted text no value can be untrusted.
        if self.marked and any(finding.is_foreign for finding in findings):
            self.mark(result, origin)
            return
        records = self.trusted
        if any(finding.names_something for finding in findings) and count_records(result) <= FEW:
            records = self.looked_up
        is_models_prose = any(finding.source == MODEL for finding in findings)
        if not call.untrusted and not is_models_prose:
            records.add(result)
            return
        vouched: list[Any] = []
        others: list[Any] = []
        for path, value in leaves(result):
            if call.vouches_for(path, value):
                vouched.append(value)
            else:
                others.append(value)
        records.add(vouched)
        self.mark(others, origin)

    def examine(self, call: "Call", *, explain: bool = True) -> list[Finding]:
        """One finding for each value of the call's arguments. To `explain` where a value was read takes time."""
        choices = collect_choices(call.schema)
        declared_names = collect_declared_names(call.schema)
        findings: list[Finding] = []
        for path, value in leaves(call.arguments, names=declared_names):
            finding = judge(path, value, self, call.effect, choices)
            if explain and finding.source == UNKNOWN:
                finding = explain_finding(finding, self)
            findings.append(finding)
        return findings

    def distrust(self) -> None:
        """There was more text than can be checked: only the user's own words count now."""
        self.looked_up = Words()
        self.trusted = Words()

    def origin_of(self, value: Any) -> str:
        """The origin of the first untrusted text that holds this value; empty if none does."""
        for origin, text in self.marked:
            if text.holds(value):
                return origin
        return ""


def name_field(path: str) -> str:
    """The name of the field that contains a value: “body” for “mails[0].body[1]”, “[]” for a plain list."""
    without_places = re.sub(r"\[\d+\]", "", path)
    name = without_places.split(".")[-1]
    return name.lower() or "[]"


def is_name(value: Any) -> bool:
    """Short and a single word: a name set by the service, not a text written by others."""
    if not isinstance(value, str):
        return True
    return len(value) <= NAME_LIMIT and len(value.split()) == 1


# -- the verdict ------------------------------------------------------------------------------------------------------


def may_pass(findings: Collection[Finding], effect: str) -> bool:
    """No value is untrusted or unknown, and a call that sends or destroys contains a value named by
    the user.

    Without the second rule, untrusted text could choose among trusted records in other words: “the
    largest file”.
    """
    if any(finding.is_foreign for finding in findings):
        return False
    enough = {PERSON, TRUSTED} if effect in OWN_WORK else {PERSON}
    return any(finding.source in enough for finding in findings)


def reason(findings: Collection[Finding]) -> str:
    """The reason for asking: an untrusted value before an unknown one."""
    foreign = [finding for finding in findings if finding.is_foreign]
    if not foreign:
        return "the run has read untrusted content, and you named nothing in this call"
    # The first stranger's value, or else the first of all.
    worst = min(foreign, key=lambda finding: finding.source != STRANGER)
    path = show_invisible_characters(worst.path)[:60]
    value = show_invisible_characters(str(worst.value)[:60])
    first = f"“{path}” ({value})"
    if worst.source == STRANGER:
        return f"{first} comes from untrusted content: {worst.origin}"
    return f"the run has read untrusted content, and the origin of {first} is unknown"


def judge(path: str, value: Any, origins: Origins, effect: str, choices: Collection[Any] = ()) -> Finding:
    """Where one value of the arguments comes from."""
    if value is None or isinstance(value, bool) or value == "":
        return Finding(path, value, NEUTRAL)
    in_order = effect not in SEARCHES
    if origins.user_words.holds(value, in_order=in_order):
        return Finding(path, value, PERSON)
    # To destroy something, the user must name it: a record that was found with their words is not enough.
    if effect != "destructive" and origins.looked_up.holds(value):
        return Finding(path, value, PERSON)
    if isinstance(value, str) and value in choices:
        return Finding(path, value, NEUTRAL)
    if effect not in LENIENT:
        return of_target(path, value, origins, in_order=in_order)
    if name_field(path) in CONTENT:
        return of_prose(path, str(value), origins)
    finding = of_target(path, value, origins, in_order=in_order)
    # The model may choose a date itself, but not one that stands in a stranger's text.
    if finding.source == UNKNOWN and parse_day(value) and not origins.origin_of(value):
        return Finding(path, value, NEUTRAL)
    return finding


def of_target(path: str, value: Any, origins: Origins, *, in_order: bool = True) -> Finding:
    """The finding for a value that says where something goes: it must occur in a record."""
    in_records = origins.trusted.holds(value, in_order=in_order) or origins.looked_up.holds(value, in_order=in_order)
    if not in_records:
        return Finding(path, value, UNKNOWN)
    # A stranger may have written the value as well, and have meant it to be used.
    origin = origins.origin_of(value)
    return Finding(path, value, STRANGER if origin else TRUSTED, origin)


def explain_finding(finding: Finding, origins: Origins) -> Finding:
    """The finding, as a stranger's if its value or an address in it occurs in a stranger's text."""
    for value in (finding.value, *find_handles(str(finding.value))):
        origin = origins.origin_of(value)
        if origin:
            return Finding(finding.path, finding.value, STRANGER, origin)
    return finding


def of_prose(path: str, text: str, origins: Origins) -> Finding:
    """The finding for prose: the model may write it itself, but without a stranger's addresses."""
    # A single word may be a name.
    if len(text.split()) == 1:
        origin = origins.origin_of(text)
        if origin:
            return Finding(path, text, STRANGER, origin)
    for handle in find_handles(text):
        if origins.user_words.holds(handle) or origins.looked_up.holds(handle):
            continue
        finding = of_target(path, handle, origins)
        if finding.is_foreign:
            return Finding(path, text, finding.source, finding.origin)
    source = PERSON if is_mostly_said(text, origins) else MODEL
    return Finding(path, text, source)


def is_mostly_said(text: str, origins: Origins) -> bool:
    """At least half of its longer words are the user's, and three quarters the user's or a trusted record's."""
    words = longer_words(text)
    if not words:
        return False
    own_count = 0
    trusted_count = 0
    for word in words:
        if word in origins.user_words.bag:
            own_count += 1
        elif word in origins.looked_up.bag or word in origins.trusted.bag:
            trusted_count += 1
    is_half_own = own_count * 2 >= len(words)
    return is_half_own and (own_count + trusted_count) * 4 >= len(words) * 3


def collect_choices(schema: Any) -> set[str]:
    """Values listed in the tool's own schema: choosing one of them identifies nothing."""
    choices: set[str] = set()
    if isinstance(schema, list):
        for part in schema:
            choices |= collect_choices(part)
        return choices
    if not isinstance(schema, dict):
        return choices
    for name, part in schema.items():
        if name == "enum":
            choices.update(choice for choice in part if isinstance(choice, str))
        else:
            choices |= collect_choices(part)
    return choices


def collect_declared_names(schema: Any) -> set[str]:
    """The names of arguments and fields declared in the tool's schema."""
    names: set[str] = set()
    if isinstance(schema, list):
        for part in schema:
            names |= collect_declared_names(part)
        return names
    if not isinstance(schema, dict):
        return names
    properties = schema.get("properties")
    if isinstance(properties, dict):
        names.update(properties)
    for part in schema.values():
        names |= collect_declared_names(part)
    return names


def leaves(value: Any, path: str = "", *, names: Collection[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Each value that is not a list or an object, with its path; with `names` also each undeclared field name."""
    if isinstance(value, dict):
        for key, part in value.items():
            # A model chooses undeclared names like values: they can carry a stranger's words.
            if names is not None and key not in names:
                yield f"{path or 'arguments'}.{{}}", key
            part_path = f"{path}.{key}" if path else str(key)
            yield from leaves(part, part_path, names=names)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from leaves(part, f"{path}[{number}]", names=names)
    else:
        yield path, value


def count_records(result: Any) -> int:
    """The number of records: the entries of the longest list in it, or of an object of objects."""
    if isinstance(result, list):
        sizes = [count_records(part) for part in result]
        return max([len(result), *sizes])
    if not isinstance(result, dict):
        return 1
    parts = result.values()
    # An object with nothing but lists and objects is a table by name.
    is_table = bool(result) and all(isinstance(part, dict | list) for part in parts)
    own_size = len(result) if is_table else 1
    sizes = [count_records(part) for part in parts]
    return max([own_size, *sizes])


def show_invisible_characters(text: str) -> str:
    """Shows invisible characters, and those that change the text's direction, as numbers."""
    letters: list[str] = []
    for letter in text:
        is_hidden = unicodedata.category(letter) in HIDDEN
        letters.append(f"\\u{ord(letter):04x}" if is_hidden else letter)
    return "".join(letters)
