"""Server-sent events of the gateway's protocols."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
from django.conf import settings
from django.http import StreamingHttpResponse

from agents.http.standing import Standing, while_good
from runs.events.places import STREAMS


def streamed(request: Any, source: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Server-sent events. The reader that goes away does not stop the run. Raises RateLimited."""
    STREAMS.enter(request.user.pk, settings.MAX_STREAMS)
    content = while_good(source, Standing.of(request.auth, getattr(request, "session", None)))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    response = StreamingHttpResponse(content, content_type="text/event-stream", headers=headers)
    response._resource_closers.append(lambda: STREAMS.leave(request.user.pk))  # type: ignore[attr-defined]
    return response


def sse(data: dict[str, Any], event: str = "") -> bytes:
    return b"%sdata: %s\n\n" % (f"event: {event}\n".encode() if event else b"", orjson.dumps(data, default=str))


DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": still here\n\n"
