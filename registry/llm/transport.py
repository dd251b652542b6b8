"""Our connection pool for packages that bring their own client (Anthropic's)."""

from collections.abc import Iterator

import httpx2
from django.conf import settings

from .watch import current
from .wire import get_connection_pool, limit_answer, pace_parts


class PooledTransport(httpx2.HTTPTransport):
    """httpx2's transport on the shared pool, so that its reads notice a cancelled run, and an answer may be neither
    too large nor too slow.
    """

    def __init__(self, base_url: str) -> None:
        # Instead of super().__init__, which would create a second pool.
        self._pool = get_connection_pool(base_url)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        watch = current()
        if watch is not None:
            # The limit is for the whole head.
            watch.expect_within(settings.MODEL_SILENCE_S)
        try:
            response = super().handle_request(request)
        finally:
            if watch is not None:
                watch.expect_within(None)
        is_stream = "event-stream" in response.headers.get("content-type", "")
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = BoundedStream(response.stream, by_lines=is_stream)
        return response

    def close(self) -> None:
        """Does nothing: the pool belongs to the process."""

    def __exit__(self, *_: object) -> None:
        """Does nothing, as `close`."""


class BoundedStream(httpx2.SyncByteStream):
    """The body of an answer with the limits of every answer."""

    def __init__(self, inner: httpx2.SyncByteStream, *, by_lines: bool) -> None:
        self._inner = inner
        self._by_lines = by_lines

    def __iter__(self) -> Iterator[bytes]:
        yield from pace_parts(limit_answer(self._inner), by_lines=self._by_lines)

    def close(self) -> None:
        self._inner.close()
