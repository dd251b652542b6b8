"""A WebSocket whose consumer broke is closed, so that its client connects again; otherwise it would stay open, mute."""

import asyncio
import logging
from typing import Any

from channels.exceptions import StopConsumer

log = logging.getLogger(__name__)
RESTART = 1012  # connect again, with the number of the last event you had


class ClosesWhenBroken:
    """Put before a consumer of Channels: whatever a handler raises closes the socket with 1012."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        try:
            await super().dispatch(message)  # type: ignore[misc]
        except (StopConsumer, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("A socket broke at %s", message.get("type"))
            await self.close_broken()

    async def close_broken(self) -> None:
        await self.close(code=RESTART)  # type: ignore[attr-defined]
