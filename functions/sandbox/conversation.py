"""One call, from the job frame to the child's end: frames, callbacks, the clock, and telling endings apart."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Any

from . import wire
from .callbacks import Callbacks
from .ending import Ending, Usage
from .forkserver import Child, ForkServer, select_readable
from .limits import GRACE_S, Limits
from .outcome import FunctionError, Outcome, Status

_NEAR_LIMIT = 0.8
_PATIENCE_S = 0.1
_KINDS: dict[str, Status] = {
    "memory": "memory",
    "timeout": "timeout",
    "cpu": "cpu",
    "error": "error",
    "output": "error",
}


class Conversation:
    """Talks with one child until it has replied, died, or been killed."""

    def __init__(self, child: Child, limits: Limits, callbacks: Callbacks, server: ForkServer) -> None:
        self._child = child
        self._facts: dict[str, Any] = {"isolation": server.isolation, "layers": server.layers}
        self.ending = Ending(child)
        self._limits = limits
        self._callbacks = callbacks
        self._frames = wire.Frames(
            child.sock,
            largest_reply=(limits.output_kb + limits.printed_kb * 8 + 64) * 1024,
            largest_call=limits.call_kb * 1024,
        )
        self._deadline = 0.0
        self._killed_for: Status | None = None
        self._note = ""

    def run(self, bytecode: bytes, order: bytes, *, keep: bool = False) -> Outcome:
        """Send the job, and say how it ended. The child has ended too, unless it is kept."""
        job = wire.job_frame(bytecode, order)
        began = time.monotonic()
        self._deadline = began + self._limits.timeout_s + GRACE_S
        reply = self._exchange(job)
        wall_ms = round((time.monotonic() - began) * 1000, 3)
        if reply is None:
            return self._without_reply(wall_ms)
        if not keep:
            self._child.kill()  # it is ending by itself, unless what it said was forged
        figures = {"wall_ms": wall_ms, "calls": self._callbacks.count, "ending": None if keep else self.ending}
        return _from_reply(reply, figures | self._facts)

    def cancel(self) -> None:
        """From another thread: end the call now."""
        self._killed_for = "cancelled"
        self._child.kill()

    # The exchange of frames

    def _exchange(self, job: bytes) -> dict[str, Any] | None:
        try:
            if not self._send(job):
                return None
            return self._listen()
        except wire.HostileFrame as error:
            self._kill("violation", str(error))
            return None

    def _send(self, frame: bytes) -> bool:
        """Whether all of it went out in time; mostly at once, in one system call."""
        try:
            sent = self._send_now(frame)
            if sent < len(frame):
                self._child.sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
                self._child.sock.sendall(memoryview(frame)[sent:])
        except TimeoutError:
            self._kill("timeout")
            return False
        except OSError:
            return False  # it died before the frame arrived; its ending says how
        return True

    def _send_now(self, frame: bytes) -> int:
        try:
            return self._child.sock.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def _listen(self) -> dict[str, Any] | None:
        poller = select.poll()
        poller.register(self._child.sock, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0 or not (events := poller.poll(left * 1000)):
                self._kill("timeout")
                return None
            for descriptor, _ in events:
                if descriptor == self._callbacks.wakeup:
                    self._answer(self._callbacks.finished())
                    continue
                reply = self._read()
                if self._callbacks.wakeup is not None:
                    poller.register(self._callbacks.wakeup, select.POLLIN)
                if reply is not None:
                    return reply
                if self._frames.ended:
                    return None

    def _read(self) -> dict[str, Any] | None:
        for kind, payload in self._frames.read():
            if kind == wire.REPLY:
                return _checked_reply(payload, self._limits.max_depth + 6)
            message = wire.read_json(payload, self._limits.max_depth + 6)
            if kind == wire.NOTICE:
                self._callbacks.notice(message)
            else:
                self._answer(self._callbacks.serve(message))
        return None

    def _answer(self, answers: bytes | None) -> None:
        if answers is not None:
            self._send(wire.frame(wire.ANSWERS, answers))  # where it fails, the clock or its ending decides

    # Its end

    def _kill(self, why: Status, note: str = "") -> None:
        if self._killed_for is None:
            self._killed_for, self._note = why, note
        self._child.kill()

    def _without_reply(self, wall_ms: float) -> Outcome:
        if not select_readable(self._child.pidfd, _PATIENCE_S):
            self._kill("violation", "it closed its socket and stayed")
        usage = self.ending.usage()
        status, error = self._how(usage)
        return Outcome(status=status, error=error, wall_ms=wall_ms, calls=self._callbacks.count, ending=self.ending,
                       **self._facts)  # fmt: skip

    def _how(self, usage: Usage | None) -> tuple[Status, FunctionError]:
        """Did we kill it; if not, which signal or exit code; near the memory limit a crash is a memory breach."""
        if self._killed_for is not None:
            return self._killed_for, FunctionError(*_KILLED[self._killed_for](self._limits, self._note))
        if usage is None:
            return "crash", FunctionError("SandboxLost", "the sandbox's fork server died during the call")
        if not os.WIFSIGNALED(usage.status):
            code = os.waitstatus_to_exitcode(usage.status)
            return "crash", FunctionError("Exited", f"the function ended its process with exit code {code}")
        return self._signalled(os.WTERMSIG(usage.status), usage)

    def _signalled(self, number: int, usage: Usage) -> tuple[Status, FunctionError]:
        name = signal.Signals(number).name
        if number == signal.SIGSYS:
            return "violation", FunctionError("SystemCall", "the function made a system call that is never allowed")
        if number == signal.SIGXCPU or usage.cpu_s >= self._limits.cpu_seconds:
            return "cpu", FunctionError("CpuLimit", f"used {usage.cpu_s:.1f} s of CPU time")
        if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            if usage.peak_kb >= _NEAR_LIMIT * self._limits.memory_mb * 1024:
                return "memory", FunctionError("MemoryError", f"used more than {self._limits.memory_mb} MB")
            return "crash", FunctionError(
                "Crash", f"the interpreter crashed ({name}), as endless recursion in C code does"
            )
        if number == signal.SIGKILL:
            return "memory", FunctionError("OutOfMemory", "the system ran out of memory and ended the function")
        return "crash", FunctionError("Signal", f"the function's process was ended by {name}")


_KILLED: dict[str, Any] = {
    "timeout": lambda limits, note: ("TimeLimit", f"ran longer than {limits.timeout_s:g} s"),
    "violation": lambda limits, note: ("Protocol", f"the function's process broke the protocol: {note}"),
    "cancelled": lambda limits, note: ("Cancelled", "the call was cancelled"),
}


def _checked_reply(payload: bytes, max_depth: int) -> dict[str, Any]:
    """The reply in the shape that the protocol promises. Raises HostileFrame."""
    reply = wire.read_json(payload, max_depth)
    if not isinstance(reply, dict) or type(reply.get("ok")) is not bool or not isinstance(reply.get("printed"), str):
        raise wire.HostileFrame("not a reply")
    if reply["ok"]:
        return reply
    error = reply.get("error")
    if reply.get("kind") not in _KINDS or not isinstance(error, dict):
        raise wire.HostileFrame("not a reply")
    if not isinstance(error.get("type"), str) or not isinstance(error.get("message"), str):
        raise wire.HostileFrame("not an error")
    if type(error.get("line")) is not int:
        raise wire.HostileFrame("not a line")
    return reply


def _from_reply(reply: dict[str, Any], figures: dict[str, Any]) -> Outcome:
    figures |= {"printed": reply["printed"], "printed_cut": reply.get("cut") is True}
    if reply["ok"]:
        return Outcome(status="ok", result=reply.get("result"), **figures)
    told = reply["error"]
    message = told["message"] or _SAID.get(reply["kind"], "")
    error = FunctionError(told["type"][:200], message, told["line"] or None)
    return Outcome(status=_KINDS[reply["kind"]], error=error, **figures)


_SAID = {
    "memory": "used more memory than its limit",
    "timeout": "ran longer than its time limit",
    "cpu": "used more CPU time than its limit",
}
