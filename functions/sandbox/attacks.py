"""The self-test's attacks: the first things that hostile code would try, run without the language
layer. Data only.

Each is the body of a function in plain Python with access to `os`, `ctypes` and similar modules. An
attack that *returns* has succeeded; if it ends in any other way (an error, a kill, a limit), it was
contained.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. `layer` must stop it; `statuses` are the outcomes that prove that it did."""

    name: str
    layer: str
    body: str
    statuses: frozenset[str]
    hint: str
    # Generous, so that a busy machine is not mistaken for an insecure one.
    timeout_s: float = 10.0


_ERROR = frozenset({"error"})
_STOPPED = frozenset({"error", "violation"})
_SECCOMP_HINT = "The kernel needs CONFIG_SECCOMP_FILTER, and a container runtime must not forbid seccomp()."
_LIMITS_HINT = "setrlimit() was refused or has no effect; check the limits of the container or service."

ATTACKS = (
    Attack("open a file", "seccomp", "return open('/etc/passwd').read()", _STOPPED, _SECCOMP_HINT),
    Attack("create a file", "seccomp",
           "return os.open(f'/tmp/muster-selftest-{os.getuid()}', os.O_CREAT | os.O_WRONLY)", _STOPPED, _SECCOMP_HINT),
    Attack("look at the root directory", "seccomp", "return [os.stat('/'), os.listdir('/')]", _STOPPED, _SECCOMP_HINT),
    Attack("open a network socket", "seccomp", "return call('socket', 2, 1, 0)", _STOPPED, _SECCOMP_HINT),
    Attack("start a process", "seccomp", "return os.fork()", _STOPPED, _SECCOMP_HINT),
    Attack("start a thread", "seccomp",
           "import _thread; done = []; _thread.start_new_thread(done.append, (1,)); return 1", _STOPPED, _SECCOMP_HINT),
    Attack("run a program", "seccomp", "return os.execv('/bin/sh', ['sh'])", _STOPPED, _SECCOMP_HINT),
    Attack("make memory executable", "seccomp",
           "assert call('mmap', 0, 4096, 7, 34, -1, 0) != -1, 'refused'; return 1", _STOPPED, _SECCOMP_HINT),
    Attack("make mapped memory executable", "seccomp",
           "page = ctypes.c_void_p(libc.mmap(0, 4096, 3, 34, -1, 0)); "
           "assert libc.mprotect(page, 4096, 5) == 0, 'refused'; return 1", _STOPPED, _SECCOMP_HINT),
    Attack("enter another architecture's system calls", "seccomp",
           "assert libc.syscall(0x40000000 + 39) != -1, 'refused'; return 1", _STOPPED, _SECCOMP_HINT),
    Attack("kill the fork server", "seccomp", "os.kill(1, 9); return 1", _STOPPED, _SECCOMP_HINT),
    Attack("trace a process", "seccomp", "assert call('ptrace', 0, 0, 0, 0) == 0, 'refused'; return 1", _STOPPED,
           _SECCOMP_HINT),
    Attack("mount a file system", "seccomp", "assert call('mount', 0, 0, 0, 0, 0) == 0, 'refused'; return 1", _STOPPED,
           _SECCOMP_HINT),
    Attack("use io_uring", "seccomp",
           "ring = ctypes.create_string_buffer(120); assert call('io_uring_setup', 1, ring) != -1, 'refused'; return 1",
           _STOPPED, _SECCOMP_HINT),
    Attack("regain privileges", "no_new_privs", "os.setuid(0); return 1", _STOPPED,
           "The uid could be changed inside the sandbox. Report this machine's kernel version."),
    Attack("raise a limit", "rlimits",
           "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); return 1", _STOPPED, _LIMITS_HINT),
    Attack("use up memory", "rlimits", "x = []\n    while True: x.append(bytearray(1 << 20))",
           frozenset({"memory"}), _LIMITS_HINT),
    Attack("use up CPU time and ignore the alarm", "kill",
           "import signal; signal.setitimer(signal.ITIMER_REAL, 0)\n    while True: pass",
           frozenset({"timeout", "cpu"}), "pidfd_send_signal() is needed: Linux 5.3 or newer.", 0.3),
    Attack("read the server's environment", "environment",
           "assert set(os.environ) - {'TZ', 'LC_ALL', 'LD_BIND_NOW'}, 'empty'; return dict(os.environ)", _ERROR,
           "The fork server inherited environment variables. This is a bug in Muster: report it."),
)  # fmt: skip

_PRELUDE = """
import os, sys
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
NUMBERS = {numbers!r}
def call(name, *arguments):
    return libc.syscall(NUMBERS[name], *arguments)
def main():
    {body}
"""


def build_attack_source(attack: Attack, numbers: dict[str, int]) -> str:
    """The attack as a function, with this machine's system call numbers."""
    calls = ("socket", "mmap", "ptrace", "mount", "io_uring_setup")
    needed = {name: numbers[name] for name in calls}
    return _PRELUDE.format(numbers=needed, body=attack.body)
