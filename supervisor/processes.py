"""Child processes that cannot outlive their parent.

At the start our own programs are forked, not executed anew: they inherit the modules that the
supervisor has loaded, which saves each about a second of start-up and a third of its memory.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import setproctitle

PR_SET_PDEATHSIG = 1
RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
libc = ctypes.CDLL(None, use_errno=True)


def fork(work: Callable[[], None], *, output: int | None = None, death_signal: int = signal.SIGKILL) -> int:
    """Run `work` in a child with a session of its own; returns its pid.

    `output` is the file descriptor for its stdout and stderr. `death_signal` is sent to the child
    when this process dies, however it dies.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid

    def begin() -> None:
        os.setsid()
        forget_handlers()
        die_with_parent(death_signal, parent)
        if output is not None:
            os.dup2(output, 1)
            os.dup2(output, 2)
        work()

    run_to_the_end(begin)


def run_to_the_end(work: Callable[[], None]) -> NoReturn:
    """Run `work` and end this process with its exit code, without waiting for threads."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as leaving:
        code = exit_code(leaving)
    except BaseException:  # a forked child must never return into its parent's stack
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent(death_signal: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Ask the kernel to send a signal when the parent dies. Changing the user clears it: call again
    after setuid.
    """
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent is not None and os.getppid() != parent:
        os._exit(1)  # it died between the fork and the call


def name_process(name: str) -> None:
    """The command line that `ps` and `top` show."""
    setproctitle.setproctitle(name)


def forget_handlers() -> None:
    """Restore default signal handlers. SIGPIPE stays ignored, as in Python: a closed reader is an
    error to catch, not the end of a server.
    """
    signal.set_wakeup_fd(-1)
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)


def exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    print(leaving.code, file=sys.stderr)  # noqa: T201  (what Python itself does with a message)
    return 1


def is_alive(pid: int) -> bool:
    """Whether there is such a process, also one of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
