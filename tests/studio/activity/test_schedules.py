"""The page of a schedule: its timing in words, what was sent changed, and the schedule deleted."""

import pytest

from agents.models import AuditEvent, Membership
from runs.models import Run, Schedule
from tests.schedules import MINUTE, START

pytestmark = pytest.mark.django_db
URL = "/schedules/hourly/"
BODY = {
    "name": "hourly", "agent": "clerk", "text": "Good evening", "crontab": "0 18 * * 1-5", "timezone": "Europe/Berlin",
    "missed_policy": "all", "overlap_policy": "queue",
}  # fmt: skip


@pytest.fixture
def schedule(make_schedule):
    return make_schedule()


def test_the_page_says_when_in_words_and_shows_the_next_five(schedule, alice, signed_in, tick):
    page = signed_in(alice).get(URL)
    assert b"Every hour" in page.content and len(page.context["upcoming"]) == 5
    assert b"none yet" in page.content
    tick(START)
    assert b"none yet" not in signed_in(alice).get(URL).content


def test_a_schedule_is_changed_on_its_page(schedule, alice, signed_in):
    browser = signed_in(alice)
    assert browser.get(URL).context["form"]["crontab"].value() == "0 * * * *"
    assert browser.post(URL, {**BODY, "name": "evening"}).headers["Location"] == "/schedules/evening/"
    schedule = Schedule.objects.get()
    assert (schedule.name, schedule.line, schedule.text) == ("evening", "0 18 * * 1-5", "Good evening")
    assert (schedule.missed_policy, schedule.overlap_policy, schedule.timezone) == ("all", "queue", "Europe/Berlin")
    assert schedule.next_due_at.minute == 0
    assert AuditEvent.objects.filter(action="schedule.changed").count() == 1


def test_what_is_wrong_is_told_and_nothing_is_stored(schedule, alice, signed_in):
    answer = signed_in(alice).post(URL, {**BODY, "crontab": "every day"})
    assert answer.status_code == 422 and "crontab" in answer.context["form"].errors
    answer = signed_in(alice).post(URL, {**BODY, "crontab": "0 8 31 2 *"})
    assert answer.status_code == 422 and "crontab" in answer.context["form"].errors
    assert Schedule.objects.get().line == "0 * * * *"


def test_a_paused_schedule_stays_paused_when_it_is_changed(schedule, alice, signed_in):
    signed_in(alice).post(f"{URL}pause")
    assert signed_in(alice).post(URL, BODY).status_code == 302
    assert not Schedule.objects.get().enabled


def test_another_timing_is_kept(make_schedule, alice, signed_in):
    from django_celery_beat.models import IntervalSchedule

    make_schedule(crontab=None, interval=IntervalSchedule.objects.create(every=10, period="minutes"), starts_at=START)
    page = signed_in(alice).get(URL)
    assert b"Every 10 minutes" in page.content and "crontab" not in page.context["form"].fields
    body = {name: value for name, value in BODY.items() if name != "crontab"}
    assert signed_in(alice).post(URL, body).status_code == 302
    assert Schedule.objects.get().interval.every == 10


def test_a_schedule_is_deleted_on_its_page_and_its_runs_are_kept(schedule, alice, signed_in, tick):
    tick(START)
    tick(START + MINUTE)
    assert signed_in(alice).post(f"{URL}delete").status_code == 302
    assert not Schedule.objects.exists() and Run.objects.count() == 1
    assert AuditEvent.objects.filter(action="schedule.deleted").count() == 1
    assert signed_in(alice).get(f"{URL}delete").status_code == 405


def test_others_neither_change_nor_delete_it(schedule, alice, bob, charlie, team, signed_in):
    assert Membership.objects.filter(team=team, user=bob).exists()
    for person in (bob, charlie):
        assert signed_in(person).post(URL, BODY).status_code == 404
        assert signed_in(person).post(f"{URL}delete").status_code == 404
    Schedule.objects.update(team=team)
    Membership.objects.filter(team=team, user=bob).update(role="viewer")
    assert signed_in(bob).get(URL).status_code == 200
    assert signed_in(bob).post(URL, BODY).status_code == 403
    assert signed_in(bob).post(f"{URL}delete").status_code == 403
    assert Schedule.objects.get().text == "Good morning"


def test_a_chain_is_scheduled_with_its_input(alice, signed_in, make_chain, functions):
    make_chain({"key": "a", "tool": "one"}, name="nightly")
    browser = signed_in(alice)
    form = browser.get("/schedules/?chain=nightly").context["form"]
    assert (form["chain"].value(), form["name"].value()) == ("nightly", "nightly-daily")
    assert ">null<" not in str(form["input"])
    body = {**BODY, "name": "nightly-daily", "agent": "", "text": "", "chain": "nightly", "input": '{"n": 3}'}
    for wrong in ({"chain": ""}, {"text": "hello"}, {"input": "{n"}, {"chain": "nothing"}):
        assert browser.post("/schedules/", {**body, **wrong}).status_code == 422, wrong
    assert browser.post("/schedules/", body).status_code == 302
    schedule = Schedule.objects.get(name="nightly-daily")
    assert (schedule.chain.name, schedule.agent, schedule.input, schedule.text) == ("nightly", None, {"n": 3}, "")
    changed = {name: body[name] for name in ("name", "crontab", "timezone", "missed_policy", "overlap_policy")}
    assert browser.post("/schedules/nightly-daily/", {**changed, "input": '{"n": 4}'}).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.chain.name, schedule.input) == ("nightly", {"n": 4})


def test_a_strangers_chain_is_not_scheduled(charlie, signed_in, make_chain, functions):
    make_chain({"key": "a", "tool": "one"}, name="nightly")
    body = {**BODY, "agent": "", "text": "", "chain": "nightly"}
    assert signed_in(charlie).post("/schedules/", body).status_code == 422
    assert not Schedule.objects.exists()


def test_a_line_is_explained_with_its_next_five_times(alice, client, signed_in):
    answer = signed_in(alice).get("/schedules/due-times?crontab=0+8+*+*+1-5&timezone=Europe/Berlin").json()
    assert "08:00" in answer["words"] and len(answer["times"]) == 5
    for wrong in ("every day", "0 8 31 2 *", "", "%00", "* * * *"):
        told = signed_in(alice).get("/schedules/due-times", {"crontab": wrong}).json()
        assert told.get("error") or told["times"] == [], wrong
    assert "error" in signed_in(alice).get("/schedules/due-times?crontab=0+8+*+*+*&timezone=Mars").json()
    client.logout()
    assert client.get("/schedules/due-times").status_code == 302
