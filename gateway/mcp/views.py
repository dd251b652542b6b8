"""The endpoint /mcp: one for all, and each person finds what she may use."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.http.viewsets import APIView
from gateway.sse import build_sse_response
from runs.events.connection_limits import count_user_stream

from . import calls, functions, methods, protocol, questions, sessions, subscriptions
from .oauth import McpAuthentication, build_key_standing
from .protocol import INTERNAL, METHOD, PARSE, REFUSED, REQUEST, SUPPORTED, Fault, RpcRequest, build_rpc_response

JSON = Any
CODES = {400: PARSE, 404: METHOD, 405: METHOD, 413: REQUEST, 415: REQUEST, 500: INTERNAL}


@extend_schema(exclude=True)
class McpView(APIView):
    """Streamable HTTP in both eras. Every error is a JSON-RPC error."""

    authentication_classes = (McpAuthentication,)
    scope = None  # each method asks for its own scope,
    personal = (None,)  # and for the role on the site that it takes
    id: JSON = None

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        check_origin(request)
        super().initial(request, *args, **kwargs)

    def post(self, request: Any) -> Any:
        message = request.data
        # Kept first, so that the answer to a message that is refused has its id.
        id = message.get("id") if isinstance(message, dict) else None
        self.id = id if isinstance(id, str | int) else None
        message = protocol.check_rpc_message(message)
        rpc = build_rpc_request(request, message)
        # A message without a method answers a question of the server.
        if "method" not in message:
            return self.answer_taken(rpc, message)
        if "id" not in message:
            return answer_notification(rpc)
        if rpc.method == "initialize" and not rpc.is_modern:
            return answer_initialize(rpc)
        starts = MODERN_STARTS if rpc.is_modern else STARTS
        start = starts.get(rpc.method)
        if start:
            return start_followed_work(request, rpc, start)
        if rpc.method == "tasks/result" and not rpc.is_modern:
            with count_user_stream(request.user) as respond:
                work = calls.result_of_task(rpc)
                return respond(build_stream_response(request, work))
        result = methods.answer_mcp_request(rpc)
        return Response(build_rpc_response(rpc, result))

    def answer_taken(self, rpc: RpcRequest, message: dict[str, JSON]) -> Response:
        """The client's answer to an elicitation of an earlier version."""
        self.id = None
        if rpc.is_modern:
            raise Fault(REQUEST, "In this version answers are sent with the repeated request.", status=400)
        if "result" in message:
            result = message["result"]
        else:
            result = {"action": "cancel", "error": message["error"]}
        questions.record_client_answers(rpc, {str(message["id"]): result})
        return Response(status=202)

    def get(self, request: Any) -> Any:
        """The rest of a stream that broke, or the notifications of a session."""
        rpc = session_request(request, {"method": "", "params": {}})
        last_event = request.headers.get("Last-Event-ID")
        if not last_event and not rpc.session:
            return Response(status=405, headers={"Allow": "POST"})
        with count_user_stream(request.user) as respond:
            if last_event:
                work: Any = calls.resume_call_stream(rpc, last_event[:4000])
            else:
                work = subscriptions.of_session(rpc)
            return respond(build_stream_response(request, work))

    def delete(self, request: Any) -> Response:
        """End a session of an earlier version."""
        id = request.headers.get("Mcp-Session-Id")
        if not id:
            return Response(status=405, headers={"Allow": "POST"})
        session = sessions.load_mcp_session(request.user, id)
        sessions.close_mcp_session(session)
        return Response(status=204)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        handle = super().get_exception_handler()

        def in_their_form(error: Exception, context: dict[str, Any]) -> Response:
            if isinstance(error, Fault):
                return Response(error.as_json(self.id), status=error.status)
            response = handle(error, context)
            error_data = response.data["error"]
            text = " ".join(filter(None, [error_data["message"], error_data.get("hint")]))
            code = CODES.get(response.status_code, REFUSED)
            fault = Fault(code, text, data={"code": error_data["code"]})
            response.data = fault.as_json(self.id)
            return response

        return in_their_form


def check_origin(request: Any) -> None:
    """A page of another site must not use this endpoint, also not by a name that resolves to this machine.

    Django refuses unknown names in the Host header (ALLOWED_HOSTS). Raises Fault.
    """
    origin = request.headers.get("Origin")
    if origin is None or origin in (*settings.CORS_ALLOWED_ORIGINS, *settings.CSRF_TRUSTED_ORIGINS):
        return
    if urlsplit(origin).netloc.lower() != request.get_host().lower():
        raise Fault(REFUSED, "This origin is not allowed.", status=403)


