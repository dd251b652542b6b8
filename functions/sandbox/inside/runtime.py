"""One job: create the globals, call the entry function, report how it ended."""

from __future__ import annotations

import _signal  # the plain C functions: signal.signal uses enums, which costs 90 page faults in each new child
import builtins
import json
import marshal
import math
import os
import sys
from abc import ABCMeta
from json.encoder import encode_basestring_ascii
from time import monotonic
from types import ModuleType, TracebackType
from typing import Any

from . import values
from .arguments import Arguments
from .channel import REPLY, Channel, read_json
from .context import CallFailed, Context, HttpResponse, Requester
from .facades import importer
from .guards import SAFE_BUILTINS, check_patterns, guarded_getattr
from .names import ABSTRACT_HOOK, HOOK, PATTERN_HOOK
from .quota import Quota

FILENAME = "<function>"
_MESSAGE_CHARS = 2000
_KEPT_S = 60.0
# Prepared in advance: when memory runs out, there may not be enough left to build an answer.
_OUT_OF_MEMORY = b'{"ok":false,"kind":"memory","error":{"type":"MemoryError","message":"","line":%d},"printed":""}'


class Printed:
    """Replaces standard output and standard error, up to a maximum size."""

    __slots__ = ("__parts__", "__left__", "__cut__")
    encoding, errors, closed, name = "utf-8", "replace", False, "<printed>"

    def __init__(self, limit_chars: int) -> None:
        if hasattr(self, "__left__"):
            raise TypeError("the output of a function has its limit already")
        self.__parts__: list[str] = []
        self.__left__ = limit_chars
        self.__cut__ = False

    def write(self, text: str) -> int:
        if type(text) is not str:
            text = str.__str__(text)
        if len(text) > self.__left__:
            self.__cut__ = True
        if self.__left__ > 0:
            self.__parts__.append(text[: self.__left__])
            self.__left__ -= len(self.__parts__[-1])
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def __text__(self) -> str:
        return "".join(self.__parts__).encode("utf-8", "replace").decode()


class Job:
    """Everything the host sent about one call, and the new globals to run it in."""

    def __init__(self, payload: bytes) -> None:
        size = int.from_bytes(payload[:4], "little")
        self.code: Any = marshal.loads(payload[4 : 4 + size]) if size else None  # noqa: S302 - see _call
        self.order: dict[str, Any] = read_json(payload[4 + size :])
        self.keep: bool = self.order.get("keep", False)
        self.globals: dict[str, Any] | None = None

    def renew(self, payload: bytes) -> None:
        """Prepare the same function with other arguments and another context."""
        self.order |= read_json(payload[4:])

    def prepare(self) -> None:
        """Create the globals of the next call while the host is not waiting.

        The previous globals are emptied, because functions and their globals refer to each other:
        if they were left to the garbage collector, each call would touch new memory.
        """
        if self.globals is not None:
            self.globals.clear()
        self.globals = _globals(self)


def run_job(job: Job, channel: Channel) -> None:
    """Run the job and always send exactly one reply."""
    order = job.order
    printed = Printed(order["printed_chars"])
    sys.stdout = sys.stderr = printed
    alarm.watch(channel, printed, order["timeout_s"])
    try:
        reply = _done(_call(job, order, channel), printed, order["output_bytes"])
    except MemoryError as error:
        reply = _OUT_OF_MEMORY % _find_error_line(error.__traceback__)
    except BaseException as error:  # stored code can raise any exception, including SystemExit
        reply = _failed(error, printed)
    alarm.rest(order.get("kept_s", _KEPT_S))
    channel.send(REPLY, reply)


def _call(job: Job, order: dict[str, Any], channel: Channel) -> Any:
    namespace = job.globals = job.globals or _globals(job)
    # Bytecode from a compiler child: this process is locked down and expendable.
    exec(job.code, namespace)
    entry = namespace.get(order["entry"])
    if not callable(entry):
        raise NameError(f"there is no function named {order['entry']}")
    arguments = order["arguments"]
    if "readers" in order:
        arguments = _read_arguments(arguments, order, namespace)
    if order["is_async"]:
        return _call_async(entry, arguments, order, channel)
    if order["takes_ctx"]:
        arguments["ctx"] = Context(order["context"] or {}, Requester(channel, Quota(order)))
    result = entry(**arguments)
    if type(result) is _COROUTINE:
        raise values.BadResult("the result is a coroutine: declare the function with `async def`")
    return result


