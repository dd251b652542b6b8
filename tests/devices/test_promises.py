"""What docs/protocol.md says a client may rely on after its death, without a journal, and for odd frames."""

import uuid

import pytest
from asgiref.sync import sync_to_async

from devices import calls
from devices.models import Device, DeviceCall, OfferedTool
from tests.devices.calls.waiting import fallen, row_of, settled, state_becomes
from tests.devices.scripted import ScriptedDevice, asking, is_pending, is_unknown, paired

pytestmark = pytest.mark.django_db(transaction=True)
State = DeviceCall.State
OFFER = {"name": "shout", "description": "Loud", "input_schema": {"type": "object"}}


@pytest.fixture(autouse=True)
def short_hold(monkeypatch):
    monkeypatch.setattr(calls, "HOLD_S", 0.5)


@pytest.fixture
async def laptop(alice):
    return await sync_to_async(paired)(alice)


# -- after its death in a call


async def test_a_call_that_it_does_not_list_is_sent_again_with_its_id_and_the_next_attempt(alice, laptop):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)  # even an acknowledged one
    async with ScriptedDevice(laptop[1]) as device:
        assert (await device.hello()).get("resend", []) == []
        call = await device.expect("tool_call")
        assert (call["id"], call["attempt"]) == (id, 2)


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_the_result_of_a_call_that_it_lists_as_ended_is_requested_and_the_call_not_sent(alice, laptop, state):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        assert (await device.hello(unfinished=[{"id": id, "state": state}]))["resend"] == [id]
        assert await device.silent()


async def test_what_it_cannot_tell_it_answers_with_outcome_unknown(alice, laptop):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(unfinished=[{"id": id, "state": "failed"}])
        error = {"code": "outcome_unknown", "message": "the client stopped while this ran"}
        await device.send(type="tool_result", id=id, ok=False, error=error)
        await settled(id)
    assert is_unknown(await asking(alice, id=id))


async def test_a_call_that_it_lists_as_running_is_neither_sent_nor_requested(alice, laptop):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        assert (await device.hello(unfinished=[{"id": id, "state": "running"}])).get("resend", []) == []
        assert await device.silent()
    assert not (await row_of(id)).is_settled


# -- without journal_id


async def test_without_a_journal_id_its_calls_are_sent_again_as_if_the_journal_had_survived(alice, laptop):
    await Device.objects.aupdate(journal_id="")
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(journal_id=None)
        asked = asking(alice, id=id, deadline_s=30.0)
        await device.expect("tool_call")
        assert is_pending(await asked)
        credential = device.credential
    await state_becomes(id, State.UNKNOWN)
    async with ScriptedDevice(credential) as device:
        await device.hello(journal_id=None)
        assert (await device.expect("tool_call"))["id"] == id


@pytest.mark.parametrize("now", ["j2", None])
async def test_another_journal_id_or_none_any_more_means_that_the_journal_is_lost(alice, laptop, now):
    id = await fallen(alice, laptop, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(journal_id=now)
        assert await device.silent()
    assert (await row_of(id)).state == State.UNKNOWN


# -- a second hello


async def test_a_second_hello_replaces_the_first_and_gives_no_credential(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        assert (await device.hello(offers=[OFFER]))["credential"]
        second = await device.hello(tools=[{"name": "list_directory"}], name="renamed")
        assert second.get("credential") is None
        row = await Device.objects.aget()
        assert (row.tools, row.name) == ({"list_directory": ""}, "renamed")
        assert not await OfferedTool.objects.filter(is_offered=True).aexists()
        await device.send(type="ping")
        await device.expect("pong")


async def test_a_second_hello_that_does_not_list_a_running_call_gets_it_again(alice, laptop):
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, deadline_s=30.0)
        await device.expect("tool_call")
        await device.send(type="tool_ack", id=id)
        await state_becomes(id, State.ACKED)
        await device.hello(unfinished=[{"id": id, "state": "running"}])
        assert await device.silent()
        await device.hello()
        call = await device.expect("tool_call")
        assert (call["id"], call["attempt"]) == (id, 2)
        assert is_pending(await asked)


# -- binary frames and unknown ids


async def test_a_binary_frame_counts_as_a_bad_one(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        for _ in range(9):
            await device.socket.send_to(bytes_data=b'{"type": "ping"}')
            assert (await device.expect("error"))["code"] == "not_json"
        await device.send(type="ping")
        await device.expect("pong")
        await device.socket.send_to(bytes_data=b"\x00")
        assert (await device.closed())["code"] == 4400


async def test_frames_about_calls_that_the_server_does_not_know_are_ignored(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        ids = ["no uuid", "", str(uuid.uuid4())]
        ack = await device.hello(unfinished=[{"id": id, "state": "done"} for id in ids])
        assert ack.get("resend", []) == []
        for id in ids:
            await device.send(type="tool_ack", id=id)
            await device.send(type="tool_progress", id=id, message="x")
            await device.send(type="tool_result", id=id, ok=True, result=1)
        for _ in range(10):  # they do not count as bad frames either
            await device.send(type="tool_result", id=str(uuid.uuid4()), ok=True, result=1)
        await device.send(type="ping")
        await device.expect("pong")
    assert not await DeviceCall.objects.aexists()
