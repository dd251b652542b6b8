"""The host's side of a zygote: start it, request and receive children, end it."""

from __future__ import annotations

import array
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .inside.host_traces import describe_failure
from .libraries import ENVIRONMENT, NONE, Libraries, list_profile_libraries

log = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_START_S = 20.0
_ANCILLARY_BYTES = socket.CMSG_SPACE(array.array("i", [0, 0, 0]).itemsize * 3)
_RECEIVE_FLAGS = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_START = "import sys; sys.path[:0] = {paths!r}; from inside.zygote import main; main(sys.argv[1:])"


class SandboxUnavailable(Exception):
    """The sandbox cannot run on this machine, or its fork server did not start. The message gives
    the reason.
    """

    def __init__(self, message: str, layers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        # The layers that work, if the boundary was built but is not sufficient.
        self.layers = layers


class NoChild(Exception):
    """No child was available in time."""


class LateChild(NoChild):
    """The fork server did not create a child in time: it is stopped, or the machine is very busy."""


@dataclass(slots=True)
class Child:
    """One isolated process that waits for a job, as three descriptors: its (non-blocking) socket,
    the zygote's report on its end, and a handle to kill it.
    """

    sock: int
    report: int
    pidfd: int
    is_closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self) -> None:
        """Send SIGKILL through the pidfd, which never hits another process, even if called late
        from another thread.
        """
        with self.lock:
            if self.is_closed:
                # The descriptor's number may belong to another child by now.
                return
            try:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """Close the three descriptors. A child that is still waiting for a job then ends on its
        own.
        """
        with self.lock:
            if self.is_closed:
                # The numbers may belong to another child by now.
                return
            self.is_closed = True
            for descriptor in (self.sock, self.report, self.pidfd):
                os.close(descriptor)


