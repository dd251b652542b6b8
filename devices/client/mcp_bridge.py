"""Local MCP servers over stdio. Their tools are offered to the server, where the owner approves
each definition.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from devices import protocol
from devices.protocol import DeviceHello, Offer, ToolCall, tool_hash
from devices.wire import BadFrame

from .exceptions import ToolRefused
from .home import McpServer

log = logging.getLogger("muster.device")
JSON = Any
RESTART_S = 5.0
START_S = 20.0
# Bytes of the tools in one hello, which also lists calls, and of the files in one answer.
ROOM = 700_000


@dataclass
class Mounted:
    """One MCP server: its session while it runs, and the tools it listed."""

    server: McpServer
    session: Any = None
    # Offered name → (its own name, offer).
    tools: dict[str, tuple[str, Offer]] = field(default_factory=dict)
    # Set once the server has listed its tools, or has failed.
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Bridge:
    """Runs the MCP servers of this device, offers their tools and calls them."""

    def __init__(self, servers: tuple[McpServer, ...]) -> None:
        self.mounted = [Mounted(server) for server in servers]
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start every server; returns when each has listed its tools, or after a time limit."""
        self.tasks = [asyncio.create_task(self.keep_running(mounted)) for mounted in self.mounted]
        ready_waits = [asyncio.create_task(mounted.ready.wait()) for mounted in self.mounted]
        if ready_waits:
            await asyncio.wait(ready_waits, timeout=START_S)
        for wait in ready_waits:
            wait.cancel()

    async def keep_running(self, mounted: Mounted) -> None:
        """Run one server, and again whenever it ends. Its whole life is in one task, as the library requires."""
        while True:
            try:
                await self.serve_once(mounted)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # a failing server must not stop the client
                if is_cancelled():
                    # The library raises errors during closing in place of the cancellation.
                    return
                log.warning("MCP server %s: %s", mounted.server.name, error)
            mounted.session = None
            mounted.ready.set()
            await asyncio.sleep(RESTART_S)

    async def serve_once(self, mounted: Mounted) -> None:
        """Run the server until it ends: each ping shows whether it still answers."""
        # Imports take half a second, and few clients need them.
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        server = mounted.server
        # With None the server gets the few variables that the library considers safe.
        environment: Any = server.env or None
        parameters = StdioServerParameters(command=server.command, args=server.args, env=environment)
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            listed = await session.list_tools()
            mounted.tools = dict(build_mcp_offer(server.name, tool) for tool in listed.tools)
            mounted.session = session
            mounted.ready.set()
            while True:
                await asyncio.sleep(30)
                await session.send_ping()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def offers(self) -> tuple[Offer, ...]:
        offers = []
        for mounted in self.mounted:
            for _, offer in mounted.tools.values():
                offers.append(offer)
        return tuple(filter_fitting_offers(offers))

    def has(self, name: str) -> bool:
        return any(name in mounted.tools for mounted in self.mounted)

    async def call(self, call: ToolCall) -> JSON:
        """The tool's structured answer, else its texts. Raises ToolRefused."""
        mounted = next(mounted for mounted in self.mounted if call.name in mounted.tools)
        if mounted.session is None:
            raise ToolRefused("tool_failed", f"the MCP server {mounted.server.name} is not running")
        name, _ = mounted.tools[call.name]
        answer = await mounted.session.call_tool(name, call.args)
        texts = [part.text for part in answer.content if getattr(part, "type", "") == "text"]
        text = "\n".join(texts)
        if answer.isError:
            raise ToolRefused("tool_failed", text[:2000] or "the MCP server reported an error")
        if answer.structuredContent is not None:
            return answer.structuredContent
        result: dict[str, JSON] = {"text": text}
        images = [part for part in answer.content if getattr(part, "type", "") == "image"]
        if images:
            result["files"] = build_image_files(call.name, images)
        return result


def build_image_files(tool: str, images: Iterable[Any]) -> list[JSON]:
    """The images of an answer as files of the run, as far as they fit into one frame."""
    files: list[JSON] = []
    room = ROOM
    for number, image in enumerate(images, start=1):
        _, _, ending = image.mimeType.rpartition("/")
        name = f"{tool}-{number}.{ending}"[:200]
        file = {"name": name, "media_type": image.mimeType}
        room -= len(image.data)
        if room >= 0:
            file["data"] = image.data
        else:
            file["error"] = "too large"
        files.append(file)
    return files


def is_cancelled() -> bool:
    """Whether the current task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def build_mcp_offer(server: str, tool: Any) -> tuple[str, tuple[str, Offer]]:
    """The offer of a tool, as an entry of `Mounted.tools`."""
    allowed = re.sub(r"[^a-z0-9_-]+", "-", f"{server}-{tool.name}".lower())
    # Stripped twice: cut at the limit, a name may end in a hyphen again.
    name = allowed.strip("-_")[:64].strip("-_")
    description = tool.description or ""
    schema = dict(tool.inputSchema)
    offer = Offer(name, description, schema, tool_hash(name, description, schema))
    return name, (tool.name, offer)


def filter_fitting_offers(offers: Iterable[Offer]) -> Iterator[Offer]:
    """The tools that fit into one hello: a single invalid definition must not break the connection."""
    room = ROOM
    for offer in offers:
        try:
            size = len(protocol.encode(DeviceHello(protocol.VERSION, offers=(offer,))).encode())
        except BadFrame as error:
            log.warning("tool %s is not offered: %s", offer.name, error)
            continue
        room -= size
        if room < 0:
            log.warning("tool %s and the following ones are not offered: there are too many", offer.name)
            return
        yield offer