def build_rpc_request(request: Any, message: dict[str, JSON]) -> RpcRequest:
    """The request in the era in which it was sent. Raises Fault."""
    header = request.headers.get("MCP-Protocol-Version", "")
    if "method" not in message or not protocol.is_modern(message, header):
        return session_request(request, message)
    if "id" in message:
        protocol.check_modern(message, request.headers)
    params = message.get("params") or {}
    meta = protocol.get_params_meta(params)
    rpc = RpcRequest(
        user=request.user,
        auth=request.auth,
        method=message["method"],
        params=params,
        id=message.get("id"),
        version=protocol.MODERN,
        capabilities=meta.get(protocol.CAPABILITIES_KEY) or {},
        client=get_client_name(meta.get(protocol.CLIENT_KEY)),
    )
    if protocol.LEVEL_KEY in meta:
        rpc.log_level = protocol.level(meta[protocol.LEVEL_KEY])
    return rpc


def session_request(request: Any, message: dict[str, JSON]) -> RpcRequest:
    """Of an earlier version, in its session; a request without one has no capabilities."""
    method = message.get("method", "")
    header = request.headers.get("MCP-Protocol-Version", "")
    is_known = header in protocol.LEGACY_VERSIONS
    if header and not is_known and method != "initialize":
        raise Fault(protocol.VERSION, "Unsupported protocol version", data={"supported": SUPPORTED}, status=400)
    rpc = RpcRequest(
        user=request.user,
        auth=request.auth,
        method=method,
        params=message.get("params") or {},
        id=message.get("id"),
        version=header if is_known else protocol.OLDEST,
    )
    id = request.headers.get("Mcp-Session-Id")
    if id and method != "initialize":
        session = sessions.load_mcp_session(request.user, id)
        rpc.session = session.digest
        rpc.capabilities = session.capabilities
        rpc.client = session.client
        rpc.version = header or session.version
        rpc.log_level = session.log_level
    return rpc


def get_client_name(client: JSON) -> str:
    if not isinstance(client, dict):
        return ""
    name = client.get("name")
    return name[:100] if isinstance(name, str) else ""


def answer_initialize(rpc: RpcRequest) -> Response:
    """`initialize`: the version, what the server offers, and the session."""
    version = protocol.choose_session_version(rpc.params.get("protocolVersion"))
    client_name = get_client_name(rpc.params.get("clientInfo"))
    session = sessions.create_mcp_session(rpc.user, version, rpc.object("capabilities"), client_name)
    result = {
        "protocolVersion": version,
        "capabilities": methods.capabilities(version),
        "serverInfo": protocol.SERVER,
        "instructions": protocol.INSTRUCTIONS,
    }
    return Response(build_rpc_response(rpc, result), headers={"Mcp-Session-Id": session.id})


def answer_notification(rpc: RpcRequest) -> Response:
    """In 2026-07-28 closing the stream cancels a request; before, this notification does."""
    if rpc.method == "notifications/cancelled" and not rpc.is_modern:
        request = rpc.params.get("requestId")
        if isinstance(request, str | int):
            calls.cancel_client_request(rpc, request)
    return Response(status=202)


def start_followed_work(request: Any, rpc: RpcRequest, start: Callable[..., Any]) -> Any:
    with count_user_stream(request.user) as respond:
        work = start(rpc, request.headers)
        if isinstance(work, dict):
            return Response(build_rpc_response(rpc, work))
        return respond(build_stream_response(request, work))


def build_stream_response(request: Any, work: Any) -> StreamingHttpResponse:
    source = choose_work_stream(work)
    return build_sse_response(request, source, build_key_standing(request.auth))


def choose_work_stream(work: calls.Work | functions.Heard | subscriptions.Watch) -> AsyncIterator[bytes]:
    match work:
        case functions.Heard():
            return functions.stream_function_call(work)
        case subscriptions.Watch():
            return subscriptions.stream_watched_changes(work)
    return calls.stream_call_messages(work)


STARTS = {"tools/call": calls.answer_tool_call, "prompts/get": calls.prompt}
MODERN_STARTS = {**STARTS, "subscriptions/listen": subscriptions.listen}
