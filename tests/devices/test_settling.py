"""Messages of devices that are written a little later."""

import asyncio
import uuid

from django.utils import timezone

from devices import protocol
from devices.settling import ACK_S, Arrival, Settler


def test_an_ack_is_written_though_the_event_loop_of_an_earlier_one_has_ended():
    settler, done = Settler(), []
    settler.do = done.append

    async def acknowledge(wait_s):
        settler.put(Arrival(uuid.uuid4(), protocol.ToolAck(str(uuid.uuid4())), timezone.now()))
        await asyncio.sleep(wait_s)

    asyncio.run(acknowledge(0))
    asyncio.run(acknowledge(3 * ACK_S))
    assert done
