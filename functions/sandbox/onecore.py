"""A caller and its child on one core, while they take turns quickly and nobody else has a call.

Waking a core that sleeps takes longer than a short call does, on a virtual machine above all; and whoever waits leaves
its own core free. Once the child works for longer than a moment, both go where the scheduler likes (docs/adr/0014).
"""

from __future__ import annotations

import ctypes
import os
import select

from .forkserver import Child, select_readable

_MOMENT_MS = 2
_libc = ctypes.PyDLL(None)  # keeps the GIL: a call takes less time than giving it away


class OneCore:
    """Of one child. `draw_near` before anything is sent to it, `wait` for what it sends, `part` when it takes longer.

    Where the kernel allows none of this, nothing happens.
    """

    __slots__ = ("_child", "_core", "_is_refused", "_pid")

    def __init__(self, child: Child) -> None:
        self._child = child
        self._pid = 0
        self._core = -1  # where the child is held
        self._is_refused = False

    def draw_near(self) -> None:
        """Hold the child where this thread runs now, so that what is sent wakes no other core."""
        core = _libc.sched_getcpu()
        if core != self._core and not self._is_refused and self._place({core}):
            self._core = core

    def wait(self, poller: select.poll) -> list[tuple[int, int]]:
        """What there is to read within a moment. Only this wait is bound to the core: a thread that is started while
        its parent is bound would be so for ever.
        """
        if self._core < 0:
            return []
        anywhere = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {self._core})
        except OSError:
            return []  # the machine has taken this core away
        try:
            return poller.poll(_MOMENT_MS)
        finally:
            os.sched_setaffinity(0, anywhere)

    def part(self) -> None:
        """Let the child go wherever this thread may."""
        if self._core >= 0:
            self._core = -1
            self._place(os.sched_getaffinity(0))

    def _place(self, cores: set[int]) -> bool:
        if select_readable(self._child.pidfd, 0):
            return False  # it has ended, and its number may be another's
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
