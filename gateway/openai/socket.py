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

from .responses import PREFIX, parse_response_request, start_response_turn, stream_response_events
from .views import convert_openai_error, convert_openai_status, error_json

JSON = Any
TYPE = "response.create"
LAST = ("response.completed", "response.incomplete", "response.failed")
# Fields of the transport. The rest is the body of POST /v1/responses.
OURS = ("type", "stream", "background", "generate")
log = logging.getLogger(__name__)


class ResponsesConsumer(Authenticated):
    needs = "messages:write"
    is_busy = False

    async def begin(self) -> tuple[int, str]:
        # Responses of this connection, and those that they continue.
        self.own: dict[str, str] = {}
        return 0, ""

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        too_many = await self.counted()
        if too_many:
            return await self.turn_away(*too_many)
        if not isinstance(content, dict) or content.get("type") != TYPE:
            return await self.refuse(400, "unknown_frame", f"Send a JSON object of the type {TYPE}.")
        if self.is_busy:
            message = "This connection is working on another response."
            return await self.refuse(409, "response_already_in_flight", message)
        # The socket goes on reading while the response is written.
        self.is_busy = True
        task = asyncio.create_task(self.respond(content))
        working = [one for one in self.followers if not one.done()]
        self.followers = [*working, task]

    async def respond(self, frame: dict[str, JSON]) -> None:
        previous = str(frame.get("previous_response_id") or "")
        try:
            turn = await database_sync_to_async(self.start)(frame)
            id = PREFIX + turn.id
            self.own[id] = previous
            async for event in bound(turn.run, stream_response_events(turn), self.user):
                if event:
                    await self.send_event(event, id)
        except MusterError as error:
            status = convert_openai_status(error.status)
            error_data = {"message": str(error), "code": error.code, "hint": error.hint, "details": error.details}
            await self.send_failure(previous, status, convert_openai_error(error_data, status))
        except FeedBroken as error:
            await self.send_failure(previous, 503, error_json(str(error), "feed_broken", 503))
        except Exception:  # nobody awaits this task: without a word the socket would be mute
            log.exception("A response over a WebSocket failed")
            await self.close_broken()

    async def send_event(self, event: dict[str, JSON], id: str) -> None:
        """The client may ask for the next response as soon as it has read the last event of this one."""
        if event["type"] in LAST:
            self.is_busy = False
        if event["type"] == "response.failed":
            self.forget_chain(id)
        await self.send_json(event)

    async def send_failure(self, previous: str, status: int, error: dict[str, JSON]) -> None:
        self.forget_chain(previous)
        self.is_busy = False
        await self.send_json({"type": "error", "status": status, "error": error})

    def forget_chain(self, id: str) -> None:
        """A failed continuation ends its chain: what this connection alone knows of it cannot be continued."""
        while id in self.own:
            id = self.own.pop(id)

    def start(self, frame: dict[str, JSON]) -> Turn:
        """Raises MusterError."""
        if frame.get("generate") is False:
            raise Invalid("“generate” cannot be false: nothing is prepared ahead.", code="unsupported_parameter")
        body = {name: value for name, value in frame.items() if name not in OURS}
        prompt = parse_response_request(body, self.user)
        request = SimpleNamespace(user=self.user, auth=self.key)
        return start_response_turn(request, body, prompt, is_watched=True, own=self.own)

    async def refuse(self, status: int, code: str, message: str) -> None:
        error = error_json(message, code, status)
        await self.send_json({"type": "error", "status": status, "error": error})
