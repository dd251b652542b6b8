"""WebSockets to watch a run or to talk in a session: one method per frame; nothing blocks."""

import logging
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async

from agents.exceptions import Invalid, MusterError, NotFound
from agents.models.key import DECIDE
from agents.unknown import extra, refuse_unknown_fields
from runs.calls import approvals, inputs
from runs.events.sockets import MISSING, Authenticated
from runs.intake import messages as intake
from runs.intake import options
from runs.models import Approval, InputRequest, Run, Session
from runs.queue import endings

# The fields of each frame that a client may send.
FRAMES = {
    "message": ("type", "text", "content", "input", "tools", "on_busy", "idempotency_key", *options.NAMES),
    "cancel": ("type", "run", "reason"),
    "approve": ("type", "approval", "id", "decision", "arguments", "note"),
    "answer": ("type", "input", "id", "value", "decline"),
}
log = logging.getLogger(__name__)


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
        query = self.scope.get("query_string", b"").decode("latin-1")
        after = parse_qs(query).get("after", ["0"])[0]
        is_number = after.isascii() and after.isdigit()
        # Without a number that can be read, the stream begins at the first event.
        self.follow(run, after=int(after[:10]) if is_number else 0)
        return 0, ""

    async def has_ended(self) -> None:
        await self.close(code=1000, reason="the run has ended")


class SessionConsumer(Authenticated):
    """/ws/sessions/{id}/: send message, cancel, approve, answer; receive the events of the session's runs."""

    needs = "sessions:read"

    async def begin(self) -> tuple[int, str]:
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        sessions = Session.objects.visible_to(self.user).select_related("agent")
        self.session = await sessions.filter(pk=session_id).afirst()
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
        # Unknown frames count as well: they cost the server as much.
        too_many = await self.counted()
        if too_many:
            return await self.turn_away(*too_many)
        if handler is None:
            return await self.send_error(
                "unknown_frame", "Send a JSON object with type message, cancel, approve or answer."
            )
        try:
            unknown = extra(frame, FRAMES[frame["type"]])
            refuse_unknown_fields(unknown, "The frame has a field that does not exist.")
            await handler(frame)
        except MusterError as error:
            await self.send_error(error.code, str(error), error.hint, error.details)

    async def on_message(self, frame: dict[str, Any]) -> None:
        if not self.may("messages:write"):
            return await self.send_error("forbidden", self.refusal("messages:write"))
        acceptance = await database_sync_to_async(self.accept_message)(frame)
        run = acceptance.run
        await self.send_json({"type": "accepted", "run": str(run.pk), "session": str(acceptance.session.pk)})
        self.follow(run)

    def accept_message(self, frame: dict[str, Any]) -> intake.Accepted:
        # Read the session again: it may have changed since the socket was opened.
        sessions = Session.objects.select_related("agent__published", "agent__provider")
        session = sessions.filter(pk=self.session.pk).first()
        if session is None:
            raise NotFound("This session was deleted.", hint="Start another.")
        message_options = {name: frame[name] for name in options.NAMES if name in frame}
        key = of_kind(frame, "idempotency_key", str) or ""
        return intake.accept_message(
            user=self.user,
            text=of_kind(frame, "text", str),
            parts=of_kind(frame, "content", list),
            agent=session.agent,
            session=session,
            input=frame.get("input"),
            on_busy=read_on_busy(frame),
            tools=of_kind(frame, "tools", list),
            asked=message_options,
            idempotency_key=key[:255] or None,
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
        if run_id is None:
            runs = runs.live()
        else:
            runs = runs.filter(pk=as_id(run_id))
        targets = list(runs)
        if not targets:
            raise NotFound("There is no such run in this session." if run_id else "No run is in progress here.")
        reason = str(frame.get("reason", ""))[:200]
        for run in targets:
            endings.cancel_run(run, by=self.user, reason=reason)

    async def on_approve(self, frame: dict[str, Any]) -> None:
        if not self.may(DECIDE):
            return await self.send_error("forbidden", self.refusal(DECIDE))
        await database_sync_to_async(self.decide)(frame)

    def decide(self, frame: dict[str, Any]) -> None:
        """A decision about an approval: `decision`, and optionally other `arguments` and a `note`."""
        approval_id = as_id(frame.get("approval") or frame.get("id"))
        approval = Approval.objects.visible_to(self.user).select_related("run").filter(pk=approval_id).first()
        if approval is None:
            raise NotFound("There is no such approval that you can see.")
        note = of_kind(frame, "note", str) or ""
        approvals.decide_approval(
            approval,
            str(frame.get("decision", "")),
            by=self.user,
            arguments=of_kind(frame, "arguments", dict),
            note=note[:500],
            source="websocket",
        )

    async def on_answer(self, frame: dict[str, Any]) -> None:
        if not self.may("messages:write"):
            return await self.send_error("forbidden", "This key lacks the scope messages:write.")
        await database_sync_to_async(self.answer)(frame)

    def answer(self, frame: dict[str, Any]) -> None:
        """The answer to an input request: `value`, or `decline`."""
        request_id = as_id(frame.get("input") or frame.get("id"))
        request = InputRequest.objects.visible_to(self.user).select_related("run").filter(pk=request_id).first()
        if request is None:
            raise NotFound("There is no such input request that you can see.")
        if frame.get("decline") is True:
            inputs.decline(request, by=self.user)
        else:
            inputs.answer_input_request(request, by=self.user, value=frame.get("value"))


def as_id(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


# As errors name them.
KINDS: dict[type, str] = {str: "text", list: "a list", dict: "an object"}


def of_kind(frame: dict[str, Any], field: str, kind: type) -> Any:
    """A field of a frame, None if it is absent. Raises Invalid for a value of another type."""
    value = frame.get(field)
    if value is None or isinstance(value, kind):
        return value
    raise Invalid("The frame is not valid.", details=[wrong(field, f"this must be {KINDS[kind]}")])


def read_on_busy(frame: dict[str, Any]) -> str:
    value = frame.get("on_busy", "reject")
    if value not in intake.ON_BUSY:
        fault = wrong("on_busy", f"must be one of {', '.join(intake.ON_BUSY)}")
        raise Invalid("The frame is not valid.", details=[fault])
    return value


def wrong(field: str, message: str) -> dict[str, str]:
    return {"field": field, "code": "invalid", "message": message}
