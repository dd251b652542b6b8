"""Many due times at once: those that waited for a device, one tick's many, two ticks at one time."""

import threading

import pytest
from django.db import connection
from django.utils import timezone

from devices.models import Device
from runs.models import Run, ScheduleOccurrence
from runs.queue import carriers
from runs.schedules import occurrences, pending
from runs.schedules import tick as schedules
from runs.worker import tasks
from tests.schedules import HOUR, MINUTE, START, table
from tests.worker import Silent

pytestmark = pytest.mark.django_db


@pytest.fixture
def laptop(alice):
    """Alice's device, which is not connected; `online(True)` connects it."""
    device = Device.objects.create(owner=alice, name="laptop")

    def online(is_there):
        Device.objects.filter(pk=device.pk).update(socket="s" if is_there else "", last_seen=timezone.now())

    device.online = online
    return device


def test_what_waited_for_a_device_starts_one_after_the_other(make_schedule, tick, worker, laptop):
    first = make_schedule("first", wait_for_device=True)
    second = make_schedule("second", wait_for_device=True, device=laptop.pk, now=START - HOUR + MINUTE)
    third = make_schedule("third", wait_for_device=True, line="30 * * * *")
    tick(START + MINUTE)
    tick(START + 31 * MINUTE)
    assert table(first) == table(second) == [("01 08:00", "waiting_device")]
    assert "come online" in schedules.why_not(first)
    laptop.online(True)
    assert pending.release_waiting_occurrences(laptop.owner_id) == 2, "one for this device, one for any"
    tick(START + 32 * MINUTE, work=False)
    assert table(first) == table(second) == [("01 08:00", "started")]
    assert table(third) == [("01 08:30", "waiting_device")], "the first is still at work"
    worker.work()
    tick(START + 33 * MINUTE)
    assert table(first) == [("01 08:00", "succeeded")]
    tick(START + 34 * MINUTE)
    assert table(third) == [("01 08:30", "succeeded")]


def test_missed_times_of_one_schedule_start_one_after_the_other_too(make_schedule, tick, worker, laptop):
    schedule = make_schedule(wait_for_device=True, overlap_policy="skip")
    tick(START)
    tick(START + HOUR)
    assert [outcome for _, outcome in table(schedule)] == ["waiting_device", "waiting_device"]
    laptop.online(True)
    tick(START + HOUR + MINUTE, work=False)
    assert [outcome for _, outcome in table(schedule)] == ["started", "waiting_device"]
    worker.work()
    for minutes in range(2, 5):
        tick(START + HOUR + minutes * MINUTE)
    assert [outcome for _, outcome in table(schedule)] == ["succeeded", "succeeded"], "neither was left out"


def test_a_device_that_leaves_again_keeps_the_rest_waiting(make_schedule, tick, worker, laptop):
    schedule = make_schedule(wait_for_device=True)
    tick(START)
    tick(START + HOUR)
    laptop.online(True)
    tick(START + HOUR + MINUTE)
    laptop.online(False)
    for minutes in range(2, 5):
        tick(START + HOUR + minutes * MINUTE)
    assert [outcome for _, outcome in table(schedule)] == ["succeeded", "waiting_device"]


def test_many_due_at_once_start_in_a_few_statements(make_schedule, make_chain, tick, django_assert_max_num_queries):
    chain = make_chain({"key": "a", "tool": "one"})
    agents = [make_schedule(f"a{number}") for number in range(20)]
    chains = [make_schedule(f"c{number}", agent=None, chain=chain, text="") for number in range(20)]
    with django_assert_max_num_queries(45):
        tick(START, work=False)
    for schedule in agents + chains:
        [occurrence] = ScheduleOccurrence.objects.filter(schedule=schedule)
        assert (occurrence.outcome, occurrence.run.status, occurrence.attempts) == ("started", "queued", 1)
        assert occurrence.run.events.count() == 1
    first = ScheduleOccurrence.objects.get(schedule=agents[0]).run
    [message] = first.session.messages.all()
    assert (message.seq, first.session.last_seq, first.session.agent.name) == (1, 1, "clerk")
    assert (message.content, message.run_id) == ([{"type": "text", "text": "Good morning"}], first.pk)
    tick(START + MINUTE)
    first.refresh_from_db()
    assert first.status == "succeeded"


def test_one_that_cannot_start_keeps_no_other_from_starting(make_schedule, make_chain, tick):
    good = make_chain({"key": "a", "tool": "one"}, name="good")
    picky = make_chain(
        {"key": "a", "tool": "one"}, name="picky", input_schema={"type": "object", "required": ["folder"]}
    )
    made = {chain: make_schedule(chain.name, agent=None, chain=chain, text="") for chain in (picky, good)}
    tick(START, work=False)
    assert [table(made[chain])[0][1] for chain in (picky, good)] == ["refused", "started"]
    assert "input" in ScheduleOccurrence.objects.get(schedule=made[picky]).reason


def test_input_that_is_no_object_is_refused_and_stops_no_tick(make_schedule, make_chain, tick):
    asks = {"type": "object", "properties": {"last_run_at": {"type": "string"}}}
    told = make_chain({"key": "a", "tool": "one"}, name="told", input_schema=asks)
    made = [make_schedule("list", agent=None, chain=told, text="", input=[1]), make_schedule("plain")]
    tick(START, work=False)
    assert [table(schedule)[0][1] for schedule in made] == ["refused", "started"]
    assert "input_invalid" in ScheduleOccurrence.objects.get(schedule=made[0]).reason


def test_what_nobody_foresaw_keeps_no_other_from_starting(make_schedule, make_chain, tick, monkeypatch):
    made = [make_schedule("odd", text="odd"), make_schedule("plain")]
    order = occurrences.order
    monkeypatch.setattr(occurrences, "order", lambda row: 1 / 0 if row.schedule.text == "odd" else order(row))
    for seconds in range(3):
        tick(START + seconds * MINUTE / 60, work=False)
    assert [table(schedule)[0][1] for schedule in made] == ["refused", "started"]
    assert "the server's log has the reason" in ScheduleOccurrence.objects.get(schedule=made[0]).reason


@pytest.mark.parametrize("target", ["agent", "chain"])
@pytest.mark.django_db(transaction=True)
def test_two_ticks_at_once_start_each_due_time_once(make_schedule, make_chain, monkeypatch, target):
    monkeypatch.setattr(carriers, "current", Silent)
    fields = {} if target == "agent" else {"agent": None, "text": "", "chain": make_chain({"key": "a", "tool": "one"})}
    made = [make_schedule(f"s{number}", **fields) for number in range(8)]
    barrier = threading.Barrier(3)

    def beat():
        barrier.wait()
        try:
            schedules.tick_schedules(START)
        finally:
            connection.close()

    threads = [threading.Thread(target=beat) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.objects.count() == len(made)
    assert ScheduleOccurrence.objects.filter(outcome="started").count() == len(made)


def test_a_second_with_nothing_due_costs_four_statements(make_schedule, django_assert_num_queries):
    """And on PostgreSQL two times of its clock."""
    make_schedule(now=timezone.now() + HOUR)  # not even at the end of an hour
    tasks.tick()  # compiles them
    with django_assert_num_queries(6 if connection.vendor == "postgresql" else 4):
        tasks.tick()
