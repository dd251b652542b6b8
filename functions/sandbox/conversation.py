"""One call, from the job frame to the end of the child: frames, callbacks, time limits, and the
reason for the end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from . import wire
from .callbacks import Callbacks
from .ending import Ending, Usage
from .forkserver import Child, ForkServer, select_readable, select_writable
from .limits import GRACE_S, Limits
from .outcome import FunctionError, Outcome, Status

_NEAR_LIMIT = 0.8
# On a busy machine, a child that is ending may still wait for a CPU core; that is not a violation.
_PATIENCE_S = 1.0
_MESSAGE_CHARS = 2000
# Bytes of a reply in addition to its result and printed text; mostly an error's text.
_FRAME_BYTES = 65536
_KINDS: dict[str, Status] = {
    "memory": "memory",
    "timeout": "timeout",
    "cpu": "cpu",
    "error": "error",
    "output": "error",
}


class Conversation:
    """The exchange with one child: one call, or several in sequence, until the child died or was
    killed.
    """

    def __init__(self, child: Child, limits: Limits, server: ForkServer) -> None:
        self._child = child
        self._isolation, self._layers = server.isolation, server.layers
        self.ending = Ending(child)
        self._limits = limits
        self._frames = wire.Frames(
            child.sock,
            largest_reply=(limits.output_kb + limits.printed_kb * 12 + 64) * 1024,
            largest_call=limits.call_kb * 1024,
            most=limits.bytes_in_all,
        )
        self._poller = select.poll()
        self._poller.register(child.sock, select.POLLIN)
        # Answers that threads have finished.
        self._wakeup: int | None = None
        # The child ended before it took the last job, so that job has not begun.
        self.has_gone = False
        self._deadline = 0.0
        self._killed_for: Status | None = None
        self._note = ""
        # Ends the host's work for the call.
        self._stop: Callable[[], None] | None = None

    def run(
        self, job: bytes, callbacks: Callbacks, *, keep: bool = False, meanwhile: Callable[[], None] | None = None
    ) -> Outcome:
        """Send the job, and return how it ended. The child has ended too, unless it is kept.

        meanwhile: work for the host while the child is running.
        """
        self._callbacks = callbacks
        self._frames.received = 0
        began = time.monotonic()
        self._deadline = began + self._limits.timeout_s + GRACE_S
        callbacks.begin(self._deadline)
        self._stop = callbacks.stop
        reply = self._exchange(job, meanwhile)
        # Same result as round(), ten times as fast.
        wall_ms = int((time.monotonic() - began) * 1e6) / 1000
        if reply is None:
            return self._without_reply(wall_ms)
        if not keep:
            # It is ending on its own, unless its reply was forged.
            self._child.kill()
        return self._from_reply(reply, wall_ms, None if keep else self.ending)

    def cancel(self) -> None:
        """From another thread: end the call now."""
        self._killed_for = "cancelled"
        self._child.kill()
        if self._stop is not None:
            self._stop()

    @property
    def can_go_on(self) -> bool:
        """Whether a kept child can receive another job: it was not killed, and it sent nothing
        unexpected.
        """
        return self._killed_for is None and not self._frames.buffer

    # The exchange of frames

    def _exchange(self, job: bytes, meanwhile: Callable[[], None] | None) -> dict[str, Any] | None:
        try:
            if not self._send(job):
                self.has_gone = self._killed_for is None
                return None
            if meanwhile is not None:
                meanwhile()
            return self._listen()
        except wire.HostileFrame as error:
            self._kill("violation", str(error))
            return None

    def _send(self, frame: bytes) -> bool:
        """Whether all of it was sent in time; mostly at once, in one system call."""
        try:
            sent = self._send_now(frame)
            while sent < len(frame):
                if not select_writable(self._child.sock, self._deadline - time.monotonic()):
                    self._kill("timeout")
                    return False
                sent += self._send_now(memoryview(frame)[sent:])
        except OSError:
            # It died before the frame arrived; its exit status gives the reason.
            return False
        return True

    def _send_now(self, frame: bytes | memoryview) -> int:
        try:
            return os.write(self._child.sock, frame)
        except BlockingIOError:
            return 0

    def _listen(self) -> dict[str, Any] | None:
        try:
            while True:
                remaining_s = self._deadline - time.monotonic()
                if remaining_s <= 0 or not (events := self._poller.poll(remaining_s * 1000)):
                    self._kill("timeout")
                    return None
                for descriptor, _ in events:
                    if descriptor == self._wakeup:
                        self._answer(self._callbacks.finished())
                        continue
                    reply = self._read()
                    if reply is not None:
                        return reply
                    if self._frames.ended:
                        self.has_gone = self._has_not_begun()
                        return None
        finally:
            if self._wakeup is not None:
                self._poller.unregister(self._wakeup)
                self._wakeup = None

    def _has_not_begun(self) -> bool:
        """Whether it ended without reading its job, so that nothing of the call has happened."""
        frames = self._frames
        return frames.was_reset and not frames.received and self._killed_for is None

    def _read(self) -> dict[str, Any] | None:
        for kind, payload in self._frames.read():
            if kind == wire.REPLY:
                return _checked_reply(payload, self._limits)
            message = wire.read_json(payload, self._limits.max_depth + 6)
            if kind == wire.NOTICE:
                self._callbacks.notice(message)
            else:
                self._serve(message)
        return None

    def _serve(self, message: Any) -> None:
        callbacks = self._callbacks
        self._answer(callbacks.serve(message))
        if callbacks.wakeup is not None and self._wakeup is None:
            self._wakeup = callbacks.wakeup
            self._poller.register(self._wakeup, select.POLLIN)

    def _answer(self, answers: bytes | None) -> None:
        if answers is not None:
            # If it fails, the time limit or the child's end decides.
            self._send(wire.frame(wire.ANSWERS, answers))

    # Its end

    def _kill(self, why: Status, note: str = "") -> None:
        if self._killed_for is None:
            self._killed_for, self._note = why, note
        self._child.kill()

    def _without_reply(self, wall_ms: float) -> Outcome:
        if not select_readable(self._child.pidfd, _PATIENCE_S):
            self._kill("violation", "it closed its socket but did not end")
        usage = self.ending.usage()
        status, error = self._how(usage)
        return Outcome(
            status=status,
            error=error,
            wall_ms=wall_ms,
            calls=self._callbacks.count,
            ending=self.ending,
            isolation=self._isolation,
            layers=self._layers,
        )

    def _from_reply(self, reply: dict[str, Any], wall_ms: float, ending: Ending | None) -> Outcome:
        status: Status = "ok"
        result = None
        error = None
        if reply["ok"]:
            result = reply.get("result")
        else:
            status = _KINDS[reply["kind"]]
            error = _error(reply)
        return Outcome(
            status=status,
            result=result,
            error=error,
            printed=reply["printed"],
            printed_cut=reply.get("cut") is True,
            wall_ms=wall_ms,
            isolation=self._isolation,
            layers=self._layers,
            calls=self._callbacks.count,
            ending=ending,
        )

    def _how(self, usage: Usage | None) -> tuple[Status, FunctionError]:
        """Whether we killed it; else the signal or exit code. A crash near the memory limit counts
        as a memory breach.
        """
        reason = self._killed_for
        if reason is not None:
            words = _KILLED[reason](self._limits, self._note)
            return reason, FunctionError(*words)
        if usage is None:
            return "crash", FunctionError("SandboxLost", "the sandbox's fork server died during the call")
        if not os.WIFSIGNALED(usage.status):
            code = os.waitstatus_to_exitcode(usage.status)
            return "crash", FunctionError("Exited", f"the function ended its process with exit code {code}")
        return self._signalled(os.WTERMSIG(usage.status), usage)

    def _signalled(self, number: int, usage: Usage) -> tuple[Status, FunctionError]:
        if number == signal.SIGSYS:
            return "violation", FunctionError("SystemCall", "the function made a forbidden system call")
        if number == signal.SIGXCPU or usage.cpu_s >= self._limits.cpu_seconds:
            return "cpu", FunctionError("CpuLimit", f"used {usage.cpu_s:.1f} s of CPU time")
        is_near_limit = usage.peak_kb >= _NEAR_LIMIT * self._limits.memory_mb * 1024
        name = name_signal(number)
        if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            if is_near_limit:
                return "memory", FunctionError("MemoryError", f"used more than {self._limits.memory_mb} MB")
            message = f"the interpreter crashed ({name}), for example because of endless recursion in C code"
            return "crash", FunctionError("Crash", message)
        if number == signal.SIGKILL and is_near_limit:
            # Not by us: the kernel ends the largest process where memory is short.
            message = "the system ran out of memory and killed the function's process"
            return "memory", FunctionError("OutOfMemory", message)
        return "crash", FunctionError("Signal", f"the function's process was killed by {name}")


def name_signal(number: int) -> str:
    """The name of a signal; signals between SIGRTMIN and SIGRTMAX have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_KILLED: dict[str, Any] = {
    "timeout": lambda limits, note: ("TimeLimit", f"ran longer than {limits.timeout_s:g} s"),
    "violation": lambda limits, note: ("Protocol", f"the function's process broke the protocol: {note}"),
    "cancelled": lambda limits, note: ("Cancelled", "the call was cancelled"),
}


