"""How a child's process ended: the kernel's figures, as reported by its zygote."""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass

from .forkserver import Child, select_readable

_USAGE = struct.Struct("<iddQ")
_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Wait status, CPU seconds, and peak resident memory in kB."""

    status: int
    cpu_s: float
    peak_kb: int


class Ending:
    """The report on one child, read on demand. It follows the reply by less than a millisecond, so
    a caller that needs only the result does not have to wait for it.
    """

    def __init__(self, child: Child) -> None:
        self._child: Child | None = child
        self._usage: Usage | None = None
        self._lock = threading.Lock()

    def is_in(self) -> bool:
        """Whether usage() can return without waiting."""
        child = self._child
        return child is None or select_readable(child.report, 0)

    def usage(self) -> Usage | None:
        """The figures; None if the zygote died before it could report."""
        with self._lock:
            if self._child is not None:
                child, self._child = self._child, None
                try:
                    self._usage = _read(child)
                finally:
                    child.close()
            return self._usage


def _read(child: Child) -> Usage | None:
    if not select_readable(child.report, _PATIENCE_S):
        return None
    data = os.read(child.report, _USAGE.size)
    if len(data) < _USAGE.size:
        return None
    status, user_s, system_s, peak_kb = _USAGE.unpack(data)
    return Usage(status, user_s + system_s, peak_kb)
