"""HTTP to addresses given by users: every connection goes to a checked address, including
redirects.

Plain Python, no Django. `client(settings.PRIVATE_HOSTS_ALLOWED)` is the httpx2 client for all
outbound requests.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import monotonic
from typing import Any

import httpcore2
import httpx2

from plumbing.http import streams
from plumbing.http.addresses import LOOKUP_S, is_allowed, matches, private, resolve
from plumbing.http.connections import Connections

CONNECT_S = 10.0
SILENCE_S = 30.0
# Idle connections of one client to one server.
KEPT = 16
MAX_REDIRECTS = 5

Resolver = Callable[..., list[str]]  # (host, within=seconds) -> addresses

_until: ContextVar[float | None] = ContextVar("outbound_until", default=None)


class Sockets:
    """The open sockets of one piece of work, so that another thread can close them."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self, opened: socket.socket) -> None:
        """Raises OverTime if the work has ended."""
        with self._lock:
            if self._is_closed:
                raise OverTime("The work that made this request has ended.")
            # Those that are not closed yet.
            self._open = [one for one in self._open if one.fileno() != -1]
            self._open.append(opened)

    def close(self) -> None:
        """Reads and writes fail at once; the sockets themselves belong to their clients."""
        with self._lock:
            self._is_closed = True
            for opened in self._open:
                try:
                    # closing a TLS socket normally would take part in the exchange
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)
                except OSError:
                    pass  # closed already
            self._open.clear()


_sockets: ContextVar[Sockets | None] = ContextVar("outbound_sockets", default=None)


_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("outbound_is_cancelled", default=None)


class AddressRefused(httpx2.RequestError):
    """The address is private, and no setting allows it."""


class OverTime(httpx2.ReadTimeout):
    """The time limit of the whole exchange has passed."""


class TooMuch(httpx2.RequestError):
    """The answer is larger than the caller accepts."""


class Cancelled(httpx2.RequestError):
    """Nobody waits for the answer any more."""


@contextmanager
def until(seconds: float) -> Iterator[None]:
    """Every exchange inside ends within this time, however slowly the other side sends."""
    outer, mine = _until.get(), monotonic() + seconds
    token = _until.set(mine if outer is None else min(outer, mine))
    try:
        yield
    finally:
        _until.reset(token)


@contextmanager
def unless(cancelled: Callable[[], bool]) -> Iterator[None]:
    """Reads inside raise Cancelled soon after `cancelled()` becomes true."""
    token = _is_cancelled.set(cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def is_cancelled() -> bool:
    probe = _is_cancelled.get()
    return probe is not None and probe()


def asked_whether_cancelled() -> Callable[[], bool] | None:
    """What `unless` was given, for code on another greenlet or thread."""
    return _is_cancelled.get()


def check_cancelled() -> None:
    if is_cancelled():
        raise Cancelled("The work that made this request was cancelled.")


@contextmanager
def close_together(sockets: Sockets) -> Iterator[None]:
    """Every connection opened inside ends when `sockets` is closed."""
    token = _sockets.set(sockets)
    try:
        yield
    finally:
        _sockets.reset(token)


def client(allowed: Iterable[str], **more: Any) -> httpx2.Client:
    """A client that connects to public addresses, or to those in `allowed` (hosts or networks).

    `more` goes to httpx2.Client. Redirects are followed only on request, at most 5, each checked
    like the first address. Proxies of the environment are ignored: they would resolve names
    unchecked.
    """
    defaults = {
        "timeout": httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
        "max_redirects": MAX_REDIRECTS,
        "trust_env": False,
    }
    return httpx2.Client(transport=PinnedTransport(allowed), **{**defaults, **more})


class PinnedTransport(httpx2.HTTPTransport):
    """httpx2's transport, connected through `PinnedBackend`. `resolver` replaces the system's in tests."""

    def __init__(self, allowed: Iterable[str], resolver: Resolver | None = None) -> None:
        # instead of super().__init__, which would create a pool that resolves names itself
        backend = PinnedBackend(allowed, resolver)
        maker = httpcore2.ConnectionPool(ssl_context=tls(), keepalive_expiry=30, network_backend=backend)
        self._pool = Connections(maker, kept=KEPT)  # type: ignore[assignment]


class PinnedBackend(httpcore2.NetworkBackend):
    """Resolves a name once, checks every address, and connects to one of those."""

    def __init__(self, allowed: Iterable[str], resolver: Resolver | None = None) -> None:
        self._allowed = list(allowed)
        self._resolver = resolver

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        timeout = limit_timeout(timeout)
        failed: Exception = httpcore2.ConnectError(f"The host “{host}” cannot be found.")
        for address in check_host(host, self._allowed, self._resolver):
            try:
                return register_stream(streams.connect_stream(address, port, timeout, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed

    def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore2.NetworkStream:
        raise AddressRefused("Unix sockets are not allowed.")


class TimedStream(httpcore2.NetworkStream):
    """A stream whose reads and writes end with the time limit of `until`."""

    def __init__(self, inner: streams.Stream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        check_cancelled()
        try:
            return self._inner.read(max_bytes, limit_timeout(timeout), _is_cancelled.get())
        except httpcore2.ReadTimeout:
            check_cancelled()
            # Says so if the time of the whole exchange is over.
            limit_timeout(timeout)
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, limit_timeout(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return register_stream(self._inner.start_tls(ssl_context, server_hostname, limit_timeout(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def register_stream(stream: streams.Stream) -> TimedStream:
    sockets = _sockets.get()
    if sockets is not None:
        try:
            sockets.add(stream.get_extra_info("socket"))
        except OverTime:
            stream.close()
            raise
    return TimedStream(stream)


def check_host(host: str, allowed: list[str], resolver: Resolver | None = None) -> list[str]:
    """The addresses of a host, all of them allowed. Raises AddressRefused, OverTime, httpcore2.ConnectError."""
    try:
        addresses = (resolver or resolve)(host, within=limit_timeout(LOOKUP_S))
    except TimeoutError:
        raise OverTime(f"The host “{host}” was not resolved in time.")
    except (OSError, UnicodeError):
        raise httpcore2.ConnectError(f"The host “{host}” cannot be found.")
    if not matches(host, allowed) and not all(is_allowed(address, allowed) for address in addresses):
        raise AddressRefused(private(host))
    return addresses


def limit_timeout(timeout: float | None) -> float | None:
    """A time-out that does not exceed `until`. Raises OverTime."""
    end = _until.get()
    if end is None:
        return timeout
    remaining = end - monotonic()
    if remaining <= 0:
        raise OverTime("The time limit of this exchange has passed.")
    return remaining if timeout is None else min(timeout, remaining)


def read_body(response: httpx2.Response, limit: int, keep_on: Callable[[], bool] | None = None) -> bytes:
    """The body of a streamed response, decoded. Raises TooMuch beyond `limit` bytes; stops when
    `keep_on` returns False.
    """
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > limit:
            raise TooMuch(f"The answer is larger than {limit} bytes.")
        if keep_on and not keep_on():
            break
        parts.append(part)
    return b"".join(parts)


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    return ssl.create_default_context()
