"""The escape corpus, in two modes: with the language layer, and with the kernel alone."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functions import sandbox
from functions.sandbox.inside import modules
from functions.sandbox.inside.calls import NUMBERS
from tests.corpus import prove, reading

HOSTILE, ORDINARY = reading.read("hostile"), reading.read("ordinary")
SECRET = "muster-corpus-secret-4711"
LIMITS = sandbox.Limits(timeout_s=0.15, memory_mb=160, output_kb=64)
LIMITS_OF = {
    "source": sandbox.Limits(timeout_s=0.3, memory_mb=160),
    "ends": sandbox.Limits(timeout_s=1.5, memory_mb=512),
}
LATE_S = 3.0  # generous: the promised 0.3 s is measured by the benchmark
IMPORTS = tuple(modules.EXPORTS)
TYPED = {"ok", "error", "timeout", "memory", "cpu", "violation", "crash", "refused"}


@pytest.fixture(scope="session")
def constants(tmp_path_factory):
    canary = tmp_path_factory.mktemp("canary") / "canary.txt"
    canary.write_text(SECRET)
    canary.chmod(0o666)
    os.environ["MUSTER_CANARY"] = SECRET
    project = str(Path(__file__).resolve().parents[3])
    return {"CANARY": str(canary), "SECRET": SECRET, "NUMBERS": NUMBERS[platform.machine()], "PROJECT": project}


@pytest.fixture(scope="session", params=["language", "kernel"])
def outcomes(request, constants):
    """Every hostile case, run once in this mode, four at a time."""
    pool = sandbox.Pool(spares=4)

    def run(case):
        limits = LIMITS_OF.get(case.kind, LIMITS)
        options = {"allowed_imports": IMPORTS, "safe_mode": request.param == "language", "limits": limits}
        source = case.source(constants)
        if case.kind == "twice":
            pool.execute(source, {"STEP": 1}, **options)
            return case.id, pool.execute(source, {"STEP": 2}, **options)
        return case.id, pool.execute(source, **options)

    with ThreadPoolExecutor(4) as threads:
        yield dict(threads.map(run, HOSTILE))
    assert pool.execute("def main(): return 'still here'").result == "still here"
    pool.close()


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.id)
def test_it_is_contained(case, outcomes, constants):
    outcome = outcomes[case.id]
    assert outcome.status in TYPED
    assert outcome.isolation in ("full", "reduced") or outcome.status == "refused"
    assert outcome.wall_ms < (LIMITS_OF.get(case.kind, LIMITS).timeout_s + LATE_S) * 1000
    assert Path(constants["CANARY"]).read_text() == SECRET
    text = json.dumps(outcome.as_dict())
    assert len(text) < 200_000
    if case.kind != "fd3":  # a forged reply is only another way to return something
        assert SECRET not in text
    if case.kind in ("spend", "ends"):
        assert outcome.status != "ok"
    for refusal in outcome.refusals:
        assert refusal.line >= 1
        assert refusal.hint


@pytest.mark.slow
def test_every_case_is_a_threat_in_plain_python(constants):
    cases = [{"kind": case.kind, "source": case.source(constants), "secret": SECRET} for case in HOSTILE]
    done = subprocess.run([sys.executable, prove.__file__], input=json.dumps(cases), capture_output=True, text=True,
                          timeout=100, env=os.environ | {"MUSTER_CANARY": SECRET}, check=True)  # fmt: skip
    Path(constants["CANARY"]).write_text(SECRET)
    harmless = [case.id for case, why in zip(HOSTILE, json.loads(done.stdout), strict=True) if not why]
    assert harmless == []


@pytest.mark.parametrize("mode", ["language", "kernel"])
def test_ordinary_functions_work(mode):
    def run(case):
        outcome = sandbox.execute(case.text, allowed_imports=IMPORTS, safe_mode=mode == "language")
        return outcome.error if outcome.result is None else outcome.result

    with ThreadPoolExecutor(3) as threads:
        results = dict(zip((case.id for case in ORDINARY), threads.map(run, ORDINARY), strict=True))
    expected = {case.id: json.loads(json.dumps(case.expected)) for case in ORDINARY}
    assert {name: result for name, result in results.items() if result != expected[name]} == {}


def test_the_corpus_is_as_large_as_promised():
    assert len(HOSTILE) >= 200
    assert len({case.id for case in HOSTILE}) == len(HOSTILE)
    assert len(ORDINARY) >= 150
