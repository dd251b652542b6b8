"""What a schedule tells about its timing and its last run."""

import pytest

from tests.schedules import START

pytestmark = pytest.mark.django_db


def test_a_schedule_tells_its_timing_in_words_and_its_last_run(make_schedule, tick, alice_api):
    make_schedule()
    before = alice_api.get("/api/v1/schedules/hourly").json()
    assert (before["timing_in_words"], before["last_run_at"]) == ("Every hour", None)
    tick(START)
    (listed,) = alice_api.get("/api/v1/schedules/").json()["results"]
    run = alice_api.get("/api/v1/runs/").json()["results"][0]
    assert listed["last_run_at"] == run["created_at"]
    paused = alice_api.post("/api/v1/schedules/hourly/pause").json()
    assert paused["last_run_at"] == run["created_at"]
