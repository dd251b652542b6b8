"""Messages over HTTP: wait for the reply, return the run at once, or stream its events."""

from typing import Any

from django.db.models import UUIDField
from django.http import StreamingHttpResponse
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.authentication import find_key
from agents.http.credential_checks import CredentialCheck, while_good
from agents.http.deferred_response import answer_later
from agents.http.idempotency import read_key
from agents.http.openapi import stream_schema
from agents.http.viewsets import APIView, ByName, read_body, read_owner, shared_serializer
from devices.models import Device
from plumbing.statements import Select
from runs.calls import routing
from runs.events import stream, waiting
from runs.events.connection_limits import WAITS, count_user_stream
from runs.intake import messages as intake
from runs.intake import options
from runs.models import RouteDecision, Run, Session
from runs.models.run import RUN_JOINS
from runs.queue import endings
from runs.serializers.messages import SendSerializer
from runs.serializers.runs import AnswerSerializer, RouteSerializer, RunSerializer, find_run_reply, write_id

from .prefer import PREFER, choose_wait

DEFAULT_WAIT_S = 60.0
# The run as it is now: it may have begun, or even ended, since it was accepted.
NOW = Select(lambda at: Run.objects.select_related(*RUN_JOINS).filter(pk=at.run).order_by(), run=UUIDField())
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER, description="The same key with the same body returns the same run."
)
VERSION_ALONE = _("A version is used by the name of its agent.")
AFTER = OpenApiParameter(
    "after", {"type": "integer", "minimum": 0, "maximum": 999_999_999}, description="Events after this number."
)
LAST_EVENT = OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER, description="Resume after this event.")
SSE = stream_schema("Event")


class StreamOrJson(DefaultContentNegotiation):
    """A client that asks for an event stream gets one, and errors as JSON."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> Any:
        if wants_stream(request):
            return renderers[0], renderers[0].media_type
        return super().select_renderer(request, renderers, format_suffix)


class MessagesView(ByName, APIView):
    """Process a message: wait for the reply, return the run at once, or stream its events."""

    scope = "messages"
    # The intake itself finds the run of an earlier request with the same Idempotency-Key.
    keeps_keys = ("post",)
    content_negotiation_class = StreamOrJson

    @extend_schema(
        operation_id="agents_messages_create",
        request=SendSerializer,
        parameters=[IDEMPOTENCY, PREFER, LAST_EVENT],
        responses={
            200: AnswerSerializer,
            202: AnswerSerializer,
            (200, "text/event-stream"): SSE,
        },
    )
    def post(self, request: Any, name: str) -> Any:
        return self.process(request, name)

    def process(self, request: Any, name: str | None) -> Any:
        """Accepts the message and answers as the request asks. Without a `name`, the router chooses the agent."""
        body = read_body(SendSerializer, request)
        if wants_stream(request):
            # The place is taken before the message is accepted: a person with too many streams starts no run.
            with count_user_stream(request.user) as respond:
                acceptance = self.accept(request, body, name)
                return respond(stream_accepted_run(acceptance, request))
        seconds, applied = choose_wait(request, body.get("wait"), DEFAULT_WAIT_S)
        if seconds is None:
            acceptance = self.accept(request, body, name)
            return with_headers(self.accepted(acceptance), applied)
        with WAITS.take(request.user.pk) as place:
            # Listen before the run exists, so that its end cannot be missed.
            waiting.ENDS.listen()
            acceptance = self.accept(request, body, name)
            end = waiting.End(acceptance.run.pk, seconds, place)

            def answer(ended: dict[str, Any] | None) -> Response:
                response = self.answered(acceptance, ended) if ended else self.accepted(acceptance)
                return with_headers(response, applied)

            return answer_later(self, end, answer)

    def accept(self, request: Any, body: dict[str, Any], name: str | None) -> intake.Accepted:
        """Stores the message and its run. Raises Invalid, NotFound, Conflict, …"""
        text, parts = read_message_content(body)
        # The intake looks for the name alone; with `?owner=` the agent is found here.
        agent = name if read_owner(request) is None else self.named_for_use(intake.NAMED)
        session = write_id(body.get("session"))
        parent = write_id(body.get("parent"))
        version = body.get("version") if name else None
        device = own_device(request.user, body.get("device"))
        return intake.accept_message(
            user=request.user,
            text=text,
            parts=parts,
            agent=agent,
            session=session,
            input=body.get("input"),
            metadata=body.get("metadata"),
            idempotency_key=read_key(request),
            on_busy=body["on_busy"],
            key=find_key(request),
            timeout=body.get("timeout"),
            tools=body.get("tools"),
            version=version,
            draft=body["draft"],
            device=device,
            parent=parent,
            is_watched=wants_stream(request),
            asked=read_message_options(body),
        )

    def accepted(self, acceptance: intake.Accepted) -> Response:
        """The same body as of 200: without a reply yet, unless the run of a repeated request has ended."""
        run = NOW.first(run=acceptance.run.pk) or acceptance.run
        serialized = shared_serializer(RunSerializer).to_representation(run)
        body = {
            "run": serialized,
            "session": str(acceptance.session.pk),
            "reply": find_run_reply(run),
            "output": run.output,
            "usage": endings.total_run_usage(run),
        }
        return Response(body, status=202, headers={"Location": serialized["urls"]["self"]})

    def answered(self, acceptance: intake.Accepted, ended: dict[str, Any]) -> Response:
        """The body of 200, of what the event of the end tells: the row need not be read again."""
        run = waiting.apply_end(acceptance.run, ended)
        body = {
            "run": shared_serializer(RunSerializer).to_representation(run),
            "session": str(acceptance.session.pk),
            "reply": ended["reply"],
            "output": ended["output"],
            "usage": ended["usage"],
        }
        return Response(body)


class RoutedMessagesView(MessagesView):
    """The same, except that the router chooses the agent; the answer explains the choice."""

    @extend_schema(
        operation_id="messages_create",
        request=SendSerializer,
        parameters=[IDEMPOTENCY, PREFER, LAST_EVENT],
        responses={200: AnswerSerializer, 202: AnswerSerializer, (200, "text/event-stream"): SSE},
    )
    def post(self, request: Any) -> Any:  # type: ignore[override]
        return self.process(request, None)

    def accept(self, request: Any, body: dict[str, Any], name: str | None) -> intake.Accepted:
        # Versions of different agents have nothing in common.
        if body.get("version") is not None:
            fault = {"field": "version", "code": "version_without_agent", "message": VERSION_ALONE}
            raise Invalid(VERSION_ALONE, code="version_without_agent", details=[fault])
        return super().accept(request, body, name)

    def accepted(self, acceptance: intake.Accepted) -> Response:
        response = super().accepted(acceptance)
        return with_route(response, acceptance.run)

    def answered(self, acceptance: intake.Accepted, ended: dict[str, Any]) -> Response:
        response = super().answered(acceptance, ended)
        return with_route(response, acceptance.run)


def with_headers(response: Response, headers: dict[str, str]) -> Response:
    for name, value in headers.items():
        response[name] = value
    return response


def with_route(response: Response, run: Run) -> Response:
    """Adds to the answer which agent the router chose, and why."""
    route = RouteDecision.objects.select_related("agent").filter(run=run).first()
    if route is not None:
        response.data["route"] = route.as_json()
    return response


class RouteView(APIView):
    """Which agent would get this message, and why. Nothing is run."""

    scope = "messages"
    scopes = {"post": "messages:read"}

    @extend_schema(operation_id="messages_route", request=SendSerializer, responses={200: RouteSerializer})
    def post(self, request: Any) -> Response:
        body = read_body(SendSerializer, request)
        text, parts = read_message_content(body)
        checked_parts = intake.checked_parts(request.user, text, parts)
        session_agent = None
        if body.get("session"):
            session_agent = find_session(request.user, body["session"]).agent
        words = intake.join_part_texts(checked_parts)
        route = routing.choose_route(request.user, words, session_agent=session_agent)
        return Response(route.as_json())


def read_message_content(body: dict[str, Any]) -> tuple[str | None, list[Any] | None]:
    """The text of a message, or its parts."""
    message = body["message"]
    if isinstance(message, str):
        return message, None
    return None, message


def read_message_options(body: dict[str, Any]) -> dict[str, Any]:
    """The options of a message. Null means the same as an option that is not there."""
    message_options: dict[str, Any] = {}
    for name in options.NAMES:
        if body.get(name) is not None:
            message_options[name] = body[name]
    return message_options


def own_device(user: Any, device_id: Any) -> str | None:
    """Raises Invalid for another user's device or a revoked one."""
    if device_id is None:
        return None
    if not Device.objects.has(user, device_id):
        detail = {"field": "device", "code": "unknown_device", "message": "there is no such device"}
        raise Invalid("You have no such device.", code="unknown_device", details=[detail])
    return str(device_id)


