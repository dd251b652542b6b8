"""Runs hostile cases in the sandbox, and says what a case has achieved. The tests and the benchmark share it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from functions import sandbox
from functions.sandbox.inside import modules
from functions.sandbox.inside.calls import NUMBERS
from tests.corpus.reading import Case

SECRET = "muster-corpus-secret-4711"
IMPORTS = tuple(modules.EXPORTS)
AT_ONCE = 4
LIMITS = sandbox.Limits(timeout_s=0.15, memory_mb=160, output_kb=64)
LIMITS_OF = {
    "source": sandbox.Limits(timeout_s=0.3, memory_mb=160),
    "ends": sandbox.Limits(timeout_s=1.5, memory_mb=512),
}
LATE_S = 15.0  # generous: the promised 0.3 s is measured by the benchmark
TYPED = {"ok", "error", "timeout", "memory", "cpu", "violation", "crash", "refused"}


def prize(folder: Path) -> dict[str, object]:
    """What cases try to reach: a secret in a file that anyone may write, in the environment, in the project."""
    canary = folder / "canary.txt"
    canary.write_text(SECRET)
    canary.chmod(0o666)
    os.environ["MUSTER_CANARY"] = SECRET
    project = str(Path(__file__).resolve().parents[2])
    return {"CANARY": str(canary), "SECRET": SECRET, "NUMBERS": NUMBERS[platform.machine()], "PROJECT": project}


class NoFiles:
    """The host of an interpreter that stores nothing."""

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, object]:
        return {"file": None, "name": name, "media_type": media_type, "size": len(content)}


def attack(
    pool: sandbox.Pool, cases: Iterable[Case], constants: dict[str, object], *, mode: str
) -> dict[str, sandbox.Outcome]:
    """Every case once, a few at a time; by its id how it ended. mode: language, kernel (without the
    language layer) or files (the interpreter).
    """

    def once(case: Case, source: str, step: dict[str, int], limits: sandbox.Limits) -> sandbox.Outcome:
        if mode == "files":  # each step in another run, which must not find what the first one left
            code, session = f"{source}\nmain(**{step})", f"{case.id} {step}"
            outcome = pool.interpret(code, [], session=session, host=NoFiles(), limits=limits)
            pool.release(session)
            return outcome
        return pool.execute(source, step, allowed_imports=IMPORTS, safe_mode=mode == "language", limits=limits)

    def run(case: Case) -> tuple[str, sandbox.Outcome]:
        source, limits = case.source(constants), LIMITS_OF.get(case.kind, LIMITS)
        outcome = sandbox.Outcome(status="refused")
        for step in ({"STEP": 1}, {"STEP": 2}) if case.kind == "twice" else ({},):
            outcome = once(case, source, step, limits)
        return case.id, outcome

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return dict(threads.map(run, cases))


def achieved(case: Case, outcome: sandbox.Outcome, constants: dict[str, object]) -> list[str]:
    """What it should not have; empty when it was contained."""
    text = json.dumps(outcome.as_dict())
    late_ms = (LIMITS_OF.get(case.kind, LIMITS).timeout_s + LATE_S) * 1000
    forged = case.kind == "fd3"  # a forged reply is only another way to return something
    wrong = {
        f"an ending without a type: {outcome.status}": outcome.status not in TYPED,
        "no isolation": outcome.isolation not in ("full", "reduced") and outcome.status != "refused",
        f"{outcome.wall_ms:.0f} ms": outcome.wall_ms >= late_ms,
        "the file was changed": Path(str(constants["CANARY"])).read_text() != SECRET,
        "an answer of unbounded size": len(text) >= 200_000,
        "the secret came out": SECRET in text and not forged,
        "a number that no database takes": "Infinity" in text and not case.text.count("Infinity"),
        "it ended well": outcome.ok and case.kind in ("spend", "ends"),
        "a refusal without line or hint": any(one.line < 1 or not one.hint for one in outcome.refusals),
    }
    return [what for what, is_so in wrong.items() if is_so]
