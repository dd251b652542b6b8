"""Raw system calls through ctypes. Every C symbol is looked up here once, before the lock-down."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from .calls import NUMBERS

MACHINE = os.uname().machine
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
# The rights to read files and directories.
LANDLOCK_READ = 1 << 2 | 1 << 3
LANDLOCK_WRITE = LANDLOCK_READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14
MS_REC, MS_PRIVATE, MNT_DETACH = 16384, 1 << 18, 2
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_VERSION_FLAG = 1

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_prctl = _libc.prctl
_unshare = _libc.unshare
_mount = _libc.mount
_umount2 = _libc.umount2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Filter:
    """A seccomp program in the kernel's format, prepared once and installed in each child."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._program = _Program(len(code) // 8, self._code)

    def install(self) -> None:
        number = NUMBERS[MACHINE]["seccomp"]
        _check(_syscall(number, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(self._program)), "seccomp")


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    _check(_prctl(option, value, third, 0, 0), f"prctl {option}")


def unshare(flags: int) -> None:
    _check(_unshare(flags), "unshare")


def mount(source: bytes, target: bytes, kind: bytes, flags: int, data: bytes = b"") -> None:
    _check(_mount(source, target, kind, ctypes.c_ulong(flags), data), "mount")


def pivot_root_here() -> None:
    """Make the current directory the root and unmount the old one."""
    _check(_syscall(NUMBERS[MACHINE]["pivot_root"], b".", b"."), "pivot_root")
    _check(_umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def close_descriptors(first: int) -> None:
    _check(_syscall(NUMBERS[MACHINE]["close_range"], first, 0xFFFFFFFF, 0), "close_range")


def drop_capabilities() -> None:
    """Empty all five capability sets; a later exec cannot restore them."""
    for capability in range(64):
        if _prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            # Beyond the last capability, or not permitted: then there is nothing to drop either.
            break
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_syscall(NUMBERS[MACHINE]["capset"], header, (ctypes.c_uint32 * 6)()), "capset")


def landlock_version() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    version: int = _syscall(NUMBERS[MACHINE]["landlock_create_ruleset"], None, 0, _LANDLOCK_VERSION_FLAG)
    return max(version, 0)


def landlock_deny_all(but: Iterable[tuple[str, int]] = ()) -> None:
    """Forbid every file, network and cross-process action that this kernel's Landlock supports, but
    these rights below these directories.
    """
    version = landlock_version()
    if not version:
        raise OSError("this kernel has no Landlock")
    files = (1 << _file_rights(version)) - 1
    network = 0
    scopes = 0
    # The structure has grown with the versions; a kernel refuses what it does not know.
    size = 8
    if version >= 4:
        network = 0b11
        size = 16
    if version >= 6:
        scopes = 0b11
        size = 24
    rules = _Ruleset(files, network, scopes)
    numbers = NUMBERS[MACHINE]
    descriptor = _check(_syscall(numbers["landlock_create_ruleset"], ctypes.byref(rules), size, 0), "landlock")
    for path, rights in but:
        _landlock_allow(descriptor, path, rights & rules.files)
    _check(_syscall(numbers["landlock_restrict_self"], descriptor, 0), "landlock")
    os.close(descriptor)


def _landlock_allow(ruleset: int, path: str, rights: int) -> None:
    directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", rights, directory))
        _check(_syscall(NUMBERS[MACHINE]["landlock_add_rule"], ruleset, 1, beneath, 0), "landlock")
    finally:
        os.close(directory)


def _file_rights(version: int) -> int:
    return {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


# Where `tp_flags` is in PyTypeObject.
_FLAGS_AT = 21 * ctypes.sizeof(ctypes.c_void_p)
# The flag Py_TPFLAGS_IMMUTABLETYPE.
_IMMUTABLE = 1 << 8


def make_immutable(kind: type) -> None:
    """No attribute of this class can be set any more, as of those written in C."""
    flags = ctypes.c_ulong.from_address(id(kind) + _FLAGS_AT)
    if flags.value != kind.__flags__:
        raise RuntimeError("the layout of classes is not known")
    flags.value |= _IMMUTABLE
