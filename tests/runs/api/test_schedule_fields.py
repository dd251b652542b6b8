"""What a schedule tells about its timing and its last run."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from runs.admin import ScheduleForm
from runs.rules.timing import read_in_zone
from tests.schedules import START

pytestmark = pytest.mark.django_db
JSON = "application/json"


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


WALL = "2027-06-01T09:00:00"


@pytest.mark.parametrize(
    ("sent", "zone", "read"),
    [
        (WALL, "Asia/Tokyo", "2027-06-01T00:00:00Z"),
        (WALL, "America/New_York", "2027-06-01T13:00:00Z"),
        (WALL, None, "2027-06-01T09:00:00Z"),
        ("2027-06-01T09:00", "Asia/Kolkata", "2027-06-01T03:30:00Z"),
        (f"{WALL}Z", "Asia/Tokyo", "2027-06-01T09:00:00Z"),
        (f"{WALL}+02:00", "Asia/Tokyo", "2027-06-01T07:00:00Z"),
        ("2027-03-28T02:30:00", "Europe/Berlin", "2027-03-28T01:00:00Z"),  # a gap: the first moment after it
        ("2027-10-31T02:30:00", "Europe/Berlin", "2027-10-31T00:30:00Z"),  # twice: the first time
        ("2027-10-31T02:30:00+01:00", "Europe/Berlin", "2027-10-31T01:30:00Z"),
    ],
)
def test_a_time_without_an_offset_is_one_of_the_schedules_zone(alice_api, agent, sent, zone, read):
    zoned = {"timezone": zone} if zone else {}
    made = alice_api.post("/api/v1/schedules/", {"name": "once", "agent": agent.name, "at": sent, **zoned}, JSON)
    assert made.status_code == 201, made.json()
    assert moment(made.json()["at"]) == moment(made.json()["next_due_at"]) == moment(read)
    around = {"interval": {"every": 1, "period": "days"}, "starts_at": sent, "ends_at": "2028-01-01T00:00:00Z"}
    daily = alice_api.post("/api/v1/schedules/", {"name": "daily", "agent": agent.name, **around, **zoned}, JSON).json()
    assert moment(daily["starts_at"]) == moment(read)
    changed = alice_api.patch("/api/v1/schedules/daily", {"ends_at": "2028-01-01T00:00:00", **zoned}, JSON).json()
    assert changed["next_due_at"] and moment(changed["ends_at"]) == read_in_zone(
        moment("2028-01-01T00:00"), zone or "UTC"
    )


def test_another_zone_moves_no_moment(alice_api, agent):
    body = {"name": "once", "agent": agent.name, "at": WALL, "timezone": "Asia/Tokyo"}
    alice_api.post("/api/v1/schedules/", body, JSON)
    moved = alice_api.patch("/api/v1/schedules/once", {"timezone": "Europe/Berlin"}, JSON).json()
    assert moment(moved["at"]) == moment("2027-06-01T00:00:00Z")
    assert moved["timing_in_words"] == "Once, at 2027-06-01 02:00 Europe/Berlin"


def test_elsewhere_a_time_without_an_offset_is_utc(alice_api, make_run):
    made = make_run().created_at
    for shift, found in ((-60, 1), (60, 0)):
        text = (made + timedelta(seconds=shift)).astimezone(UTC).replace(tzinfo=None).isoformat()
        answer = alice_api.get("/api/v1/runs/", {"created_at__gte": text}).json()
        assert len(answer["results"]) == found


def test_the_admin_shows_and_reads_moments_on_the_clocks_of_the_schedules_zone(admin_client, make_schedule):
    schedule = make_schedule(zone="Asia/Tokyo", starts_at=moment("2027-06-01T00:00:00Z"))
    address = reverse("admin:runs_schedule_change", args=[schedule.pk])
    form = admin_client.get(address).context["adminform"].form
    assert form["starts_at"].initial == datetime(2027, 6, 1, 9)
    form = ScheduleForm(instance=schedule, data=data_of(form) | {"ends_at_0": "2028-01-01", "ends_at_1": "00:00:00"})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["starts_at"] == moment("2027-06-01T00:00:00Z")
    assert form.cleaned_data["ends_at"] == moment("2027-12-31T15:00:00Z")


def data_of(form):
    """What a browser sends of an unchanged form."""
    data = {name: form.initial.get(name) for name in form.fields if form.initial.get(name) not in (None, "")}
    starts = data.pop("starts_at")
    return {**data, "starts_at_0": f"{starts:%Y-%m-%d}", "starts_at_1": f"{starts:%H:%M:%S}", "input": "null"}


def moment(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("sent", "line"),
    [("every weekday at 9", "0 9 * * 1-5"), ("@daily", "0 0 * * *"), ("0 9 L jan sun", "0 9 L jan sun")],
)
def test_a_crontab_may_be_words_a_nickname_or_another_dialect(alice_api, agent, sent, line):
    made = alice_api.post("/api/v1/schedules/", {"name": "words", "agent": agent.name, "crontab": sent}, JSON)
    assert (made.status_code, made.json().get("crontab")) == (201, line)
    assert made.json()["next_due_at"] and made.json()["timing_in_words"].startswith("At ")


def test_a_dialect_that_is_not_understood_is_refused_with_what_to_write(alice_api, agent):
    made = alice_api.post("/api/v1/schedules/", {"name": "words", "agent": agent.name, "crontab": "0 0 9 * * *"}, JSON)
    assert made.status_code == 422 and "no seconds" in str(made.json()["error"]["details"])
