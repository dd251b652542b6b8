"""A cancel reaches whatever a run waits for within a second: its device, its child runs, the devices of those."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from asgiref.sync import sync_to_async

from agents.models import Tool
from devices import calls as device_calls
from devices import catalog
from devices.models import DeviceCall
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import carriers, endings
from tests.devices.scripted import PATIENCE_S, ScriptedDevice, paired
from tests.fakes import calls
from tests.worker import Threads

pytestmark = pytest.mark.django_db(transaction=True)
LIST = calls(("list_directory", {"path": "."}))
ASK = calls(("ask-reader", {"task": "look"}))


@pytest.fixture
def workers(monkeypatch):
    """Each run on a thread of its own, as a worker's."""
    made = Threads()
    monkeypatch.setattr(carriers, "current", lambda: made)
    yield made.threads
    made.join()


@pytest.fixture
def reader(make_agent, stub_provider):
    """An agent that looks into a folder of the device."""
    catalog.ensure_tools()
    return make_agent("reader", tools=[Tool.objects.get(name="list_directory")], provider=stub_provider)


@pytest.fixture
def boss(make_agent, make_tool, stub_provider, reader):
    """One that has the reader do it."""
    tool = make_tool("ask-reader", kind="agent", source={"agent": reader.pk}, input_schema={"type": "object"})
    return make_agent("boss", tools=[tool], provider=stub_provider)


async def becomes(status, **which):
    until = time.monotonic() + PATIENCE_S
    while not await Run.objects.filter(status=status, **which).aexists():
        found = [(run.status, run.waiting_for, run.error) async for run in Run.objects.all()]
        assert time.monotonic() < until, found
        await asyncio.sleep(0.02)


async def cancelled_within_a_second(run, alice, device):
    """Cancel it; the device is told and every run has ended: within a second where the machine is idle."""
    began = time.monotonic()
    await sync_to_async(endings.cancel_run)(run, by=alice, reason="enough")
    while (told := await device.receive())["type"] != "tool_cancel":
        assert told["type"] == "run_complete", told
    while await Run.objects.all().live().aexists():
        await asyncio.sleep(0.01)
    assert time.monotonic() - began < 25  # what is not told of the cancel holds on for thirty
    return told


@asynccontextmanager
async def asked_of_a_device(alice, agent):
    """(the device, the message as it was taken, the call that the device was sent)."""
    _, credential = await sync_to_async(paired)(alice)
    async with ScriptedDevice(credential) as device:
        await device.hello()
        taken = await sync_to_async(intake.accept_message)(user=alice, text="look", agent=agent)
        yield device, taken, await device.expect("tool_call")


@pytest.mark.parametrize(("hold_s", "status"), [(30.0, "running"), (0.1, "waiting")])
async def test_it_reaches_the_device_whether_a_worker_holds_the_run_or_not(
    workers, alice, reader, stub, monkeypatch, hold_s, status
):
    monkeypatch.setattr(device_calls, "HOLD_S", hold_s)
    stub.script(LIST)
    async with asked_of_a_device(alice, "reader") as (device, taken, call):
        await becomes(status)
        told = await cancelled_within_a_second(taken.run, alice, device)
    assert told["id"] == call["id"]
    run = await Run.objects.aget()
    assert (run.status, run.error) == ("cancelled", {"code": "cancelled", "message": "enough"})
    event = await run.events.aget(type="run.cancel_requested")
    assert event.data == {"by": "alice", "reason": "enough"}
    record = await run.tool_calls.aget()
    assert record.outcome in ("failed", "unknown")  # it had reached the device: nobody claims that it was not begun


@pytest.mark.parametrize("hold_s", [30.0, 0.1])
async def test_it_reaches_the_child_run_and_the_device_of_that(workers, alice, boss, stub, monkeypatch, hold_s):
    monkeypatch.setattr(device_calls, "HOLD_S", hold_s)
    stub.script(ASK, LIST)
    async with asked_of_a_device(alice, "boss") as (device, taken, _):
        await becomes("waiting", waiting_for="child")
        await becomes("running" if hold_s > 1 else "waiting", depth=1)
        await cancelled_within_a_second(taken.run, alice, device)
    child = await Run.objects.aget(depth=1)
    parent = await Run.objects.aget(depth=0)
    assert (parent.status, child.status) == ("cancelled", "cancelled")
    assert parent.error["message"] == "enough" and "parent" in child.error["message"]
    assert not await DeviceCall.objects.filter(state__in=["queued", "sent", "running"]).aexists()


async def test_what_the_device_says_afterwards_wakes_nobody(workers, alice, reader, stub, monkeypatch):
    monkeypatch.setattr(device_calls, "HOLD_S", 0.1)
    stub.script(LIST)
    async with asked_of_a_device(alice, "reader") as (device, taken, call):
        await becomes("waiting")
        await cancelled_within_a_second(taken.run, alice, device)
        await device.answer(call, {"entries": []})
        await device.silent()
    run = await Run.objects.aget()
    assert run.status == "cancelled" and len(stub.requests) == 1 and len(workers) == 1
