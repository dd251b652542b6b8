"""Where does each value of a call's arguments come from? Pure: what a run was told in, one finding a value out.

A value is the person's when it stands in their own words or in a record that their words looked up, trusted when it
stands in another record that no stranger wrote, a stranger's when it stands in a marked text, else unknown. Matching a
value to the person's words is strict (whole words, the same letters). Matching it to a stranger's text is lenient.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from .dates import moment
from .words import Marked, Words, longer_words

PERSON, TRUSTED, STRANGER, UNKNOWN, NEUTRAL = "person", "trusted", "stranger", "unknown", "neutral"
CLEAN = frozenset({PERSON, TRUSTED, NEUTRAL})
# Arguments that hold prose: what is said, not to whom or where.
CONTENT = frozenset(
    ["body", "caption", "comment", "content", "description", "details", "html", "markdown", "message", "note", "notes",
     "question", "reason", "subject", "summary", "text", "title"]
)  # fmt: skip
LENIENT = frozenset({"idempotent", "write", "sends_out"})  # effects whose prose may be the model's own
OWN_WORK = frozenset({"idempotent", "write"})  # effects that stay with the person
SEARCHES = frozenset({"read", "read_out"})  # effects whose words may stand in any order
HANDLE = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+"  # a URL
    r"|\b(?:[\w-]+\.)+[a-z]{2,24}\b(?:[/:?#][^\s\"'<>]*)?"  # a host name, with what follows it
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b",  # an IBAN
    re.IGNORECASE,
)
NAME_LIMIT = 64  # characters of a name in a record


@dataclass(frozen=True, slots=True)
class Finding:
    """One value of the arguments: its place, whose it is, and for a stranger's where it was read."""

    path: str
    value: Any
    source: str
    origin: str = ""

    @property
    def is_clean(self) -> bool:
        return self.source in CLEAN

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "value": str(self.value)[:200], "source": self.source, "origin": self.origin}


@dataclass(frozen=True, slots=True)
class Call:
    """A call as far as its values are judged. `fields` are those of its result that the service itself sets."""

    name: str
    arguments: Any
    effect: str = "read"
    schema: Any = None
    untrusted: bool = False
    fields: Collection[str] = ()

    def vouches_for(self, path: str, value: Any) -> bool:
        """Whether no stranger wrote this value of the result."""
        return not self.untrusted or (field_of(path) in self.fields and is_name(value))


class Told:
    """All that a run has been told so far, in order: by the person, by trusted records, by strangers."""

    def __init__(self) -> None:
        self.said = Words()
        self.looked_up = Words()
        self.trusted = Words()
        self.marked: list[tuple[str, Marked]] = []

    def say(self, value: Any) -> None:
        """The person's own words."""
        self.said.add(value)

    def trust(self, value: Any) -> None:
        self.trusted.add(value)

    def mark(self, value: Any, origin: str) -> None:
        """A stranger's text, and where it came from."""
        self.marked.append((origin, Marked(value)))

    def record(self, call: "Call", result: Any) -> None:
        """A call that was answered. What was asked for with a stranger's words is theirs, whoever answers."""
        findings = self.examine(call)
        is_clean = self.is_clean(findings)
        is_named = is_clean and any(found.source == PERSON for found in findings)
        records = self.looked_up if is_named else self.trusted
        for path, value in leaves(result):
            if is_clean and call.vouches_for(path, value):
                records.add(value)
        if call.untrusted or not is_clean:
            rest = [value for path, value in leaves(result) if not (is_clean and call.vouches_for(path, value))]
            self.mark(rest, f"the result of “{call.name}”")

    def examine(self, call: "Call") -> list[Finding]:
        """One finding for each value of the call's arguments."""
        choices = choices_of(call.schema)
        return [judge(path, value, self, call.effect, choices) for path, value in leaves(call.arguments)]

    def is_clean(self, findings: Collection[Finding]) -> bool:
        """Nothing in it is a stranger's: before the first stranger's text nothing can be."""
        return not self.marked or all(found.is_clean for found in findings)

    def distrust(self) -> None:
        """More was said than could be looked at: only the person's own words count now."""
        self.looked_up, self.trusted = Words(), Words()

    def origin_of(self, value: Any) -> str:
        return next((origin for origin, text in self.marked if text.holds(value)), "")


