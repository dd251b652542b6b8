"""The `files` profile: a child sees the data files of the libraries, read-only, and /mnt, a tmpfs of
its own with a maximum size. No directory of the host is visible.

The fork server keeps the right to mount until it forks, because each child gets a mount namespace of
its own; it runs only our code and the operator's libraries. The child gives that right up before it
receives a job.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterable, Iterator

from . import kernel
from .confine import succeeds

PROFILE = "files"
WORK = "/mnt"
WORK_BYTES = 64 << 20
_DESCRIPTORS = 64
# Files and directories in /mnt.
_ENTRIES = 4096
_DATA_BYTES = 64 << 20
_CODE = (".py", ".pyc", ".pyi", ".pyx", ".pxd", ".so", ".a", ".c", ".h", ".f90")
_LEFT_OUT = ("/tests/", "/zoneinfo/posix/", "/zoneinfo/right/")
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
# The layers of a child, in the order in which they are built.
_LAYERS = ("capabilities", "landlock")
_NEEDED = {"user_ns", "mount_ns"}


_data: dict[str, bytes] = {}


def read_data(directories: Iterable[str]) -> None:
    """In the zygote, while it can still open files: read the files in these directories that are not
    code, such as fonts, templates and time zones. Raises OSError.
    """
    _data.update(_read_data_files(directories))


def confine_zygote(layers: set[str], without: frozenset[str], zygote_filter: kernel.Filter) -> set[str]:
    """In process 1: a root with the libraries' data, no new privileges, seccomp; then try in a child
    what each child must do. Raises OSError where a child could not be confined.
    """
    if not layers - without >= _NEEDED:
        missing = ", ".join(sorted(_NEEDED - layers))
        raise OSError(f"files need namespaces that this machine does not allow: {missing}")
    layers = layers | {"process", "environment", "kill", "uid"}
    _build_root()
    _data.clear()
    layers.add("root")
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    layers.add("no_new_privs")
    if succeeds(zygote_filter.install):
        layers.add("seccomp")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    return layers | _layers_of_a_child()


def confine_child(child_filter: kernel.Filter | None, *, with_limits: bool) -> None:
    """In each child, before it receives a job: an empty /mnt, no privileges, no other files, no
    forks, few system calls. Raises OSError.
    """
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    _give_up_the_right_to_mount()
    if with_limits:
        for limit, value in (
            (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_FSIZE, WORK_BYTES), (resource.RLIMIT_NOFILE, _DESCRIPTORS),
        ):  # fmt: skip
            resource.setrlimit(limit, (value, value))
    if child_filter is not None:
        child_filter.install()
    for name in ("inputs", "outputs"):
        os.mkdir(f"{WORK}/{name}")
    os.chdir(WORK)


def _give_up_the_right_to_mount() -> set[str]:
    """Mount /mnt, then drop all capabilities. Returns the layers that this machine has."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(b"none", WORK.encode(), b"tmpfs", _FLAGS, b"size=%d,nr_inodes=%d,mode=700" % (WORK_BYTES, _ENTRIES))
    kernel.drop_capabilities()
    rights = [("/", kernel.LANDLOCK_READ), (WORK, kernel.LANDLOCK_WRITE)]
    has_landlock = succeeds(lambda: kernel.landlock_deny_all(rights))
    return set(_LAYERS) if has_landlock else {_LAYERS[0]}


def _layers_of_a_child() -> set[str]:
    """The layers of a throw-away child. Raises OSError if it cannot be confined."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 10 + len(_give_up_the_right_to_mount())
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 10:
        raise OSError("this machine does not allow a process of its own to mount a tmpfs")
    return set(_LAYERS[: code - 10])


def _read_data_files(directories: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    size = 0
    for directory in directories:
        for folder, _, names in os.walk(directory):
            for path in (f"{folder}/{name}" for name in names if not name.endswith(_CODE)):
                if any(part in path for part in _LEFT_OUT) or os.path.islink(path):
                    continue
                with open(path, "rb") as file:
                    content = file.read()
                size += len(content)
                if size > _DATA_BYTES:
                    raise OSError(f"the libraries' data files have more than {_DATA_BYTES >> 20} MB")
                yield path, content


def _build_root() -> None:
    """Replace the root with a read-only tmpfs that has the libraries' files and an empty /mnt."""
    size = sum(map(len, _data.values())) + (8 << 10) * (len(_data) + 64)
    kernel.mount(b"none", b"/", b"", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount(b"none", b"/tmp", b"tmpfs", _FLAGS, b"size=%d,nr_inodes=%d,mode=755" % (size, 4 * len(_data) + 64))
    os.chdir("/tmp")
    os.mkdir(WORK[1:])
    for path, content in _data.items():
        os.makedirs(os.path.dirname(path)[1:], exist_ok=True)
        with open(path[1:], "wb") as file:
            file.write(content)
    kernel.pivot_root_here()
    kernel.mount(b"none", b"/", b"", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _FLAGS)
