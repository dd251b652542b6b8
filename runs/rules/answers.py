"""Compares tool calls to detect circles: is an answer new, progress, or the same in other words?
Pure.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from agents.schema import canonical_json

NEW_WORDS = 5  # this many new words make an answer new
SHORT = 200  # answers shorter than this that differ only in numbers say nothing new
STEM = 5  # letters that identify a word: invoice, invoices
NUMBERS = re.compile(r"\w*\d\w*")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b|\b\d{10,}(?:\.\d+)?\b"
)
IDENTITY = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=\w*\d)[0-9a-f]{12,}\b")
WORD = re.compile(r"\w+")
EMPTY_ANSWERS = frozenset({"null", '""', "[]", "{}", '{"result":null}', '{"results":[]}'})
NO_ARGUMENTS = frozenset({"{}", "null", '""'})


@dataclass(frozen=True)
class Step:
    """One answered call. `arguments` and `answer` are canonical JSON."""

    name: str
    arguments: str
    answer: str
    turn: int
    kind: str = ""
    outcome: str = "ok"
    code: str = ""
    effect: str = ""

    @classmethod
    def of(cls, record: Any) -> "Step":
        code = str((record.error or {}).get("code", ""))
        name, kind, result = record.name, record.kind, record.result
        if isinstance(result, dict) and is_agent_call(record):
            name, kind = str(result.get("agent") or name), "agent"
            result = {
                "reply": result.get("reply"),
                "output": result.get("output"),
            }  # each child run has an id of its own
        answer = canonical_json(result) if record.outcome == "ok" else f"{record.outcome}: {code}"
        arguments = canonical_json(record.arguments)
        return cls(name, arguments, answer, record.turn, kind, record.outcome, code, record.effect)

    @cached_property
    def call(self) -> tuple[str, str]:
        """The call without differences of letter case and spacing."""
        return self.name, "".join(self.arguments.casefold().split()) if self.is_read else self.arguments

    @cached_property
    def news(self) -> str:
        """The content of a short answer for comparison, without times and ids.

        Writing the same again returns another number, which is not another result.
        """
        if not self.is_short:
            return self.answer
        if self.is_read:
            return IDENTITY.sub("#", MOMENT.sub("#", self.answer))
        if self.effect != "idempotent" and self.kind != "agent" and self.arguments not in NO_ARGUMENTS:
            return without_numbers(self.answer)
        return MOMENT.sub("#", self.answer)

    @cached_property
    def words(self) -> set[str]:
        """The words of the call and its answer, without numbers."""
        return words_in(f"{self.arguments} {self.answer}")

    @property
    def is_short(self) -> bool:
        return len(self.answer) <= SHORT

    @property
    def is_failure(self) -> bool:
        return self.outcome not in ("ok", "")

    @property
    def is_empty(self) -> bool:
        return self.answer in EMPTY_ANSWERS

    @property
    def is_read(self) -> bool:
        return self.effect in ("read", "read_out")

    @property
    def wrote(self) -> bool:
        return not self.is_read and not self.is_failure

    def says_more_than(self, earlier_words: set[str]) -> bool:
        """An agent that repeats what its caller said says nothing new."""
        return len(self.words - earlier_words - words_in(self.arguments)) >= NEW_WORDS


def is_agent_call(record: Any) -> bool:
    return record.kind in ("agent", "chain") or (record.kind == "builtin" and record.name == "delegate")


def without_numbers(text: str) -> str:
    return NUMBERS.sub("#", text)


def words_in(text: str) -> set[str]:
    return set(WORD.findall(without_numbers(text.lower())))


def wording(answer: str) -> str:
    return NUMBER.sub("#", answer)


def gets_on(answers: Iterable[str]) -> bool:
    """Whether one answer follows from the other: numbers move in one direction, and replaced words
    never return.
    """
    wordings: set[str] = set()
    for words, alike in groupby(answers, key=wording):
        if words in wordings or not goes_one_way([list(map(float, NUMBER.findall(one))) for one in alike]):
            return False
        wordings.add(words)
    return True


def goes_one_way(rows: Sequence[Sequence[float]]) -> bool:
    """Whether each number never rises or never falls from answer to answer."""
    pairs = [list(zip(column, column[1:], strict=False)) for column in zip(*rows, strict=True)]
    return all(all(old <= new for old, new in row) or all(old >= new for old, new in row) for row in pairs)


def rephrases(one: Step, other: Step) -> bool:
    """The same question in other words: all arguments are equal, or share most of their words."""
    mine, theirs = arguments_of(one), arguments_of(other)
    return mine.keys() == theirs.keys() and all(is_alike(mine[key], theirs[key]) for key in mine)


def arguments_of(step: Step) -> dict[str, Any]:
    try:
        read = json.loads(step.arguments)
    except (ValueError, RecursionError):
        read = step.arguments
    return read if isinstance(read, dict) else {"": read}


def is_alike(one: Any, other: Any) -> bool:
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    mine, theirs = stems(one), stems(other)
    return len(mine & theirs) * 2 > min(len(mine), len(theirs))


def stems(text: str) -> set[str]:
    return {word[:STEM] for word in words_in(text)} - {"#"}


def hands_over(step: Step, names: Collection[str]) -> bool:
    """A short answer that refers to another of these agents."""
    words = words_in(step.answer)
    return step.is_short and any(words_in(name) <= words for name in names if name != step.name)
