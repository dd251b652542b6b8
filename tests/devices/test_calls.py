"""The life of a device call, through the real toolset, layer and consumer. The device does what the test says."""

import asyncio
import time
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from devices import calls, presence
from devices.models import Device, DeviceCall, Notice, Record
from tests.devices.scripted import PATIENCE_S, ScriptedDevice, ask, asking, is_pending, is_unknown, paired

pytestmark = pytest.mark.django_db(transaction=True)
State = DeviceCall.State


@pytest.fixture(autouse=True)
def long_hold(settings):
    """An answer that comes is waited for, however busy the machine is."""
    settings.DEVICE_HOLD_S = 30.0


@pytest.fixture
def short_hold(settings, long_hold):
    """For calls that a worker lets go of because no answer comes."""
    settings.DEVICE_HOLD_S = 0.5


async def row_of(id) -> DeviceCall:
    return await DeviceCall.objects.aget(pk=id)


async def settled(id) -> DeviceCall:
    """The row, once its result is written."""
    return await row_that(id, lambda row: row.is_settled and (row.result is not None or row.error is not None))


async def state_becomes(id, state) -> DeviceCall:
    return await row_that(id, lambda row: row.state == state)


async def row_that(id, is_so) -> DeviceCall:
    """The row, once it is so."""
    until = time.monotonic() + PATIENCE_S
    while not is_so(row := await row_of(id)):
        assert time.monotonic() < until, f"still {row.state}"
        await asyncio.sleep(0.02)
    return row


@pytest.fixture
async def laptop(alice):
    return await sync_to_async(paired)(alice)


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


# -- when the socket falls --------------------------------------------------------------------------------------------


async def fallen(alice, laptop, *, acked: bool = False, **more) -> str:
    """A call that was sent to a device whose socket then fell; under a short hold."""
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, **more)
        await device.expect("tool_call")
        if acked:
            await device.send(type="tool_ack", id=id)
            await state_becomes(id, State.ACKED)
        assert is_pending(await asked)
    await state_becomes(id, State.UNKNOWN)
    return id


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
    alice, laptop, effect, may_repeat, settings, short_hold
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
            settings.DEVICE_HOLD_S = 30.0
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


# -- away -------------------------------------------------------------------------------------------------------------


def test_without_a_device_the_error_says_so(alice):
    assert ask(alice).code == "no_device"


def test_an_offline_device_fails_the_call_at_once(alice):
    paired(alice)
    Device.objects.update(tools={"list_directory": ""})
    answer = ask(alice)
    assert answer.code == "device_offline"
    assert not DeviceCall.objects.exists()


def test_another_persons_device_cannot_be_chosen(alice, charlie):
    device, _ = paired(alice)
    Device.objects.update(tools={"list_directory": ""})
    assert ask(charlie, device=str(device.pk)).code == "device_unknown"


async def test_a_call_that_waits_for_its_device_is_sent_when_it_comes(alice, laptop, short_hold):
    id = str(uuid.uuid4())
    await Device.objects.aupdate(tools={"list_directory": ""})
    assert is_pending(await asking(alice, id=id, offline="wait"))
    assert (await row_of(id)).state == State.QUEUED
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        call = await device.expect("tool_call")
        assert (call["id"], call["attempt"]) == (id, 1)
        assert call["timeout_s"] == 30.0, "it gets its full time now"
        await device.answer(call, "at last")
        await settled(id)
    assert (await asking(alice, id=id, offline="wait")).value == "at last"


async def test_a_waiting_call_whose_device_never_comes_expires_undone(alice, laptop, settings):
    id = str(uuid.uuid4())
    await Device.objects.aupdate(tools={"list_directory": ""})
    await asking(alice, id=id, offline="wait")
    later = timezone.now() + timedelta(seconds=settings.DEVICE_WAIT_S + 1)
    await sync_to_async(calls.expire_due)(later)
    answer = await asking(alice, id=id, offline="wait")
    assert (answer.ok, answer.error["code"]) == (False, "device_offline")
    assert (await row_of(id)).state == State.EXPIRED


