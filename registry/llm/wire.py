"""HTTP to model servers: one connection pool per process, JSON both ways, reads that notice a
cancelled run.

The providers' own clients use 2 ms of CPU a call for building and parsing; this uses 0.4 ms
(docs/adr/0071).
"""

import ssl
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2
from django.conf import settings

from plumbing import json_values
from plumbing.http import streams
from plumbing.http.addresses import is_allowed
from plumbing.http.connections import Connections
from registry.exceptions import AttemptFailed, ModelFailed

from .watch import current

CONNECT_S = 10.0
TOGETHER = 64 * 1024  # bytes of a request that are sent in one write
KEPT = 256  # idle connections to one server
MAX_ANSWER = 32 * 1024 * 1024  # bytes
JSON = Any
DONE = object()  # the event in which a server says that its stream is complete


class Endpoint:
    """One JSON endpoint. `headers` carry the key and are never logged."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self.headers = [("Host", urlsplit(url).netloc), ("Content-Type", "application/json"), *headers.items()]
        self.headers.append(("Accept-Encoding", "identity"))

    def post(self, body: JSON) -> JSON:
        """The JSON of the answer. Raises AttemptFailed."""
        with Exchange(self, body) as response:
            return read_json(b"".join(limited(response.iter_stream())))

    def events(self, body: JSON) -> Generator[JSON]:
        """The data of a server-sent event stream, one JSON value per event, and DONE. Without DONE the connection was
        closed: the reader has to know whether its answer was complete by then. Raises AttemptFailed.
        """
        with Exchange(self, body) as response:
            if b"event-stream" not in header(response, b"content-type"):
                read_json(b"".join(limited(response.iter_stream())))
                raise AttemptFailed("bad_answer", "The model server did not stream its answer.", is_retryable=True)
            yield from read_events(limited(response.iter_stream()))


class Exchange:
    """One request and its answer as a context; connection errors become AttemptFailed."""

    def __init__(self, endpoint: Endpoint, body: JSON) -> None:
        content = json_values.write(body)
        headers = [*endpoint.headers, ("Content-Length", str(len(content)))]
        silence = settings.MODEL_SILENCE_S
        timeout = {"connect": CONNECT_S, "read": silence, "write": silence, "pool": CONNECT_S}
        self._pool = pool_for(endpoint.url)
        self._request = httpcore2.Request(
            "POST", endpoint.url, headers=headers, content=content, extensions={"timeout": timeout}
        )

    def __enter__(self) -> httpcore2.Response:
        try:
            self._response = self._pool.handle_request(self._request)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError) as error:
            raise broken(error)
        if self._response.status >= 300:
            self._refuse(self._response)
        return self._response

    def _refuse(self, response: httpcore2.Response) -> None:
        try:
            text = b"".join(limited(response.iter_stream()))[:2000]
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError):
            text = b""
        response.close()
        raise refused(response.status, text, header(response, b"retry-after").decode("latin-1"))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._response.close()
        if isinstance(error, httpcore2.NetworkError | httpcore2.TimeoutException | httpcore2.ProtocolError):
            raise broken(error) from None


def broken(error: BaseException) -> AttemptFailed:
    """The AttemptFailed for a connection error. After a time-out or a cut answer the model may be
    asked again.
    """
    if isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout):
        return AttemptFailed("model_unreachable", "The model server cannot be reached.", is_retryable=True)
    if isinstance(error, httpcore2.TimeoutException):
        return AttemptFailed("model_timeout", "The model server stopped responding.", is_retryable=True)
    return AttemptFailed("cut_stream", "The model's answer was cut off.", is_retryable=True)


def refused(status: int, body: bytes, retry_after: str = "") -> AttemptFailed:
    """The AttemptFailed for an HTTP error of a model server."""
    message = f"The model server answered {status}: {reason_in(body)}"
    more: dict[str, Any] = {"status": status, "retry_after": seconds(retry_after)}
    if status == 429:
        return AttemptFailed("model_rate_limited", message, is_retryable=True, **more)
    if status in (408, 409) or status >= 500:
        return AttemptFailed("model_unavailable", message, is_retryable=True, **more)
    if status in (401, 403):
        return AttemptFailed("model_key_refused", message, **more)
    return AttemptFailed("model_refused", message, **more)


def reason_in(body: bytes) -> str:
    try:
        error = json_values.read(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:500]
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")[:200] or "no reason"


def seconds(text: str) -> float | None:
    """Retry-After in seconds; a date in it is treated as absent."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def header(response: httpcore2.Response, name: bytes) -> bytes:
    return next((value for key, value in response.headers if key.lower() == name), b"")


