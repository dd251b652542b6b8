"""An MCP server over HTTP that does what no good one does: changes its tools, floods, drips, falls silent, forgets."""

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
        self.routes.append(("POST", re.compile("/mcp"), self.message))
        self.routes.append(("DELETE", re.compile("/mcp"), lambda asked: None))

    @property
    def address(self) -> str:
        return f"{self.url}/mcp"

    def message(self, asked: Asked) -> Any:
        message = asked.json
        method = message.get("method")
        if method == "initialize":
            self.sessions += 1
            self.open.add(f"s{self.sessions}")
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake"}}
            return Answer(200, self.result(message, result), {"Mcp-Session-Id": f"s{self.sessions}"})
        if asked.headers.get("mcp-session-id") not in self.open:
            raise Answer(404, {"error": "no such session"})
        if method == "tools/list":
            return self.result(message, {"tools": self.tools})
        if method == "tools/call":
            self.called += 1
            return self.called_back(message)
        return Answer(202)

    def called_back(self, message: dict[str, Any]) -> Any:
        if self.reply is not None:
            return self.reply(message)
        text = message["params"]["arguments"]["text"]
        return self.result(message, {"content": [{"type": "text", "text": text}]})

    def result(self, message: dict[str, Any], result: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