def field_of(path: str) -> str:
    """The name of the field that a value stands in: “body” of “mails[0].body[1]”, “[]” of a bare list."""
    names = re.sub(r"\[\d+\]", "", path).split(".")
    return names[-1].lower() or "[]"


def is_name(value: Any) -> bool:
    """Short and of one word: what a service calls things, not what strangers write into its fields."""
    return not isinstance(value, str) or (len(value) <= NAME_LIMIT and len(value.split()) == 1)


# -- the verdict ------------------------------------------------------------------------------------------------------


def may_pass(findings: Collection[Finding], effect: str) -> bool:
    """No value is a stranger's or unknown; and what leaves or destroys is named by the person in at least one value.

    Without the second half a stranger could choose among trusted records in other words: “the largest file”.
    """
    enough = {PERSON, TRUSTED} if effect in OWN_WORK else {PERSON}
    return all(found.is_clean for found in findings) and any(found.source in enough for found in findings)


def reason(findings: Collection[Finding]) -> str:
    """Why a person is asked: a stranger's value before an unknown one."""
    bad = sorted((found for found in findings if not found.is_clean), key=lambda found: found.source != STRANGER)
    if not bad:
        return "the run has read strangers' text, and nothing in this call was named by you"
    first = f"“{bad[0].path}” ({str(bad[0].value)[:60]})"
    if bad[0].source == STRANGER:
        return f"{first} comes from strangers' text: {bad[0].origin}"
    return f"the run has read strangers' text, and nobody knows where {first} comes from"


def judge(path: str, value: Any, told: Told, effect: str, choices: Collection[Any] = ()) -> Finding:
    if value is None or isinstance(value, bool) or value == "":
        return Finding(path, value, NEUTRAL)
    in_order = effect not in SEARCHES
    if told.said.holds(value, in_order=in_order) or (effect != "destructive" and told.looked_up.holds(value)):
        return Finding(path, value, PERSON)
    if isinstance(value, str) and value in choices:
        return Finding(path, value, NEUTRAL)
    if field_of(path) in CONTENT and effect in LENIENT:
        return of_prose(path, str(value), told)
    return of_target(path, value, told, in_order=in_order)


def of_target(path: str, value: Any, told: Told, *, in_order: bool = True) -> Finding:
    if origin := told.origin_of(value):
        return Finding(path, value, STRANGER, origin)
    if told.trusted.holds(value, in_order=in_order) or told.looked_up.holds(value, in_order=in_order):
        return Finding(path, value, TRUSTED)
    return Finding(path, value, NEUTRAL if moment(value) else UNKNOWN)


def of_prose(path: str, text: str, told: Told) -> Finding:
    """What is said may be the model's own; the addresses in it may not be a stranger's."""
    for handle in HANDLE.findall(text):
        handle = handle.rstrip(".,;:!?)]}»”’'\"")
        if told.said.holds(handle) or told.looked_up.holds(handle):
            continue
        found = of_target(path, handle, told)
        if not found.is_clean:
            return Finding(path, text, found.source, found.origin)
    return Finding(path, text, PERSON if is_mostly_said(text, told) else NEUTRAL)


def is_mostly_said(text: str, told: Told) -> bool:
    """At least half of its longer words are the person's, and three in four theirs or a trusted record's."""
    words = longer_words(text)
    said = sum(word in told.said.bag for word in words)
    known = sum(word in bag for word in words for bag in [told.said.bag | told.looked_up.bag | told.trusted.bag])
    return bool(words) and said * 2 >= len(words) and known * 4 >= len(words) * 3


def choices_of(schema: Any) -> set[str]:
    """Texts that the tool's own schema lists: choosing one of them names nobody."""
    if isinstance(schema, dict):
        own = {one for one in schema.get("enum", ()) if isinstance(one, str)}
        return own.union(*(choices_of(part) for name, part in schema.items() if name != "enum"))
    return set().union(*map(choices_of, schema)) if isinstance(schema, list) else set()


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is no list and no object. The names of an open object are values too."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from leaves(one, f"{path}[{place}]")
    else:
        yield path, value
