"""The self-test, `manage.py doctor` and the system check."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest
from django.core.management import call_command

from functions import readiness
from functions.sandbox import Pool, selftest
from functions.sandbox.attacks import ATTACKS, build_attack_source
from functions.sandbox.inside.calls import NUMBERS

# What plain Python lets anybody do; the rest needs rights that a test may not have.
PROVABLE = {"open a file", "create a file", "look at the root directory", "open a network socket", "start a process",
            "start a thread", "run a program", "make memory executable", "make mapped memory executable",
            "use io_uring", "read the server's environment"}  # fmt: skip


@pytest.fixture(scope="module")
def report():
    return selftest.run_selftest(fresh=True)


def test_every_attack_is_stopped_on_this_machine(report):
    assert [finding for finding in report.findings if finding.kind == "attack" and not finding.ok] == []
    assert report.isolation in ("full", "reduced")


def test_the_report_is_remembered_until_the_next_boot(report):
    assert selftest.read_cached_report() == report


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack.name in PROVABLE], ids=lambda a: a.name)
def test_each_attack_succeeds_in_plain_python(attack):
    """Else it would prove nothing that it is stopped in the sandbox."""
    source = build_attack_source(attack, NUMBERS[platform.machine()]) + "\nassert main() is not None\n"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120,
                          env={"SECRET": "1", "PATH": "/bin"}, check=False)  # fmt: skip
    if attack.name == "use io_uring" and "refused" in done.stderr:
        pytest.skip("this machine lets nobody use io_uring")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layer", ["no_new_privs", "seccomp", "rlimits"])
def test_nothing_runs_when_a_core_layer_is_missing(layer):
    pool = Pool(without_layers=[layer])
    try:
        outcome = pool.execute("def main(): return 1")
        assert (outcome.status, outcome.isolation) == ("refused", "none")
        assert "doctor" in outcome.error.message
    finally:
        pool.close()


def test_the_report_names_the_layer_that_is_missing(monkeypatch):
    monkeypatch.setattr(selftest, "Pool", lambda **more: Pool(without_layers=["no_new_privs"], **more))
    report = selftest.run_selftest(fresh=True)
    monkeypatch.undo()
    missing = [finding.name for finding in report.findings if not finding.ok]
    assert (report.isolation, report.ok) == ("none", False) and "no_new_privs" in missing
    assert any("'no_new_privs'" in problem and "prctl" in problem for problem in report.problems)
    assert selftest.read_cached_report() is None or selftest.read_cached_report().ok  # not remembered: it may be mended
    selftest._remembered = None


def test_an_attack_that_succeeds_means_isolation_none():
    found = selftest.Finding("attack", "open a file", False, True, "it succeeded", "hint")
    report = selftest._judged((found,), "full", "here")
    assert (report.isolation, report.ok) == ("none", False)
    assert "open a file" in report.problems[0]


def test_an_inconclusive_attack_is_told_but_stops_nobody():
    found = selftest.Finding("attack", "open a file", False, False, "inconclusive: ended as 'busy'", "again")
    report = selftest._judged((found,), "full", "here")
    assert (report.isolation, len(report.problems)) == ("full", 1)


def test_a_pool_whose_boundary_does_not_hold_runs_nothing_more():
    pool = Pool(spares=1)
    assert pool.execute("def main(): return 1").ok
    pool.refuse_everything("an attack succeeded")
    outcome = pool.execute("def main(): return 1")
    assert (outcome.status, outcome.error.message) == ("refused", "an attack succeeded")
    pool.close()


def test_a_missing_strong_layer_reduces_the_isolation():
    pool = Pool(without_layers=["landlock"])
    try:
        assert pool.execute("def main(): return 1").isolation == "reduced"
    finally:
        pool.close()


def test_doctor_speaks_json_and_english(capsys, db):
    call_command("doctor", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["sandbox"]["isolation"] in ("full", "reduced")
    assert told["database"]["ok"]
    call_command("doctor")
    text = capsys.readouterr().out
    assert "attacks, language layer off" in text
    assert "Versions" in text


def test_the_system_check_warns_of_reduced_isolation_and_refuses_none(monkeypatch):
    def pretend(isolation):
        monkeypatch.setattr(selftest, "read_cached_report", lambda: selftest.Report(isolation, (), ("why",), "here"))
        return [message.id for message in readiness.check_sandbox(None)]

    assert pretend("full") == []
    assert pretend("reduced") == ["functions.W001"]
    assert pretend("none") == ["functions.E001"]
