"""A device that does what a test tells it to, over the real consumer; and calls made as a worker makes them."""

import asyncio
import json
import uuid
from typing import Any

from channels.testing import WebsocketCommunicator
from django.db import connections

from agents.tools import CallPending, OutcomeUnknown, ToolCall, ToolContext, ToolError, ToolSpec
from config.asgi import application
from devices import protocol
from devices.client.tools import TOOLS
from devices.models import Device
from devices.tools import DeviceToolset

PATIENCE_S = 60  # for what comes at once: only a busy machine needs any of it


class ScriptedDevice:
    """`async with ScriptedDevice(credential) as device: await device.hello(); await device.expect("tool_call")`."""

    def __init__(self, credential: str, *, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        found = [(b"authorization", f"Bearer {credential}".encode())] if credential else []
        self.socket = WebsocketCommunicator(application, protocol.PATH, headers=found + (headers or []))
        self.credential = credential
        self.is_open = False

    async def __aenter__(self) -> "ScriptedDevice":
        self.is_open, _ = await self.socket.connect(timeout=PATIENCE_S)
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self.is_open:
            await self.socket.disconnect(timeout=PATIENCE_S)

    async def send(self, **frame: Any) -> None:
        await self.socket.send_to(text_data=json.dumps(frame))

    async def send_text(self, text: str) -> None:
        await self.socket.send_to(text_data=text)

    async def receive(self, within: float = PATIENCE_S) -> dict[str, Any]:
        return json.loads((await self.output(within))["text"])

    async def output(self, within: float) -> dict[str, Any]:
        """What the server sends next. An error of the server is raised at once: Channels' own waits for its time-out."""
        coming = asyncio.ensure_future(self.socket.output_queue.get())
        await asyncio.wait([coming, self.socket.future], timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            return coming.result()
        coming.cancel()
        if self.socket.future.done():
            self.socket.future.result()
        raise TimeoutError(f"the server sent nothing within {within} s")

    async def expect(self, type: str, within: float = PATIENCE_S) -> dict[str, Any]:
        frame = await self.receive(within)
        assert frame["type"] == type, frame
        return frame

    async def closed(self, within: float = PATIENCE_S) -> dict[str, Any]:
        """The close, whatever is said before it."""
        while True:
            event = await self.output(within)
            if event["type"] == "websocket.close":
                self.is_open = False
                return event

    async def silent(self) -> bool:
        return await self.socket.receive_nothing(timeout=0.3)

    async def hello(self, **more: Any) -> dict[str, Any]:
        """Says hello with every built-in tool; the answer's new credential is kept as the device would."""
        tools = [{"name": tool.name, "hash": tool.hash} for tool in TOOLS.values()]
        frame = {"protocol": 1, "name": "laptop", "platform": "test", "journal_id": "j1", "tools": tools, **more}
        await self.send(type="device_hello", **frame)
        ack = await self.expect("hello_ack")
        self.credential = ack.get("credential", self.credential)
        return ack

    async def answer(self, call: dict[str, Any], result: Any) -> None:
        await self.send(type="tool_ack", id=call["id"])
        await self.send(type="tool_result", id=call["id"], ok=True, result=result)


def paired(owner: Any, name: str = "laptop") -> tuple[Device, str]:
    device = Device.objects.create(owner=owner, name=name)
    return device, device.issue_credential()[1]


def spec(name: str = "list_directory", **more: Any) -> ToolSpec:
    fields = {
        "id": 1,
        "name": name,
        "kind": "device",
        "description": "",
        "input_schema": {"type": "object"},
        "output_schema": None,
        "effect": "write",
        "source": {"device": name},
        "definition_hash": "h",
        "deadline_s": 30.0,
    }
    return ToolSpec(**{**fields, **more})


def ask(
    owner: Any, name: str = "list_directory", *, id: str = "", arguments: Any = None, run_id: str = "", **more: Any
) -> Any:
    """One call through the toolset, on this thread: its ToolResult, or the ToolError it raised."""
    context = ToolContext(
        user_id=owner.pk, run_id=run_id or None, agent="librarian", device_id=more.pop("device", None)
    )
    call = ToolCall(id or str(uuid.uuid4()), name, arguments or {"path": "."})
    try:
        return DeviceToolset().call(spec(name, **more), call, context)
    except ToolError as error:
        return error


def asking(owner: Any, name: str = "list_directory", **more: Any) -> "asyncio.Task[Any]":
    """The same on a thread of its own, as a worker's."""
    return asyncio.create_task(asyncio.to_thread(ask_and_leave, owner, name, **more))


def ask_and_leave(owner: Any, name: str, **more: Any) -> Any:
    """The thread ends, and its connection to the database with it."""
    try:
        return ask(owner, name, **more)
    finally:
        connections.close_all()


def is_pending(answer: Any) -> bool:
    return isinstance(answer, CallPending) and answer.waiting_for == "device"


def is_unknown(answer: Any) -> bool:
    return isinstance(answer, OutcomeUnknown)
