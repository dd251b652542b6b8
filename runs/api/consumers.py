"""WebSockets to watch a run or to talk in a session: one method per frame; nothing blocks."""

import asyncio
import logging
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.utils import translation

from agents import roles
from agents.exceptions import Invalid, MusterError, NotFound, RateLimited
from agents.http import parsers, throttles
from agents.http.renderers import in_language
from agents.http.standing import Standing
from agents.models import ApiKey
from agents.models.key import DECIDE
from agents.unknown import extra, refuse
from plumbing.sockets import RESTART, ClosesWhenBroken
from plumbing.texts import asked_language
from plumbing.threads import in_thread
from runs.calls import approvals, inputs
from runs.events import stream
from runs.events.feed import FeedBroken
from runs.events.places import STREAMS
from runs.intake import messages as intake
from runs.intake import options
from runs.models import Approval, InputRequest, Run, Session
from runs.queue import endings

FRAMES = {
    "message": ("type", "text", "content", "input", "tools", "on_busy", "idempotency_key", *options.NAMES),
    "cancel": ("type", "run", "reason"),
    "approve": ("type", "approval", "id", "decision", "arguments", "note"),
    "answer": ("type", "input", "id", "value", "decline"),
}
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
        await Standing.of(self.key, self.scope.get("session"), roles.rank_of(self.user)).ends()
        await self.turn_away(UNKNOWN, "Your key or your login is no longer valid, or your role on the site changed.")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Messages in flight when a connection was refused are dropped."""
        if self.is_admitted:
            await super().receive(text_data or "null", **kwargs)  # binary frames are not JSON

    async def turn_away(self, code: int, reason: str) -> None:
        """Nothing is sent after the close."""
        self.is_admitted = False
        for follower in self.followers:
            follower.cancel()
        await self.send_error(f"closed_{code}", reason)  # Daphne sends a close code without its reason
        await self.close(code=code, reason=reason)

    async def admit(self) -> tuple[int, str]:
        """(0, "") to continue, else a close code and its reason."""
        self.user, self.key = await database_sync_to_async(caller)(self.scope)
        if self.user is None:
            return UNKNOWN, "Send an API key in the Authorization header, or log in."
        if not self.may(self.needs):
            return FORBIDDEN, self.refusal(self.needs)
        return await self.counted() or self.enter() or await self.begin()

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
        address = (self.scope.get("client") or ("",))[0]
        if await in_thread(throttles.is_within, self.user, self.key, address):
            return None
        return TOO_MANY, f"Too many requests this minute: try again in {int(throttles.until_next()) + 1} s."

    async def begin(self) -> tuple[int, str]:
        raise NotImplementedError

    def may(self, scope: str) -> bool:
        """The role was read when the socket was opened; if it changes, the socket ends."""
        return (self.key is None or self.key.allows(scope)) and roles.allows(self.user, scope)

    def refusal(self, scope: str) -> str:
        if self.key is not None and not self.key.allows(scope):
            return f"This key lacks the scope {scope}."
        return f"Your role on this site is “{roles.role_of(self.user)}”, which does not allow {scope}."

    def put_down(self) -> None:
        if self.is_counted:
            STREAMS.leave(self.user.pk)
            self.is_counted = False
        for task in (*self.followers, self.guard):
            if task is not None and task is not asyncio.current_task():
                task.cancel()

    def follow(self, run: Run, *, after: int = 0) -> None:
        self.followers = [follower for follower in self.followers if not follower.done()]
        self.followers.append(asyncio.create_task(self.forward(run, after)))

    async def forward(self, run: Run, after: int) -> None:
        """Send a run's events until it ends; back-pressure slows down for a slow reader."""
        try:
            async for batch in stream.in_batches(run, after=after):
                for frame in batch:
                    await self.send(text_data=frame.as_message)
        except FeedBroken as error:
            await self.close(code=RESTART, reason=str(error))
        except Exception:  # nobody awaits this task: without a word the socket would be mute
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
            return parsers.read(text_data.encode())
        except ValueError:
            return None

    async def send_error(self, code: str, message: str, hint: str = "", details: Any = ()) -> None:
        error = {"code": code, "message": message, "hint": hint, "details": list(details)}
        with translation.override(asked_language(self.header(b"accept-language"))):
            error = in_language(error)
        await self.send_json({"type": "error", "error": error})

    def header(self, name: bytes) -> str:
        """Of the handshake."""
        return dict(self.scope.get("headers", [])).get(name, b"").decode("latin-1")


