"""A deactivated account: its devices lose their sockets, and start nothing."""

import pytest
from asgiref.sync import sync_to_async

from agents.exceptions import Forbidden
from devices.models import Device
from devices.protocol import RunRequest
from plumbing.sockets import RESTART
from runs.schedules.device_runs import start_for_device
from tests.devices.scripted import ScriptedDevice, paired

pytestmark = pytest.mark.django_db(transaction=True)


def deactivate(person):
    type(person).objects.filter(pk=person.pk).update(is_active=False)


async def test_an_open_socket_is_closed_and_the_device_may_come_back_with_the_account(alice, bob):
    laptop, theirs = await sync_to_async(paired)(alice), await sync_to_async(paired)(bob)
    async with ScriptedDevice(laptop[1]) as device, ScriptedDevice(theirs[1]) as neighbour:
        await device.hello()
        await neighbour.hello()
        await sync_to_async(deactivate)(alice)
        assert (await device.closed())["code"] == RESTART
        await neighbour.send(type="ping")
        await neighbour.expect("pong")
    async with ScriptedDevice(device.credential) as device:
        assert not device.is_open
    await Device.objects.filter(pk=laptop[0].pk, revoked_at=None).aget()


def test_it_starts_no_run(alice, agent):
    device, _ = paired(alice)
    deactivate(alice)
    with pytest.raises(Forbidden):
        start_for_device(device.pk, RunRequest(agent=agent.name, input="go"))