def _checked_reply(payload: bytes, limits: Limits) -> dict[str, Any]:
    """The reply, if it has the shape and size of the protocol. Raises HostileFrame."""
    reply = wire.read_json(payload, limits.max_depth + 6)
    if not isinstance(reply, dict) or type(reply.get("ok")) is not bool or not isinstance(reply.get("printed"), str):
        raise wire.HostileFrame("not a valid reply")
    if len(reply["printed"]) > limits.printed_kb << 10:
        raise wire.HostileFrame("too much printed text")
    largest = (limits.output_kb << 10) + _FRAME_BYTES
    if len(payload) > largest and len(payload) > largest + len(json.dumps(reply["printed"])):
        raise wire.HostileFrame("the result is too large")
    if reply["ok"]:
        return reply
    error = reply.get("error")
    if reply.get("kind") not in _KINDS or not isinstance(error, dict):
        raise wire.HostileFrame("not a valid reply")
    if not isinstance(error.get("type"), str) or not isinstance(error.get("message"), str):
        raise wire.HostileFrame("not a valid error")
    if type(error.get("line")) is not int:
        raise wire.HostileFrame("not a valid line")
    return reply


def _error(reply: dict[str, Any]) -> FunctionError:
    error = reply["error"]
    message = error["message"][:_MESSAGE_CHARS] or _SAID.get(reply["kind"], "")
    return FunctionError(error["type"][:200], message, error["line"] or None)


_SAID = {
    "memory": "used more memory than its limit",
    "timeout": "ran longer than its time limit",
    "cpu": "used more CPU time than its limit",
}
