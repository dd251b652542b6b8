"""Executes tool calls on the device: check, journal, run, answer. A call never runs twice and always ends."""

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from devices import protocol
from devices.protocol import CANCELLED, DEADLINE, DENIED, ToolAck, ToolCall, ToolProgress, ToolResult
from devices.wire import BadFrame

from . import schema, stopping
from .approvals import Approvals
from .exceptions import Stopped, ToolRefused
from .journal import Journal
from .mcp_bridge import Bridge
from .store import Store
from .text import sendable
from .tools import TOOLS, Tool
from .workspace import Workspace

log = logging.getLogger("muster.device")
JSON = Any
Send = Callable[[Any], Awaitable[None]]
MAX_AT_ONCE = 32
# The most threads of tools that did not stop; with so many, no further tool is run.
MAX_ABANDONED = 64
# The time limit of a call whose deadline cannot be read.
DEFAULT_S = 30.0


@dataclass
class Running:
    """A running call. The tool, the time limit or a cancel answers it, whichever claims it first."""

    call: ToolCall
    stop: threading.Event = field(default_factory=threading.Event)
    reason: str = ""
    task: asyncio.Task[None] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_claimed: bool = False
    # Whether its answer is in the journal already.
    is_written: bool = False

    def claim(self) -> bool:
        """True for whoever asks first, who then answers the call."""
        with self.lock:
            is_first = not self.is_claimed
            self.is_claimed = True
            return is_first


