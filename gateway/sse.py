"""Server-sent events of the gateway's protocols."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
from django.http import StreamingHttpResponse

from agents.http.standing import Standing, while_good


def streamed(request: Any, source: AsyncIterator[bytes], standing: Standing | None = None) -> StreamingHttpResponse:
    """Server-sent events, in a place that `stream_for` took before the run was started. The reader that
    goes away does not stop the run. It ends with `standing`, by default the caller's credential.
    """
    content = while_good(source, standing or Standing.of(request.auth, getattr(request, "session", None)))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=headers)


def sse(data: dict[str, Any], event: str = "") -> bytes:
    return b"%sdata: %s\n\n" % (f"event: {event}\n".encode() if event else b"", orjson.dumps(data, default=str))


DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": still here\n\n"
