"""The escape corpus: with the language layer, with the kernel alone, and in the interpreter with its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functions import sandbox
from tests.corpus import attack, prove, reading

HOSTILE, ORDINARY = reading.read("hostile"), reading.read("ordinary")
GROUPS = sorted({case.group for case in HOSTILE})
MODES = ["language", "kernel"]
# What an interpreter may do: it has descriptors and a root of its own, and its values are shown as text.
OPEN_IN_THE_INTERPRETER = {
    "os_layer: descriptors left open", "os_layer: extra descriptors by dup", "os_layer: list the root",
    "result_shapes: int subclass that lies", "result_shapes: string subclass that lies",
}  # fmt: skip


@pytest.fixture(scope="session")
def constants(tmp_path_factory):
    return attack.prize(tmp_path_factory.mktemp("canary"))


@pytest.fixture(scope="session", params=[*MODES, "files"])
def outcomes(request, constants):
    """Every hostile case, run once in this mode, four at a time."""
    pool = sandbox.Pool(spares=4)
    left_out = OPEN_IN_THE_INTERPRETER if request.param == "files" else ()
    yield attack.attack(pool, [case for case in HOSTILE if case.id not in left_out], constants, mode=request.param)
    assert pool.execute("def main(): return 'still here'").result == "still here"
    pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_it_is_contained(group, outcomes, constants):
    cases = [case for case in HOSTILE if case.group == group and case.id in outcomes]
    found = {case.id: attack.achieved(case, outcomes[case.id], constants) for case in cases}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.slow
def test_every_case_is_a_threat_in_plain_python(constants):
    secret = attack.SECRET
    cases = [{"kind": case.kind, "source": case.source(constants), "secret": secret} for case in HOSTILE]
    done = subprocess.run([sys.executable, prove.__file__], input=json.dumps(cases), capture_output=True, text=True,
                          timeout=280, env=os.environ | {"MUSTER_CANARY": secret}, check=True)  # fmt: skip
    Path(constants["CANARY"]).write_text(secret)
    harmless = [case.id for case, why in zip(HOSTILE, json.loads(done.stdout), strict=True) if not why]
    assert harmless == []


@pytest.mark.parametrize("mode", MODES)
def test_ordinary_functions_work(mode):
    def run(case):
        outcome = sandbox.execute(case.text, allowed_imports=attack.IMPORTS, safe_mode=mode == "language")
        return outcome.error if outcome.result is None else outcome.result

    with ThreadPoolExecutor(3) as threads:
        results = dict(zip((case.id for case in ORDINARY), threads.map(run, ORDINARY), strict=True))
    expected = {case.id: json.loads(json.dumps(case.expected)) for case in ORDINARY}
    assert {name: result for name, result in results.items() if result != expected[name]} == {}


def test_the_corpus_is_as_large_as_promised():
    assert len(HOSTILE) >= 200
    assert len({case.id for case in HOSTILE}) == len(HOSTILE)
    assert len(ORDINARY) >= 150


def test_what_gets_out_is_seen(constants):
    case = next(case for case in HOSTILE if case.kind == "steal")
    escaped = sandbox.Outcome(status="ok", result=[attack.SECRET], isolation="full")
    assert attack.achieved(case, escaped, constants) == ["the secret came out"]
    unnamed = sandbox.Outcome(status="lost", isolation="none", result="x" * 300_000)
    assert len(attack.achieved(case, unnamed, constants)) == 3
