"""Does a run go round in circles? Pure: the calls so far in, a verdict out.

A turn is barren when all its calls were made before with the same arguments and the same answer; in the short answer of
a tool that only reads numbers do not count, so a clock's answers are the same. A second barren turn in a row is warned
of, a third is the end: that covers the same call again and again, and circles of two, three or more. What changes its
arguments but gets nowhere (only failures, only empty answers, two agents that send each other to and fro and say
nothing new) ends in its fourth turn, too. What may be honest work, the same call with ever new answers or two agents
with ever new things to say, is given a little longer.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agents.schema import canonical_json

FIRST_CHECK = 3  # turns before which nothing can be wrong
BARREN = 2  # barren turns in a row before the warning; one more ends the run
POLLED = 5  # the same call with ever other answers: somebody waits for something, perhaps in vain
FAILING = 3  # turns in a row in which everything failed in the same way
EMPTY = 3  # turns in a row in which one tool found nothing
TO_AND_FRO = 3  # turns in a row in which two agents take turns with each other and say nothing new
BY_TURNS = 5  # the same, with something new each time: one writes and the other reviews, perhaps
NEW_WORDS = 5  # so many words that nobody said before make an answer new
SHORT = 200  # characters of an answer that may differ in numbers alone and say nothing new
NUMBERS = re.compile(r"\w*\d\w*")
WORD = re.compile(r"\w+")
EMPTY_ANSWERS = frozenset({"null", '""', "[]", "{}", '{"result":null}', '{"results":[]}'})


@dataclass(frozen=True, slots=True)
class Step:
    """One answered call, as far as circles are concerned."""

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
        name, kind, said = record.name, record.kind, record.result
        if isinstance(said, dict) and is_agent_call(record):
            name, kind = str(said.get("agent") or name), "agent"
            said = {"reply": said.get("reply"), "output": said.get("output")}  # each child run has an id of its own
        answer = canonical_json(said) if record.outcome == "ok" else f"{record.outcome}: {code}"
        arguments = canonical_json(record.arguments)
        return cls(name, arguments, answer, record.turn, kind, record.outcome, code, record.effect)

    @property
    def call(self) -> tuple[str, str]:
        return self.name, self.arguments

    @property
    def news(self) -> str:
        """What the answer tells, for a comparison with the same call's earlier ones."""
        return without_numbers(self.answer) if self.effect == "read" and is_short(self) else self.answer

    @property
    def words(self) -> set[str]:
        """What is said in the call and its answer, without numbers."""
        return set(WORD.findall(without_numbers(f"{self.arguments} {self.answer}".lower())))

    @property
    def is_failure(self) -> bool:
        return self.outcome not in ("ok", "")


def is_agent_call(record: Any) -> bool:
    return record.kind == "agent" or (record.kind == "builtin" and record.name == "delegate")


def is_short(step: Step) -> bool:
    return len(step.answer) <= SHORT


def without_numbers(text: str) -> str:
    return NUMBERS.sub("#", text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stop`: end the run with this reason; otherwise tell the model."""

    reason: str
    stop: bool


Turn = Sequence[Step]


def check(steps: Iterable[Step], *, was_warned: bool) -> Verdict | None:
    """None while the run gets on; a warning once; a stop when the warning changed nothing."""
    turns = [list(turn) for _, turn in groupby(steps, key=lambda step: step.turn)]
    if len(turns) < FIRST_CHECK:
        return None
    found = [(count - limit, reason) for count, limit, reason in circles(turns) if count >= limit]
    if not found:
        return None
    beyond, reason = max(found)
    if not was_warned:
        return Verdict(
            f"You go round in circles: {reason}. Do something else, or answer with what you have.", stop=False
        )
    return Verdict(reason, stop=True) if beyond > 0 else None


def circles(turns: Sequence[Turn]) -> list[tuple[int, int, str]]:
    """(how many turns, how many are warned of, what they do) for each kind of circle."""
    last = turns[-1][-1]
    return [
        (barren(turns), BARREN, f"“{last.name}” was called again with the same arguments and the same answer"),
        (polled(turns), POLLED, f"“{last.name}” was called again and again with the same arguments"),
        (failing(turns), FAILING, f"“{last.name}” failed again in the same way ({last.code or 'error'})"),
        (empty(turns), EMPTY, f"“{last.name}” found nothing again"),
        (idle_talk(turns), TO_AND_FRO, f"“{last.name}” and another agent send each other to and fro"),
        (len(by_turns(turns)), BY_TURNS, f"“{last.name}” and another agent send each other to and fro"),
    ]


def barren(turns: Sequence[Turn]) -> int:
    """The last turns in a row that brought nothing new."""
    seen: set[tuple[str, str, str]] = set()
    row = 0
    for turn in turns:
        answers = {(*step.call, step.news) for step in turn}
        row = row + 1 if answers <= seen else 0
        seen |= answers
    return row


def polled(turns: Sequence[Turn]) -> int:
    """The last turns in a row that made the very same calls for short answers; batch after batch of a list is work."""
    wanted = {step.call for step in turns[-1]}
    return in_a_row(turns, lambda turn: {step.call for step in turn} == wanted and all(map(is_short, turn)))


def failing(turns: Sequence[Turn]) -> int:
    """The last turns in a row in which all calls failed as the last one did."""
    last = turns[-1][-1]
    return in_a_row(
        turns, lambda turn: all(step.is_failure and (step.name, step.code) == (last.name, last.code) for step in turn)
    )


def empty(turns: Sequence[Turn]) -> int:
    """The last turns in a row in which the last tool alone was called and found nothing."""
    name = turns[-1][-1].name
    return in_a_row(turns, lambda turn: all(step.name == name and step.answer in EMPTY_ANSWERS for step in turn))


def idle_talk(turns: Sequence[Turn]) -> int:
    """The last turns in which two agents were called by turns and said nothing new; the round before them included."""
    row = [turn[0] for turn in by_turns(turns)]
    said: set[str] = set()
    idle = 0
    for place, step in enumerate(row):
        is_new = len(step.words - said - own_words(step)) >= NEW_WORDS
        said |= step.words
        idle = 0 if is_new and place >= 2 else idle + 1
    return idle


def own_words(step: Step) -> set[str]:
    """What the caller said: an agent that repeats it says nothing new."""
    return set(WORD.findall(without_numbers(step.arguments.lower())))


def by_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The last turns in a row in which two agents were called by turns, and nothing else; oldest first."""
    if len(turns) < 2 or not all(is_one_agent(turn) for turn in turns[-2:]):
        return []
    pair = (turns[-1][0].name, turns[-2][0].name)
    if pair[0] == pair[1]:
        return []
    row: list[Turn] = []
    for place, turn in enumerate(reversed(turns)):
        if not is_one_agent(turn) or turn[0].name != pair[place % 2]:
            break
        row.insert(0, turn)
    return row


def is_one_agent(turn: Turn) -> bool:
    return len(turn) == 1 and turn[0].kind == "agent"


def in_a_row(turns: Sequence[Turn], holds: Any) -> int:
    row = 0
    for turn in reversed(turns):
        if not holds(turn):
            break
        row += 1
    return row