def wants_stream(request: Any) -> bool:
    return "text/event-stream" in request.headers.get("Accept", "")


def read_stream_cursor(request: Any) -> int:
    """Where to start: Last-Event-ID, else ?after, else the beginning."""
    # Browsers send Last-Event-ID when they connect again, to the address of the first time.
    cursor = request.headers.get("Last-Event-ID") or request.query_params.get("after") or "0"
    is_number = cursor.isascii() and cursor.isdigit()
    if not is_number or len(cursor) > 9:
        raise Invalid(
            f"“{cursor[:40]}” is not an event number.", hint="Send the number of the last event you received."
        )
    return int(cursor)


def stream_accepted_run(acceptance: intake.Accepted, request: Any) -> StreamingHttpResponse:
    # Only the header counts: a POST has no `?after`.
    after = read_stream_cursor(request) if request.headers.get("Last-Event-ID") else 0
    response = event_stream(acceptance.run, after, request)
    response["Muster-Run"] = str(acceptance.run.pk)
    response["Muster-Session"] = str(acceptance.session.pk)
    return response


def event_stream(run: Run, after: int, request: Any) -> StreamingHttpResponse:
    """SSE that proxies do not hold back. A reader that goes away does not stop the run.

    It ends with the key or the login session that opened it.
    """
    standing = CredentialCheck.of(request.auth, getattr(request, "session", None))
    batches = stream.in_batches(run, after=after)
    content = while_good(stream.as_sse(batches), standing)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=headers)


def find_session(user: Any, session_id: Any) -> Session:
    session = Session.objects.visible_to(user).select_related("agent").filter(pk=session_id).first()
    if session is None:
        raise NotFound("There is no such session that you can see.")
    return session
