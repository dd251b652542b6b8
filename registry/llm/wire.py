"""HTTP to model servers: one connection pool per process, JSON both ways, reads that notice a
cancelled run.

The providers' own clients use 2 ms of CPU a call for building and parsing; this uses 0.4 ms
(docs/adr/0071).
"""

import ssl
import zlib
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from itertools import chain
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

from .errors import build_http_failure, find_fault
from .watch import current

CONNECT_S = 10.0
# Bytes of a request that are sent in one write.
TOGETHER = 64 * 1024
# Idle connections to one server.
KEPT = 256
# Bytes of an answer, at most.
MAX_ANSWER = 32 * 1024 * 1024
JSON = Any
# Bytes of a refusal that are read.
REASON_BYTES = 4_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The event in which a server says that its stream is complete.
DONE = object()


class Endpoint:
    """One JSON endpoint. `headers` carry the key and are never logged."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        host = urlsplit(url).netloc
        self.headers = [("Host", host), ("Content-Type", "application/json"), *headers.items()]
        # A compressed stream arrives in larger pieces, so later.
        self.headers.append(("Accept-Encoding", "identity"))

    def post(self, body: JSON) -> JSON:
        """The JSON of the answer. Raises AttemptFailed."""
        with Exchange(self, body) as response:
            return read_answer_json(b"".join(read_body(response)))

    def events(self, body: JSON) -> Generator[JSON]:
        """The answer: one JSON value, or the values of a stream of events or lines, and DONE. Without DONE the
        connection was closed: the reader has to know whether its answer was complete by then. Some servers stream
        without being asked, and some do not although they are. Raises AttemptFailed.
        """
        with Exchange(self, body) as response:
            kind = header(response, b"content-type")
            if b"event-stream" in kind:
                yield from read_events(read_body(response, by_lines=True))
            elif b"ndjson" in kind or b"jsonl" in kind:
                lines = split_stream_lines(read_body(response, by_lines=True))
                filled_lines = filter(bytes.strip, lines)
                yield from map(read_answer_json, filled_lines)
            else:
                yield from read_whole(b"".join(read_body(response)))


class Exchange:
    """One request and its answer as a context; connection errors become AttemptFailed."""

    def __init__(self, endpoint: Endpoint, body: JSON) -> None:
        content = json_values.dump_json(body)
        headers = [*endpoint.headers, ("Content-Length", str(len(content)))]
        silence = settings.MODEL_SILENCE_S
        timeout = {"connect": CONNECT_S, "read": silence, "write": silence, "pool": CONNECT_S}
        extensions = {"timeout": timeout}
        self._pool = get_connection_pool(endpoint.url)
        self._request = httpcore2.Request("POST", endpoint.url, headers=headers, content=content, extensions=extensions)

    def __enter__(self) -> httpcore2.Response:
        watch = current()
        if watch is not None:
            # For the whole head.
            watch.expect_within(settings.MODEL_SILENCE_S)
        try:
            self._response = self._pool.handle_request(self._request)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError) as error:
            raise broken(error)
        finally:
            if watch is not None:
                watch.expect_within(None)
        if self._response.status >= 300:
            self._refuse(self._response)
        return self._response

    def _refuse(self, response: httpcore2.Response) -> None:
        try:
            text = read_beginning(read_body(response), REASON_BYTES)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError):
            text = b""
        response.close()
        # LiteLLM's proxy hands the header of the server behind it on under another name.
        wait = header(response, b"retry-after") or header(response, b"llm_provider-retry-after")
        raise build_http_failure(response.status, text, wait.decode("latin-1"))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._response.close()
        if isinstance(error, httpcore2.NetworkError | httpcore2.TimeoutException | httpcore2.ProtocolError):
            raise broken(error) from None


def read_beginning(parts: Iterable[bytes], size: int) -> bytes:
    beginning = b""
    for part in parts:
        beginning += part
        if len(beginning) >= size:
            break
    return beginning[:size]


def broken(error: BaseException) -> AttemptFailed:
    """The AttemptFailed for a connection error. After a time-out or a cut answer the model may be
    asked again.
    """
    if isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout):
        return AttemptFailed("model_unreachable", "The model server cannot be reached.", is_retryable=True)
    if isinstance(error, httpcore2.TimeoutException):
        return AttemptFailed("model_timeout", "The model server stopped responding.", is_retryable=True)
    return AttemptFailed("cut_stream", "The model's answer was cut off.", is_retryable=True)


def header(response: httpcore2.Response, name: bytes) -> bytes:
    """The value of a header, whose name is given in small letters; empty without it."""
    for key, value in response.headers:
        if key.lower() == name:
            return value
    return b""


def read_body(response: httpcore2.Response, *, by_lines: bool = False) -> Iterator[bytes]:
    """The bytes of an answer, which may be neither too many nor too slow. `by_lines`: the limit of time is one for
    each line.
    """
    parts = limit_answer(response.iter_stream())
    encoding = header(response, b"content-encoding")
    plain_parts = decompress_parts(parts, encoding)
    return pace_parts(plain_parts, by_lines=by_lines)


def limit_answer(parts: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MAX_ANSWER:
            raise AttemptFailed("bad_answer", "The model's answer is too large.")
        yield part


def decompress_parts(parts: Iterable[bytes], encoding: bytes) -> Iterator[bytes]:
    """The parts without a compression that was not asked for. Some proxies name one that they have undone already."""
    if encoding.strip().lower() not in (b"gzip", b"x-gzip", b"deflate"):
        yield from parts
        return
    parts = iter(parts)
    beginning = b""
    for part in parts:
        beginning += part
        if len(beginning) >= 2:
            break
    is_packed = beginning[:2] == b"\x1f\x8b" or beginning[:1] == b"\x78"
    rest = chain([beginning], parts)
    yield from limit_answer(inflate_parts(rest)) if is_packed else rest


def inflate_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    # Either gzip or zlib, whichever the header says.
    inflator = zlib.decompressobj(wbits=47)
    try:
        for part in parts:
            while part:
                yield inflator.decompress(part, TOGETHER)
                part = inflator.unconsumed_tail
        yield inflator.flush()
    except zlib.error:
        raise AttemptFailed("bad_answer", "The model server's answer cannot be unpacked.", is_retryable=True)


def pace_parts(parts: Iterable[bytes], *, by_lines: bool) -> Iterator[bytes]:
    """The parts as they are. An event, or a whole answer, that has begun has to be complete within a limit: a server
    that sends a byte now and then is not silent, and would never be given up. White space sent to keep the connection
    does not begin an answer.
    """
    watch = current()
    if watch is None:
        yield from parts
        return
    limit_s = settings.MODEL_SILENCE_S
    has_begun = False
    try:
        for part in parts:
            *_, tail = part.rsplit(b"\n", 1) if by_lines else [part]
            is_whole = by_lines and b"\n" in part
            if is_whole or (not has_begun and tail.strip()):
                has_begun = bool(tail.strip())
                watch.expect_within(limit_s if has_begun else None)
            yield part
    finally:
        watch.expect_within(None)


def read_whole(content: bytes) -> Iterator[JSON]:
    """An answer whose content type says nothing: JSON, or a stream in disguise."""
    begin = content.lstrip()[:6]
    if begin.startswith((b"data:", b"event:", b":")):
        yield from read_events([content])
    else:
        yield read_answer_json(content)


def read_events(parts: Iterable[bytes]) -> Iterator[JSON]:
    """The JSON values of server-sent events, then DONE if it was sent. Raises AttemptFailed."""
    # The first lines of an event whose JSON goes over several.
    unfinished = b""
    is_error = False
    for line in split_stream_lines(parts):
        if line.startswith(b"event:"):
            is_error = line[6:].strip() == b"error"
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            yield DONE
            return
        if is_error:
            raise read_event_error(data)
        content = unfinished + data
        if not is_json(content):
            unfinished = content + b"\n"
            continue
        unfinished = b""
        yield read_answer_json(content)
    if unfinished:
        # The rest is no event; this says why it cannot be read.
        yield read_answer_json(unfinished)


def read_event_error(data: bytes) -> AttemptFailed:
    """The error of an `event: error`, whatever its data are."""
    value = None
    if is_json(data):
        value = json_values.load_json(data)
    if not isinstance(value, dict):
        value = {"error": data.decode("utf-8", "replace")}
    if not value.get("error"):
        value = {"error": value}
    fault = find_fault(value, data)
    if fault:
        return fault
    return AttemptFailed("model_unavailable", "The model server reported an error.", is_retryable=True)


def split_stream_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream; the last one also without its end, if it is a whole event."""
    rest = b""
    is_first = True
    for part in parts:
        if is_first and part:
            part, is_first = part.removeprefix(BYTE_ORDER_MARK), False
        if b"\n" not in part:
            # Long lines arrive in many parts.
            rest += part
            continue
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    if is_whole_event(rest):
        yield rest


