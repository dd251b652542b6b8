"""Confines a process: user, namespaces, an empty root, no capabilities, Landlock, seccomp, resource
limits.

Each step is a *layer* with a name. A layer that this machine does not offer is missing from the
returned set; the host decides what may run without it (without a core layer, nothing runs).
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

from . import kernel

NOBODY = 65534
CORE = frozenset({"process", "environment", "no_new_privs", "seccomp", "rlimits", "kill"})
STRONG = frozenset({"uid", "user_ns", "net_ns", "pid_ns", "ipc_ns", "uts_ns", "root", "landlock", "capabilities"})
_NAMESPACES = {
    "pid_ns": kernel.CLONE_NEWPID,
    "net_ns": kernel.CLONE_NEWNET,
    "mount_ns": kernel.CLONE_NEWNS,
    "ipc_ns": kernel.CLONE_NEWIPC,
    "uts_ns": kernel.CLONE_NEWUTS,
}


def offer_to_oom_killer() -> None:
    """If the machine runs out of memory, the kernel kills a function's process before the server's."""
    succeeds(lambda: _write("/proc/self/oom_score_adj", "1000"))


def enter_namespaces(without: frozenset[str]) -> set[str]:
    """Before the fork that creates process 1: become the user nobody and leave the host's
    namespaces.

    With user namespaces, root first gives up its user id, so that the new namespace belongs to
    nobody. Without them, root enters the other namespaces directly and gives up its user id later
    (`drop_privileges`).
    """
    layers = set()
    if "user_ns" not in without and _user_namespaces_work():
        become_nobody()
        # Otherwise /proc/self belongs to root and the maps cannot be written.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        _enter_user_namespace()
        layers.add("user_ns")
    for name, flag in _NAMESPACES.items():
        if name not in without and succeeds(lambda flag=flag: kernel.unshare(flag)):
            layers.add(name)
    return layers


def confine_zygote(layers: set[str], without: frozenset[str], zygote_filter: kernel.Filter) -> set[str]:
    """In process 1: an empty root, no user, no capabilities, no new privileges, Landlock, seccomp."""
    layers = layers | {"process", "environment", "kill"}
    steps: list[tuple[str, Callable[[], None]]] = [
        ("root", _empty_root),
        ("uid", become_nobody),
        ("capabilities", kernel.drop_capabilities),
        ("no_new_privs", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)),
        ("landlock", kernel.landlock_deny_all),
        ("seccomp", zygote_filter.install),
    ]
    if "mount_ns" not in layers:
        without = without | {"root"}
    for name, step in steps:
        if name not in without and succeeds(step):
            layers.add(name)
    if os.getuid() != 0 or "user_ns" in layers:
        layers.add("uid")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # Again, as giving up a user id resets it.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    return layers


def confine_child(child_filter: kernel.Filter | None, *, with_limits: bool) -> None:
    """In each child, before it receives a job: end when the zygote ends; no files, no forks, few
    system calls.
    """
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if with_limits:
        for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0)):
            resource.setrlimit(limit, (value, value))
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
    if child_filter is not None:
        child_filter.install()


def limit_job(address_space: tuple[int, int], cpu_s: tuple[int, int]) -> None:
    """Set the limits of one job, soft and hard, in bytes and seconds; hard limits can only be
    lowered afterwards.
    """
    resource.setrlimit(resource.RLIMIT_AS, address_space)
    resource.setrlimit(resource.RLIMIT_CPU, cpu_s)


def judge_isolation(layers: set[str]) -> str:
    """`full`, `reduced`, or `none` if a core layer is missing. A process that is not root need not
    drop its uid.
    """
    if not layers >= CORE or "uid" not in layers:
        return "none"
    if layers >= STRONG - {"user_ns"}:
        return "full"
    return "reduced"


def become_nobody() -> None:
    """Give up root permanently; a process that is not root keeps its own user."""
    if os.getuid() != 0:
        return
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _user_namespaces_work() -> bool:
    """Whether user namespaces work. Tried in a throw-away child, as a failure half-way could not be
    undone in this process.
    """
    child = os.fork()
    if child == 0:
        works = succeeds(become_nobody) and succeeds(lambda: kernel.prctl(kernel.PR_SET_DUMPABLE, 1))
        os._exit(0 if works and succeeds(_enter_user_namespace) else 1)
    return os.waitpid(child, 0)[1] == 0


def _enter_user_namespace() -> None:
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
    _write("/proc/self/gid_map", f"{NOBODY} {group} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _empty_root() -> None:
    """Replace the root with an empty, read-only 4 kB tmpfs and unmount the real one."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount(b"none", b"/", b"", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount(b"none", b"/tmp", b"tmpfs", flags, b"size=4k,nr_inodes=2,mode=555")
    os.chdir("/tmp")
    kernel.pivot_root_here()
    kernel.mount(b"none", b"/", b"", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)


def succeeds(step: Callable[[], None]) -> bool:
    """Whether the step did not raise OSError."""
    try:
        step()
    except OSError:
        return False
    return True
