"""Closes a WebSocket whose consumer failed, so that its client reconnects; otherwise it would stay
open and silent.
"""

import asyncio
import logging
from typing import Any

from channels.exceptions import StopConsumer

log = logging.getLogger(__name__)
RESTART = 1012  # reconnect with the number of the last event you received


class ClosesWhenBroken:
    """Wraps a consumer of Channels: any exception in a handler closes the socket with 1012."""

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
