"""The fork server: a clean process that loads what functions may use, locks itself down, and forks children on demand.

    python -I -S … zygote <control descriptor> <profile> <layers to leave out> <packages to load>

On the control socket (SEQPACKET) the host sends `S` for each child it wants now, `L` for one that is to be a spare:
that one is made a moment later, not while a caller waits for the report on the last. The answer is one message with
three descriptors: the host's end of the job socket, the pipe on which the zygote reports how the child ended, a pidfd.
The host closing the control socket, for whatever reason, ends the zygote and all its children.
"""

from __future__ import annotations

import _socket  # the plain C module: socket adds enums, selectors and two refused getsockname calls for each child
import array
import fcntl
import json
import os
import select
import signal
import struct
import sys
import time
from types import ModuleType

from . import confine, kernel, seccomp

USAGE = struct.Struct("<iddQ")  # wait status, user seconds, system seconds, peak resident kB
_SPAWNED, _FAILED = b"C", b"E"
_LATER = b"L"
_MOMENT_S = 0.001


def main(arguments: list[str]) -> None:
    """Start, or say in one message why not."""
    control = _socket.socket(fileno=int(arguments[0]))
    try:
        _start(control, arguments[1], *(tuple(filter(None, listed.split(","))) for listed in arguments[2:4]))
    except Exception as error:  # whatever went wrong, the host must hear of it
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)


_NICENESS = 5
_OUR_OWN = ("compiler", "reader")


def _start(control: _socket.socket, profile: str, left_out: tuple[str, ...], packages: tuple[str, ...]) -> None:
    without = frozenset(left_out)
    _forget_inherited_signals()
    if profile in _OUR_OWN:
        os.nice(_NICENESS)  # a source or a schema that takes long makes others wait less
    from . import child  # loads everything that the profile offers; nothing can be loaded later

    child.preload(profile, packages)
    child.note_size()
    zygote_filter = kernel.Filter(seccomp.zygote_filter(kernel.MACHINE))
    child_filter = None if "seccomp" in without else kernel.Filter(seccomp.child_filter(kernel.MACHINE))
    confine.offer_to_oom_killer()
    layers = confine.enter_namespaces(without)
    parent = os.getpid()
    first = os.fork()
    if first != 0:
        _wait_for(first, control)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if "pid_ns" not in layers and os.getppid() != parent:
        os._exit(1)
    layers = confine.confine_zygote(layers, without, zygote_filter)
    if "rlimits" not in without:
        layers.add("rlimits")
    child.settle()
    control.send(json.dumps({"layers": sorted(layers), "isolation": confine.isolation_of(layers)}).encode())
    _Nursery(control, child_filter, with_limits="rlimits" in layers, child=child).serve()
    os._exit(0)


def _forget_inherited_signals() -> None:
    """Whoever started the host may have left SIGCHLD ignored, and then nobody learns how a child ended; a thread that
    blocks signals hands its mask on, and then no alarm rings."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait_for(first: int, control: _socket.socket) -> None:
    """The launcher stays only because process 1 of a namespace needs a parent outside of it."""
    control.close()
    _, status = os.waitpid(first, 0)
    os._exit(0 if status == 0 else 1)


class _Nursery:
    """Forks children, and reports each one's end with the kernel's own figures."""

    def __init__(
        self,
        control: _socket.socket,
        child_filter: kernel.Filter | None,
        *,
        with_limits: bool,
        child: ModuleType,
    ) -> None:
        self.control = control
        self.child_filter = child_filter
        self.with_limits = with_limits
        self.child = child
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)
        self.children: dict[int, tuple[int, int]] = {}  # pidfd -> (pid, report pipe)
        self.later = 0  # spares to be made once it is time
        self.due = 0.0

    def serve(self) -> None:
        """Until the host goes away. The dead come first: somebody waits for their figures."""
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
            return False  # the host left while a child was being made: a shutdown, not a crash
        except OSError as error:
            self.control.send(_FAILED + str(error).encode())
        return True

    def _spawn(self, is_spare: bool) -> None:
        host_end, child_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        report_read, report_write = os.pipe()
        try:
            fcntl.fcntl(host_end, fcntl.F_SETFL, os.O_NONBLOCK)  # setblocking() is an ioctl, which we do not allow
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
            os.close(report)  # nobody buries what was not born
            raise
        self.children[pidfd] = (pid, report)
        self.poller.register(pidfd, select.POLLIN)
        return pidfd

    def _become_child(self, job_socket: int, is_spare: bool) -> None:
        try:
            os.dup2(job_socket, 3, inheritable=False)
            kernel.close_from(4)
            confine.confine_child(self.child_filter, with_limits=self.with_limits)
            self.child.live(rehearse=is_spare)
        finally:
            os._exit(70)  # not reached by a child that works

    def _bury(self, pidfd: int) -> None:
        pid, report = self.children.pop(pidfd)
        self.poller.unregister(pidfd)
        _, status, usage = os.wait4(pid, 0)
        try:
            os.write(report, USAGE.pack(status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss))
        except BrokenPipeError:
            pass  # nobody asked any more
        os.close(report)
        os.close(pidfd)

    def _kill_all(self) -> None:
        for pidfd in self.children:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
