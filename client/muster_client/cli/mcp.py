"""`muster mcp`: the server's MCP endpoint for programs that start an MCP server and talk to it by stdin
and stdout.

Messages pass unchanged, one a line. The bridge adds what HTTP needs: the key, the session, and the
headers of 2026-07-28. A stream that breaks in an earlier version is continued.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click
import httpx

from ..config import settings
from .app import App, pass_app

VERSION = "io.modelcontextprotocol/protocolVersion"
NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
ACCEPT = "application/json, text/event-stream"
BROKEN = -32000
RETRIES = 5


class Bridge:
    """`write` takes one message. Each request has a thread; `close` ends the session."""

    def __init__(self, http: httpx.Client, write: Callable[[dict[str, Any]], None]) -> None:
        self.http = http
        self.write = write
        # Headers of an earlier version.
        self.session: dict[str, str] = {}
        # By the id of the request.
        self.streams: dict[Any, httpx.Response] = {}
        self.cancelled: set[Any] = set()

    def take(self, message: Any) -> threading.Thread | None:
        """Pass one message on; a request is answered by a thread, which is returned."""
        if not isinstance(message, dict):
            return None
        parameters = message.get("params")
        params: dict[str, Any] = parameters if isinstance(parameters, dict) else {}
        is_modern = VERSION in (params.get("_meta") or {})
        if message.get("method") == "notifications/cancelled" and not self.session:
            self.leave(params.get("requestId"))
            return None
        if message.get("method") == "initialize" or "id" not in message or "method" not in message:
            # In order: what follows needs the session.
            self.ask(message, is_modern)
            return None
        thread = threading.Thread(target=self.ask, args=(message, is_modern), daemon=True)
        thread.start()
        return thread

    def leave(self, id: Any) -> None:
        """In 2026-07-28 a request is cancelled by closing its stream."""
        self.cancelled.add(id)
        if stream := self.streams.get(id):
            stream.close()

    def ask(self, message: dict[str, Any], is_modern: bool) -> None:
        """Pass a message on, and write an error where no answer comes: the program waits for one."""
        id = message.get("id") if "method" in message else None
        try:
            if not self.is_answered(message, is_modern) and id is not None and id not in self.cancelled:
                self.fail(id, "The server ended the stream without an answer.")
        except (httpx.HTTPError, ValueError) as error:
            if id is not None and id not in self.cancelled:
                self.fail(id, f"The server cannot be reached or understood: {error}")
        finally:
            self.streams.pop(id, None)

    def is_answered(self, message: dict[str, Any], is_modern: bool) -> bool:
        """Send it and write what comes. A stream of an earlier version that breaks is continued."""
        headers = build_request_headers(message) if is_modern else dict(self.session)
        sent = self.http.build_request("POST", "/mcp", json=message, headers={"Accept": ACCEPT, **headers})
        last = ""
        for _ in range(RETRIES):
            try:
                for event_id, came in self.exchange(sent, message):
                    last = event_id or last
                    if came is not None and self.passed(came, message):
                        return True
            except httpx.TransportError:
                if not last:
                    raise
            if is_modern or not last:
                return "id" not in message or "method" not in message
            sent = self.http.build_request(
                "GET", "/mcp", headers={"Accept": "text/event-stream", "Last-Event-ID": last, **self.session}
            )
        return False

    def exchange(self, sent: httpx.Request, message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """(id of the event, message) of an answer."""
        response = self.http.send(sent, stream=True)
        self.streams[message.get("id")] = response
        try:
            if message.get("method") == "initialize" and "mcp-session-id" in response.headers:
                self.session["Mcp-Session-Id"] = response.headers["mcp-session-id"]
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                yield from events(response.iter_lines())
            elif content := response.read():
                yield "", json.loads(content)
        finally:
            response.close()

    def passed(self, came: dict[str, Any], message: dict[str, Any]) -> bool:
        """Write what came; whether it is the answer. An error without an id answers the request, too."""
        is_response = "method" not in came
        if is_response and "id" not in came:
            came = {**came, "id": message.get("id")}
        is_answer = is_response and came["id"] == message.get("id")
        if is_answer and message.get("method") == "initialize" and "result" in came:
            self.session["MCP-Protocol-Version"] = came["result"]["protocolVersion"]
        if came.get("id") is not None or "method" in came:
            self.write(came)
        return is_answer

    def fail(self, id: Any, text: str) -> None:
        self.write({"jsonrpc": "2.0", "id": id, "error": {"code": BROKEN, "message": text}})

    def close(self) -> None:
        if self.session:
            try:
                self.http.delete("/mcp", headers=self.session)
            except httpx.HTTPError:
                # The session ends by itself.
                pass


def build_request_headers(message: dict[str, Any]) -> dict[str, str]:
    """What a request of 2026-07-28 repeats in headers."""
    params = message["params"]
    method = str(message.get("method"))
    version = params["_meta"][VERSION]
    headers = {"MCP-Protocol-Version": str(version), "Mcp-Method": method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_header_value(name)
    return headers


def encode_header_value(text: str) -> str:
    if PLAIN.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    encoded = base64.b64encode(text.encode()).decode()
    return f"=?base64?{encoded}?="


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """(id, message) of each server-sent event; an event without data has None."""
    id = data = ""
    for line in lines:
        if line.startswith("id:"):
            id = line[3:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line:
            if id or data:
                message = json.loads(data) if data else None
                yield id, message
            id = data = ""


@click.command("mcp")
@pass_app
def mcp(app: App) -> None:
    """An MCP server on stdin and stdout: your agents, chains and functions as tools.

    For clients that start a program: command `muster`, argument `mcp`.
    """
    account = settings(app.url)
    # Each request has a thread, and two lines must not be mixed.
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        with lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    head = {"Authorization": f"Bearer {account.api_key}"}
    with httpx.Client(base_url=account.url, headers=head, timeout=httpx.Timeout(30, read=None)) as http:
        serve(Bridge(http, write), sys.stdin)


def serve(bridge: Bridge, lines: Any) -> None:
    """Until the input ends; requests that are still open are then left."""
    try:
        for line in lines:
            try:
                message = json.loads(line) if line.strip() else None
            except ValueError:
                error = {"code": -32700, "message": "This line is not JSON."}
                bridge.write({"jsonrpc": "2.0", "id": None, "error": error})
                continue
            bridge.take(message)
    finally:
        bridge.close()


COMMANDS = (mcp,)
