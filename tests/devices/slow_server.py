"""An MCP server over stdio with one slow tool that leaves a mark: `python slow_server.py FILE SECONDS`."""

import sys
import time

from mcp.server.fastmcp import FastMCP

server = FastMCP("slow")


@server.tool()
def leave_mark(text: str) -> str:
    """Leave a mark in the file, then take a while."""
    with open(sys.argv[1], "a") as file:
        file.write(text.replace("\n", " ")[:80] + "\n")
    time.sleep(float(sys.argv[2]))
    return "marked"


if __name__ == "__main__":
    server.run("stdio")
