"""Timers are exact: the ticker sleeps until the next due time, and hears of an earlier one."""

import statistics
import threading
import time
from datetime import datetime, timedelta

import pytest

from plumbing import clock
from plumbing.broker import broadcast
from runs.models import Run
from runs.queue import timers
from runs.queue.timers import Alarm
from runs.worker import ticker
from runs.worker.ticker import Ticker
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for

LONG_S = 60.0
LATE_S = 2.0  # far less than the five seconds between two recoveries; see test_a_back_off_is_exact


def soon(seconds):
    return clock.near() + timedelta(seconds=seconds)


def test_it_sleeps_until_the_next_due_time_of_the_rows():
    alarm, known = Alarm(), soon(0.05)
    began = time.monotonic()
    assert alarm.sleep(LONG_S, known) == known
    assert clock.near() >= known and time.monotonic() - began < LONG_S / 2


def test_an_earlier_due_time_wakes_it():
    alarm, told = Alarm(), soon(0.1)
    threading.Timer(0.02, alarm.hear, [str(told.timestamp()).encode()]).start()
    assert alarm.sleep(LONG_S, soon(30)) == told
    assert alarm.sleep(0.01) is None  # each rings once


def test_a_due_time_rings_once_and_a_stop_ends_the_sleep():
    alarm = Alarm()
    alarm.add(soon(-5))
    assert alarm.sleep(LONG_S) and alarm.sleep(0.01) is None
    threading.Timer(0.02, alarm.switch_off).start()
    assert alarm.sleep(LONG_S) is None


@pytest.fixture
def sent(monkeypatch):
    sent = []
    monkeypatch.setattr(broadcast, "publish_unconfirmed", lambda messages: sent.extend(messages))
    return sent


@pytest.mark.django_db
def test_only_a_due_time_that_comes_before_the_next_look_is_told(sent, django_capture_on_commit_callbacks, monkeypatch):
    now = clock.near()
    monkeypatch.setattr(clock, "near", lambda: now)  # nothing is late on a busy machine
    with django_capture_on_commit_callbacks(execute=True):
        timers.expect(None)
        timers.expect(soon(LONG_S))
        timers.expect(soon(-1))  # found by the next look, so that nothing goes round at once
    assert sent == []
    with django_capture_on_commit_callbacks(execute=True):
        timers.expect(soon(0.5))
    assert [channel for channel, _ in sent] == [timers.CHANNEL]


@pytest.fixture
def waiting(db, alice, agent):
    def make(seconds, since=None):
        wake_at = (since or clock.near()) + timedelta(seconds=seconds)
        return Run.objects.create(
            agent=agent, principal=alice, status=Run.Status.WAITING, waiting_for="timer", wake_at=wake_at
        )

    return make


def test_the_rows_say_what_is_due_next(waiting):
    now = clock.near()
    assert timers.next_after(now, 1) is None
    later, sooner, _ = (waiting(seconds, since=now) for seconds in (0.8, 0.4, 30))
    assert timers.next_after(now, 1) == sooner.wake_at
    assert timers.next_after(sooner.wake_at, 1) == later.wake_at
    assert timers.next_after(now, 0.1) is None


def test_something_in_a_waiting_run_is_due_before_the_run_itself(waiting):
    run, soonest = waiting(30), soon(0.5)
    timers.bring_forward(run, soonest)
    timers.bring_forward(run, soon(20))
    run.refresh_from_db()
    assert run.wake_at == soonest


def test_the_process_that_ticks_starts_what_is_due_between_two_turns(waiting, monkeypatch):
    done = []
    one = Ticker("one")
    one.renew_at = time.monotonic() + LONG_S

    def start(moment):
        done.append(moment)
        one.alarm.switch_off()

    monkeypatch.setattr(ticker, "ON_TIME", (("waits", start),))
    monkeypatch.setattr(ticker, "attempt", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(Ticker, "do", lambda self, name, work: work() or True)
    run = waiting(3)  # so that it is still to come when the process looks, on a busy machine too
    one.rest(LONG_S)
    assert done == [run.wake_at]


# -- the whole of Muster

BROKEN = "def broken():\n    raise ValueError('again')\n"


@pytest.fixture(scope="module")
def muster(prepared, request):
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        made = Live(directory, "--no-greeting", **database_of(request.config))
        post(made, "functions/", name="broken", source=BROKEN)
        post(made, "functions/broken/publish")
        yield made
        made.stop()


def post(muster, path, **body):
    answer = muster.http.post(f"/api/v1/{path}", json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def events_of(muster, run_id):
    return muster.http.get(f"/api/v1/runs/{run_id}/events", params={"limit": 500}).json()["results"]


def lateness(muster, step):
    """Seconds between each due time of a step and its next start; and those that one attempt takes, for comparison."""
    retry = {"attempts": 6, "backoff_s": 0.3, "max_backoff_s": 0.3, "jitter": 0}
    name = f"again-{step}"
    steps = {"alone": [{"key": "a", "tool": "broken", "retry": retry}]}
    steps["beside"] = [*steps["alone"], {"key": "b", "tool": "broken"}]
    post(muster, "chains/", name=name, steps=steps[step])
    post(muster, f"chains/{name}/publish")
    run = post(muster, f"chains/{name}/runs", input={})["id"]
    wait_for(lambda: muster.http.get(f"/api/v1/runs/{run}").json()["finished_at"], 120)
    seen = [one for one in events_of(muster, run) if one["data"].get("key") == "a"]
    due = [moment(one["data"]["until"]) for one in seen if one["type"] == "step.waiting"]
    begun = [moment(one["at"]) for one in seen if one["type"] == "step.started"]
    assert (len(due), len(begun)) == (5, 6)
    late = [(began - at).total_seconds() for at, began in zip(due, begun[1:], strict=True)]
    ended = [moment(one["at"]) for one in seen if one["type"] == "step.waiting"]
    attempts = [(at - began).total_seconds() for at, began in zip(ended, begun, strict=False)]
    return late, statistics.median(attempts)


def moment(text):
    return datetime.fromisoformat(text)


@pytest.mark.live
@pytest.mark.parametrize("step", ["alone", "beside"])
def test_a_back_off_is_exact(muster, step):
    """On a machine with nothing else to do all are below 0.1 s; on a busy one an attempt takes long, too."""
    late, attempt_s = lateness(muster, step)
    print("seconds late:", [round(one, 3) for one in late], "an attempt:", round(attempt_s, 3))
    assert min(late) >= 0 and statistics.median(late) < LATE_S + 10 * attempt_s


def occurrences(muster):
    return muster.http.get("/api/v1/schedules/once/occurrences/").json()["results"]


@pytest.mark.live
def test_a_schedule_is_on_time(muster):
    post(muster, "chains/", name="once", steps=[{"key": "a", "tool": "broken"}])
    post(muster, "chains/once/publish")
    at = datetime.now().astimezone() + timedelta(seconds=2.35)
    post(muster, "schedules/", name="once", chain="once", at=at.isoformat())
    asked_s = time.monotonic()
    muster.http.get("/api/v1/schedules/once/occurrences/")
    asked_s = time.monotonic() - asked_s  # on a busy machine
    started = wait_for(lambda: [row["run"] for row in occurrences(muster) if row["run"]], 60)
    run = muster.http.get(f"/api/v1/runs/{started[0]}").json()
    late = (moment(run["created_at"]) - at).total_seconds()
    print("seconds late:", round(late, 3))
    assert 0 <= late < LATE_S + 20 * asked_s
