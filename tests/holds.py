"""How long each transaction holds the database: `pytest -p tests.holds …` writes `build/holds.md` at its end.

Each block of `transaction.atomic` that is entered outside of another one is timed, from its beginning to its
commit, and named by the function that contains it. On SQLite it keeps everybody else from writing meanwhile.
"""

import inspect
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from django.db.transaction import Atomic

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "holds.md"
LEAST = 3  # times that a block was entered; what was entered once may have loaded modules
held: dict[str, list[float]] = defaultdict(list)  # function → milliseconds
present = threading.local()
enter, leave = Atomic.__enter__, Atomic.__exit__


def begin(block: Atomic) -> None:
    enter(block)
    if getattr(block, "_from_testcase", False) or getattr(present, "outermost", None) is not None:
        return
    present.outermost = block
    present.place = find_place()
    present.began = time.perf_counter()


def end(block: Atomic, *error: Any) -> None:
    try:
        leave(block, *error)
    finally:
        if getattr(present, "outermost", None) is block:
            seconds = time.perf_counter() - present.began
            held[present.place].append(seconds * 1000)
            present.outermost = None


def find_place() -> str:
    """The function of ours that entered the block, or that it decorates."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        decorated = frame.f_locals.get("func") if code.co_name == "inner" else None
        if decorated is not None:
            code = inspect.unwrap(decorated).__code__
        path = Path(code.co_filename)
        is_ours = path.is_relative_to(ROOT) and ".venv" not in path.parts and path != Path(__file__)
        if is_ours and code.co_name != "hold_run":  # which opens the block for its caller
            return f"{path.relative_to(ROOT)}: {code.co_qualname}"
        frame = frame.f_back
    return "elsewhere"


def pytest_configure(config: pytest.Config) -> None:
    Atomic.__enter__, Atomic.__exit__ = begin, end  # type: ignore[method-assign, assignment]


def pytest_unconfigure(config: pytest.Config) -> None:
    Atomic.__enter__, Atomic.__exit__ = enter, leave  # type: ignore[method-assign]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(list_rows()) + "\n")


def list_rows() -> list[str]:
    """A table in Markdown, the longest first."""
    rows = []
    for place, times in held.items():
        times = sorted(times)
        if len(times) >= LEAST and not place.startswith(("tests/", "elsewhere")):
            p95 = times[int(len(times) * 0.95)]
            median = times[len(times) // 2]
            rows.append((p95, median, len(times), place))
    lines = ["| block | times | median ms | p95 ms |", "|---|--:|--:|--:|"]
    for p95, median, count, place in sorted(rows, reverse=True):
        lines.append(f"| `{place}` | {count} | {median:.1f} | {p95:.1f} |")
    return lines