def is_whole_event(line: bytes) -> bool:
    data = line.removeprefix(b"data:").strip()
    return data == b"[DONE]" or is_json(data)


def is_json(content: bytes) -> bool:
    try:
        json_values.load_json(content)
    except ValueError:
        return False
    return True


def read_answer_json(content: bytes) -> JSON:
    try:
        value = json_values.load_json(content.removeprefix(BYTE_ORDER_MARK))
    except ValueError:
        raise AttemptFailed("bad_answer", "The model server's answer is not JSON.", is_retryable=True)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        # Google's errors.
        value = value[0]
    if not isinstance(value, dict):
        raise AttemptFailed("bad_answer", "The model server's answer is not an object.", is_retryable=True)
    if fault := find_fault(value, content):
        raise fault
    return value


def get_connection_pool(url: str) -> Any:
    """The process's connection pool, or the one for the proxy that the environment names for this
    address.
    """
    if not _has_proxies():
        return _pool(None)
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    # The environment may exclude hosts.
    if not proxy or proxy_bypass(parts.hostname or ""):
        return _pool(None)
    return _pool(proxy)


@lru_cache(maxsize=1)
def _has_proxies() -> bool:
    return bool(getproxies())


@lru_cache(maxsize=8)
def _pool(proxy: str | None) -> Connections:
    kind: Any = httpcore2.ConnectionPool
    more: dict[str, Any] = {}
    if proxy:
        kind = httpcore2.HTTPProxy
        more["proxy_url"] = proxy
    maker = kind(
        ssl_context=ssl.create_default_context(),
        keepalive_expiry=60,
        # Behind a proxy the connection leads to the proxy, whose address the administrator chose.
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
        if watch is not None:
            timeout = watch.at_most(timeout)
        stream = streams.connect_stream(host, port, timeout, local_address, socket_options)
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
        if not self._unsent:
            return
        unsent = self._unsent
        self._unsent = b""
        self._inner.write(unsent, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        encrypted = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return WatchedStream(encrypted)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
