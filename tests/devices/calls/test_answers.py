"""Device calls through the real toolset, layer and consumer: sent, answered, and settled once."""

import asyncio
import time
import uuid

import pytest
from asgiref.sync import sync_to_async

from devices.models import Record
from tests.devices.calls.waiting import State, row_of, settled
from tests.devices.scripted import PATIENCE_S, ScriptedDevice, ask, asking, is_pending, is_unknown, paired

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_call_goes_to_the_device_and_its_answer_comes_back(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, arguments={"path": "sub"}, run_id=str(uuid.uuid4()))
        call = await device.expect("tool_call")
        assert (call["name"], call["args"], call["attempt"]) == ("list_directory", {"path": "sub"}, 1)
        assert call["run_context"]["agent"] == "librarian"
        assert 15 < call["timeout_s"] <= 30
        await device.answer(call, {"entries": []})
        answer = await asked
    assert (answer.ok, answer.value) == (True, {"entries": []})
    assert (await row_of(call["id"])).state == State.DONE


async def test_a_failing_tool_is_a_failed_call_with_the_devices_reason(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice)
        call = await device.expect("tool_call")
        error = {"code": "not_found", "message": "there is no “x”"}
        await device.send(type="tool_result", id=call["id"], ok=False, error=error)
        answer = await asked
    assert (answer.ok, answer.error) == (False, error)


async def test_a_slow_device_frees_the_worker_and_the_same_call_finds_its_answer(alice, laptop, short_hold):
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id)
        call = await device.expect("tool_call")
        assert is_pending(await asked)
        assert (await row_of(id)).is_awaited
        await device.answer(call, {"entries": [1]})
        await settled(id)
        again = await asking(alice, id=id)
        assert again.value == {"entries": [1]}
        assert await device.silent()


async def test_a_run_is_woken_by_the_answer_it_waits_for(alice, laptop, monkeypatch, short_hold):
    from devices.settling import SETTLER

    woken = []
    id, run = str(uuid.uuid4()), str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        monkeypatch.setattr(SETTLER, "on_settled", woken.append)
        asked = asking(alice, id=id, run_id=run)
        call = await device.expect("tool_call")
        assert is_pending(await asked)
        await device.answer(call, 1)
        await settled(id)
        until = time.monotonic() + PATIENCE_S
        while not woken and time.monotonic() < until:
            await asyncio.sleep(0.02)
    assert [str(one) for one in woken] == [run]


async def test_a_result_that_was_doubled_or_came_from_another_device_changes_nothing(alice, bob, laptop):
    other = await sync_to_async(paired)(bob)
    async with ScriptedDevice(laptop[1]) as device, ScriptedDevice(other[1]) as stranger:
        await device.hello()
        await stranger.hello()
        asked = asking(alice)
        call = await device.expect("tool_call")
        await stranger.send(type="tool_result", id=call["id"], ok=True, result="forged")
        await asyncio.sleep(0.3)
        assert (await row_of(call["id"])).state != State.DONE
        await device.answer(call, "first")
        await device.answer(call, "second")
        assert (await asked).value == "first"
        await asyncio.sleep(0.3)
        assert (await row_of(call["id"])).result == "first"


async def test_frames_in_the_wrong_order_lose_nothing(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice)
        call = await device.expect("tool_call")
        await device.send(type="tool_result", id=call["id"], ok=True, result=7)
        await device.send(type="tool_ack", id=call["id"])
        assert (await asked).value == 7
        await asyncio.sleep(0.3)
        assert (await row_of(call["id"])).state == State.DONE


# -- records on the server -----------------------------------------------------------------------------------------------


def test_people_without_a_device_have_their_records_on_the_server(alice, charlie):
    made = ask(alice, "create_task", arguments={"title": "Buy milk"})
    assert made.counts == {"created": 1}
    task = made.value["task"]
    assert (task["isAiSuggested"], task["isApproved"], task["state"]) == (1, 0, "ToDo")
    updated = ask(alice, "update_task", arguments={"task_id": task["id"], "state": "Completed"})
    assert updated.counts == {"updated": 1}
    assert ask(alice, "list_tasks", arguments={"state": "Completed"}).value["tasks"][0]["title"] == "Buy milk"
    assert ask(charlie, "list_tasks", arguments={"limit": 5}).value["tasks"] == []
    assert ask(charlie, "update_task", arguments={"task_id": task["id"], "title": "Mine"}).code == "not_found"


async def test_a_call_that_went_to_a_device_never_moves_to_the_server(alice, laptop, short_hold):
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, "create_task", id=id, arguments={"title": "Buy milk"})
        await device.expect("tool_call")
        assert is_pending(await asked)
    await sync_to_async(laptop[0].revoke)(reason="test")
    assert is_unknown(await asking(alice, "create_task", id=id, arguments={"title": "Buy milk"}))
    assert not await Record.objects.aexists(), "nobody knows whether the device made it"


def test_a_record_call_made_again_makes_no_second_record(alice):
    id = str(uuid.uuid4())
    first = ask(alice, "create_note", id=id, arguments={"title": "a", "content": "b"})
    assert ask(alice, "create_note", id=id, arguments={"title": "a", "content": "b"}).value == first.value
    assert Record.objects.count() == 1