def limited(parts: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MAX_ANSWER:
            raise AttemptFailed("bad_answer", "The model's answer is too large.")
        yield part


def read_events(parts: Iterable[bytes]) -> Iterator[JSON]:
    """The JSON values of server-sent events, then DONE if it was sent. Raises AttemptFailed."""
    for line in lines(parts):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            yield DONE
            return
        yield read_json(data)


def lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream; the last one also without its end, if it is a whole event."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    if is_whole_event(rest):
        yield rest


def is_whole_event(line: bytes) -> bool:
    data = line.removeprefix(b"data:").strip()
    if data == b"[DONE]":
        return True
    try:
        json_values.read(data)
    except ValueError:
        return False
    return True


def read_json(content: bytes) -> JSON:
    try:
        value = json_values.read(content)
    except ValueError:
        raise AttemptFailed("bad_answer", "The model server's answer is not JSON.", is_retryable=True)
    if not isinstance(value, dict):
        raise AttemptFailed("bad_answer", "The model server's answer is not an object.", is_retryable=True)
    if value.get("error"):
        raise AttemptFailed("model_unavailable", f"The model server reported: {reason_in(content)}", is_retryable=True)
    return value


def pool_for(url: str) -> Any:
    """The process's connection pool, or the one for the proxy that the environment names for this
    address.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme) if _has_proxies() else None
    return _pool(proxy if proxy and not proxy_bypass(parts.hostname or "") else None)


@lru_cache(maxsize=1)
def _has_proxies() -> bool:
    return bool(getproxies())


@lru_cache(maxsize=8)
def _pool(proxy: str | None) -> Connections:
    more: dict[str, Any] = {"proxy_url": proxy} if proxy else {}
    kind: Any = httpcore2.HTTPProxy if proxy else httpcore2.ConnectionPool
    maker = kind(
        ssl_context=ssl.create_default_context(),
        keepalive_expiry=60,
        network_backend=WatchedBackend(is_guarded=proxy is None),
        **more,
    )
    return Connections(maker, kept=KEPT)


class WatchedBackend(httpcore2.NetworkBackend):
    """Connects only to allowed addresses, and returns streams that notice a cancelled run.

    The address is checked on the connected socket, so a name that resolves differently a moment
    later changes nothing.
    """

    def __init__(self, *, is_guarded: bool = True) -> None:
        self._is_guarded = is_guarded

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        watch = current()
        limit = timeout if watch is None else watch.at_most(timeout)
        stream = streams.connect(host, port, limit, local_address, socket_options)
        address = stream.get_extra_info("server_addr")[0]
        allowed = settings.PRIVATE_HOSTS_ALLOWED
        if self._is_guarded and host not in allowed and not is_allowed(address, allowed):
            stream.close()
            raise ModelFailed(
                "private_address",
                f"“{host}” leads to a private address; an administrator can allow it (MUSTER_PRIVATE_HOSTS).",
            )
        return WatchedStream(stream)


class WatchedStream(httpcore2.NetworkStream):
    """Sends head and body in one packet, and checks the call's watch while it waits for the answer."""

    def __init__(self, inner: streams.Stream) -> None:
        self._inner = inner
        self._unsent = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._flush(timeout)
        watch = current()
        if watch is None:
            return self._inner.read(max_bytes, timeout)
        try:
            return self._inner.read(max_bytes, watch.at_most(timeout), watch.is_over)
        except httpcore2.ReadTimeout:
            watch.insist()
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer
        if len(self._unsent) > TOGETHER:
            self._flush(timeout)

    def _flush(self, timeout: float | None) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            self._inner.write(unsent, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return WatchedStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
