"""Streamable HTTP: each message is a POST; the answer is JSON or an event stream.

A stream of an earlier version that breaks is continued with `Last-Event-ID`, if the server numbers
its events. The request is never sent a second time.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import httpx2

from plumbing import waits
from plumbing.http import outbound
from plumbing.http.failures import describe_failure

from . import headers as metadata
from .exceptions import LoginWanted, McpFailed, McpRefused, SessionLost
from .messages import MODERN, Left, Message, find_messages, read_messages
from .sse import ANSWER_LIMIT, Position, events

# How long one connection that continues a stream is read before the next.
SLICE_S = 10.0
# Connections without any news, after which a broken stream is given up.
RECONNECTS = 20
ERROR_LIMIT = 64 * 1024
# Returns a token that may be sent; called with the one that was refused.
Bearer = Callable[[str], str]


class HttpTransport:
    """`headers` carry a secret, or `bearer` returns the token of a login."""

    cancels_by_closing = True
    is_open = True

    def __init__(self, url: str, headers: dict[str, str], allowed: Iterable[str], bearer: Bearer | None = None) -> None:
        self._url = url
        self._headers = headers
        self._allowed = allowed
        self._bearer = bearer
        self._token = ""
        self._client = outbound.client(allowed, timeout=httpx2.Timeout(None, connect=outbound.CONNECT_S))
        self.session_id = ""
        self.version = ""

    def exchange(self, message: Message, until: float, headers: dict[str, str]) -> "HttpExchange":
        return HttpExchange(self, message, until, headers)

    def send(self, message: Message, until: float) -> None:
        """Send what has no answer. Any status of success will do: servers in use answer 200, 202 and 204, with a body
        and without one.
        """
        with errors(), outbound.until(max(0.0, until - monotonic())), self.posted(message, {}):
            pass

    def attach(self, stream: Left) -> None:
        """Go on with the session of another process."""
        self.session_id = stream.session_id
        self.version = stream.version

    def resumed(self, stream: Left, until: float) -> "HttpExchange":
        """The rest of a stream that was left."""
        return HttpExchange(self, None, until, {}, stream.position)

    def left(self, position: Position) -> Left | None:
        if self.version == MODERN or not position.event_id:
            return None
        return Left(self.session_id, self.version, position)

    def close(self) -> None:
        """End the session, if there is one; errors are ignored."""
        if self.session_id:
            try:
                with outbound.until(2.0):
                    self._client.delete(self._url, headers=self._own_headers())
            except httpx2.HTTPError:
                # The connection is closed already, and so is the session.
                pass
        self.leave()

    def leave(self) -> None:
        """Close the connections and keep the session: another process goes on with it."""
        self._client.close()

    @contextmanager
    def posted(self, message: Message, headers: dict[str, str]) -> Iterator[httpx2.Response]:
        more = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
        if self.version == MODERN:
            more |= metadata.build_message_headers(message)
        with self._accepted("POST", more, json.dumps(message)) as response:
            yield response

    @contextmanager
    def continued(self, position: Position) -> Iterator[httpx2.Response]:
        more = {"Accept": "text/event-stream", "Last-Event-ID": position.event_id}
        with self._accepted("GET", more) as response:
            yield response

    @contextmanager
    def _accepted(self, method: str, headers: dict[str, str], content: str = "") -> Iterator[httpx2.Response]:
        """Open the answer. After a 401 the token is renewed and the request sent again, once."""
        if self._bearer:
            self._token = self._bearer("")
        for is_last in (not self._bearer, True):
            own = self._own_headers() | headers
            with self._client.stream(method, self._url, content=content or None, headers=own) as response:
                if is_last or response.status_code != 401:
                    self._check(response)
                    yield response
                    return
            assert self._bearer is not None
            self._token = self._bearer(self._token)

    def _own_headers(self) -> dict[str, str]:
        if self._bearer:
            own = {"Authorization": f"Bearer {self._token}"}
        else:
            own = dict(self._headers)
        if self.session_id:
            own["Mcp-Session-Id"] = self.session_id
        if self.version:
            own["MCP-Protocol-Version"] = self.version
        return own

    def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in (401, 403):
            raise self._login_refused(response)
        if response.is_redirect:
            raise McpFailed(
                "redirected", "The server redirects to another address; enter that address instead.", was_sent=False
            )
        if status >= 400:
            self._refuse(response)
        identity = response.headers.get("mcp-session-id")
        if identity and self.version != MODERN:
            self.session_id = identity[:256]

    def _refuse(self, response: httpx2.Response) -> None:
        """Raises SessionLost, McpRefused for a JSON-RPC error that rejects the request, else McpFailed."""
        error = read_rpc_error(response)
        if self.session_id and is_session_lost(response.status_code, error):
            raise SessionLost
        if error is not None and response.status_code < 500:
            raise McpRefused(error)
        raise McpFailed("server_refused", f"The server answered {response.status_code}.")

    def _login_refused(self, response: httpx2.Response) -> McpFailed:
        challenge = response.headers.get("www-authenticate", "")[:4000]
        if "insufficient_scope" in challenge:
            scopes = find_challenge_parameter(challenge, "scope").split()
            return LoginWanted("The login does not grant this access.", scopes)
        # A server that was sent a secret may refuse with this header, too: then the secret is wrong.
        offers_login = not self._headers and challenge.lower().startswith("bearer")
        if self._bearer or offers_login:
            return LoginWanted("The server requires a login.", [])
        return McpFailed("login_refused", "The server refused the secret, or requires one.", was_sent=False)


class ServerStream:
    """The stream that a server opens for what belongs to no answer, continued from its last event.

    One thread uses it, with a client of its own: another may close the session meanwhile.
    """

    def __init__(self, transport: HttpTransport) -> None:
        self.position = Position()
        self._transport = transport
        self._sockets = outbound.Sockets()
        self._client = outbound.client(transport._allowed, timeout=httpx2.Timeout(None, connect=outbound.CONNECT_S))
        self._response: httpx2.Response | None = None

    def connect(self, seconds: float) -> None:
        """Raises McpFailed, McpRefused."""
        headers = self._transport._own_headers() | {"Accept": "text/event-stream"}
        if self.position.event_id:
            headers["Last-Event-ID"] = self.position.event_id
        request = self._client.build_request("GET", self._transport._url, headers=headers)
        with errors(), outbound.close_together(self._sockets):
            with outbound.until(seconds):
                response = self._client.send(request, stream=True)
            is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            if response.status_code == 200 and is_stream:
                self._response = response
                return
            response.close()
        raise McpFailed("no_stream", f"The server answered {response.status_code}.")

    def messages(self) -> Iterator[Message]:
        """Those of the open connection, else of a new one. Raises Broken, McpFailed."""
        if self._response is None:
            self.connect(outbound.CONNECT_S)
        response, self._response = self._response, None
        assert response is not None
        try:
            with errors():
                for message in read_stream(response, self.position):
                    # The limit holds for one message here: the stream has no end.
                    self.position.size = 0
                    yield message
        finally:
            response.close()

    def reply(self, message: Message, seconds: float) -> None:
        """Answer a request of the server: with the token that was used last, since this thread renews none. Raises
        McpFailed.
        """
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        headers = self._transport._own_headers() | accepted
        with errors(), outbound.close_together(self._sockets), outbound.until(seconds):
            self._client.post(self._transport._url, content=json.dumps(message), headers=headers)

    def interrupt(self) -> None:
        """May be called by another thread: what is being read or sent ends, and nothing else begins."""
        self._sockets.close()

    def close_client(self) -> None:
        """Only for the thread that uses the stream."""
        self._client.close()


class HttpExchange:
    """The messages that come back for one POST, or for the rest of a stream that was left."""

    def __init__(
        self,
        transport: HttpTransport,
        message: Message | None,
        until: float,
        headers: dict[str, str],
        position: Position | None = None,
    ) -> None:
        self._transport = transport
        self._message = message
        self._until = until
        self._headers = headers
        self._position = position or Position()

    def left(self) -> Left | None:
        return self._transport.left(self._position)

    def __iter__(self) -> Iterator[Message]:
        """Ends with the stream; the reader stops earlier, when the answer has come."""
        if self._message is not None:
            try:
                yield from self._posted(self._message)
            except Broken:
                if not self.left():
                    raise
            if not self.left():
                return
        yield from self._continued()

    def _posted(self, message: Message) -> Iterator[Message]:
        opened = self._transport.posted(message, self._headers)
        seconds = max(0.0, self._until - monotonic())
        with errors(), outbound.until(seconds), opened as response:
            if response.status_code == 202:
                return
            if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                yield from read_stream(response, self._position)
                return
            body = outbound.read_body(response, ANSWER_LIMIT)
            yield from read_messages(body.decode("utf-8", "replace"))

    def _continued(self) -> Iterator[Message]:
        """Connect again and again, each time from the last event on."""
        without_news = 0
        while without_news < RECONNECTS:
            before = self._position.event_id
            pause_for_server(self._position.retry_s, self._until)
            try:
                yield from self._next_part()
            except (Broken, SliceOver):
                pass
            without_news += 1
            if self._position.event_id != before:
                without_news = 0
        raise McpFailed("server_died", "The server's stream broke and did not continue.")

    def _next_part(self) -> Iterator[Message]:
        ends = min(self._until, monotonic() + SLICE_S)
        try:
            opened = self._transport.continued(self._position)
            with errors(), outbound.until(max(0.0, ends - monotonic())), opened as response:
                yield from read_stream(response, self._position)
        except SessionLost:
            raise McpFailed("server_died", "The server closed the session before it answered.")
        except McpRefused as error:
            # A conflict: the old connection is not closed yet at the server.
            if "onflict" not in str(error):
                raise McpFailed("server_died", f"The server does not continue the stream: {error}")
        except McpFailed as error:
            if error.code == "timeout" and ends < self._until:
                raise SliceOver
            raise


def read_stream(response: httpx2.Response, position: Position) -> Iterator[Message]:
    """The messages of an event stream. Events that hold something else (`data: ping`) are skipped."""
    for text in events(response.iter_bytes(), position):
        yield from find_messages(text)


class Broken(McpFailed):
    """The connection broke while the answer was being received."""

    def __init__(self, message: str) -> None:
        super().__init__("server_died", message)


class SliceOver(Exception):
    """Time to connect again."""


@contextmanager
def errors() -> Iterator[None]:
    """httpx2's exceptions as ours."""
    try:
        yield
    except outbound.AddressRefused as error:
        raise McpFailed("private_address", str(error), was_sent=False)
    except outbound.TooMuch as error:
        raise McpFailed("too_large", str(error))
    except outbound.Cancelled:
        raise McpFailed("cancelled", "The run was cancelled during this call.")
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        message = f"The server cannot be reached: {describe_failure(error)}."
        raise McpFailed("server_unreachable", message, was_sent=False)
    except httpx2.TimeoutException:
        raise McpFailed("timeout", "The server did not answer in time.")
    except httpx2.HTTPError as error:
        raise Broken(f"The connection to the server broke: {describe_failure(error)}.")


