"""Waits until the row of a device call is as a test expects it."""

import asyncio
import time
import uuid

from devices.models import DeviceCall
from tests.devices.scripted import PATIENCE_S, ScriptedDevice, asking, is_pending

State = DeviceCall.State


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
