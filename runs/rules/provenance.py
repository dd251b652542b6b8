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

from .dates import moment
from .handles import handles_in
from .words import Marked, Words, longer_words

PERSON, TRUSTED, STRANGER, UNKNOWN = "person", "trusted", "stranger", "unknown"
NEUTRAL, MODEL = "neutral", "model"  # yes or no, an option of the schema, a date; prose written by the model
CLEAN = frozenset({PERSON, TRUSTED, NEUTRAL})
# Arguments that contain prose: the content, not the recipient or place.
CONTENT = frozenset(
    ["body", "caption", "comment", "content", "description", "details", "html", "markdown", "message", "note", "notes",
     "question", "reason", "subject", "summary", "text", "title"]
)  # fmt: skip
LENIENT = frozenset({"idempotent", "write", "sends_out"})  # effects whose prose may be the model's own
OWN_WORK = frozenset({"idempotent", "write"})  # effects that stay with the user
SEARCHES = frozenset({"read", "read_out"})  # effects whose words may be in any order
NAME_LIMIT = 64  # characters of a name in a record
FEW = 10  # records that one lookup may return
NAMING = 3  # letters: shorter words occur in every text and identify nothing


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
        """The user's, and long enough to find something with."""
        return self.source == PERSON and (not isinstance(self.value, str) or len(self.value) >= NAMING)

    def as_json(self) -> dict[str, Any]:
        value = visible(str(self.value)[:200])
        return {"path": visible(self.path), "value": value, "source": self.source, "origin": self.origin}


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
        return field_of(path) in self.fields and is_name(value)


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
        """An answered call. If it was requested with untrusted words, the answer is untrusted,
        whatever tool gives it.
        """
        findings = self.examine(call, explain=False)
        is_foreign = bool(self.marked) and any(finding.is_foreign for finding in findings)
        if is_foreign:  # before the first untrusted text no value can be untrusted
            self.mark(result, f"the result of “{call.name}”")
            return
        is_named = any(finding.names_something for finding in findings) and size_of(result) <= FEW
        records = self.looked_up if is_named else self.trusted
        if not call.untrusted and not any(finding.source == MODEL for finding in findings):
            records.add(result)
            return
        pairs = list(leaves(result))
        records.add([value for path, value in pairs if call.vouches_for(path, value)])
        self.mark([value for path, value in pairs if not call.vouches_for(path, value)], f"the result of “{call.name}”")

    def examine(self, call: "Call", *, explain: bool = True) -> list[Finding]:
        """One finding for each value of the call's arguments. To `explain` where a value was read takes time."""
        choices = choices_of(call.schema)
        pairs = leaves(call.arguments, names=names_of(call.schema))
        findings = [judge(path, value, self, call.effect, choices) for path, value in pairs]
        return [explained(one, self) if explain and one.source == UNKNOWN else one for one in findings]

    def distrust(self) -> None:
        """There was more text than can be checked: only the user's own words count now."""
        self.looked_up, self.trusted = Words(), Words()

    def origin_of(self, value: Any) -> str:
        return next((origin for origin, text in self.marked if text.holds(value)), "")


def field_of(path: str) -> str:
    """The name of the field that contains a value: “body” for “mails[0].body[1]”, “[]” for a plain
    list.
    """
    names = re.sub(r"\[\d+\]", "", path).split(".")
    return names[-1].lower() or "[]"


def is_name(value: Any) -> bool:
    """Short and a single word: a name set by the service, not a text written by others."""
    return not isinstance(value, str) or (len(value) <= NAME_LIMIT and len(value.split()) == 1)


# -- the verdict ------------------------------------------------------------------------------------------------------


def may_pass(findings: Collection[Finding], effect: str) -> bool:
    """No value is untrusted or unknown, and a call that sends or destroys contains a value named by
    the user.

    Without the second rule, untrusted text could choose among trusted records in other words: “the
    largest file”.
    """
    enough = {PERSON, TRUSTED} if effect in OWN_WORK else {PERSON}
    return not any(finding.is_foreign for finding in findings) and any(finding.source in enough for finding in findings)


def reason(findings: Collection[Finding]) -> str:
    """The reason for asking: an untrusted value before an unknown one."""
    bad = sorted(
        (finding for finding in findings if finding.is_foreign), key=lambda finding: finding.source != STRANGER
    )
    if not bad:
        return "the run has read untrusted content, and you named nothing in this call"
    first = f"“{visible(bad[0].path)[:60]}” ({visible(str(bad[0].value)[:60])})"
    if bad[0].source == STRANGER:
        return f"{first} comes from untrusted content: {bad[0].origin}"
    return f"the run has read untrusted content, and the origin of {first} is unknown"


