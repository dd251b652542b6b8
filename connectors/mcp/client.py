"""A client of MCP servers: streamable HTTP, or a program of this machine that an administrator allowed.

Synchronous, one exchange at a time, each with an end: a server that dies, drips, sends too much or never answers costs
its own call and nothing else (docs/adr/0061).
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from plumbing import outbound

VERSION = "2025-11-25"
ANSWER_LIMIT = 2 * 1024 * 1024  # bytes of one answer, events in between included
MAX_PAGES = 50
METHOD_MISSING = -32601
INITIALIZE = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "muster", "version": "1"}}
JSON = Any
Message = dict[str, JSON]
Bearer = Callable[[str], str]  # a token that may be sent, told which one was just refused


class McpFailed(Exception):
    """The server cannot be used; `code` says why. `was_sent`: the request may have had its effect."""

    def __init__(self, code: str, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.was_sent = was_sent


class LoginWanted(McpFailed):
    """The server wants a login of its own; with `scopes`, one that may do more."""

    def __init__(self, message: str, scopes: list[str]) -> None:
        super().__init__("login_wanted", message, was_sent=False)
        self.scopes = scopes


class SessionLost(McpFailed):
    """The server has forgotten this session; a new one helps."""


class McpRefused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: JSON) -> None:
        known = error if isinstance(error, dict) else {}
        super().__init__(str(known.get("message", "refused"))[:500])
        self.code = known.get("code", 0)


class Transport(Protocol):
    """Sends one message and yields those that come back, until the answer to it or the end of time."""

    def messages(self, message: Message, until: float) -> Iterator[Message]: ...

    def send(self, message: Message, until: float) -> None: ...

    def close(self) -> None: ...


class Session:
    """One initialised conversation. `until` is a moment of time.monotonic()."""

    def __init__(self, transport: Transport, until: float) -> None:
        self._transport = transport
        self._ids = itertools.count(1)
        self.tools_changed = False
        answer = self.request("initialize", INITIALIZE, until)
        version = answer.get("protocolVersion")
        self.server = answer.get("serverInfo") or {}
        if isinstance(transport, HttpTransport) and isinstance(version, str):
            transport.version = version
        self._transport.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, until)

    def list_tools(self, until: float) -> list[dict[str, JSON]]:
        """Every tool the server offers, all pages of it."""
        tools: list[dict[str, JSON]] = []
        params: dict[str, JSON] = {}
        self.tools_changed = False
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", params, until)
            found = page.get("tools")
            if not isinstance(found, list):
                raise McpFailed("bad_answer", "The server's list of tools is none.")
            tools += [tool for tool in found if isinstance(tool, dict)]
            if not page.get("nextCursor"):
                return tools
            params = {"cursor": page["nextCursor"]}
        raise McpFailed("bad_answer", f"The server's list of tools has more than {MAX_PAGES} pages.")

    def call_tool(self, name: str, arguments: dict[str, JSON], until: float) -> dict[str, JSON]:
        return self.request("tools/call", {"name": name, "arguments": arguments}, until)

    def request(self, method: str, params: dict[str, JSON], until: float) -> dict[str, JSON]:
        """The result of one request. Raises McpRefused, McpFailed."""
        identity = next(self._ids)
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        for came in self._transport.messages(message, until):
            if came.get("id") == identity and "method" not in came:
                return result_of(came)
            self.attend(came, until)
        raise McpFailed("server_died", "The server ended the conversation without an answer.")

    def attend(self, came: Message, until: float) -> None:
        """What a server says in between: it may ping us, and tell that its tools changed; nothing else is granted."""
        if came.get("method") == "notifications/tools/list_changed":
            self.tools_changed = True
        if "id" not in came or "method" not in came:
            return
        answer: Message = {"jsonrpc": "2.0", "id": came["id"]}
        if came["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": METHOD_MISSING, "message": "This client does not do that."}
        self._transport.send(answer, until)

    def close(self) -> None:
        self._transport.close()


def result_of(message: Message) -> dict[str, JSON]:
    if "error" in message:
        raise McpRefused(message["error"])
    result = message.get("result")
    if not isinstance(result, dict):
        raise McpFailed("bad_answer", "The server's answer holds no result.")
    return result


class HttpTransport:
    """Streamable HTTP: each message is a POST; the answer is JSON or an event stream.

    `headers` carry a secret, or `bearer` returns the token of a login.
    """

    def __init__(self, url: str, headers: dict[str, str], allowed: Iterable[str], bearer: Bearer | None = None) -> None:
        self._url = url
        self._headers = headers
        self._bearer = bearer
        self._token = ""
        self._client = outbound.client(allowed)
        self._session_id = ""
        self.version = ""

    def messages(self, message: Message, until: float) -> Iterator[Message]:
        try:
            with outbound.until(max(0.0, until - monotonic())), self.accepted(message) as response:
                yield from self.read(response)
        except outbound.AddressRefused as error:
            raise McpFailed("private_address", str(error), was_sent=False)
        except outbound.TooMuch as error:
            raise McpFailed("too_large", str(error))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise McpFailed(
                "server_unreachable", f"The server cannot be reached: {type(error).__name__}.", was_sent=False
            )
        except httpx.TimeoutException:
            raise McpFailed("timeout", "The server did not answer in time.")
        except httpx.HTTPError as error:
            raise McpFailed("server_died", f"The connection to the server broke: {type(error).__name__}.")

    @contextmanager
    def accepted(self, message: Message) -> Iterator[httpx.Response]:
        """Open the answer. After a 401 the token is refreshed and the request sent again, once."""
        if self._bearer:
            self._token = self._bearer("")
        with self.post(message) as response:
            if response.status_code != 401 or not self._bearer:
                self.check(response)
                yield response
                return
        self._token = self._bearer(self._token)
        with self.post(message) as response:
            self.check(response)
            yield response

    def post(self, message: Message) -> Any:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **self.login()}
        if self._session_id:
            headers["Mcp-Session-Id"] = self._session_id
        if self.version:
            headers["MCP-Protocol-Version"] = self.version
        return self._client.stream("POST", self._url, content=json.dumps(message), headers=headers)

    def login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._bearer else self._headers

    def check(self, response: httpx.Response) -> None:
        if identity := response.headers.get("mcp-session-id"):
            self._session_id = identity[:256]
        if response.status_code == 404 and self._session_id:
            raise SessionLost("session_lost", "The server has closed this session.", was_sent=False)
        if response.status_code in (401, 403):
            raise self.refusal(response)
        if response.is_redirect:
            raise McpFailed(
                "redirected", "The server redirects to another address; enter that address instead.", was_sent=False
            )
        if response.status_code >= 400:
            raise McpFailed("server_refused", f"The server answered {response.status_code}.")

    def refusal(self, response: httpx.Response) -> McpFailed:
        challenge = response.headers.get("www-authenticate", "")[:4000]
        if "insufficient_scope" in challenge:
            return LoginWanted("The login does not grant this access.", parameter_of(challenge, "scope").split())
        if self._bearer or (not self._headers and challenge.lower().startswith("bearer")):
            return LoginWanted("The server requires a login.", [])
        return McpFailed("login_refused", "The server refused the secret, or requires one.", was_sent=False)

    def read(self, response: httpx.Response) -> Iterator[Message]:
        if response.status_code == 202:
            return
        kind = response.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            yield from map(parsed, events(response))
            return
        value = parsed(outbound.read_body(response, ANSWER_LIMIT).decode("utf-8", "replace"))
        yield value

    def send(self, message: Message, until: float) -> None:
        for _ in self.messages(message, until):
            pass

    def close(self) -> None:
        """End the session, if there is one; errors are ignored."""
        if self._session_id:
            try:
                with outbound.until(2.0):
                    self._client.delete(self._url, headers={**self.login(), "Mcp-Session-Id": self._session_id})
            except httpx.HTTPError:
                pass  # the connection is closed already, and so is the session
        self._client.close()


def events(response: httpx.Response) -> Iterator[str]:
    """The data of each server-sent event. Raises TooMuch when their total size passes the limit."""
    size, rest, data = 0, b"", []
    for part in response.iter_bytes():
        size += len(part)
        if size > ANSWER_LIMIT:
            raise outbound.TooMuch(f"The answer is larger than {ANSWER_LIMIT} bytes.")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data = []


def parsed(text: str) -> Message:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise McpFailed("bad_answer", "The server's answer is not JSON.")
    if not isinstance(value, dict):
        raise McpFailed("bad_answer", "The server's answer is not a JSON-RPC message.")
    return value


def parameter_of(challenge: str, name: str) -> str:
    """One parameter of a WWW-Authenticate header, or ""."""
    match = re.search(rf'\b{name}=(?:"([^"]*)"|([^\s,]+))', challenge)
    return (match.group(1) or match.group(2) or "") if match else ""


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
