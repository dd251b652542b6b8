"""Does a run go round in circles? Pure: the calls so far in, a verdict out."""

from dataclasses import dataclass
from typing import Any

from agents.schema import canonical_json

SAME_CALL = 3  # times the same call with the same arguments and the same answer


@dataclass(frozen=True, slots=True)
class Step:
    """One answered call, as far as circles are concerned."""

    name: str
    arguments: str
    answer: str
    turn: int

    @classmethod
    def of(cls, record: Any) -> "Step":
        answer = canonical_json([record.outcome, record.result, (record.error or {}).get("code")])
        return cls(record.name, canonical_json(record.arguments), answer, record.turn)


@dataclass(frozen=True, slots=True)
class Verdict:
    reason: str
    stop: bool


def check(steps: list[Step], *, was_warned: bool) -> Verdict | None:
    """None while the run gets on; a warning at the third identical call; a stop at the next one after the warning."""
    if not steps:
        return None
    last = steps[-1]
    times = sum(
        1 for step in steps if (step.name, step.arguments, step.answer) == (last.name, last.arguments, last.answer)
    )
    if times < SAME_CALL:
        return None
    reason = f"“{last.name}” was called {times} times with the same arguments and the same answer"
    if was_warned and times > SAME_CALL:
        return Verdict(reason, stop=True)
    return None if was_warned else Verdict(f"You repeat yourself: {reason}. Do something else, or answer.", stop=False)
