"""Device calls whose socket is lost before their answer."""

import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from devices import calls, presence
from tests.devices.calls.waiting import State, fallen, row_of, row_that, settled
from tests.devices.scripted import ScriptedDevice, asking, is_pending, is_unknown

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_call_the_device_never_saw_is_sent_again_under_its_id(alice, laptop, short_hold):
    id = await fallen(alice, laptop, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        ack = await device.hello()
        assert ack.get("resend", []) == []
        call = await device.expect("tool_call")
        assert (call["id"], call["attempt"]) == (id, 2)
        await device.answer(call, "done once")
        assert (await settled(id)).result == "done once"


async def test_a_call_that_was_done_meanwhile_is_asked_for_not_sent_again(alice, laptop, short_hold):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        ack = await device.hello(unfinished=[{"id": id, "state": "done"}])
        assert ack["resend"] == [id]
        assert await device.silent()
        await device.send(type="tool_result", id=id, ok=True, result="from the journal")
        assert (await settled(id)).result == "from the journal"


async def test_a_call_that_still_runs_is_left_to_run(alice, laptop, short_hold):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(unfinished=[{"id": id, "state": "running"}])
        assert await device.silent()
        assert (await row_of(id)).state == State.ACKED
        await device.send(type="tool_result", id=id, ok=True, result=1)
        await settled(id)


async def test_a_device_that_lost_its_journal_is_not_sent_the_call_again(alice, laptop, short_hold):
    id = await fallen(alice, laptop, deadline_s=30.0)
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(journal_id="another")
        assert await device.silent()
        row = await row_of(id)
        assert (row.state, row.is_settled) == (State.UNKNOWN, False)
        assert is_pending(await asking(alice, id=id)), "unknown reaches the model at the deadline, not before"
        await sync_to_async(calls.expire_due)(row.deadline + timedelta(seconds=1))
        assert is_unknown(await asking(alice, id=id))


@pytest.mark.parametrize(("effect", "may_repeat"), [("read", True), ("idempotent", True), ("write", False)])
async def test_a_deadline_is_no_riddle_for_a_tool_that_only_reads(
    alice, laptop, effect, may_repeat, monkeypatch, short_hold
):
    """It may be called again; of any other nobody knows. Either way the row says what is known of this one."""
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, deadline_s=30.0, effect=effect)
        await device.expect("tool_call")
        await device.send(type="tool_ack", id=id)
        assert is_pending(await asked)
        await sync_to_async(calls.expire_due)(timezone.now() + timedelta(seconds=31))
        answer = await asking(alice, id=id, deadline_s=30.0, effect=effect)
        if may_repeat:
            assert (answer.ok, answer.error["code"]) == (False, "deadline")
            monkeypatch.setattr(calls, "HOLD_S", 30.0)
            again = asking(alice, effect=effect)
            await device.expect("tool_cancel")
            await device.answer(await device.expect("tool_call"), "the second time")
            assert (await again).value == "the second time"
        else:
            assert is_unknown(answer)
    assert (await row_of(id)).state == State.UNKNOWN


async def test_an_answer_after_the_deadline_is_kept_as_late(alice, laptop, short_hold):
    id = await fallen(alice, laptop, acked=True, deadline_s=30.0)
    await sync_to_async(calls.expire_due)(timezone.now() + timedelta(seconds=31))
    assert is_unknown(await asking(alice, id=id))
    async with ScriptedDevice(laptop[1]) as device:
        ack = await device.hello(unfinished=[{"id": id, "state": "done"}])
        assert ack["resend"] == [id]
        await device.send(type="tool_result", id=id, ok=True, result="late")
        row = await row_that(id, lambda row: row.late)
    assert (row.state, row.result, row.late) == (State.DONE, "late", True)
    answer = await asking(alice, id=id)
    assert answer.value == "late", "a run that asks again uses it"


async def test_a_server_that_died_with_its_sockets_leaves_no_device_online(alice, laptop, settings):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        now = timezone.now() + timedelta(seconds=settings.DEVICE_HEARTBEAT_S * 2 + 1)
        assert await sync_to_async(presence.is_online)(alice.pk)
        assert await sync_to_async(presence.sweep)(now) == 1
        assert not await sync_to_async(presence.is_online)(alice.pk)
