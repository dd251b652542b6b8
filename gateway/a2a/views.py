"""The addresses of an agent for A2A clients: JSON-RPC, HTTP+JSON, and its card."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from agents.http.deferred_response import answer_later
from agents.http.parsers import JSONParser
from agents.http.unknown_parameters import ANYTHING
from agents.http.viewsets import APIView
from gateway.sse import HEARTBEAT, build_sse_response, sse
from runs.events.connection_limits import WAITS, count_user_stream
from runs.events.waiting import ENDS

from . import legacy
from .errors import A2AError, http_form, in_their_form, rpc_form
from .operations import OPERATIONS, STREAMS, WAITING, Call, is_immediate
from .updates import stream_task_updates

JSON = Any
VERSIONS = ("1.0", legacy.VERSION)
MEDIA_TYPE = "application/a2a+json"
METHODS = ("get", "post", "delete")
KNOWN = {*OPERATIONS, *WAITING, *STREAMS}


class A2AParser(JSONParser):
    media_type = MEDIA_TYPE


class A2ARenderer(JSONRenderer):
    media_type = MEDIA_TYPE
    charset = None


class A2AView(APIView):
    """Addresses for A2A clients: parameters that the specification does not name are ignored."""

    scope = "messages"
    parameters = dict.fromkeys(METHODS, ANYTHING)

    def call(self, request: Any, agent: str) -> Call:
        names = [name.strip() for name in request.headers.get("A2A-Extensions", "").split(",")]
        extensions = frozenset(name for name in names if name)
        return Call(request.user, request.auth, agent, extensions)


def choose_a2a_version(request: Any, supported: Sequence[str] = VERSIONS) -> str:
    """The protocol's version as the client asks for it; none means 0.3. Raises A2AError."""
    name = request.headers.get("A2A-Version") or request.query_params.get("A2A-Version") or legacy.VERSION
    version = ".".join(name.strip().split(".")[:2])
    if version not in supported:
        raise version_refused(name)
    return version


def version_refused(version: str) -> A2AError:
    hint = f"Send the header A2A-Version: {VERSIONS[0]}."
    return A2AError(f"Version {version[:20]} of A2A is not supported here.", code="version_not_supported", hint=hint)


def answer_a2a_operation(view: Any, method: str, call: Call, params: JSON, form: Callable[[JSON], JSON]) -> Any:
    """What an operation answers, in the form of the binding: now, once it has come, or as a stream."""
    user = view.request.user
    if method in STREAMS:
        with count_user_stream(user) as respond:
            first, turn = STREAMS[method](call, params)
            events = stream_task_updates(first, turn, is_subscription=method == "SubscribeToTask")
            return respond(build_sse_response(view.request, stream_event_lines(events, form)))
    if method not in WAITING or is_immediate(params):
        return Response(form(OPERATIONS[method](call, params)))
    with WAITS.take(user.pk) as place:
        ENDS.listen()
        end, answer = WAITING[method](call, params, place)
        return answer_later(view, end, lambda ended: Response(form(answer(ended))))


async def stream_event_lines(events: AsyncIterator[JSON], form: Callable[[JSON], JSON]) -> AsyncIterator[bytes]:
    async for event in events:
        yield HEARTBEAT if event is None else sse(form(event))


@extend_schema(exclude=True)
class RpcView(A2AView):
    """POST /a2a/{agent}: JSON-RPC 2.0."""

    id: JSON = None

    def get_exception_handler(self) -> Any:
        return in_their_form(super().get_exception_handler(), rpc_form(self.id), is_rpc=True)

    def post(self, request: Any, agent: str) -> Any:
        body = request.data
        # Kept first, so that the answer to a request that is refused has its id.
        if isinstance(body, dict) and isinstance(body.get("id"), str | int) and not isinstance(body["id"], bool):
            self.id = body["id"]
        method = parse_a2a_method(body)
        version = choose_a2a_version(request)
        params = body.get("params", {})
        # Older clients use other names for the same operations.
        if version == legacy.VERSION and method in legacy.METHODS:
            convert_answer = legacy.choose_answer_converter(method)
            params = legacy.convert_old_request(method, params)
            call = self.call(request, agent)
            return answer_a2a_operation(
                self, legacy.METHODS[method], call, params, lambda value: self.result(convert_answer(value))
            )
        if method not in KNOWN:
            raise A2AError(f"There is no method “{method[:80]}”.", code="unknown_method")
        if version == legacy.VERSION:
            raise version_refused(version)
        return answer_a2a_operation(self, method, self.call(request, agent), params, self.result)

    def result(self, value: JSON) -> JSON:
        return {"jsonrpc": "2.0", "id": self.id, "result": value}


def parse_a2a_method(body: JSON) -> str:
    """Raises A2AError for something that is not a request."""
    if not is_rpc_request(body):
        raise A2AError("The body is not a JSON-RPC 2.0 request with an id.", code="not_a_request")
    return body["method"]


def is_rpc_request(body: JSON) -> bool:
    """Whether it is a JSON-RPC 2.0 request that wants an answer. The id may be null, but not missing."""
    if not isinstance(body, dict) or "id" not in body:
        return False
    id = body["id"]
    has_id = isinstance(id, str | int | None) and not isinstance(id, bool)
    return has_id and body.get("jsonrpc") == "2.0" and isinstance(body.get("method"), str)


@extend_schema(exclude=True)
class HttpView(A2AView):
    """An operation over HTTP+JSON. `operations` names it by HTTP method."""

    operations: dict[str, str] = {}
    parser_classes = (A2AParser, JSONParser)
    # The second one is for clients that name it.
    renderer_classes = (JSONRenderer, A2ARenderer)

    def get_exception_handler(self) -> Any:
        return in_their_form(super().get_exception_handler(), http_form, is_rpc=False)

    def get(self, request: Any, agent: str, **named: str) -> Any:
        return self.operate(request, agent, {**parse_task_query(request), **named})

    def post(self, request: Any, agent: str, **named: str) -> Any:
        body = request.data or {}
        if not isinstance(body, dict):
            raise ParseError("The body must be an object.")
        return self.operate(request, agent, {**body, **named})

    def delete(self, request: Any, agent: str, **named: str) -> Any:
        return self.operate(request, agent, named)

    def operate(self, request: Any, agent: str, params: dict[str, JSON]) -> Any:
        method = self.operations.get(request.method)
        if method is None:
            self.http_method_not_allowed(request)
        choose_a2a_version(request, VERSIONS[:1])
        call = self.call(request, agent)
        return answer_a2a_operation(self, method, call, params, lambda value: value)


@extend_schema(exclude=True)
class OlderHttpView(HttpView):
    """The addresses of HTTP+JSON in version 0.3, which is spoken over JSON-RPC only."""

    def operate(self, request: Any, agent: str, params: dict[str, JSON]) -> Any:
        raise version_refused(legacy.VERSION)


def parse_task_query(request: Any) -> dict[str, JSON]:
    """Query parameters as fields of a request: those of ListTasks and GetTask are numbers, words and one yes or no."""
    fields: dict[str, JSON] = dict(request.query_params.items())
    if "includeArtifacts" in fields:
        fields["includeArtifacts"] = fields["includeArtifacts"] == "true"
    return fields
