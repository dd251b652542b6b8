"""Errors in A2A's two forms: JSON-RPC 2.0, and google.rpc.Status over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from agents.exceptions import MusterError

JSON = Any
DOMAIN = "a2a-protocol.org"
# HTTP statuses that a JSON-RPC answer keeps; all others become 200.
STANDS = (401, 403, 429, 503)


@dataclass(frozen=True, slots=True)
class Kind:
    """Of an error: the code of JSON-RPC, the HTTP status, gRPC's name of it, and A2A's reason."""

    number: int
    status: int
    name: str
    reason: str = ""


KINDS = {
    "task_not_found": Kind(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    "run_finished": Kind(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    "unsupported_operation": Kind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    "unsupported_content": Kind(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    "version_not_supported": Kind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    "malformed": Kind(-32700, 400, "INVALID_ARGUMENT"),
    "not_a_request": Kind(-32600, 400, "INVALID_ARGUMENT"),
    "unknown_method": Kind(-32601, 400, "INVALID_ARGUMENT"),
}
BY_STATUS = {
    401: Kind(-32000, 401, "UNAUTHENTICATED"),
    403: Kind(-32000, 403, "PERMISSION_DENIED"),
    404: Kind(-32602, 404, "NOT_FOUND"),
    405: Kind(-32601, 405, "UNIMPLEMENTED"),
    409: Kind(-32602, 409, "FAILED_PRECONDITION"),
    413: Kind(-32602, 413, "INVALID_ARGUMENT"),
    415: Kind(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    422: Kind(-32602, 400, "INVALID_ARGUMENT"),
    429: Kind(-32000, 429, "RESOURCE_EXHAUSTED"),
    503: Kind(-32603, 503, "UNAVAILABLE"),
}


class A2AError(MusterError):
    """`code` is a name in KINDS."""


def in_their_form(
    handle: Callable[[Exception, Any], Response], form: Callable[[Kind, str, list[JSON]], JSON], *, is_rpc: bool
) -> Callable[[Exception, Any], Response]:
    """An exception handler whose answers have the `form` of the binding."""

    def handler(error: Exception, context: Any) -> Response:
        response = handle(error, context)
        error_data = response.data["error"]
        kind = find_error_kind(error_data["code"], response.status_code)
        message = " ".join(filter(None, [error_data["message"], error_data.get("hint")]))
        details = list(iterate_error_details(kind, error_data))
        # JSON-RPC answers 200 to a request that it has understood, and says in the body what is wrong.
        keeps_status = not is_rpc or kind.status in STANDS
        response.status_code = kind.status if keeps_status else 200
        response.data = form(kind, message, details)
        return response

    return handler


def find_error_kind(code: str, status: int) -> Kind:
    kind = KINDS.get(code) or BY_STATUS.get(status)
    if kind is not None:
        return kind
    if status >= 500:
        return Kind(-32603, 500, "INTERNAL")
    return Kind(-32602, 400, "INVALID_ARGUMENT")


def iterate_error_details(kind: Kind, error: dict[str, JSON]) -> Any:
    """Why, in a word for programs, and the fields that are wrong."""
    if kind.reason:
        reason = kind.reason
        domain = DOMAIN
    else:
        reason = error["code"].upper()
        domain = "muster"
    request_id = str(error.get("request_id", ""))
    yield {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": {"requestId": request_id},
    }
    violations = []
    for detail in error.get("details") or ():
        if isinstance(detail, dict) and "message" in detail:
            violations.append({"field": str(detail.get("field", "")), "description": str(detail["message"])})
    if violations:
        yield {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}


def http_form(kind: Kind, message: str, details: list[JSON]) -> JSON:
    error = {"code": kind.status, "status": kind.name, "message": message, "details": details}
    return {"error": error}


def rpc_form(id: JSON) -> Callable[[Kind, str, list[JSON]], JSON]:
    def form(kind: Kind, message: str, details: list[JSON]) -> JSON:
        error = {"code": kind.number, "message": message, "data": details}
        return {"jsonrpc": "2.0", "id": id, "error": error}

    return form
