"""What every WebSocket for people shares: who calls, how many sockets a person may open, and a run's events."""

import asyncio
import logging
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.utils import translation

from agents import roles
from agents.exceptions import RateLimited
from agents.http import parsers, throttles
from agents.http.credential_checks import CredentialCheck
from agents.http.renderers import translate_texts
from agents.models import ApiKey
from plumbing.sockets import RESTART, ClosesWhenBroken
from plumbing.texts import find_language
from plumbing.threads import in_thread
from runs.events import stream
from runs.events.connection_limits import STREAMS
from runs.events.feed import FeedBroken
from runs.models import Run

UNKNOWN, FORBIDDEN, MISSING, TOO_MANY = 4401, 4403, 4404, 4429
log = logging.getLogger(__name__)


class Authenticated(ClosesWhenBroken, AsyncJsonWebsocketConsumer):
    """Authenticates by the API key in the handshake's Authorization header, or by the browser's
    login session.
    """

    needs = "runs:read"
    user: Any = None
    key: ApiKey | None = None
    is_admitted = False
    is_counted = False
    guard: asyncio.Task | None = None

    async def __call__(self, *args: Any) -> Any:
        """However it ends: a server cancels the handshake of a client that has gone."""
        self.followers: list[asyncio.Task] = []
        try:
            return await super().__call__(*args)
        finally:
            self.put_down()

    async def connect(self) -> None:
        """A close code needs an accepted socket: browsers see only 1006 for a refused handshake."""
        await self.accept()
        code, reason = await self.admit()
        self.is_admitted = not code
        if code:
            await self.turn_away(code, reason)
        else:
            self.guard = asyncio.create_task(self.end_with_credential())

    async def end_with_credential(self) -> None:
        """A key that is revoked or expires, and a login that is logged out, take their sockets with them."""
        login = self.scope.get("session")
        standing = CredentialCheck.of(self.key, login, roles.find_rank(self.user))
        await standing.ends()
        await self.turn_away(UNKNOWN, "Your key or your login is no longer valid, or your role on the site changed.")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Messages in flight when a connection was refused are dropped."""
        if self.is_admitted:
            # Binary frames are not JSON.
            await super().receive(text_data or "null", **kwargs)

    async def turn_away(self, code: int, reason: str) -> None:
        """Nothing is sent after the close."""
        self.is_admitted = False
        for follower in self.followers:
            follower.cancel()
        # Daphne sends a close code without its reason.
        await self.send_error(f"closed_{code}", reason)
        await self.close(code=code, reason=reason)

    async def admit(self) -> tuple[int, str]:
        """(0, "") to continue, else a close code and its reason."""
        self.user, self.key = await database_sync_to_async(caller)(self.scope)
        if self.user is None:
            return UNKNOWN, "Send an API key in the Authorization header, or log in."
        if not self.may(self.needs):
            return FORBIDDEN, self.refusal(self.needs)
        too_many = await self.counted() or self.enter()
        if too_many:
            return too_many
        return await self.begin()

    def enter(self) -> tuple[int, str] | None:
        """One person's open sockets are counted here, with their streams."""
        try:
            STREAMS.enter(self.user.pk, settings.MAX_STREAMS)
        except RateLimited as error:
            return TOO_MANY, str(error)
        self.is_counted = True
        return None

    async def counted(self) -> tuple[int, str] | None:
        """Handshakes and frames count against the rate limits like requests: None while within the
        limits.
        """
        client = self.scope.get("client") or ("",)
        address = client[0]
        if await in_thread(throttles.admit_request, self.user, self.key, address):
            return None
        wait_s = int(throttles.until_next()) + 1
        return TOO_MANY, f"Too many requests this minute: try again in {wait_s} s."

    async def begin(self) -> tuple[int, str]:
        raise NotImplementedError

    def may(self, scope: str) -> bool:
        """The role was read when the socket was opened; if it changes, the socket ends."""
        if self.key is not None and not self.key.allows(scope):
            return False
        return roles.allows(self.user, scope)

    def refusal(self, scope: str) -> str:
        if self.key is not None and not self.key.allows(scope):
            return f"This key lacks the scope {scope}."
        return f"Your role on this site is “{roles.find_role(self.user)}”, which does not allow {scope}."

    def put_down(self) -> None:
        if self.is_counted:
            STREAMS.leave(self.user.pk)
            self.is_counted = False
        for task in (*self.followers, self.guard):
            # The guard itself may be what closes the socket.
            if task is not None and task is not asyncio.current_task():
                task.cancel()

    def follow(self, run: Run, *, after: int = 0) -> None:
        self.followers = [follower for follower in self.followers if not follower.done()]
        follower = asyncio.create_task(self.forward(run, after))
        self.followers.append(follower)

    async def forward(self, run: Run, after: int) -> None:
        """Send a run's events until it ends; back-pressure slows down for a slow reader."""
        try:
            async for batch in stream.in_batches(run, after=after):
                for frame in batch:
                    await self.send(text_data=frame.as_message)
        except FeedBroken as error:
            await self.close(code=RESTART, reason=str(error))
        # Nobody awaits this task: without a word the socket would be mute.
        except Exception:
            log.exception("The events of run %s cannot be sent", run.pk)
            await self.close_broken()
        else:
            await self.has_ended()

    async def has_ended(self) -> None:
        """The followed run has ended."""

    @classmethod
    async def decode_json(cls, text_data: str) -> Any:
        """A frame is parsed like an API body: characters that cannot be stored are refused."""
        try:
            return parsers.parse_json_body(text_data.encode())
        except ValueError:
            return None

    async def send_error(self, code: str, message: str, hint: str = "", details: Any = ()) -> None:
        error = {"code": code, "message": message, "hint": hint, "details": list(details)}
        language = find_language(self.header(b"accept-language"))
        with translation.override(language):
            error = translate_texts(error)
        await self.send_json({"type": "error", "error": error})

    def header(self, name: bytes) -> str:
        """Of the handshake."""
        headers = dict(self.scope.get("headers", []))
        return headers.get(name, b"").decode("latin-1")


def caller(scope: dict[str, Any]) -> tuple[Any, ApiKey | None]:
    """The person with the rank of their role, and the key."""
    user, key = sender(scope)
    if user is not None:
        roles.find_rank(user)
    return user, key


def sender(scope: dict[str, Any]) -> tuple[Any, ApiKey | None]:
    headers = dict(scope.get("headers", []))
    words = headers.get(b"authorization", b"").decode("latin-1").split()
    # A key that is not valid does not fall back to the login.
    if len(words) == 2 and words[0].lower() == "bearer":
        key = ApiKey.find(words[1])
        return (key.user, key) if key else (None, None)
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return None, None
    return user, None
