"""Device calls that are cancelled, and what a device hears of the end of a run."""

import uuid

import pytest
from asgiref.sync import sync_to_async

from devices import calls
from devices.models import Notice
from plumbing.broker import broadcast
from tests.devices.calls.test_lost_sockets import fallen
from tests.devices.calls.waiting import State, row_of, settled
from tests.devices.scripted import PATIENCE_S, ScriptedDevice, asking, is_pending

pytestmark = pytest.mark.django_db(transaction=True)


# -- cancelling, completing
async def test_cancelling_a_run_stops_its_tool(alice, laptop):
    id, run = str(uuid.uuid4()), str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, run_id=run, deadline_s=30.0)
        await device.expect("tool_call")
        await sync_to_async(calls.cancel_run)(run, "no longer needed")
        cancel = await device.expect("tool_cancel")
        assert (cancel["id"], cancel["reason"]) == (id, "no longer needed")
        error = {"code": "cancelled", "message": "stopped"}
        await device.send(type="tool_result", id=id, ok=False, error=error)
        assert (await asked).error["code"] == "cancelled"
    assert (await row_of(id)).state == State.CANCELLED


async def test_a_call_cancelled_while_the_device_was_away_is_not_sent_again(alice, laptop, short_hold):
    id = await fallen(alice, laptop, run_id=(run := str(uuid.uuid4())), deadline_s=30.0)
    await sync_to_async(calls.cancel_run)(run, "stop")
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        assert await device.silent()
    assert (await row_of(id)).state == State.CANCELLED


async def test_a_device_is_told_of_the_end_of_the_run_at_once_or_when_it_is_back(alice, laptop):
    run = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, run_id=run)
        await device.answer(await device.expect("tool_call"), 1)
        await asked
        await sync_to_async(calls.complete_run)(run, "succeeded", {"created": 2}, "two tasks")
        told = await device.expect("run_complete")
    assert (told["run_context"]["run"], told["status"], told["counts"]) == (run, "succeeded", {"created": 2})
    await sync_to_async(calls.complete_run)(run, "failed", {}, "it \0 broke")
    assert await Notice.objects.acount() == 1
    async with ScriptedDevice(device.credential) as device:
        await device.hello()
        assert (await device.expect("run_complete"))["status"] == "failed"
    assert await Notice.objects.acount() == 0


async def test_a_call_arrives_though_the_connection_to_the_broker_was_cut_before(alice, laptop, monkeypatch):
    """No sweep comes to its help: the call itself must notice that the broker did not get it."""
    monkeypatch.setattr("devices.sweeping.SWEEP_S", 3600.0)
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        first = asking(alice)  # opens the connections that are cut now
        await device.answer(await device.expect("tool_call"), 1)
        await first
        await sync_to_async(broadcast.server_connection().ask)(("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"))
        second = asking(alice)
        await device.answer(await device.expect("tool_call", within=PATIENCE_S), 2)
        assert (await second).value == 2


async def test_a_frame_the_layer_lost_is_sent_again_by_the_sweep(alice, laptop, monkeypatch, short_hold):
    monkeypatch.setattr(
        "plumbing.broker.broadcast.publish_message", lambda channel, message: True
    )  # says yes, sends nothing
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, deadline_s=30.0)
        assert is_pending(await asked)
        call = await device.expect("tool_call", within=PATIENCE_S)
        assert call["id"] == id
        await device.answer(call, "after all")
        await settled(id)
