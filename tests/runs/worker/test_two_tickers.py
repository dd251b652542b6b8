"""Two workers of one Muster, both real: one ticks; when it is killed the other does. Every due time is started once."""

import os
import signal
import subprocess
import sys

import pytest

from tests.live import ROOT, environment_of, running, wait_for

V1 = "/api/v1"
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture
def muster(prepared, request):
    yield from running(prepared, request.config, MUSTER_LEASE="3")


@pytest.fixture
def second(muster, tmp_path):
    """Another worker on the same database and broker."""
    command = [sys.executable, "-m", "celery", "-A", "config", "worker", "--pool=threads", "-Q", "runs,default"]
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [*command, "--loglevel=INFO"], cwd=ROOT, env=environment_of(muster), stdout=output, stderr=output
        )
        wait_for(lambda: " ready." in log.read_text(), 120, lambda: log.read_text()[-2000:])
        yield worker
        worker.kill()
        worker.wait(timeout=30)


def test_a_ticker_that_is_killed_is_replaced_and_each_due_time_is_started_once(muster, second):
    http = muster.http
    function = {"name": "noop", "source": "def noop() -> int:\n    return 1\n", "effect": "read"}
    assert http.post(f"{V1}/functions/", json=function).status_code == 201
    assert http.post(f"{V1}/functions/noop/publish", json={}).status_code == 200
    assert http.post(f"{V1}/chains/", json={"name": "tick", "steps": [{"key": "a", "tool": "noop"}]}).status_code == 201
    assert http.post(f"{V1}/chains/tick/publish", json={}).status_code == 200
    for number in range(3):
        schedule = {
            "name": f"s{number}", "chain": "tick", "interval": {"every": 1, "period": "seconds"},
            "overlap_policy": "allow", "missed_policy": "all",
        }  # fmt: skip
        assert http.post(f"{V1}/schedules/", json=schedule).status_code == 201
    for ticking in (muster.programs()["web"], None):  # the first has ticked since before the second came
        before = counts(http)
        wait_for(
            lambda before=before: all(now >= then + 3 for now, then in zip(counts(http), before, strict=True)),
            within=120,
        )
        if ticking:
            os.kill(ticking.pid, signal.SIGKILL)
    for number in range(3):
        assert http.post(f"{V1}/schedules/s{number}/pause", json={}).status_code == 200
    wait_for(lambda: not runs(http, status__in="queued,running,waiting"), within=120)
    found = [(number, one) for number in range(3) for one in occurrences(http, f"s{number}")]
    assert len({(number, one["due_at"]) for number, one in found}) == len(found)
    started = [one["run"] for _, one in found if one["run"]]
    assert len(set(started)) == len(started) >= 15
    assert {run["id"]: run["status"] for run in runs(http, trigger="schedule")} == dict.fromkeys(started, "succeeded")


def counts(http):
    """How many occurrences each schedule has had."""
    return [len(occurrences(http, f"s{number}")) for number in range(3)]


def occurrences(http, name):
    return http.get(f"{V1}/schedules/{name}/occurrences/", params={"limit": 100}).json()["results"]


def runs(http, **filters):
    """All pages."""
    found, params = [], {"limit": 100, **filters}
    answer = http.get(f"{V1}/runs/", params=params).json()
    while True:
        found += answer["results"]
        if not answer["next"]:
            return found
        answer = http.get(answer["next"]).json()