def pause_for_server(seconds: float, until: float) -> None:
    """Wait as long as the server asked. Raises McpFailed if that is longer than the call may take."""
    if monotonic() + seconds >= until:
        raise McpFailed("timeout", "The server did not answer in time.")
    waits.sleep_until(seconds, outbound.asked_whether_cancelled())
    with errors():
        outbound.check_cancelled()


def read_rpc_error(response: httpx2.Response) -> Any:
    """The JSON-RPC error of a refusal, or None."""
    try:
        value = json.loads(outbound.read_body(response, ERROR_LIMIT))
    except (ValueError, RecursionError, httpx2.HTTPError):
        return None
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    error = value.get("error")
    return error if isinstance(error, dict) else None


def is_session_lost(status: int, error: Any) -> bool:
    """404, or what servers in use answer instead: 400 with an error about the session."""
    if status == 404:
        return True
    if status != 400 or error is None:
        return False
    return "session" in str(error.get("message", "")).lower()


def find_challenge_parameter(challenge: str, name: str) -> str:
    """One parameter of a WWW-Authenticate header, or ""."""
    match = re.search(rf'\b{name}=(?:"([^"]*)"|([^\s,]+))', challenge)
    if match is None:
        return ""
    quoted, plain = match.groups()
    return quoted or plain or ""
