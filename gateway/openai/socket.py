"""Responses over a WebSocket at /v1/responses, by the Open Responses specification: each frame
`response.create` starts a response, and its events come as frames. One at a time.
"""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

from channels.db import database_sync_to_async

from agents.exceptions import Invalid, MusterError
from gateway.sse import bound
from gateway.turns import Turn
from runs.events.feed import FeedBroken
from runs.events.sockets import Authenticated

from .responses import PREFIX, events_of, read, started
from .views import error_json, status_of, translated

JSON = Any
TYPE = "response.create"
OURS = ("type", "stream", "background", "generate")  # of the transport; the rest is the body of POST /v1/responses
log = logging.getLogger(__name__)


class ResponsesConsumer(Authenticated):
    needs = "messages:write"
    task: asyncio.Task | None = None

    async def begin(self) -> tuple[int, str]:
        self.own: set[str] = set()  # responses of this connection
        return 0, ""

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if too_many := await self.counted():
            return await self.turn_away(*too_many)
        if not isinstance(content, dict) or content.get("type") != TYPE:
            return await self.refuse(400, "unknown_frame", f"Send a JSON object of the type {TYPE}.")
        if self.task is not None and not self.task.done():
            message = "This connection is working on another response."
            return await self.refuse(409, "response_already_in_flight", message)
        self.task = asyncio.create_task(self.respond(content))
        self.followers = [self.task]

    async def respond(self, frame: dict[str, JSON]) -> None:
        try:
            turn = await database_sync_to_async(self.start)(frame)
            self.own.add(PREFIX + turn.id)
            async for event in bound(turn.run, events_of(turn), self.user):
                if event:
                    await self.send_json(event)
        except MusterError as error:
            status = status_of(error.status)
            error_data = {"message": str(error), "code": error.code, "hint": error.hint, "details": error.details}
            await self.send_json({"type": "error", "status": status, "error": translated(error_data, status)})
        except FeedBroken as error:
            await self.refuse(503, "feed_broken", str(error))
        except Exception:  # nobody awaits this task: without a word the socket would be mute
            log.exception("A response over a WebSocket failed")
            await self.close_broken()

    def start(self, frame: dict[str, JSON]) -> Turn:
        """Raises MusterError."""
        if frame.get("generate") is False:
            raise Invalid("“generate” cannot be false: nothing is prepared ahead.", code="unsupported_parameter")
        body = {name: value for name, value in frame.items() if name not in OURS}
        request = SimpleNamespace(user=self.user, auth=self.key)
        return started(request, body, read(body), is_watched=True, own=self.own)

    async def refuse(self, status: int, code: str, message: str) -> None:
        await self.send_json({"type": "error", "status": status, "error": error_json(message, code, status)})
