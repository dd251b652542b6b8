"""A server of the reference SDK that asks outside of its answers, and has resources and prompts.

`python -m tests.connectors.mcp_asking_server` speaks HTTP on MCP_TEST_PORT; with MCP_TEST_EVENTS its streams can be
continued.
"""

import os
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.types import SamplingMessage, TextContent

FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Events(EventStore):
    """All events of the process, numbered."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.rows.append((stream_id, message))
        return str(len(self.rows))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        first = int(last_event_id)
        stream = self.rows[first - 1][0]
        for number, (one, message) in enumerate(self.rows[first:], first + 1):
            if one == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


store = Events() if os.environ.get("MCP_TEST_EVENTS") else None
server = FastMCP("asking", port=int(os.environ.get("MCP_TEST_PORT", "8171")), event_store=store)


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the person outside of the answer."""
    result = await ctx.session.elicit("Your name?", FORM)
    return f"{result.action} {(getattr(result, 'content', None) or {}).get('name', '')}".strip()


@server.tool()
async def look_around(ctx: Context) -> str:
    """What the server may know of its client."""
    await ctx.session.send_ping()
    roots = await ctx.session.list_roots()
    try:
        question = SamplingMessage(role="user", content=TextContent(type="text", text="Hello"))
        await ctx.session.create_message([question], max_tokens=10)
        sampled = "sampled"
    except Exception as error:
        sampled = str(error)
    return f"{len(roots.roots)} roots; {sampled}"


@server.resource("note://one", title="The first", mime_type="text/plain")
def note() -> str:
    return "What the note says."


@server.resource("picture://one", mime_type="image/png")
def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(1000)


@server.resource("page://{number}")
def page(number: str) -> str:
    return f"Page {number}."


@server.prompt()
def greet(name: str, tone: str = "warm") -> str:
    """Greet somebody."""
    return f"Greet {name} in a {tone} tone."


if __name__ == "__main__":
    server.run("streamable-http")
