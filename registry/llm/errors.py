"""What went wrong between us and a model server, as one typed error. Plain Python.

Servers report errors in many shapes: with a status or with 200, as JSON of their own or as a page, before the answer
or in the middle of a stream. `build_http_failure` and `find_fault` read all of them; attempts.py decides what is asked
again.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from plumbing import json_values
from registry.exceptions import AttemptFailed

JSON = Any
OVERFLOW = "context_overflow"
# How servers say that a conversation is longer than the model can read.
TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context_overflow|maximum context length|context (length|size|window)"
    r"|prompt is too long|input is too long|input length and `?max_tokens`? exceed|input token count|too many tokens"
    r"|reduce the length of|request too large|must be <= \d+ tokens|longer than the maximum|exceeds the (maximum|limit)"
    r" (number of tokens|of \d+ tokens)|tokens \+ `?max_new_tokens",
    re.IGNORECASE,
)
NO_TOOLS = re.compile(
    r"(does not|doesn't|do not) support (tools|tool use|function)|tool[ _-]?call parser", re.IGNORECASE
)
NO_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|insufficient (balance|credits)", re.IGNORECASE
)
BROKEN_CALL = re.compile(r"tool_use_failed|failed to (call a function|parse tool call)", re.I)
# How the words begin with which servers name an error that has no status, and the status that it would have.
STATUSES = {
    "rate_limit": 429,
    "insufficient_quota": 429,
    "quota": 429,
    "invalid": 400,
    "unprocessable": 400,
    "bad_request": 400,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "overloaded": 529,
}
TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
FIELDS = ("message", "msg", "detail", "error", "error_message", "description", "reason")
# What an object has that is an answer, or an event of one.
ANSWER_FIELDS = ("choices", "candidates", "message", "usage", "promptFeedback")
# What an error has where a server does not call it one.
ERROR_FIELDS = ("detail", "errors", "error_message")
# Characters of a server's reason.
LONGEST = 500


def build_http_failure(status: int, body: bytes, retry_after: str = "") -> AttemptFailed:
    """The AttemptFailed for an HTTP error of a model server."""
    reason = find_error_reason(body)
    message = f"The model server answered {status}: {reason}"
    return judge(status, message, body, retry_after)


def judge(status: int, message: str, body: bytes, retry_after: str = "") -> AttemptFailed:
    more: dict[str, Any] = {"status": status, "retry_after": parse_retry_after(retry_after)}
    text = body[:4000].decode("utf-8", "replace")
    may_be_overflow = status not in (401, 403, 429)
    if status == 413 or (may_be_overflow and TOO_LONG.search(text)):
        return AttemptFailed(OVERFLOW, f"The conversation is too long for the model. {message}", status=status)
    if status == 429:
        # Nothing changes by waiting if the account has no money left.
        return AttemptFailed("model_rate_limited", message, is_retryable=not NO_QUOTA.search(text), **more)
    if status in (408, 409) or status >= 500:
        return AttemptFailed("model_unavailable", message, is_retryable=True, **more)
    if status in (401, 403):
        return AttemptFailed("model_key_refused", message, **more)
    if BROKEN_CALL.search(text):
        # The model wrote a call that its own server could not read; the next one may be well-formed.
        return AttemptFailed("bad_answer", message, is_retryable=True, **more)
    if NO_TOOLS.search(text):
        message += " Set the provider's tool calling to “schema” for models without tool calls."
    return AttemptFailed("model_refused", message, **more)


def find_fault(value: dict[str, JSON], content: bytes) -> AttemptFailed | None:
    """The error that a JSON answer, or an event of a stream, reports in place of an answer."""
    error = value.get("error")
    if not error:
        is_named = value.get("object") == "error" or value.get("type") == "error"
        has_answer = any(name in value for name in ANSWER_FIELDS)
        if has_answer and not is_named:
            return None
        if not is_named and not any(value.get(name) for name in ERROR_FIELDS):
            return None
    status = find_status(error if isinstance(error, dict) else value)
    reason = find_error_reason(content)
    message = f"The model server reported: {reason}"
    if status:
        return judge(status, message, content)
    if TOO_LONG.search(message):
        return AttemptFailed(OVERFLOW, message)
    return AttemptFailed("model_unavailable", message, is_retryable=True)


def find_status(error: dict[str, JSON]) -> int:
    """The HTTP status that an error names inside, or 0."""
    for name in ("code", "status", "status_code", "http_code"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    for name in ("code", "type", "status"):
        word = str(error.get(name) or "").lower()
        for beginning, status in STATUSES.items():
            if word.startswith(beginning):
                return status
    return 0


def find_error_reason(body: bytes) -> str:
    """The server's own words, without the JSON or the HTML around them."""
    text = body.decode("utf-8", "replace")
    try:
        reason = find_error_words(json_values.load_json(body))
    except ValueError:
        reason = ""
    if not reason:
        title = TITLE.search(text)
        if title:
            words = " ".join(title.group(1).split())
            reason = f"a page with the title “{words}”"
    return reason[:LONGEST] or text[:200] or "no reason"


def find_error_words(value: JSON, depth: int = 0) -> str:
    """The text in an error of any shape: {"error": {"message"}}, {"detail": [{"msg"}]}, [{"error": …}]…"""
    if isinstance(value, str):
        return value
    if depth > 6:
        return ""
    if isinstance(value, list):
        texts = [find_error_words(item, depth + 1) for item in value[:5]]
        return "; ".join(filter(None, texts))
    if not isinstance(value, dict):
        return ""
    for name in ("error", *FIELDS, "errors"):
        if not value.get(name):
            continue
        text = find_error_words(value[name], depth + 1)
        if not text:
            continue
        # The outer message of a proxy may say nothing; the one that it quotes is in its metadata.
        metadata = value.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        if isinstance(raw, str) and raw:
            return f"{text}: {raw}"
        return text
    return ""


def parse_retry_after(text: str, now: datetime | None = None) -> float | None:
    """Retry-After in seconds: a number, or a date. None if it is neither."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
