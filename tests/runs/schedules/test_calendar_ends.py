"""Dates at the ends of the calendar and intervals beyond it are refused when they are saved, and break no list."""

from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django_celery_beat.models import IntervalSchedule

from runs.models import Schedule

pytestmark = pytest.mark.django_db
PATH = "/api/v1/schedules/"
ENDS = ["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z"]


@pytest.fixture
def body(make_agent):
    make_agent()
    return {"name": "daily", "agent": "helper", "text": "Hello", "interval": {"every": 1, "period": "days"}}


@pytest.mark.parametrize("moment", ENDS)
@pytest.mark.parametrize("field", ["starts_at", "ends_at", "at"])
def test_a_date_at_the_end_of_the_calendar_is_refused(alice_api, body, field, moment):
    given = {**body, field: moment} if field != "at" else {**body, "interval": None, "at": moment}
    answer = alice_api.post(PATH, given)
    assert (answer.status_code, Schedule.objects.count()) == (422, 0)
    assert alice_api.get(PATH).status_code == 200


@pytest.mark.parametrize("moment", ENDS)
def test_a_key_does_not_expire_at_the_end_of_the_calendar(alice_api, moment):
    assert alice_api.post("/api/v1/keys/", {"scopes": ["*"], "expires_at": moment}).status_code == 422


def test_an_interval_longer_than_the_calendar_is_refused(alice_api, body):
    answer = alice_api.post(PATH, {**body, "interval": {"every": 1_000_000, "period": "days"}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_timing")


def test_half_an_interval_is_refused_and_changes_nothing(alice_api, body):
    assert alice_api.post(PATH, body).status_code == 201
    answer = alice_api.patch(f"{PATH}daily", {"interval": {"every": 5}}, "application/json")
    assert answer.status_code == 422 and "period" in str(answer.json())
    assert alice_api.get(f"{PATH}daily").json()["interval"] == {"every": 1, "period": "days"}


def test_half_a_member_of_a_team_is_refused(alice_api, team):
    answer = alice_api.patch(f"/api/v1/teams/{team.name}", {"members": [{}]}, "application/json")
    assert answer.status_code in (400, 403, 405, 422)


def test_rows_that_were_stored_before_break_neither_list_nor_preview(alice_api, alice, body):
    alice_api.post(PATH, body)
    row = Schedule.objects.get()
    interval = IntervalSchedule.objects.create(every=2_000_000, period="days")
    late = datetime(9999, 12, 31, 23, tzinfo=UTC)
    Schedule.objects.filter(pk=row.pk).update(
        starts_at=late, next_due_at=late, interval=interval, timezone="Pacific/Kiritimati"
    )
    assert alice_api.get(PATH).status_code == 200
    assert alice_api.get(f"{PATH}daily/preview").status_code in (200, 422)
    Schedule.objects.filter(pk=row.pk).update(starts_at=datetime(1, 1, 1, tzinfo=UTC))
    assert alice_api.get(f"{PATH}daily").status_code == 200
    assert alice_api.get(f"{PATH}daily/preview").status_code in (200, 422)


def test_a_form_does_not_store_such_a_date_either(alice, make_agent):
    row = Schedule(owner=alice, name="x", agent=make_agent(), starts_at=datetime(9999, 12, 31, tzinfo=UTC))
    with pytest.raises(ValidationError, match="1970 and 2999"):
        row.full_clean()
