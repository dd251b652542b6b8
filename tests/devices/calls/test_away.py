"""Device calls whose device is away."""

import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from devices import calls
from devices.models import Device, DeviceCall
from tests.devices.calls.test_lost_sockets import fallen
from tests.devices.calls.waiting import State, row_of, settled
from tests.devices.scripted import ScriptedDevice, ask, asking, is_pending, is_unknown, paired

pytestmark = pytest.mark.django_db(transaction=True)


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
    id = await fallen(alice, laptop, offline="wait", deadline_s=300.0, effect="write")
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
            assert (await device.expect("tool_call"))["timeout_s"] == pytest.approx(300, abs=60)
        left = (await row_of(id)).deadline - timezone.now()
        assert timedelta(seconds=200) < left <= timedelta(seconds=300), "its whole time again"
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