def judge(path: str, value: Any, origins: Origins, effect: str, choices: Collection[Any] = ()) -> Finding:
    if value is None or isinstance(value, bool) or value == "":
        return Finding(path, value, NEUTRAL)
    in_order = effect not in SEARCHES
    if origins.user_words.holds(value, in_order=in_order) or (
        effect != "destructive" and origins.looked_up.holds(value)
    ):
        return Finding(path, value, PERSON)
    if isinstance(value, str) and value in choices:
        return Finding(path, value, NEUTRAL)
    if field_of(path) in CONTENT and effect in LENIENT:
        return of_prose(path, str(value), origins)
    finding = of_target(path, value, origins, in_order=in_order)
    if finding.source == UNKNOWN and effect in LENIENT and moment(value) and not origins.origin_of(value):
        return Finding(path, value, NEUTRAL)
    return finding


def of_target(path: str, value: Any, origins: Origins, *, in_order: bool = True) -> Finding:
    if not (origins.trusted.holds(value, in_order=in_order) or origins.looked_up.holds(value, in_order=in_order)):
        return Finding(path, value, UNKNOWN)
    origin = origins.origin_of(value)
    return Finding(path, value, STRANGER if origin else TRUSTED, origin)


def explained(finding: Finding, origins: Origins) -> Finding:
    """The finding, as a stranger's if its value or an address in it occurs in a stranger's text."""
    origin = next(filter(None, map(origins.origin_of, [finding.value, *handles_in(str(finding.value))])), "")
    return Finding(finding.path, finding.value, STRANGER, origin) if origin else finding


def of_prose(path: str, text: str, origins: Origins) -> Finding:
    """The model may write the text itself, but without a stranger's addresses. A single word may be a name."""
    if len(text.split()) == 1 and (origin := origins.origin_of(text)):
        return Finding(path, text, STRANGER, origin)
    for handle in handles_in(text):
        if origins.user_words.holds(handle) or origins.looked_up.holds(handle):
            continue
        finding = of_target(path, handle, origins)
        if finding.is_foreign:
            return Finding(path, text, finding.source, finding.origin)
    return Finding(path, text, PERSON if is_mostly_said(text, origins) else MODEL)


def is_mostly_said(text: str, origins: Origins) -> bool:
    """At least half of its longer words are the user's, and three quarters the user's or a trusted
    record's.
    """
    words = longer_words(text)
    own_count = sum(word in origins.user_words.bag for word in words)
    trusted_count = sum(
        word in bag for word in words for bag in [origins.user_words.bag | origins.looked_up.bag | origins.trusted.bag]
    )
    return bool(words) and own_count * 2 >= len(words) and trusted_count * 4 >= len(words) * 3


def choices_of(schema: Any) -> set[str]:
    """Values listed in the tool's own schema: choosing one of them identifies nothing."""
    if isinstance(schema, dict):
        own = {one for one in schema.get("enum", ()) if isinstance(one, str)}
        return own.union(*(choices_of(part) for name, part in schema.items() if name != "enum"))
    return set().union(*map(choices_of, schema)) if isinstance(schema, list) else set()


def names_of(schema: Any) -> set[str]:
    """The names of arguments and fields declared in the tool's schema."""
    if isinstance(schema, list):
        return set().union(*map(names_of, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    declared = set(own) if isinstance(own, dict) else set()
    return declared.union(*map(names_of, schema.values()))


def leaves(value: Any, path: str = "", *, names: Collection[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Each value that is not a list or an object; with `names` also each undeclared field name."""
    if isinstance(value, dict):
        for key, one in value.items():
            place = f"{path}.{key}" if path else str(key)
            if names is not None and key not in names:
                yield f"{path or 'arguments'}.{{}}", key
            yield from leaves(one, place, names=names)
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from leaves(one, f"{path}[{number}]", names=names)
    else:
        yield path, value


def size_of(result: Any) -> int:
    """The number of records: the entries of the longest list in it, or of an object of objects."""
    if isinstance(result, dict):
        own = len(result) if result and all(isinstance(one, dict | list) for one in result.values()) else 1
        return max([own, *map(size_of, result.values())])
    return max([len(result), *map(size_of, result)]) if isinstance(result, list) else 1


def visible(text: str) -> str:
    """Invisible characters and those that change the text's direction, as numbers."""
    return "".join(f"\\u{ord(one):04x}" if unicodedata.category(one) in ("Cf", "Cc", "Co") else one for one in text)
