"""Errors that this package raises. All of them are subclasses of `MusterError`.

`APIError` carries what the server answered: `code`, `message`, `hint`, `details` and `request_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MusterError(Exception):
    """Every error of this package."""


class ConfigurationError(MusterError):
    """No server or no API key was given, or the stored ones cannot be read."""


class APIConnectionError(MusterError):
    """The server could not be reached, or the connection broke before its answer."""


class APITimeoutError(APIConnectionError):
    """The server did not answer in time."""


class StreamCutError(APIConnectionError):
    """An event stream broke and could not be resumed. The run goes on; `run` is its id."""

    def __init__(self, message: str, *, run: str | None = None) -> None:
        super().__init__(message)
        self.run = run


class APIError(MusterError):
    """The server refused the request.

    `status` is the HTTP status, `code` a stable word to compare, `message` and `hint` are for a
    person, `details` lists each problem, and `request_id` finds the request in the server's log.
    """

    def __init__(self, status: int, body: Any, *, headers: Mapping[str, str] | None = None) -> None:
        error: Any = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict):
            error = {}
        self.status = status
        self.code = str(error.get("code") or f"http_{status}")
        self.message = str(error.get("message") or f"The server answered {status}.")
        self.hint = str(error.get("hint") or "")
        self.details: list[Any] = error.get("details") or []
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        request_id = error.get("request_id") or self.headers.get("x-request-id", "")
        self.request_id = str(request_id)
        super().__init__(self.message)

    def __str__(self) -> str:
        """Message, code and hint, and a line for each detail."""
        first = f"{self.message} ({self.code})"
        if self.hint:
            first += f" {self.hint}"
        lines = [first]
        for detail in self.details:
            lines.append(f"  {describe_detail(detail)}")
        return "\n".join(lines)


def describe_detail(detail: object) -> str:
    """One problem of a refused body: its place, what is wrong, and what helps."""
    if not isinstance(detail, dict):
        return str(detail)
    where = f"line {detail['line']}" if detail.get("line") else str(detail.get("field") or "")
    parts = [str(detail[name]) for name in ("message", "hint") if detail.get(name)]
    words = " ".join(parts)
    return f"{where}: {words}" if where else words


class BadRequestError(APIError):
    """400: the request is malformed."""


class AuthenticationError(APIError):
    """401: the API key is missing, unknown, expired or revoked."""


class ForbiddenError(APIError):
    """403: visible, but not allowed."""


class NotFoundError(APIError):
    """404: there is no such thing that you can see."""


class ConflictError(APIError):
    """409: busy, already decided, a name that is taken, or an idempotency key with another body."""


class TooLargeError(APIError):
    """413: the body is larger than the site allows."""


class InvalidError(APIError):
    """422: the body violates a schema or a rule; see `details`."""


class RateLimitedError(APIError):
    """429: too many requests; see `retry_after`."""

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, if the server named them."""
        return seconds(self.headers.get("retry-after"))


class ServerError(APIError):
    """5xx: the server or something that it needs failed."""


KINDS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    422: InvalidError,
    429: RateLimitedError,
}


def build_api_error(status: int, body: Any, headers: Mapping[str, str]) -> APIError:
    """The error for an answer with this status."""
    kind = KINDS.get(status, ServerError if status >= 500 else APIError)
    return kind(status, body, headers=headers)


def seconds(text: str | None) -> float | None:
    """The seconds of a Retry-After header; None if it is absent or not a number of seconds."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
