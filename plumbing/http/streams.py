"""Network streams for httpcore2's connections, whose waits hold no thread inside a hub (waits.py)."""

import select
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import httpcore2

from plumbing import waits
from plumbing.http.addresses import resolve
from plumbing.waits import READ, WRITE, IsOver

Options = Iterable[tuple[Any, ...]]


def connect_stream(
    host: str, port: int, timeout: float | None, local_address: str | None = None, options: Options | None = None
) -> "Stream":
    """A stream to the first address of the host that accepts a connection. Raises ConnectError,
    ConnectTimeout.
    """
    ends = None if timeout is None else monotonic() + timeout
    with translate_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
        failed: OSError = OSError("the host has no address")
        for address in find_addresses(host, port, timeout):
            try:
                opened = open_socket((address, port), left(ends), local_address)
            except TimeoutError:
                raise
            except OSError as error:
                failed = error
                continue
            for option in options or ():
                opened.setsockopt(*option)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return Stream(opened)
        raise failed


def find_addresses(host: str, port: int, timeout: float | None) -> list[str]:
    try:
        return [numeric(host)]
    except OSError:
        return resolve(host, port, within=timeout)


def numeric(host: str) -> str:
    """The host, if it is an address. Raises OSError."""
    socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    return host


def open_socket(address: tuple[str, int], timeout: float | None, local_address: str | None) -> socket.socket:
    """Raises OSError, TimeoutError."""
    family, kind, protocol, _, place = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setblocking(False)
        if local_address is not None:
            opened.bind((local_address, 0))
        try:
            opened.connect(place)
        except BlockingIOError:
            await_socket(opened, WRITE, timeout)
        if number := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, "the connection failed")
    except BaseException:
        opened.close()
        raise
    return opened


class Stream:
    """httpcore2's NetworkStream on a socket that does not block."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened

    def read(self, max_bytes: int, timeout: float | None = None, is_over: IsOver | None = None) -> bytes:
        """Raises ReadTimeout also when `is_over` was true."""
        with translate_errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            return retry_until_ready(self._socket, READ, timeout, partial(self._socket.recv, max_bytes), is_over)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with translate_errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            rest = memoryview(buffer)
            while rest:
                rest = rest[retry_until_ready(self._socket, WRITE, timeout, partial(self._socket.send, rest)) :]

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Stream":
        with translate_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            try:
                if isinstance(self._socket, ssl.SSLSocket):
                    raise OSError("TLS inside TLS is not supported: name the proxy with http://")
                secured = ssl_context.wrap_socket(
                    self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                retry_until_ready(secured, READ, timeout, secured.do_handshake)
            except BaseException:
                self.close()
                raise
        return Stream(secured)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "client_addr":
            return self._socket.getsockname()
        if info == "server_addr":
            return self._socket.getpeername()
        if info == "socket":
            return self._socket
        if info == "is_readable":
            return is_readable(self._socket)
        return None


def retry_until_ready(
    opened: socket.socket, event: int, timeout: float | None, work: Callable[[], Any], is_over: IsOver | None = None
) -> Any:
    """What `work` returns, once the socket lets it; TLS may have to read in order to write."""
    while True:
        try:
            return work()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            wants = find_wanted_event(error) or event
        await_socket(opened, wants, timeout, is_over)


def find_wanted_event(error: OSError) -> int | None:
    """What TLS waits for, which is not always what the caller does."""
    if isinstance(error, ssl.SSLWantReadError):
        return READ
    return WRITE if isinstance(error, ssl.SSLWantWriteError) else None


def await_socket(opened: socket.socket, event: int, timeout: float | None, is_over: IsOver | None = None) -> None:
    if not waits.for_socket(opened.fileno(), event, timeout, is_over):
        raise TimeoutError("the other side took too long")


def is_readable(opened: socket.socket) -> bool:
    """Data has come, or the other side has closed the connection."""
    if opened.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))


def left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - monotonic())


@contextmanager
def translate_errors(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise failure(str(error)) from error
