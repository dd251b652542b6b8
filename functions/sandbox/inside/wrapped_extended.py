"""Replacements for exports of the modules that only the extended profile has."""

from __future__ import annotations

import contextlib
import gzip
import pathlib
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from traceback import StackSummary, walk_stack
from typing import Any

FILENAME = "<function>"
MOST_UNPACKED = 64 << 20


def decompress(data: Any, /, wbits: int = zlib.MAX_WBITS, bufsize: int = zlib.DEF_BUF_SIZE) -> bytes:
    """zlib.decompress, up to 64 MB."""
    machine = zlib.decompressobj(wbits)
    unpacked = machine.decompress(data, MOST_UNPACKED)
    if machine.unconsumed_tail:
        raise ValueError(f"the uncompressed data is larger than {MOST_UNPACKED >> 20} MB")
    if not machine.eof:
        raise zlib.error("Error -5 while decompressing data: incomplete or truncated stream")
    return unpacked


def gunzip(data: bytes) -> bytes:
    """gzip.decompress, up to 64 MB."""
    unpacked = b""
    while data:
        machine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            unpacked += machine.decompress(data, MOST_UNPACKED - len(unpacked) + 1)
        except zlib.error as error:
            raise gzip.BadGzipFile(str(error)) from None
        if len(unpacked) > MOST_UNPACKED:
            raise ValueError(f"the uncompressed data is larger than {MOST_UNPACKED >> 20} MB")
        if not machine.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        data = machine.unused_data.lstrip(b"\0")
    return unpacked


class Path(pathlib.PurePosixPath):
    """The part of pathlib.Path that needs no files."""

    def __getattr__(self, name: str) -> Any:
        if hasattr(pathlib.Path, name):
            raise AttributeError(f"Path.{name} is not available: functions have no files, pass the text as an argument")
        raise AttributeError(f"Path has no attribute {name!r}")


def _stored_frames_only(error: traceback.TracebackException | None) -> traceback.TracebackException | None:
    """Remove the frames of the library and the server, whose paths are not public."""
    if error is not None:
        mine = [frame for frame in error.stack if frame.filename == FILENAME]
        error.stack = traceback.StackSummary.from_list(mine)
        _stored_frames_only(error.__cause__)
        _stored_frames_only(error.__context__)
    return error


def format_exception(
    exc: Any, /, value: Any = None, tb: Any = None, limit: Any = None, chain: bool = True
) -> list[str]:
    """traceback.format_exception, with the lines of stored code only."""
    error = value if isinstance(value, BaseException) else exc
    if not isinstance(error, BaseException):
        return ["NoneType: None\n"]
    trace = _stored_frames_only(traceback.TracebackException.from_exception(error, limit=limit))
    return list(trace.format(chain=chain)) if trace else []


def format_exc(limit: Any = None, chain: bool = True) -> str:
    return "".join(format_exception(sys.exc_info()[1], limit=limit, chain=chain))


def format_exc_info(formatter: Any, ei: Any) -> str:
    """logging.Formatter.formatException, with the lines of stored code only."""
    return "".join(format_exception(*ei)).rstrip("\n")


def extract_stack(f: Any = None, limit: Any = None) -> StackSummary:
    """traceback.extract_stack, which asyncio uses, with the lines of stored code only. Its code takes the
    place of the original's: all names must be known there as well.
    """
    stack = StackSummary.extract(walk_stack(sys._getframe().f_back if f is None else f), limit=limit)
    stack.reverse()
    return StackSummary.from_list([frame for frame in stack if frame.filename == "<function>"])


def print_stack(f: Any = None, limit: Any = None, file: Any = None) -> None:
    """traceback.print_stack, which logging uses, with the lines of stored code only."""
    print("".join(extract_stack(f, limit).format()), end="", file=file or sys.stderr)


def print_exc(limit: Any = None, file: Any = None, chain: bool = True) -> None:
    print(format_exc(limit, chain), end="", file=file or sys.stderr)


def print_exception(exc: Any, /, value: Any = None, tb: Any = None, limit: Any = None, file: Any = None) -> None:
    print("".join(format_exception(exc, value, tb, limit)), end="", file=file or sys.stderr)


def extract_tb(tb: Any, limit: Any = None) -> traceback.StackSummary:
    mine = [frame for frame in traceback.extract_tb(tb, limit) if frame.filename == FILENAME]
    return traceback.StackSummary.from_list(mine)


def format_tb(tb: Any, limit: Any = None) -> list[str]:
    return extract_tb(tb, limit).format()


def timed(stmt: Callable[[], Any], setup: Any = None, timer: Any = time.perf_counter, number: int = 1000) -> float:
    """timeit.timeit for a callable; text would be executed."""
    if not callable(stmt):
        raise TypeError("timeit() requires a function: write timeit(lambda: …)")
    if callable(setup):
        setup()
    began = timer()
    for _ in range(number):
        stmt()
    return float(timer() - began)


def repeated(stmt: Any, setup: Any = None, timer: Any = time.perf_counter, repeat: int = 5, number: int = 1000) -> Any:
    return [timed(stmt, setup, timer, number) for _ in range(repeat)]


@contextlib.contextmanager
def catch_warnings(*, record: bool = False, action: Any = None, **filters: Any) -> Iterator[list[Any] | None]:
    """warnings.catch_warnings; the original would expose the module itself."""
    with warnings.catch_warnings(record=record) as caught:
        if action is not None:
            warnings.simplefilter(action, **filters)
        yield caught


class _Redirect(contextlib.AbstractContextManager[Any]):
    """The original reads and sets any name of sys that its `_stream` says."""

    def __init__(self, new_target: Any) -> None:
        self._new_target = new_target
        self._old_targets: list[Any] = []


class redirect_stdout(_Redirect):  # noqa: N801 - stands in for contextlib's
    def __enter__(self) -> Any:
        self._old_targets.append(sys.stdout)
        sys.stdout = self._new_target
        return self._new_target

    def __exit__(self, *error: object) -> None:
        sys.stdout = self._old_targets.pop()


class redirect_stderr(_Redirect):  # noqa: N801 - stands in for contextlib's
    def __enter__(self) -> Any:
        self._old_targets.append(sys.stderr)
        sys.stderr = self._new_target
        return self._new_target

    def __exit__(self, *error: object) -> None:
        sys.stderr = self._old_targets.pop()


def available_timezones() -> set[str]:
    """zoneinfo.available_timezones, from data that was read before the lock-down."""
    from .extended import zones

    return set(zones)


REPLACED: dict[str, dict[str, Any]] = {
    "contextlib": {"redirect_stderr": redirect_stderr, "redirect_stdout": redirect_stdout},
    "gzip": {"decompress": gunzip},
    "pathlib": {"Path": Path, "PosixPath": Path},
    "timeit": {"timeit": timed, "repeat": repeated},
    "traceback": {
        "extract_tb": extract_tb,
        "format_exc": format_exc,
        "format_exception": format_exception,
        "format_tb": format_tb,
        "print_exc": print_exc,
        "print_exception": print_exception,
    },
    "warnings": {"catch_warnings": catch_warnings},
    "zoneinfo": {"available_timezones": available_timezones},
    "zlib": {"decompress": decompress},
}