@pytest.mark.parametrize("seen", [[], [("running", "tool_ack")]])
async def test_the_time_limit_of_a_waiting_call_stands_still_while_its_device_is_away(alice, laptop, short_hold, seen):
    id = await fallen(alice, laptop, offline="wait", deadline_s=30.0, effect="write")
    passed = timezone.now() - timedelta(seconds=5)
    await DeviceCall.objects.filter(pk=id).aupdate(deadline=passed)
    assert await sync_to_async(calls.expire_due)() == []
    row = await row_of(id)
    assert (row.is_settled, row.deadline) == (False, calls.latest_deadline(row))
    pending = await asking(alice, id=id, offline="wait", effect="write")
    assert is_pending(pending) and pending.until == row.deadline
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(unfinished=[{"id": id, "state": state} for state, _ in seen])
        if not seen:
            assert (await device.expect("tool_call"))["timeout_s"] == pytest.approx(30, abs=2)
        left = (await row_of(id)).deadline - timezone.now()
        assert timedelta(seconds=20) < left <= timedelta(seconds=30), "its whole time again"
        await device.send(type="tool_result", id=id, ok=True, result="once")
        row = await settled(id)
    assert (row.result, row.late) == ("once", False)


async def test_a_waiting_call_waits_for_no_device_that_lost_its_journal_or_was_revoked(alice, laptop, short_hold):
    lost = await fallen(alice, laptop, offline="wait", deadline_s=30.0, effect="write")
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(journal_id="another")
        await sync_to_async(calls.expire_due)(timezone.now() + timedelta(seconds=1))
        assert (await row_of(lost)).is_settled
    revoked = await fallen(alice, laptop, offline="wait", deadline_s=30.0, effect="write")
    await sync_to_async(laptop[0].revoke)(reason="lost")
    await sync_to_async(calls.expire_due)(timezone.now() + timedelta(seconds=1))
    assert (await row_of(revoked)).is_settled
    assert is_unknown(await asking(alice, id=lost, offline="wait", effect="write"))


async def test_a_waiting_call_s_time_passes_while_its_device_is_there(alice, laptop, short_hold):
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, offline="wait", deadline_s=30.0, effect="write")
        await device.expect("tool_call")
        assert is_pending(await asked)
        await DeviceCall.objects.filter(pk=id).aupdate(deadline=timezone.now() - timedelta(seconds=1))
        await sync_to_async(calls.expire_due)()
        assert is_unknown(await asking(alice, id=id, offline="wait", effect="write"))


async def test_no_call_waits_longer_for_its_device_than_the_setting_says(alice, laptop, short_hold, settings):
    id = await fallen(alice, laptop, offline="wait", deadline_s=30.0, effect="write")
    long_ago = timezone.now() - timedelta(seconds=settings.DEVICE_WAIT_S + 60)
    await DeviceCall.objects.filter(pk=id).aupdate(created_at=long_ago, deadline=timezone.now())
    await sync_to_async(calls.expire_due)(timezone.now() + timedelta(seconds=1))
    assert (await row_of(id)).is_settled


async def test_any_device_that_offers_the_tool_may_stand_in(alice, laptop):
    other = await sync_to_async(paired)(alice, "desktop")
    await Device.objects.aupdate(tools={"list_directory": ""})
    async with ScriptedDevice(other[1]) as device:
        await device.hello()
        asked = asking(alice, device=str(laptop[0].pk), offline="any")
        await device.answer(await device.expect("tool_call"), "from the desktop")
        assert (await asked).value == "from the desktop"


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


async def test_a_frame_the_layer_lost_is_sent_again_by_the_sweep(alice, laptop, monkeypatch, short_hold):
    monkeypatch.setattr("plumbing.broadcast.publish", lambda channel, message: True)  # says yes, sends nothing
    id = str(uuid.uuid4())
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        asked = asking(alice, id=id, deadline_s=30.0)
        assert is_pending(await asked)
        call = await device.expect("tool_call", within=PATIENCE_S)
        assert call["id"] == id
        await device.answer(call, "after all")
        await settled(id)


# -- records on the server ---------------------------------------------------------------------------------------------


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
