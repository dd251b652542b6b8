"""One task per server process that checks all its device sockets: silence, lost notifications,
missed revocations.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import DateTimeField

from devices import calls, presence, protocol
from devices.models import Device
from plumbing import clock
from plumbing.sockets import RESTART
from plumbing.statements import Select
from plumbing.threads import in_thread

log = logging.getLogger(__name__)
SWEEP_S = 3.0


class DeviceSocket(Protocol):
    """What the sweeper needs of a consumer."""

    device: Any
    last_heard: float
    has_greeted: bool

    async def send(self, text_data: str) -> None: ...

    async def close(self, code: int, reason: str) -> None: ...

    async def device_revoked(self, event: dict[str, Any]) -> None: ...


class Sweeper:
    def __init__(self) -> None:
        # In the order they arrived.
        self.live: dict[DeviceSocket, None] = {}
        self.task: asyncio.Task | None = None

    def add(self, consumer: Any) -> None:
        self.live[consumer] = None
        loop = asyncio.get_running_loop()
        if self.task is None or self.task.done() or self.task.get_loop() is not loop:
            self.task = loop.create_task(self.sweep_for_ever())

    def remove(self, consumer: Any) -> None:
        self.live.pop(consumer, None)

    async def sweep_for_ever(self) -> None:
        while self.live:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.close_silent()
                await self.mend()
            except DatabaseError as error:
                log.warning("The sweep over the devices failed: %s", error)
            except Exception:  # the next sweep tries again
                log.exception("A sweep over the devices failed")

    async def close_silent(self) -> None:
        now = asyncio.get_running_loop().time()
        longest_s = settings.DEVICE_HEARTBEAT_S * protocol.MISSED_BEATS
        # A copy: closing changes what is live.
        for consumer in [*self.live]:
            if now - consumer.last_heard > longest_s:
                await consumer.close(protocol.SILENT, "no heartbeat")
                self.remove(consumer)

    async def mend(self) -> None:
        """What the channel layer lost: unacknowledged calls, revocations. And devices of deactivated accounts."""
        greeted = {consumer.device.pk: consumer for consumer in self.live if consumer.has_greeted}
        if not greeted:
            return
        lost, revoked, deactivated = await in_thread(look_up, list(greeted))
        for device_id, text in lost:
            await greeted[device_id].send(text_data=text)
        for device_id in revoked:
            await greeted[device_id].device_revoked({})
        for device_id in deactivated:
            # It may come back with the account: until then its handshake is refused.
            await greeted[device_id].close(RESTART, "the account of its owner was deactivated")


def look_up(device_ids: list[UUID]) -> tuple[list[tuple[Any, str]], list[Any], list[Any]]:
    """(device, frame) of unanswered calls, revoked devices, and devices whose owner is deactivated."""
    now = clock.near()
    presence.sweep(now)
    here = set(device_ids)
    # Those revoked earlier have been closed by an earlier sweep.
    lately = REVOKED.all(since=now - timedelta(hours=1))
    revoked = [pk for (pk,) in lately if pk in here]
    deactivated = [pk for pk in of_deactivated() if pk in here and pk not in revoked]
    unanswered = calls.claim_unanswered(here, now)
    return unanswered, revoked, deactivated


def of_deactivated() -> Any:
    rows = Device.objects.filter(owner__is_active=False, revoked_at=None)
    return rows.order_by().values_list("pk", flat=True)


REVOKED = Select(
    lambda at: Device.objects.filter(revoked_at__gt=at.since).order_by().values_list("pk"), since=DateTimeField()
)


SWEEPER = Sweeper()
