"""MCP servers that are local programs: one JSON-RPC message per line over pipes, in a process group
of their own.

Off unless an administrator lists the command (MUSTER_MCP_COMMANDS): it runs with the same rights as
Muster.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from shutil import which
from time import monotonic

from plumbing import waits
from plumbing.http import outbound

from .exceptions import McpFailed
from .messages import Message, find_messages
from .sse import ANSWER_LIMIT

# The environment variables that are passed on; keys and addresses are not.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
READ = 65536


def command_refusal(command: object, allowed: list[str]) -> str:
    """Why this command may not be started, or ""."""
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return "Write the command as a list of words, the program first."
    if any("\0" in word for word in command):
        return "A command cannot contain a NUL character."
    if not any(is_meant(command, shlex.split(line)) for line in allowed):
        line = shlex.join(command)[:200]
        return f"“{line}” is not among the commands that an administrator allowed (MUSTER_MCP_COMMANDS)."
    if which(command[0]) is None:
        return f"“{command[0]}” is not installed."
    return ""


def is_meant(command: list[str], pinned: list[str]) -> bool:
    """The same words; a last word “*” stands for any further ones."""
    if pinned[-1:] == ["*"] and len(pinned) > 1:
        return command[: len(pinned) - 1] == pinned[:-1]
    return command == pinned


class ProgramTransport:
    """The pipes of one running program. It carries one exchange at a time."""

    cancels_by_closing = False

    def __init__(self, command: list[str]) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program stands in the administrator's list
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in KEPT if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise McpFailed(
                "server_unreachable", f"The program could not be started: {error.strerror}.", was_sent=False
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._into = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._into, False)
        os.set_blocking(self._out, False)
        self._rest = b""
        self.version = ""

    @property
    def is_open(self) -> bool:
        return self._process.poll() is None

    def exchange(self, message: Message, until: float, headers: dict[str, str]) -> "ProgramExchange":
        return ProgramExchange(self, message, until)

    def line(self, until: float) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > ANSWER_LIMIT:
                raise McpFailed("too_large", f"The answer is larger than {ANSWER_LIMIT} bytes.")
            self.wait_for(self._out, waits.READ, until)
            part = os.read(self._out, READ)
            if not part:
                raise McpFailed("server_died", "The program ended.")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def send(self, message: Message, until: float) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            self.wait_for(self._into, waits.WRITE, until)
            try:
                data = data[os.write(self._into, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise McpFailed("server_died", "The program ended.", was_sent=False)

    def wait_for(self, pipe: int, event: int, until: float) -> None:
        seconds = max(0.0, until - monotonic())
        if waits.for_socket(pipe, event, seconds, outbound.asked_whether_cancelled()):
            return
        if outbound.is_cancelled():
            raise McpFailed("cancelled", "The run was cancelled during this call.")
        raise McpFailed("timeout", "The program did not answer in time.")

    def close(self) -> None:
        """End the program and every process it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # It ended by itself.
            pass
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is None:
                continue
            try:
                pipe.close()
            except OSError:
                # Output that was not written before the program died.
                pass


class ProgramExchange:
    """The messages that a program writes after one of ours. Other lines, such as those of a log, are skipped."""

    def __init__(self, transport: ProgramTransport, message: Message, until: float) -> None:
        self._transport = transport
        self._message = message
        self._until = until

    def left(self) -> None:
        """Only this process can read the program's lines."""

    def __iter__(self) -> Iterator[Message]:
        self._transport.send(self._message, self._until)
        size = 0
        while True:
            line = self._transport.line(self._until)
            size += len(line)
            if size > ANSWER_LIMIT:
                raise McpFailed("too_large", f"The answer is larger than {ANSWER_LIMIT} bytes.")
            yield from find_messages(line.decode("utf-8", "replace"))
