"""In which turn each planted circle is stopped, and that no honest run is.

`python -m benchmarks.circles` goes through `circles_set/planted.yaml` and `honest.yaml` and prints the turn of the
warning and of the stop. It makes no database and takes a second. A few circles cannot be
told from work so soon; their cases say why. Ends with 1 when a circle is stopped later than that, or honest work is.
"""

import sys
from collections.abc import Iterator
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from runs.rules.answers import Step
from runs.rules.stuck import check_progress

HERE = Path(__file__).parent / "circles_set"
LATEST = 4  # the turn in which a circle has to be stopped where its case says nothing else
LONGEST = 24  # turns that are played


def main() -> None:
    late = [case for case in cases("planted") if shown(case, play(planted_turns(case))) > case.get("latest", LATEST)]
    print()
    stopped = [case for case in cases("honest") if shown(case, play(honest_turns(case))) <= LONGEST]
    excused = sum("because" in case for case in cases("planted"))
    print(
        f"\n{len(cases('planted'))} circles, {excused} of them later than turn {LATEST} with a reason, {len(late)} too late"
    )
    print(f"{len(cases('honest'))} honest runs, {len(stopped)} stopped")
    sys.exit(1 if late or stopped else 0)


def cases(which: str) -> list[dict[str, Any]]:
    return yaml.safe_load((HERE / f"{which}.yaml").read_text())


def shown(case: dict[str, Any], turns: tuple[int | None, int | None]) -> int:
    """Print a line; the turn of the stop."""
    warned, stopped = turns
    why = f"   ({case['because']})" if "because" in case else ""
    print(f"{case['name']:56} warned {warned or '–':>2}   stopped {stopped or '–':>2}{why}")
    return stopped or LONGEST + 1


def play(turns: Iterator[list[dict[str, Any]]]) -> tuple[int | None, int | None]:
    """(the turn of the warning, that of the stop)."""
    steps: list[Step] = []
    warned = None
    for turn, calls in enumerate(turns, start=1):
        steps += [Step.of(record(call, turn)) for call in calls]
        verdict = check_progress(steps, was_warned=warned is not None)
        if verdict and verdict.stop:
            return warned, turn
        warned = warned or (turn if verdict else None)
    return warned, None


def planted_turns(case: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    return islice(cycle(case["turns"]), LONGEST)


def honest_turns(case: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    times = range(1, case.get("times", 1) + 1)
    return chain.from_iterable(map(counted, repeat(case["turns"]), times))


def counted(value: Any, number: int) -> Any:
    """`{n}` in any text of it becomes the number."""
    if isinstance(value, dict):
        return {key: counted(one, number) for key, one in value.items()}
    if isinstance(value, list):
        return [counted(one, number) for one in value]
    return value.replace("{n}", str(number)) if isinstance(value, str) else value


def record(call: dict[str, Any], turn: int) -> SimpleNamespace:
    """The row of a call, as far as `Step.of` reads it."""
    code = call.get("fails")
    reply = call.get("says")
    return SimpleNamespace(
        name=call["call"],
        kind=call.get("kind", "function"),
        effect=call.get("effect", "idempotent" if call.get("kind") == "agent" else "write"),
        arguments=call["arguments"],
        result={"reply": reply, "agent": call["call"]} if call.get("kind") == "agent" else reply,
        outcome="failed" if code else "ok",
        error={"code": code} if code else None,
        turn=turn,
    )


if __name__ == "__main__":
    main()