def caller(scope: dict[str, Any]) -> tuple[Any, ApiKey | None]:
    """The person with the rank of their role, and the key."""
    user, key = sender(scope)
    if user is not None:
        roles.rank_of(user)
    return user, key


def sender(scope: dict[str, Any]) -> tuple[Any, ApiKey | None]:
    headers = dict(scope.get("headers", []))
    words = headers.get(b"authorization", b"").decode("latin-1").split()
    if len(words) == 2 and words[0].lower() == "bearer":
        key = ApiKey.find(words[1])
        return (key.user, key) if key else (None, None)
    user = scope.get("user")
    return (user, None) if user is not None and user.is_authenticated else (None, None)


class NowhereConsumer(Authenticated):
    """Every other path: Channels' router would raise, which a client sees as a server error."""

    async def begin(self) -> tuple[int, str]:
        return MISSING, "There is no WebSocket here. Available: /ws/sessions/{id}/, /ws/runs/{id}/, /v1/responses."


class RunConsumer(Authenticated):
    """/ws/runs/{id}/?after=seq: replay, then live; closes when the run has ended."""

    async def begin(self) -> tuple[int, str]:
        run_id = self.scope["url_route"]["kwargs"]["run_id"]
        run = await Run.objects.visible_to(self.user).filter(pk=run_id).afirst()
        if run is None:
            return MISSING, "There is no such run that you can see."
        after = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("after", ["0"])[0]
        self.follow(run, after=int(after[:10]) if after.isascii() and after.isdigit() else 0)
        return 0, ""

    async def has_ended(self) -> None:
        await self.close(code=1000, reason="the run has ended")