def _read_arguments(arguments: dict[str, Any], order: dict[str, Any], namespace: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the function's annotations say."""
    return Arguments(order["readers"], namespace, safe_mode=order["safe_mode"]).read_all(arguments)


def _call_async(entry: Any, arguments: dict[str, Any], order: dict[str, Any], channel: Channel) -> Any:
    # Already loaded if this profile has asyncio.
    from .loop import JobLoop, run_to_end

    loop = JobLoop(channel, Quota(order))
    if order["takes_ctx"]:
        arguments["ctx"] = Context(order["context"] or {}, loop.__requester__)
    return run_to_end(loop, entry(**arguments))


async def _nothing() -> None:
    return


_probe = _nothing()
_COROUTINE = type(_probe)
_probe.close()


def _globals(job: Job) -> dict[str, Any]:
    namespace = vars(_module())
    if not job.order["safe_mode"]:
        namespace |= {"__builtins__": builtins, **_GIVEN}
        return namespace
    # Not copied in a process that runs only one job.
    names = SAFE_BUILTINS.copy() if job.keep else SAFE_BUILTINS
    names["__import__"] = importer(frozenset(job.order["imports"]), is_kept=job.keep)
    namespace |= {"__builtins__": names, **_GIVEN, **_HOOKS}
    return namespace


_GIVEN = {"CallFailed": CallFailed, "Context": Context, "HttpResponse": HttpResponse}
_HOOKS = {HOOK: guarded_getattr, PATTERN_HOOK: check_patterns, ABSTRACT_HOOK: ABCMeta}


def _module() -> ModuleType:
    """dataclasses looks up annotations given as text in this module."""
    module = sys.modules["stored_function"] = ModuleType("stored_function")
    return module


def _done(result: Any, printed: Printed, output_bytes: int) -> bytes:
    body = values.encode(result)
    if len(body) > output_bytes:
        raise values.BadResult(f"the result has {len(body)} bytes of JSON; the maximum is {output_bytes}")
    out = encode_basestring_ascii(printed.__text__()).encode()
    return b'{"ok":true,"result":%b,"printed":%b,"cut":%b}' % (body, out, b"true" if printed.__cut__ else b"false")


def _failed(error: BaseException, printed: Printed) -> bytes:
    kind = "error"
    if isinstance(error, values.BadResult):
        kind = "output"
    described = {
        "type": type(error).__name__,
        "message": _message(error),
        "line": _find_error_line(error.__traceback__),
    }
    reply = {
        "ok": False,
        "kind": kind,
        "error": described,
        "printed": printed.__text__(),
        "cut": printed.__cut__,
    }
    return json.dumps(reply).encode()


def _message(error: BaseException) -> str:
    try:
        text = str.__str__(str(error))
    except BaseException:  # its __str__ is stored code as well
        return ""
    return text[:_MESSAGE_CHARS].encode("utf-8", "replace").decode()


def _find_error_line(trace: TracebackType | None) -> int:
    """The last line of stored code in the error's traceback; 0 if there is none."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            line = trace.tb_lineno or line
        trace = trace.tb_next
    return line


class _Alarm:
    """At the time limit (or CPU limit), reports the current line and ends the process; stored code
    cannot catch it.

    One timer serves all calls of a kept child: if it fires too early, it is restarted with the
    remaining time.
    """

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.printed: Printed | None = None
        self.deadline = self.rings_at = math.inf

    def watch(self, channel: Channel, printed: Printed, seconds: float) -> None:
        """Begin a call with this time limit."""
        self.deadline = monotonic() + seconds
        self.channel, self.printed = channel, printed
        if self.rings_at > self.deadline:
            self._wind_up(seconds)

    def rest(self, seconds: float) -> None:
        """End the call; from now on only a kept child continues, waiting this long for its next job."""
        self.deadline = monotonic() + seconds
        self.channel = None
        if self.rings_at > self.deadline:
            self._wind_up(seconds)

    def stop(self) -> None:
        """Disable the timer after a rehearsal."""
        self.rings_at = math.inf
        _signal.setitimer(_signal.ITIMER_REAL, 0)

    def __call__(self, number: int, frame: Any) -> None:
        remaining_s = self.deadline - monotonic()
        if number == _signal.SIGALRM and remaining_s > 0:
            self._wind_up(remaining_s)
            return
        if self.channel is None or self.printed is None:
            # A kept child that is no longer used.
            os._exit(0)
        if self.channel.sending:
            # Never interrupt a frame that is partly sent.
            self._wind_up(0.01)
            return
        while frame is not None and frame.f_code.co_filename != FILENAME:
            frame = frame.f_back
        error = {"type": "TimeLimit", "message": "", "line": frame.f_lineno if frame else 0}
        kind = "cpu" if number == _signal.SIGXCPU else "timeout"
        reply = {
            "ok": False,
            "kind": kind,
            "error": error,
            "printed": self.printed.__text__(),
            "cut": self.printed.__cut__,
        }
        self.channel.send(REPLY, json.dumps(reply).encode())
        os._exit(0)

    def _wind_up(self, seconds: float) -> None:
        self.rings_at = monotonic() + seconds
        _signal.setitimer(_signal.ITIMER_REAL, seconds)


alarm = _Alarm()


def set_alarm_handlers() -> None:
    """Set the handlers in the zygote; children inherit them."""
    _signal.signal(_signal.SIGALRM, alarm)
    _signal.signal(_signal.SIGXCPU, alarm)
