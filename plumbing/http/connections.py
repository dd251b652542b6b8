"""Open HTTP connections, kept for the next request to the same origin.

httpcore2's pool looks at every open connection several times for each request and blocks a thread
when it is full; with ten thousand requests in flight it does little else. This one opens a
connection for each request that finds none idle.
"""

import threading
from collections.abc import Iterator
from typing import Any

import httpcore2

Place = tuple[bytes, bytes, int]


class Connections:
    """Has the interface of httpcore2's pool that httpx2 needs. `maker` is such a pool; it only makes
    connections. At most `kept` idle connections are kept for an origin.
    """

    def __init__(self, maker: Any, *, kept: int) -> None:
        self._maker = maker
        self._kept = kept
        self._idle: dict[Place, list[Any]] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: Any) -> Any:
        """The response, whose connection is kept once its stream was closed."""
        if request.url.scheme not in (b"http", b"https"):
            raise httpcore2.UnsupportedProtocol("The address must begin with http:// or https://.")
        origin = request.url.origin
        place = (origin.scheme, origin.host, origin.port)
        while True:
            connection = self._take(place) or self._maker.create_connection(origin)
            try:
                answer = connection.handle_request(request)
            except httpcore2.ConnectionNotAvailable:
                continue
            except BaseException:
                connection.close()
                raise
            body = Body(answer.stream, self, place, connection)
            return httpcore2.Response(
                status=answer.status, headers=answer.headers, content=body, extensions=answer.extensions
            )

    def _take(self, place: Place) -> Any:
        """The connection that was used last; the server may have closed it meanwhile."""
        while True:
            with self._lock:
                idle = self._idle.get(place)
                if not idle:
                    return None
                connection = idle.pop()
            if not connection.has_expired():
                return connection
            connection.close()

    def put(self, place: Place, connection: Any) -> None:
        """Keep a connection that another request may use, and close the oldest if it is too old, or
        one too many.
        """
        if not connection.is_available():
            connection.close()
            return
        with self._lock:
            idle = self._idle.setdefault(place, [])
            oldest = idle.pop(0) if idle and (len(idle) >= self._kept or idle[0].has_expired()) else None
            idle.append(connection)
        if oldest is not None:
            oldest.close()

    def close(self) -> None:
        with self._lock:
            closing = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in closing:
            connection.close()

    def __enter__(self) -> "Connections":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Body:
    """The bytes of an answer. Its connection goes back when it is closed."""

    def __init__(self, stream: Any, owner: Connections, place: Place, connection: Any) -> None:
        self._stream = stream
        self._owner = owner
        self._place = place
        self._connection = connection
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                self._stream.close()
            finally:
                self._owner.put(self._place, self._connection)
