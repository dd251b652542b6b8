"""Back-pressure: sending waits for a slow reader, and a reader that takes nothing is disconnected.

Daphne passes everything to Twisted, which keeps it in memory until the reader has taken it. Here a
transport whose buffer is full says so, and the sender waits; a stream that falls behind catches up
from the rows.
"""

import asyncio
from typing import Any

from daphne.server import Server
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

STALLED_S = 60.0  # seconds after which a reader that takes nothing is disconnected


@implementer(IPushProducer)
class Pace:
    """What a transport asks to pause and to resume."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()

    def pauseProducing(self) -> None:  # noqa: N802  (Twisted's names)
        self.free.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        self.free.set()

    def stopProducing(self) -> None:  # noqa: N802
        self.free.set()

    async def is_kept(self) -> bool:
        """Wait until there is room; False if the reader takes nothing."""
        try:
            async with asyncio.timeout(STALLED_S):
                await self.free.wait()
        except TimeoutError:
            return False
        return True


class PacedServer(Server):
    """Daphne with back-pressure for streamed answers and sockets."""

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and get_pace(protocol) and not message.get("more_body"):
            release_producer(protocol)
        await super().handle_reply(protocol, message)
        if self.connections.get(protocol, {}).get("disconnected"):
            return
        if message["type"] == "websocket.accept":
            protocol.pace = Pace()
            protocol.transport.unregisterProducer()  # the HTTP channel's producer, from before the upgrade
            protocol.registerProducer(protocol.pace, True)
        elif message.get("more_body") and get_pace(protocol) is None:
            protocol.pace = Pace()
            protocol.registerProducer(protocol.pace, True)
        pace = get_pace(protocol)
        if pace and not pace.free.is_set() and not await pace.is_kept():
            release_producer(protocol)
            abort_slow_client(protocol)


def get_pace(protocol: Any) -> Pace | None:
    """None, and no attribute in the memory of thousands of waiting requests, until something is streamed."""
    return getattr(protocol, "pace", None)


def release_producer(protocol: Any) -> None:
    """A finished answer must not have a producer; a disconnected request has no channel any more."""
    protocol.pace = None
    if getattr(protocol, "channel", None) is not None:
        protocol.unregisterProducer()


def abort_slow_client(protocol: Any) -> None:
    """The client may reconnect with the number of its last event."""
    channel = getattr(protocol, "channel", None)
    (channel or protocol).transport.abortConnection()