class SessionConsumer(Authenticated):
    """/ws/sessions/{id}/: send message, cancel, approve, answer; receive the events of the session's runs."""

    needs = "sessions:read"

    async def begin(self) -> tuple[int, str]:
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        self.session = (
            await Session.objects.visible_to(self.user).select_related("agent").filter(pk=session_id).afirst()
        )
        if self.session is None:
            return MISSING, "There is no such session that you can see."
        async for run in Run.objects.filter(session=self.session, parent=None).live():
            self.follow(run)
        return 0, ""

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        frame = content if isinstance(content, dict) else {}
        handlers = {
            "message": self.on_message,
            "cancel": self.on_cancel,
            "approve": self.on_approve,
            "answer": self.on_answer,
        }
        handler = handlers.get(str(frame.get("type")))
        if too_many := await self.counted():
            return await self.turn_away(*too_many)
        if handler is None:
            return await self.send_error(
                "unknown_frame", "Send a JSON object with type message, cancel, approve or answer."
            )
        try:
            refuse(extra(frame, FRAMES[frame["type"]]), "The frame has a field that does not exist.")
            await handler(frame)
        except MusterError as error:
            await self.send_error(error.code, str(error), error.hint, error.details)

    async def on_message(self, frame: dict[str, Any]) -> None:
        if not self.may("messages:write"):
            return await self.send_error("forbidden", self.refusal("messages:write"))
        acceptance = await database_sync_to_async(self.accept_message)(frame)
        await self.send_json({"type": "accepted", "run": str(acceptance.run.pk), "session": str(acceptance.session.pk)})
        self.follow(acceptance.run)

    def accept_message(self, frame: dict[str, Any]) -> intake.Accepted:
        session = (
            Session.objects.select_related("agent__published", "agent__provider").filter(pk=self.session.pk).first()
        )
        if session is None:
            raise NotFound("This session was deleted.", hint="Start another.")
        return intake.accept_message(
            user=self.user,
            text=of_kind(frame, "text", str),
            parts=of_kind(frame, "content", list),
            agent=session.agent,
            session=session,
            input=frame.get("input"),
            on_busy=on_busy_in(frame),
            tools=of_kind(frame, "tools", list),
            asked={name: frame[name] for name in options.NAMES if name in frame},
            idempotency_key=(of_kind(frame, "idempotency_key", str) or "")[:255] or None,
            key=self.key,
            is_watched=True,
        )

    async def on_cancel(self, frame: dict[str, Any]) -> None:
        if not self.may("runs:write"):
            return await self.send_error("forbidden", self.refusal("runs:write"))
        await database_sync_to_async(self.cancel)(frame)

    def cancel(self, frame: dict[str, Any]) -> None:
        """The named run, else the run in progress in this session."""
        runs = Run.objects.filter(session=self.session, parent=None)
        run_id = frame.get("run")
        runs = runs.live() if run_id is None else runs.filter(pk=as_id(run_id))
        if not (targets := list(runs)):
            raise NotFound("There is no such run in this session." if run_id else "No run is in progress here.")
        for run in targets:
            endings.cancel(run, by=self.user, reason=str(frame.get("reason", ""))[:200])

    async def on_approve(self, frame: dict[str, Any]) -> None:
        if not self.may(DECIDE):
            return await self.send_error("forbidden", self.refusal(DECIDE))
        await database_sync_to_async(self.decide)(frame)

    def decide(self, frame: dict[str, Any]) -> None:
        approval_id = as_id(frame.get("approval") or frame.get("id"))
        approval = Approval.objects.visible_to(self.user).select_related("run").filter(pk=approval_id).first()
        if approval is None:
            raise NotFound("There is no such approval that you can see.")
        approvals.decide(
            approval,
            str(frame.get("decision", "")),
            by=self.user,
            arguments=of_kind(frame, "arguments", dict),
            note=(of_kind(frame, "note", str) or "")[:500],
            source="websocket",
        )

    async def on_answer(self, frame: dict[str, Any]) -> None:
        if not self.may("messages:write"):
            return await self.send_error("forbidden", "This key lacks the scope messages:write.")
        await database_sync_to_async(self.answer)(frame)

    def answer(self, frame: dict[str, Any]) -> None:
        """The answer to an input request: `value`, or `decline`."""
        requests = InputRequest.objects.visible_to(self.user).select_related("run")
        request = requests.filter(pk=as_id(frame.get("input") or frame.get("id"))).first()
        if request is None:
            raise NotFound("There is no such input request that you can see.")
        if frame.get("decline") is True:
            inputs.decline(request, by=self.user)
        else:
            inputs.answer(request, by=self.user, value=frame.get("value"))


def as_id(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


KINDS: dict[type, str] = {str: "text", list: "a list", dict: "an object"}


def of_kind(frame: dict[str, Any], field: str, kind: type) -> Any:
    """A field of a frame, None if it is absent. Raises Invalid for a value of another type."""
    value = frame.get(field)
    if value is None or isinstance(value, kind):
        return value
    raise Invalid("The frame is not valid.", details=[wrong(field, f"this must be {KINDS[kind]}")])


def on_busy_in(frame: dict[str, Any]) -> str:
    value = frame.get("on_busy", "reject")
    if value not in intake.ON_BUSY:
        raise Invalid(
            "The frame is not valid.", details=[wrong("on_busy", f"must be one of {', '.join(intake.ON_BUSY)}")]
        )
    return value


def wrong(field: str, message: str) -> dict[str, str]:
    return {"field": field, "code": "invalid", "message": message}
