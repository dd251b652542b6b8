"""A real MCP server (the reference SDK): `python -m tests.connectors.mcp_server` speaks over pipes."""

import os
import sys
import time

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("arithmetic", port=int(os.environ.get("MCP_TEST_PORT", "8170")))


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it is broken")


@server.tool()
def environment() -> list[str]:
    """The names in its environment."""
    return sorted(os.environ)


@server.tool()
def die() -> str:
    """Ends the whole program."""
    os._exit(1)


@server.tool()
def sleep(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "awake"


@server.tool()
def large(size: int) -> str:
    """A long text."""
    return "x" * size


if __name__ == "__main__":
    server.run(sys.argv[1] if len(sys.argv) > 1 else "stdio")