class Executor:
    """Runs the calls of this device, several at a time.

    `send` delivers a frame if there is a connection, otherwise it does nothing: the journal keeps the result.
    `until` is the deadline of a call on this machine's monotonic clock.
    """

    def __init__(
        self, store: Store, journal: Journal, workspace: Workspace, approvals: Approvals, bridge: Bridge, send: Send
    ) -> None:
        self.store = store
        self.journal = journal
        self.workspace = workspace
        self.approvals = approvals
        self.bridge = bridge
        self.send = send
        self.running: dict[str, Running] = {}
        self.slots = asyncio.Semaphore(MAX_AT_ONCE)
        self.abandoned = 0

    async def take(self, call: ToolCall) -> None:
        """Start a call, or answer one that has ended from the journal. One that runs already goes on."""
        if call.id in self.running:
            return
        if (entry := self.journal.find(call.id)) is not None and entry.state != "running":
            await self.send(entry.result)
            return
        running = Running(call)
        self.running[call.id] = running
        running.task = asyncio.create_task(self.answer_call(running))

    def cancel(self, id: str, reason: str) -> bool:
        """Tell a tool to stop; the answer is a result with the code `cancelled`."""
        running = self.running.get(id)
        if running is None:
            return False
        running.reason = reason or "cancelled"
        running.stop.set()
        return True

    async def resend(self, ids: tuple[str, ...]) -> None:
        for id in ids:
            entry = self.journal.find(id)
            if entry is not None and entry.state != "running":
                await self.send(entry.result)

    # -- one call ---------------------------------------------------------------------------------------------------

    async def answer_call(self, running: Running) -> None:
        """Carry out the call and send its result; an error becomes a result too."""
        started = time.monotonic()
        call = running.call
        try:
            async with self.slots:
                result = await self.carry_out(running, started + seconds_left(call))
        except sqlite3.Error as error:  # no tool ran: a call is written to the journal first
            log.error("call %s: the journal cannot be written: %s", call.id, error)  # noqa: TRY400  (one line)
            result = build_refused_result(call.id, "tool_failed", f"this device cannot write its journal: {error}")
        except Exception as error:  # an error in the client must not leave the call without an answer
            log.exception("call %s failed", call.id)
            result = build_refused_result(
                call.id, "tool_broken", f"internal error of the client: {type(error).__name__}"
            )
        finally:
            self.running.pop(call.id, None)
        outcome = "ok" if result.ok else (result.error or {}).get("code")
        agent = call.run_context.get("agent", "")
        log.info("%s %s %s %.0f ms", agent, call.name, outcome, (time.monotonic() - started) * 1000)
        await self.send(result)

    async def carry_out(self, running: Running, until: float) -> ToolResult:
        """Check the call, ask the device's user if needed, write it to the journal, then run its tool."""
        call = running.call
        tool = TOOLS.get(call.name)
        is_offered = tool is None and self.bridge.has(call.name)
        if tool is None and not is_offered:
            return build_refused_result(call.id, "unknown_tool", f"this device has no tool “{call.name}”")
        if tool:
            problems = schema.problems(tool.input_schema, call.args)
            if problems:
                return build_refused_result(call.id, "invalid_arguments", "; ".join(problems[:5]))
        try:
            await self.permit(running, is_offered=is_offered, until=until)
        except ToolRefused as refusal:
            return build_refused_result(call.id, refusal.code, str(refusal))
        if running.stop.is_set():
            return build_refused_result(call.id, CANCELLED, running.reason)
        # Our own tools read, or change records together with their journal entry.
        is_repeatable = tool is not None
        self.journal.begin(call, repeatable=is_repeatable)
        await self.send(ToolAck(call.id))
        if tool:
            result = await self.run_on_thread(running, tool, until)
        else:
            result = await self.run_mcp_tool(running, until)
        if not running.is_written:
            self.finish(result, durable=not is_repeatable)
        return result

    def finish(self, result: ToolResult, *, durable: bool) -> None:
        """Write the result to the journal. If that fails (the disk is full), the call is still answered."""
        try:
            self.journal.finish(result, durable=durable)
        except sqlite3.Error as error:
            log.error("call %s: its result is not in the journal: %s", result.id, error)  # noqa: TRY400  (one line)

    async def permit(self, running: Running, *, is_offered: bool, until: float) -> None:
        """Waits for the user of the device if the call must be approved. Raises ToolRefused unless it is allowed."""
        mode = self.approvals.mode(running.call, is_offered=is_offered)
        if mode == "deny":
            raise ToolRefused(DENIED, f"“{running.call.name}” is not allowed on this device")
        if mode == "ask":
            await self.send(ToolProgress(running.call.id, "waiting for approval at the device"))
            asking = asyncio.ensure_future(self.approvals.ask(running.call, until - time.monotonic()))
            while not asking.done():
                await asyncio.wait([asking], timeout=0.2)
                if running.stop.is_set():
                    asking.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await asking
                    raise ToolRefused(CANCELLED, running.reason)
            asking.result()

    async def run_on_thread(self, running: Running, tool: Tool, until: float) -> ToolResult:
        """Run the tool on a thread of its own, which is abandoned if it does not stop on request."""
        if self.abandoned >= MAX_ABANDONED:
            return build_refused_result(
                running.call.id, "too_busy", "too many tools on this device do not stop; restart the client"
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ToolResult | None] = loop.create_future()

        def work() -> None:
            stopping.watch(running.stop)
            result = self.execute(running, tool)
            with contextlib.suppress(RuntimeError):
                # The event loop has closed: nothing waits any more.
                loop.call_soon_threadsafe(resolve_future, answer, result)

        threading.Thread(target=work, name=f"tool-{tool.name}", daemon=True).start()
        return await self.wait_for_answer(running, answer, until)

    async def wait_for_answer(
        self, running: Running, answer: "asyncio.Future[ToolResult | None]", until: float
    ) -> ToolResult:
        """The tool's result, or `cancelled` or `deadline` if it was stopped first."""
        try:
            while not answer.done():
                remaining_s = until - time.monotonic()
                if remaining_s <= 0:
                    running.stop.set()
                    break
                if running.stop.is_set():
                    # The tool has a moment to stop by itself.
                    await asyncio.wait([answer], timeout=0.5)
                    break
                await asyncio.wait([answer], timeout=min(remaining_s, 0.1))
            if answer.done() and (result := answer.result()) is not None:
                return result
            if not running.claim():
                # The tool was faster: its answer is on the way.
                return await answer or build_stopped_result(running)
            if not answer.done():
                self.abandoned += 1
                answer.add_done_callback(self.count_returned_thread)
            return build_stopped_result(running)
        except asyncio.CancelledError:
            running.stop.set()
            raise

    def count_returned_thread(self, _answer: "asyncio.Future[ToolResult | None]") -> None:
        """An abandoned thread has come to its end after all."""
        self.abandoned -= 1

    def execute(self, running: Running, tool: Tool) -> ToolResult | None:
        """Call the tool, on its thread. None if the call was stopped before the tool had an answer."""
        call = running.call
        try:
            if tool.works_on == "workspace":
                value = tool.function(self.workspace, **call.args)
                result = build_fitting_result(call.id, value)
            else:
                return self.change_records(running, tool)
        except Stopped:
            return None
        except ToolRefused as refusal:
            result = build_refused_result(call.id, refusal.code, str(refusal))
        # Any exception of a tool becomes its answer.
        except Exception as error:
            log.exception("tool %s raised", tool.name)
            message = f"{type(error).__name__}: {error}"[:500]
            result = build_refused_result(call.id, "tool_failed", message)
        if not running.claim():
            return None
        return result

    def change_records(self, running: Running, tool: Tool) -> ToolResult:
        """Call a tool that changes records. They change together with the journal, or neither does. Raises Stopped."""
        call = running.call
        context = call.run_context
        agent = str(context.get("agent") or "")
        is_untrusted = bool(context.get("untrusted"))
        is_ours = False
        try:
            with self.store.transaction():
                records = self.store.for_agent(agent, is_untrusted=is_untrusted)
                value = tool.function(records, **call.args)
                result = build_fitting_result(call.id, value)
                is_ours = running.claim()
                if not is_ours:
                    # The call was reported as not carried out: the transaction is rolled back.
                    raise Stopped
                self.journal.finish(result)
        except sqlite3.Error as error:
            if not is_ours:
                raise
            # Nobody else answers a call that is claimed. Nothing was changed: the transaction was rolled back.
            log.error("call %s: its records cannot be written: %s", call.id, error)  # noqa: TRY400  (one line)
            message = f"this device cannot write its records, and nothing was changed: {error}"
            return build_refused_result(call.id, "tool_failed", message)
        running.is_written = True
        return result

    async def run_mcp_tool(self, running: Running, until: float) -> ToolResult:
        """Run a tool of an MCP server that this device offers."""
        call_id = running.call.id
        calling = asyncio.ensure_future(self.bridge.call(running.call))
        while not calling.done():
            remaining_s = until - time.monotonic()
            if remaining_s <= 0 or running.stop.is_set():
                calling.cancel()
                return build_stopped_result(running)
            await asyncio.wait([calling], timeout=min(remaining_s, 0.1))
        try:
            return build_fitting_result(call_id, calling.result())
        except ToolRefused as refusal:
            return build_refused_result(call_id, refusal.code, str(refusal))
        # An error of the MCP server becomes the tool's answer.
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:500]
            return build_refused_result(call_id, "tool_failed", message)

    async def close(self, grace_s: float) -> None:
        """Give running calls a moment to finish, then stop them."""
        tasks = [running.task for running in self.running.values() if running.task]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for running in list(self.running.values()):
            running.reason = "the client is being stopped"
            running.stop.set()
        if tasks:
            await asyncio.wait(tasks, timeout=2)


def resolve_future(answer: "asyncio.Future[ToolResult | None]", result: ToolResult | None) -> None:
    if not answer.done():
        answer.set_result(result)


def build_stopped_result(running: Running) -> ToolResult:
    if running.reason:
        return build_refused_result(running.call.id, CANCELLED, running.reason)
    return build_refused_result(running.call.id, DEADLINE, "the tool did not finish before the call's deadline")


def build_refused_result(id: str, code: str, message: str) -> ToolResult:
    return ToolResult(id, False, None, {"code": code, "message": sendable(message)})


def build_fitting_result(id: str, value: JSON) -> ToolResult:
    """A result that fits into a frame; a larger one becomes an error that says so."""
    result = ToolResult(id, True, value)
    try:
        protocol.encode(result)
    except BadFrame as error:
        return build_refused_result(id, error.code, f"the tool's answer cannot be sent: {error}; ask for less")
    return result


def seconds_left(call: ToolCall) -> float:
    """The time that a call has. The server's time limit counts if given: this machine's clock may be wrong."""
    if call.timeout_s is not None:
        return max(0.0, call.timeout_s)
    try:
        return max(0.0, (datetime.fromisoformat(call.deadline) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return DEFAULT_S
