"""Server-sent events of the gateway's protocols."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, TypeVar

from django.http import StreamingHttpResponse

from agents.http.credential_checks import CredentialCheck, while_good
from plumbing import json_values
from plumbing.threads import in_thread
from runs.exceptions import RunFinished
from runs.models import Run
from runs.queue import endings

PERSON = ("input", "approval")
Piece = TypeVar("Piece")


def build_sse_response(
    request: Any, source: AsyncIterator[bytes], standing: CredentialCheck | None = None
) -> StreamingHttpResponse:
    """Server-sent events, in a place that `count_user_stream` took before the run was started. A reader that
    goes away stops the run only if the source is `bound` to it. They end with `standing`, by default the
    caller's credential.
    """
    if standing is None:
        standing = CredentialCheck.of(request.auth, getattr(request, "session", None))
    content = while_good(source, standing)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=headers)


async def bound(run: Run, source: AsyncIterator[Piece], user: Any) -> AsyncIterator[Piece]:
    """A reader that leaves stops the run, unless it has ended or waits for an answer."""
    try:
        async for piece in source:
            yield piece
    finally:
        await in_thread(left, run, user)


def left(run: Run, user: Any) -> None:
    run.refresh_from_db(fields=["status", "waiting_for"])
    if not run.is_done and run.waiting_for not in PERSON:
        with suppress(RunFinished):
            endings.cancel_run(run, by=user, reason="its reader left")


def sse(data: dict[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return b"%sdata: %s\n\n" % (name, json_values.dump_json(data))


DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": still here\n\n"