class ForkServer:
    """One zygote process of one profile. Any thread can take children from it."""

    def __init__(self, profile: str, *, without: frozenset[str] = frozenset(), libraries: Libraries = NONE) -> None:
        self.profile = profile
        self.started_at = self.used_at = time.monotonic()
        self.taken = 0
        self.running = 0
        # Children requested but not taken yet.
        self._ordered = 0
        self._lock = threading.Lock()
        self._retired = self.is_closed = self._is_stuck = False
        self._control, self._process = _started(profile, without, libraries)
        self.layers, self.isolation = self._greeting()

    def _greeting(self) -> tuple[tuple[str, ...], str]:
        self._control.settimeout(_START_S)
        try:
            hello = json.loads(self._control.recv(65536) or b'{"error": "it ended immediately"}')
        except (OSError, ValueError) as error:
            hello = {"error": f"no answer ({type(error).__name__})"}
        self._control.settimeout(None)
        if "error" in hello:
            log.error("The %s fork server did not start: %s", self.profile, hello.get("details") or hello["error"])
            self._end()
            raise SandboxUnavailable(f"the {self.profile} fork server did not start: {hello['error']}")
        return tuple(hello["layers"]), hello["isolation"]

    @property
    def is_alive(self) -> bool:
        """Whether the zygote process is running."""
        return self._process.poll() is None

    def order(self, spares: int) -> None:
        """When at most half of the spares remain, request new ones shortly afterwards until this
        many are ready or requested.

        Several are created in a row, so that most calls are not followed by a fork.
        """
        if self._ordered > spares // 2:
            return
        with self._lock:
            for _ in range(spares - self._ordered):
                self._send_order(b"L")

    def take(self, timeout_s: float) -> Child:
        """A ready child, or a new one. Raises NoChild, SandboxUnavailable."""
        with self._lock:
            self._ordered -= 1
            if self._ordered < 0:
                self._send_order(b"S")
            self.taken += 1
            self.used_at = time.monotonic()
        deadline = time.monotonic() + timeout_s
        while (child := self._receive()) is None:
            # Another thread may have been faster.
            if (control := self._control.fileno()) < 0:
                raise SandboxUnavailable(f"the {self.profile} fork server was closed")
            if not select_readable(control, deadline - time.monotonic()):
                with self._lock:
                    self._ordered += 1
                raise LateChild("no child process became ready in time")
        return child

    def _send_order(self, order: bytes) -> None:
        try:
            self._control.send(order)
        except OSError as error:
            raise SandboxUnavailable(f"the {self.profile} fork server has ended") from error
        self._ordered += 1

    def _receive(self) -> Child | None:
        """A ready child, or None. Raises NoChild, SandboxUnavailable."""
        try:
            message, ancillary, _, _ = self._control.recvmsg(256, _ANCILLARY_BYTES, _RECEIVE_FLAGS)
        except BlockingIOError:
            return None
        except OSError as error:
            raise SandboxUnavailable(f"the {self.profile} fork server has ended") from error
        if not message:
            raise SandboxUnavailable(f"the {self.profile} fork server has ended")
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        if len(descriptors) < 3:
            for descriptor in descriptors:
                os.close(descriptor)
            why = message[1:].decode(errors="replace")
            raise NoChild(f"the kernel refused to create another process: {why}" if why else "too many open files")
        return Child(descriptors[0], descriptors[1], descriptors[2])

    def enter(self) -> None:
        """Register a call on one of its children."""
        with self._lock:
            self.running += 1

    def leave(self) -> None:
        """Unregister a call; the last one of a retired server closes it."""
        with self._lock:
            self.running -= 1
            is_last = self._retired and self.running <= 0
        if is_last:
            self._end()

    def retire(self) -> None:
        """Accept no more calls; end when the running ones have ended."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            is_idle = self.running <= 0
        if is_idle:
            self._end()

    def give_up(self) -> None:
        """Mark the server as stuck: when it is closed, it is killed without waiting."""
        self._is_stuck = True

    def close(self) -> None:
        """End now, including running calls."""
        self._retired = True
        self._end()

    def forget(self) -> None:
        """Called after a fork of the host: close the descriptors, which belong to the parent."""
        self._control.close()

    def _end(self) -> None:
        self.is_closed = True
        # The zygote notices this and ends with all its children.
        self._control.close()
        try:
            self._process.wait(0 if self._is_stuck else 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def select_readable(descriptor: int, timeout_s: float) -> bool:
    """Whether there is something to read within this time."""
    return _select(descriptor, select.POLLIN, timeout_s)


def select_writable(descriptor: int, timeout_s: float) -> bool:
    """Whether more can be written within this time."""
    return _select(descriptor, select.POLLOUT, timeout_s)


def _select(descriptor: int, event: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, event)
    return bool(poller.poll(max(timeout_s, 0) * 1000))


def _started(
    profile: str, without: frozenset[str], libraries: Libraries
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    if sys.platform != "linux":
        raise SandboxUnavailable("the sandbox needs Linux")
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            return ours, _launch(theirs, profile, without, libraries)
    except OSError as error:  # no process, memory or descriptor left
        log.error("The %s fork server did not start: %s", profile, error)
        raise SandboxUnavailable(f"the {profile} fork server did not start: {describe_failure(error)}") from error


def _launch(
    control: socket.socket, profile: str, without: frozenset[str], libraries: Libraries
) -> subprocess.Popen[bytes]:
    paths = [str(_HERE)]
    if profile in ("compiler", "reader"):
        # Only to find its path.
        import RestrictedPython

        paths.append(str(Path(RestrictedPython.__file__).parent.parent))
        # They use the application's framework-independent modules.
        paths.append(str(_HERE.parent.parent))
    required = list_profile_libraries(profile)
    packages = libraries.modules_of(required)
    if required:
        paths.append(libraries.directory)
    program = _START.format(paths=paths)
    arguments = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program]
    arguments += [str(control.fileno()), profile, ",".join(sorted(without)), ",".join(packages)]
    # Without LD_BIND_NOW each new child would look up the same C functions again.
    environment = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "LD_BIND_NOW": "1"}
    if required:
        environment |= ENVIRONMENT | {"MPLCONFIGDIR": f"{libraries.directory}.cache"}
    # In its own session, so that Ctrl-C reaches only the host, which then drains.
    return subprocess.Popen(
        arguments, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, pass_fds=(control.fileno(),), start_new_session=True,
    )  # fmt: skip
