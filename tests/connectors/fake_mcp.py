"""MCP servers over HTTP that do what no good one does: change their tools, flood, fall silent, forget, cut streams."""

import json
import re
import threading
from typing import Any

from .loopback import Answer, Asked, Loopback

ECHO = {
    "name": "echo",
    "description": "Says it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


class FakeMcp(Loopback):
    def __init__(self) -> None:
        super().__init__()
        self.tools: list[dict[str, Any]] = [dict(ECHO)]
        self.sessions = 0
        self.open: set[str] = set()
        self.stuck = threading.Event()
        self.reply: Any = None
        self.called = 0
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.methods: dict[str, Any] = {}  # more methods: what answers a message of them
        self.continued: Any = lambda asked: Answer(405)
        self.routes.append(("POST", re.compile("/mcp"), self.message))
        self.routes.append(("GET", re.compile("/mcp"), lambda asked: self.continued(asked)))
        self.routes.append(("DELETE", re.compile("/mcp"), lambda asked: None))

    @property
    def address(self) -> str:
        return f"{self.url}/mcp"

    def sent(self, method: str) -> list[Asked]:
        """The messages of this method, in order."""
        return [asked for asked in self.asked if asked.method == "POST" and asked.json.get("method") == method]

    def message(self, asked: Asked) -> Any:
        message = asked.json
        method = message.get("method")
        if method == "initialize":
            self.sessions += 1
            self.open.add(f"s{self.sessions}")
            result = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities}
            result["serverInfo"] = {"name": "fake"}
            return Answer(200, self.result(message, result), {"Mcp-Session-Id": f"s{self.sessions}"})
        if asked.headers.get("mcp-session-id") not in self.open:
            raise Answer(404, {"error": "no such session"})
        if method == "tools/list":
            return self.result(message, {"tools": self.tools})
        if method == "tools/call":
            self.called += 1
            return self.called_back(message)
        if method in self.methods:
            return self.methods[method](message)
        return Answer(202)

    def called_back(self, message: dict[str, Any]) -> Any:
        if self.reply is not None:
            return self.reply(message)
        text = message["params"]["arguments"]["text"]
        return self.result(message, {"content": [{"type": "text", "text": text}]})

    def result(self, message: dict[str, Any], result: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def stream(*events: dict[str, Any] | tuple[str, Any], retry_ms: int = 0) -> Answer:
    """Events as an answer: messages, or pairs of an event id and a message (None: no data)."""
    text = f"retry: {retry_ms}\n\n"
    for event in events:
        identity, message = event if isinstance(event, tuple) else ("", event)
        text += f"id: {identity}\n" if identity else ""
        text += f"data: {'' if message is None else json.dumps(message)}\n\n"
    return Answer(200, text.encode(), {"Content-Type": "text/event-stream"})


class ModernMcp(Loopback):
    """A server of 2026-07-28: no sessions; it checks what each request must carry."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: list[dict[str, Any]] = [dict(ECHO)]
        self.versions = ["2026-07-28"]
        self.calls: list[dict[str, Any]] = []
        self.reply: Any = lambda message: {"content": [{"type": "text", "text": "done"}]}
        self.routes.append(("POST", re.compile("/mcp"), self.message))

    @property
    def address(self) -> str:
        return f"{self.url}/mcp"

    def message(self, asked: Asked) -> Any:
        message = asked.json
        params, method = message.get("params") or {}, message.get("method")
        meta = params.get("_meta") or {}
        version = meta.get("io.modelcontextprotocol/protocolVersion")
        if version is None or version != asked.headers.get("mcp-protocol-version"):
            return self.refused(message, -32020, "The version is missing.")
        if asked.headers.get("mcp-method") != method or "mcp-session-id" in asked.headers:
            return self.refused(message, -32020, "Mcp-Method is wrong, or there is a session.")
        if version not in self.versions:
            return self.refused(message, -32022, "Unsupported protocol version", {"supported": self.versions})
        if method == "server/discover":
            return self.result(message, {"supportedVersions": self.versions, "capabilities": {"tools": {}}})
        if method == "tools/list":
            return self.result(message, {"tools": self.tools, "ttlMs": 600_000, "cacheScope": "public"})
        if method != "tools/call":
            return self.refused(message, -32601, "Method not found", status=404)
        self.calls.append(params)
        answer = self.reply(message)
        return answer if isinstance(answer, Answer) else self.result(message, answer)

    def result(self, message: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}}

    def refused(self, message: Any, code: int, text: str, data: Any = None, *, status: int = 400) -> Answer:
        error = {"code": code, "message": text, **({"data": data} if data else {})}
        return Answer(status, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
