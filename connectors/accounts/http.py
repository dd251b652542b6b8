"""Requests to a user's cloud account: token, retries, throttling, size limits. Each error says what
to do.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings

from agents.tools import OutcomeUnknown, ToolError
from connectors.exceptions import CursorExpired, MissingScope, ReconnectNeeded, Resting, Throttled, build_tool_failure
from connectors.logins import tokens
from connectors.models import Connection
from plumbing.http import outbound
from plumbing.http.failures import describe_failure

# Bytes of one answer; a larger message is read without its body.
ANSWER_LIMIT = 8 * 1024 * 1024
# Longest wait on a worker for a service that asks to retry later.
PATIENCE_S = 2.0
BACKOFF_S = (0.2, 0.6)
RATE_WORDS = frozenset({"ratelimitexceeded", "userratelimitexceeded", "quotaexceeded"})
# Microsoft's words for a cursor that it has forgotten.
CURSOR_WORDS = frozenset({"syncstatenotfound", "resyncrequired"})
RETRIED = frozenset({408, 500, 502, 503, 504})
CODES = {400: "refused", 403: "forbidden", 404: "not_found", 413: "too_large"}
Sleep = Callable[[float], None]
JSON = Any


class Api:
    """One account's API. Thread-safe: a sync reads several messages at once over one pool."""

    def __init__(self, connection: Connection, base_url: str, title: str, *, pause: Sleep = sleep) -> None:
        self.connection = connection
        self.title = title
        self._base_url = base_url.rstrip("/")
        self._pause = pause
        # Set in the settings, so an administrator has allowed it.
        host = urlsplit(base_url).hostname or ""
        self._client = outbound.client([*settings.PRIVATE_HOSTS_ALLOWED, host])

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: Any) -> None:
        self._client.close()

    def get(self, path: str, *, access: str = "read", limit: int = ANSWER_LIMIT, **more: Any) -> Any:
        """The object that a GET gives; `path` may be a full address that the service returned (a next page)."""
        return self.request("GET", path, access=access, limit=limit, **more)

    def post(self, path: str, body: Any, *, access: str, **more: Any) -> Any:
        """JSON of a POST, sent once: after a broken connection its outcome is unknown, and it is
        not repeated.
        """
        return self.request("POST", path, access=access, json=body, **more)

    def request(
        self, method: str, path: str, *, access: str, limit: int = ANSWER_LIMIT, may_repeat: bool = False, **more: Any
    ) -> Any:
        """Raises ToolFailed (with what to do), OutcomeUnknown, CursorExpired (410)."""
        repeatable = may_repeat or method == "GET"
        refused = ""
        for attempt in range(len(BACKOFF_S) + 1):
            last = attempt == len(BACKOFF_S)
            token = tokens.access_token(self.connection, refused=refused)
            try:
                status, headers, body = self.exchange(method, self.address(path), token, limit, more)
            except outbound.TooMuch as error:
                raise build_tool_failure("too_large", f"{self.title}: {error}")
            except outbound.AddressRefused as error:
                raise build_tool_failure("private_address", str(error))
            except httpx2.HTTPError as error:
                self.after_broken_exchange(error, repeatable, last)
                self._pause(BACKOFF_S[attempt])
                continue
            if status == 401 and not refused:
                # Refresh the token once, then accept the service's answer.
                refused = token
                continue
            if status == 429 or (status in RETRIED and repeatable):
                self.wait_or_give_up(status, headers, attempt, last)
                continue
            return self.answer(status, body, access)
        raise build_tool_failure("service_unavailable", f"{self.title} does not answer.")

    def exchange(
        self, method: str, url: str, token: str, limit: int, more: dict[str, Any]
    ) -> tuple[int, httpx2.Headers, bytes]:
        rest = dict(more)
        headers = {"Authorization": f"Bearer {token}", **rest.pop("headers", {})}
        with self._client.stream(method, url, headers=headers, **rest) as response:
            body = outbound.read_body(response, limit)
            return response.status_code, response.headers, body

    def address(self, path: str) -> str:
        """An address below our base, or a next page on the same host: the token is sent to no other
        host.
        """
        if not path.startswith("http"):
            return f"{self._base_url}{path}"
        if urlsplit(path)[:2] != urlsplit(self._base_url)[:2]:
            raise build_tool_failure("bad_answer", f"{self.title} points to another host, which is not followed.")
        return path

    def after_broken_exchange(self, error: httpx2.HTTPError, repeatable: bool, last: bool) -> None:
        never_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        if not repeatable and not never_sent:
            raise OutcomeUnknown(
                f"{self.title} closed the connection ({describe_failure(error)}); it is unknown whether the "
                "request was carried out."
            )
        if last or isinstance(error, outbound.OverTime):
            raise build_tool_failure(
                "service_unavailable", f"{self.title} cannot be reached: {describe_failure(error)}."
            )

    def wait_or_give_up(self, status: int, headers: httpx2.Headers, attempt: int, last: bool) -> None:
        wait = retry_after(headers)
        is_long = wait is not None and wait > PATIENCE_S
        if status == 429 and (last or is_long):
            raise Throttled(self.title, wait or 60.0)
        if wait is not None and is_long:
            raise Resting(self.title, wait, f"{self.title} answered {status}.")
        if last:
            raise build_tool_failure("service_unavailable", f"{self.title} answered {status}.", retry_after_s=wait)
        if wait is None:
            wait = BACKOFF_S[attempt]
        self._pause(wait)

    def answer(self, status: int, body: bytes, access: str) -> Any:
        """The JSON of an answer, or the error it stands for."""
        value = parse_cloud_body(body)
        if status >= 300:
            self.raise_for(status, parse_cloud_error(value), access)
        if value is None and body.strip() not in (b"", b"null"):
            raise build_tool_failure("bad_answer", f"{self.title} sent an answer that is not JSON.")
        if value is None and not body.strip():
            return {}
        if not isinstance(value, dict):
            raise build_tool_failure("bad_answer", f"{self.title} sent an answer that is no object.")
        # Some servers answer 200 and say in the body that it failed.
        is_only_error = isinstance(value.get("error"), dict | str) and len(value) == 1
        if is_only_error:
            reason = parse_cloud_error(value).get("message") or "an error"
            raise build_tool_failure("bad_answer", f"{self.title} answered {status} with an error: {reason[:300]}")
        return value

    def raise_for(self, status: int, error: dict[str, str], access: str) -> None:
        reason = error.get("message", "")[:300] or f"status {status}"
        word = error.get("code", "").lower()
        if status == 401:
            self.connection.mark_broken(f"{self.title} refuses the login: {reason}")
            raise ReconnectNeeded(self.connection, f"{self.title} refuses the login.")
        if status == 403 and lacks_scope(error):
            raise MissingScope(self.connection, access)
        if status == 403 and word in RATE_WORDS:
            raise Throttled(self.title, 60.0)
        if status == 410 or word in CURSOR_WORDS:
            raise CursorExpired(reason)
        code = CODES.get(status)
        if code is None:
            code = "service_unavailable" if status >= 500 else "refused"
        raise build_tool_failure(code, f"{self.title}: {reason}", status=status)


