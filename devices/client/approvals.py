"""allow, ask or deny, per tool, decided at the device. A question expires with its call's deadline."""

import asyncio
import contextlib
import json
import os
import sys
import termios
from typing import Any

from devices.protocol import DENIED, ToolCall

from .exceptions import ToolRefused
from .home import Config
from .text import printable

JSON = Any
MAX_SHOWN = 600


class Approvals:
    def __init__(self, config: Config) -> None:
        self.config = config
        # One question at a time on the terminal.
        self.turn = asyncio.Lock()

    def mode(self, call: ToolCall, *, is_offered: bool) -> str:
        return self.config.approval(call.name, is_offered=is_offered)

    async def ask(self, call: ToolCall, seconds: float) -> None:
        """Returns if the user says yes. Raises ToolRefused for no, and for no answer in time."""
        if not can_ask():
            raise ToolRefused(DENIED, f"“{call.name}” must be approved at the device, but its terminal is not in use")
        try:
            async with asyncio.timeout(seconds), self.turn:
                answer = await read_line(build_approval_question(call))
        except TimeoutError:
            print_line("  (too late: the call has expired)")
            raise ToolRefused(DENIED, "it was not approved at the device in time")
        if answer.strip().lower() not in ("y", "yes"):
            raise ToolRefused(DENIED, "the user refused it at the device")


def can_ask() -> bool:
    # A service has no terminal, and a program without a window no input at all.
    if sys.stdin is None or sys.stdin.closed:
        return False
    return sys.stdin.isatty() or "MUSTER_DEVICE_ASK" in os.environ


def build_approval_question(call: ToolCall) -> str:
    who = call.run_context.get("agent") or "an agent"
    arguments = json.dumps(call.args, ensure_ascii=False)
    left_out = len(arguments) - MAX_SHOWN
    if left_out > 0:
        arguments = f"{arguments[:MAX_SHOWN]} … and {left_out} more characters"
    what = printable(f"{who} wants {call.name} {arguments}")
    return f"\n{what}\nAllow it? [y/N] "


def print_line(text: str) -> None:
    print(text, flush=True)


async def read_line(question: str) -> str:
    """Reads one line from the terminal without a thread that outlives the question.

    Input typed before the question is discarded: a late “y” must not allow the next call.
    """
    fd = sys.stdin.fileno()
    if os.isatty(fd):
        termios.tcflush(fd, termios.TCIFLUSH)
    print(question, end="", flush=True)
    loop = asyncio.get_running_loop()
    came: asyncio.Future[str] = loop.create_future()

    def on_input() -> None:
        if not came.done():
            came.set_result(os.read(fd, 4096).decode(errors="replace").partition("\n")[0])

    loop.add_reader(fd, on_input)
    try:
        return await came
    finally:
        with contextlib.suppress(ValueError, OSError):
            loop.remove_reader(fd)
