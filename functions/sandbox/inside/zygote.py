"""The fork server: a clean process that loads the modules available to functions, locks itself
down, and forks children on demand.

    python -I -S … zygote <control descriptor> <profile> <layers to leave out> <packages to load>

On the control socket (SEQPACKET) the host sends `S` for each child it needs now and `L` for a spare
child. A spare is created slightly later, not while a caller waits for the report on the previous
child. The answer is one message with three descriptors: the host's end of the job socket, the pipe
on which the zygote reports how the child ended, and a pidfd. When the host closes the control
socket for any reason, the zygote and all its children end.
"""

from __future__ import annotations

import _socket  # the plain C module: socket adds enums, selectors and two refused getsockname calls to each child
import array
import fcntl
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType

from . import confine, files, host_traces, kernel, seccomp

# The wait status, user seconds, system seconds, peak resident kB.
USAGE = struct.Struct("<iddQ")
_SPAWNED, _FAILED = b"C", b"E"
_LATER = b"L"
_MOMENT_S = 0.001


def main(arguments: list[str]) -> None:
    """Start, or send one message with the reason why not."""
    control = _socket.socket(fileno=int(arguments[0]))
    try:
        _start(control, arguments[1], *(tuple(filter(None, listed.split(","))) for listed in arguments[2:4]))
    except Exception as error:  # the host must be informed of any failure
        answer = {"error": f"{type(error).__name__}: {host_traces.describe_failure(error)}", "details": str(error)}
        control.send(json.dumps(answer).encode())
        os._exit(1)


_NICENESS = 5
_OUR_OWN = ("compiler", "reader")


def _start(control: _socket.socket, profile: str, left_out: tuple[str, ...], packages: tuple[str, ...]) -> None:
    without = frozenset(left_out)
    _forget_inherited_signals()
    if profile in _OUR_OWN:
        # A slow source or schema should not delay other processes.
        os.nice(_NICENESS)
    # Loads everything that the profile offers; nothing can be loaded later.
    from . import child

    child.preload(profile, packages)
    child.note_size()
    with_files = profile.partition("+")[0] == files.PROFILE
    bounds: ModuleType = files if with_files else confine
    zygote_filter = kernel.Filter(seccomp.zygote_filter(kernel.MACHINE, with_files=with_files))
    code = seccomp.child_filter(kernel.MACHINE, with_files=with_files)
    child_filter = None if "seccomp" in without else kernel.Filter(code)
    confine.offer_to_oom_killer()
    layers = confine.enter_namespaces(without)
    parent = os.getpid()
    first = os.fork()
    if first != 0:
        _wait_and_exit(first, control)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if "pid_ns" not in layers and os.getppid() != parent:
        os._exit(1)
    layers = bounds.confine_zygote(layers, without, zygote_filter)
    if "rlimits" not in without:
        layers.add("rlimits")
    child.settle()
    control.send(json.dumps({"layers": sorted(layers), "isolation": confine.judge_isolation(layers)}).encode())
    confine_child = partial(bounds.confine_child, child_filter, with_limits="rlimits" in layers)
    _Nursery(control, confine_child, child).serve()
    os._exit(0)


def _forget_inherited_signals() -> None:
    """Reset inherited signal settings: if SIGCHLD is ignored, the end of a child cannot be
    reported; if the inherited mask blocks signals, alarms are not delivered.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait_and_exit(first: int, control: _socket.socket) -> None:
    """The launcher keeps running only because process 1 of a namespace needs a parent outside of
    it.
    """
    control.close()
    _, status = os.waitpid(first, 0)
    os._exit(0 if status == 0 else 1)


class _Nursery:
    """Forks children, and reports the end of each with the kernel's figures."""

    def __init__(self, control: _socket.socket, confine_child: Callable[[], None], child: ModuleType) -> None:
        self.control = control
        self.confine_child = confine_child
        self.child = child
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)
        # By pidfd: the pid and the report pipe.
        self.children: dict[int, tuple[int, int]] = {}
        # Spares to be created later.
        self.later = 0
        self.due = 0.0

    def serve(self) -> None:
        """Run until the host closes the control socket. Ended children are handled first, because
        callers wait for their figures.
        """
        control = self.control.fileno()
        while self._serve_once(control):
            pass
        self._kill_all()

    def _serve_once(self, control: int) -> bool:
        events = self.poller.poll(max(self.due - time.monotonic(), 0) * 1000 if self.later else None)
        ended = [descriptor for descriptor, _ in events if descriptor != control]
        for descriptor in ended:
            self._bury(descriptor)
        if len(ended) < len(events):
            return self._obey()
        if self.later and time.monotonic() >= self.due:
            self.later -= 1
            return self._spawn_or_say_why(is_spare=True)
        return True

    def _obey(self) -> bool:
        try:
            order = self.control.recv(16)
        except ConnectionError:
            return False
        if order == _LATER:
            self.due = self.due if self.later else time.monotonic() + _MOMENT_S
            self.later += 1
            return True
        return bool(order) and self._spawn_or_say_why(is_spare=False)

    def _spawn_or_say_why(self, *, is_spare: bool) -> bool:
        try:
            self._spawn(is_spare)
        except ConnectionError:
            # The host ended while a child was being created: a shutdown, not a crash.
            return False
        except OSError as error:
            self.control.send(_FAILED + str(error).encode())
        return True

    def _spawn(self, is_spare: bool) -> None:
        host_end, child_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        report_read, report_write = os.pipe()
        try:
            # setblocking() uses ioctl, which the filter does not allow
            fcntl.fcntl(host_end, fcntl.F_SETFL, os.O_NONBLOCK)
            if is_spare:
                host_end.send(self.child.REHEARSAL)
            pidfd = self._fork(child_end.fileno(), report_write, is_spare)
            descriptors = array.array("i", (host_end.fileno(), report_read, pidfd))
            self.control.sendmsg([_SPAWNED], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        finally:
            host_end.close()
            child_end.close()
            os.close(report_read)

    def _fork(self, job_socket: int, report: int, is_spare: bool) -> int:
        try:
            pid = os.fork()
            if pid == 0:
                self._become_child(job_socket, is_spare)
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Without a process there is nothing to wait for.
            os.close(report)
            raise
        self.children[pidfd] = (pid, report)
        self.poller.register(pidfd, select.POLLIN)
        return pidfd

    def _become_child(self, job_socket: int, is_spare: bool) -> None:
        try:
            os.dup2(job_socket, 3, inheritable=False)
            kernel.close_descriptors(4)
            self.confine_child()
            self.child.live(rehearse=is_spare)
        finally:
            # Reached only if the child fails.
            os._exit(70)

    def _bury(self, pidfd: int) -> None:
        pid, report = self.children.pop(pidfd)
        self.poller.unregister(pidfd)
        _, status, usage = os.wait4(pid, 0)
        try:
            os.write(report, USAGE.pack(status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss))
        except BrokenPipeError:
            # The host is no longer interested.
            pass
        os.close(report)
        os.close(pidfd)

    def _kill_all(self) -> None:
        for pidfd in self.children:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
