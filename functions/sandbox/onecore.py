"""Keeps a caller and its child on one CPU core while they alternate quickly and no other call is in
progress.

Waking an idle core takes longer than a short call, especially on a virtual machine, and a waiting
caller does not need its own core. If the child works longer than a moment, the scheduler places
both freely.
"""

from __future__ import annotations

import ctypes
import os
import select

from .forkserver import Child, select_readable

_MOMENT_MS = 2
_libc = ctypes.PyDLL(None)  # keeps the GIL: the call takes less time than releasing it


class OneCore:
    """The core of one child. Call `draw_near` before sending to it, `wait` for its messages, `part`
    when it takes longer.

    If the kernel does not allow this, the methods have no effect.
    """

    __slots__ = ("_child", "_core", "_is_refused", "_pid")

    def __init__(self, child: Child) -> None:
        self._child = child
        self._pid = 0
        self._core = -1  # the core that the child is bound to
        self._is_refused = False

    def draw_near(self) -> None:
        """Bind the child to the current core of this thread, so that sending wakes no other core."""
        core = _libc.sched_getcpu()
        if core != self._core and not self._is_refused and self._place({core}):
            self._core = core

    def wait(self, poller: select.poll) -> list[tuple[int, int]]:
        """Data that arrives within a moment. Only this wait is bound to the core, because a thread
        started by a bound parent would stay bound forever.
        """
        if self._core < 0:
            return []
        anywhere = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {self._core})
        except OSError:
            return []  # the core is no longer available to this machine
        try:
            return poller.poll(_MOMENT_MS)
        finally:
            os.sched_setaffinity(0, anywhere)

    def part(self) -> None:
        """Let the child run on every core that this thread may use."""
        if self._core >= 0:
            self._core = -1
            self._place(os.sched_getaffinity(0))

    def _place(self, cores: set[int]) -> bool:
        if select_readable(self._child.pidfd, 0):
            return False  # it has ended, and its number may belong to another process
        try:
            self._pid = self._pid or _pid_of(self._child.pidfd)
            os.sched_setaffinity(self._pid, cores)
        except (OSError, ValueError):
            self._is_refused = True
        return not self._is_refused


def _pid_of(pidfd: int) -> int:
    """Raises OSError, ValueError."""
    with open(f"/proc/self/fdinfo/{pidfd}") as lines:
        return int(next(line for line in lines if line.startswith("Pid:")).split()[1])
