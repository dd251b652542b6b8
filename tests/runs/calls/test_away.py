"""A run that waits for a device which is away: that time does not count against any deadline."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Tool
from devices import calls as device_calls
from devices import catalog
from devices.models import Device, DeviceCall
from runs.models import Run
from runs.queue import endings
from runs.worker import recovery
from tests.devices.scripted import paired
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
LIST = calls(("list_directory", {"path": "."}))


@pytest.fixture
def agent(alice, make_agent, stub_provider):
    paired(alice)
    Device.objects.update(tools={"list_directory": ""})
    catalog.ensure_tools()
    agent = make_agent(tools=[Tool.objects.get(name="list_directory")], provider=stub_provider)
    return granted(agent, "wait")


def granted(agent, offline):
    agent.grants.update(offline=offline)
    agent.publish(author=agent.owner)
    return agent


@pytest.fixture
def began(time_machine):
    now = timezone.now().replace(microsecond=0)
    time_machine.move_to(now, tick=False)
    return now


@pytest.fixture
def come_back(worker):
    """The device is there again and answers; the worker goes on."""

    def answer():
        DeviceCall.objects.update(state="done", result={"entries": []}, finished_at=timezone.now())
        with worker.capture(execute=True):
            assert endings.wake(DeviceCall.objects.get().run_id, waiting_for="device")
        worker.work()

    return answer


def test_a_device_has_a_day_and_the_runs_time_stands_still(
    worker, alice, agent, stub, began, time_machine, come_back, settings
):
    stub.script(LIST, says("It is empty."))
    run = worker.send_message(alice, "look", agent)
    assert (run.status, run.waiting_for) == ("waiting", "device")
    assert run.wake_at == began + timedelta(seconds=settings.DEVICE_WAIT_S)
    time_machine.shift(timedelta(hours=20))
    assert recovery.tick_recovery(timezone.now())["expired_runs"] == 0
    come_back()
    run.refresh_from_db()
    assert (run.status, run.paused_until) == ("succeeded", None), run.error
    assert run.deadline == began + timedelta(hours=20, seconds=300)


def test_the_chain_above_it_waits_too(
    worker, alice, agent, stub, began, time_machine, come_back, make_chain, run_chain
):
    stub.script(LIST, says("It is empty."))
    run = run_chain(
        make_chain({"key": "look", "agent": "helper", "input": {"message": {"value": "look"}}}, timeout=600)
    )
    time_machine.shift(timedelta(hours=20))
    with worker.capture(execute=True):
        assert recovery.tick_recovery(timezone.now())["expired_runs"] == 0
    worker.work()
    come_back()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert run.deadline == began + timedelta(hours=20, seconds=600)


def test_a_device_that_never_comes_fails_the_call_and_the_run_goes_on(
    worker, alice, agent, stub, began, time_machine, settings
):
    stub.script(LIST, says("Your laptop is away."))
    run = worker.send_message(alice, "look", agent)
    time_machine.shift(timedelta(seconds=settings.DEVICE_WAIT_S + 1))
    with worker.capture(execute=True):
        assert recovery.tick_recovery(timezone.now())["expired_runs"] == 0
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and run.tool_calls.get().error["code"] == "device_offline"


def test_a_call_that_does_not_wait_for_its_device_leaves_the_deadline(worker, alice, agent, stub, began):
    assert device_calls.waits_until(Run().pk) is None
    granted(agent, "fail")
    stub.script(LIST, says("Your laptop is away."))
    run = worker.send_message(alice, "look", agent)
    assert run.status == "succeeded" and run.deadline == began + timedelta(seconds=300)


def test_an_answer_whose_web_server_was_killed_before_it_woke_the_run_is_found(worker, alice, agent, stub, began):
    stub.script(LIST, says("It is empty."))
    run = worker.send_message(alice, "look", agent)
    with worker.capture(execute=True):
        assert recovery.tick_recovery(timezone.now())["answered"] == 0
    DeviceCall.objects.update(state="done", result={"entries": []}, finished_at=timezone.now())
    with worker.capture(execute=True):
        assert recovery.tick_recovery(timezone.now())["answered"] == 1
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert recovery.tick_recovery(timezone.now())["answered"] == 0
