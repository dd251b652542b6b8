"""Closes a WebSocket whose consumer failed, so that its client reconnects; otherwise it would stay
open and silent.
"""

import asyncio
import logging
from typing import Any

from channels.exceptions import StopConsumer

log = logging.getLogger(__name__)
# Reconnect, with the number of the last event you received. The web server's library (Autobahn) sends only 1000 and
# 3000 to 4999; at 1012, which would mean the same, it raises, and the socket stays open.
RESTART = 4012


class ClosesWhenBroken:
    """Wraps a consumer of Channels: any exception in a handler closes the socket with RESTART."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        try:
            await super().dispatch(message)  # type: ignore[misc]
        except (StopConsumer, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("A WebSocket consumer failed at %s", message.get("type"))
            await self.close_broken()

    async def close_broken(self) -> None:
        await self.close(code=RESTART)  # type: ignore[attr-defined]
