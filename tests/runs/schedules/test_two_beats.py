"""Two beats by mistake, both real, on one Muster: every due time is started once."""

import os
import subprocess
import sys

import pytest

from tests.live import OURS, ROOT, wait_for

V1 = "/api/v1"


@pytest.fixture
def second_beat(own_live, tmp_path):
    """The log of another beat on the same database and broker."""
    known = {name: value for name, value in os.environ.items() if name not in OURS and not name.startswith("MUSTER_")}
    environment = known | own_live.environment | {"MUSTER_DATA_DIR": str(own_live.data_dir)}
    command = [sys.executable, "-m", "celery", "-A", "config", "beat", "--pidfile=", "--loglevel=INFO"]
    log = tmp_path / "beat.log"
    with log.open("wb") as output:
        beat = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        yield log
        beat.terminate()
        beat.wait(timeout=30)


@pytest.mark.live
@pytest.mark.timeout(600)
def test_two_beats_start_each_due_time_once(own_live, second_beat):
    http = own_live.http
    function = {"name": "noop", "source": "def noop() -> int:\n    return 1\n", "effect": "read"}
    assert http.post(f"{V1}/functions/", json=function).status_code == 201
    assert http.post(f"{V1}/functions/noop/publish", json={}).status_code == 200
    assert http.post(f"{V1}/chains/", json={"name": "tick", "steps": [{"key": "a", "tool": "noop"}]}).status_code == 201
    assert http.post(f"{V1}/chains/tick/publish", json={}).status_code == 200
    wait_for(lambda: "runs.tick" in second_beat.read_text(), within=120)  # it beats
    for number in range(5):
        schedule = {
            "name": f"s{number}", "chain": "tick", "interval": {"every": 1, "period": "seconds"},
            "overlap_policy": "allow", "missed_policy": "all",
        }  # fmt: skip
        assert http.post(f"{V1}/schedules/", json=schedule).status_code == 201
    wait_for(lambda: len(occurrences(http, "s4")) >= 6, within=120)
    for number in range(5):
        assert http.post(f"{V1}/schedules/s{number}/pause", json={}).status_code == 200
    wait_for(lambda: not runs(http, status__in="queued,running,waiting"), within=120)
    found = [(number, one) for number in range(5) for one in occurrences(http, f"s{number}")]
    assert len({(number, one["due_at"]) for number, one in found}) == len(found)
    started = [one["run"] for _, one in found if one["run"]]
    assert len(set(started)) == len(started) >= 25
    assert {run["id"]: run["status"] for run in runs(http, trigger="schedule")} == dict.fromkeys(started, "succeeded")


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