def find_rows(answer: JSON, name: str, key: str = "id") -> list[dict[str, JSON]]:
    """The objects of a list in an answer that have a text under `key`; none if there is no list."""
    rows = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        return []
    objects = [row for row in rows if isinstance(row, dict)]
    if not key:
        return objects
    return [row for row in objects if isinstance(row.get(key), str) and row[key]]


def find_ids(answer: JSON, name: str) -> list[str]:
    rows = find_rows(answer, name)
    return [row["id"] for row in rows]


def parse_cloud_body(body: bytes) -> Any:
    """The value, or None if it is not JSON. Broken characters are replaced."""
    if not body.strip():
        return None
    text = body.decode("utf-8", "replace")
    try:
        return httpx2.Response(200, content=text.encode()).json()
    except (ValueError, RecursionError):
        return None


def parse_cloud_error(value: Any) -> dict[str, str]:
    """code and message of Google's and Microsoft's error bodies."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return {"code": error, "message": str(value.get("error_description", error))}
    if not isinstance(error, dict):
        return {}
    # The reasons are more exact than the status: of “forbidden”, which of its kinds.
    code = find_first_reason(error) or find_detail_reason(error) or error.get("status") or error.get("code", "")
    return {"code": str(code), "message": str(error.get("message", ""))}


def find_first_reason(error: dict[str, Any]) -> JSON:
    details = error.get("errors")
    is_listed = isinstance(details, list) and details and isinstance(details[0], dict)
    if not is_listed:
        return ""
    return details[0].get("reason", "")


def find_detail_reason(error: dict[str, Any]) -> str:
    for one in find_rows(error, "details", key=""):
        if reason := str(one.get("reason", "")):
            return reason
    return ""


LACKS = re.compile(r"insufficient|scope|ErrorAccessDenied|Authorization_RequestDenied", re.IGNORECASE)


def lacks_scope(error: dict[str, str]) -> bool:
    text = f"{error.get('code', '')} {error.get('message', '')}"
    return bool(LACKS.search(text))


def retry_after(headers: httpx2.Headers, now: datetime | None = None) -> float | None:
    """Seconds to wait, from seconds or a date; None if the header is absent or invalid."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        return max(0.0, min(float(text), 86_400.0))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    wait = at - (now or datetime.now(UTC))
    return max(0.0, wait.total_seconds())


def is_gone(error: ToolError) -> bool:
    return error.code == "not_found"
