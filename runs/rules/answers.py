"""Compares tool calls to detect circles: is an answer new, progress, or the same in other words?
Pure.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

from agents.schema import canonical_json

# This many new words make an answer new.
NEW_WORDS = 5
# Answers shorter than this that differ only in numbers say nothing new.
SHORT = 200
# Letters that identify a word: invoice, invoices.
STEM = 5
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
        """The step of a stored tool call."""
        name, kind, result = record.name, record.kind, record.result
        if isinstance(result, dict) and is_agent_call(record):
            name = str(result.get("agent") or name)
            kind = "agent"
            # Leave out the child run's id: it differs each time, and would make every answer look new.
            result = {"reply": result.get("reply"), "output": result.get("output")}
        error = record.error or {}
        code = str(error.get("code", ""))
        answer = canonical_json(result) if record.outcome == "ok" else f"{record.outcome}: {code}"
        arguments = canonical_json(record.arguments)
        return cls(name, arguments, answer, record.turn, kind, record.outcome, code, record.effect)

    @cached_property
    def call(self) -> tuple[str, str]:
        """The name and the arguments to compare: readings that differ only in case and spacing are the same."""
        if not self.is_read:
            return self.name, self.arguments
        return self.name, "".join(self.arguments.casefold().split())

    @cached_property
    def news(self) -> str:
        """The part of the answer that can be new: a short answer without its times and ids.

        Writing the same again returns another number, which is not another result.
        """
        if not self.is_short:
            return self.answer
        without_times = MOMENT.sub("#", self.answer)
        if self.is_read:
            return IDENTITY.sub("#", without_times)
        may_repeat = self.effect == "idempotent" or self.kind == "agent" or self.arguments in NO_ARGUMENTS
        if may_repeat:
            return without_times
        return without_numbers(self.answer)

    @cached_property
    def words(self) -> set[str]:
        """The words of the call and its answer, without numbers."""
        return find_words(f"{self.arguments} {self.answer}")

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
        return len(self.words - earlier_words - find_words(self.arguments)) >= NEW_WORDS


def is_agent_call(record: Any) -> bool:
    return record.kind in ("agent", "chain") or (record.kind == "builtin" and record.name == "delegate")


def without_numbers(text: str) -> str:
    return NUMBERS.sub("#", text)


def find_words(text: str) -> set[str]:
    return set(WORD.findall(without_numbers(text.lower())))


def wording(answer: str) -> str:
    return NUMBER.sub("#", answer)


def is_progressing(answers: Iterable[str]) -> bool:
    """Whether each answer follows from the one before: its numbers move in one direction, and words that were
    replaced never return.
    """
    seen_wordings: set[str] = set()
    for words, answers_alike in groupby(answers, key=wording):
        if words in seen_wordings:
            return False
        rows = [read_numbers(answer) for answer in answers_alike]
        if not goes_one_way(rows):
            return False
        seen_wordings.add(words)
    return True


def read_numbers(answer: str) -> list[float]:
    return [float(digits) for digits in NUMBER.findall(answer)]


def goes_one_way(rows: Sequence[Sequence[float]]) -> bool:
    """Whether each number never rises or never falls from answer to answer."""
    for column in zip(*rows, strict=True):
        steps = list(pairwise(column))
        never_falls = all(old <= new for old, new in steps)
        never_rises = all(old >= new for old, new in steps)
        if not never_falls and not never_rises:
            return False
    return True


def rephrases(one: Step, other: Step) -> bool:
    """Whether two calls ask the same in other words: all arguments are equal, or share most of their words."""
    mine = parse_step_arguments(one)
    theirs = parse_step_arguments(other)
    if mine.keys() != theirs.keys():
        return False
    return all(is_alike(value, theirs[name]) for name, value in mine.items())


def parse_step_arguments(step: Step) -> dict[str, Any]:
    """The arguments by name; what is no object stands under an empty name."""
    try:
        arguments = json.loads(step.arguments)
    except (ValueError, RecursionError):
        arguments = step.arguments
    if isinstance(arguments, dict):
        return arguments
    return {"": arguments}


def is_alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, or texts of which the shorter shares more than half of its words."""
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    mine = stems(one)
    theirs = stems(other)
    shared_count = len(mine & theirs)
    return shared_count * 2 > min(len(mine), len(theirs))


def stems(text: str) -> set[str]:
    return {word[:STEM] for word in find_words(text)} - {"#"}


def is_handover(step: Step, names: Collection[str]) -> bool:
    """Whether a short answer only refers to another of these agents."""
    if not step.is_short:
        return False
    words = find_words(step.answer)
    others = (name for name in names if name != step.name)
    return any(find_words(name) <= words for name in others)
