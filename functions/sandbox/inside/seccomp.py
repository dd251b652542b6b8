"""The system call filter: classic BPF, generated from the tables in calls.py and installed without
libseccomp.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from types import MappingProxyType

from .calls import AUDIT_ARCH, CHILD_ALLOWED, CHILD_KILLED, FILE_ALLOWED, MOUNTING, NUMBERS, ZYGOTE_ALLOWED

KILL = 0x80000000
ALLOW = 0x7FFF0000
_REFUSE = 0x00050000
EPERM = _REFUSE | errno.EPERM
ENOSYS = _REFUSE | errno.ENOSYS

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_X32_BIT = 0x40000000
_PROT_EXEC = 4
# fork() is clone() with no other flags than these: the exit signal, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
_NOT_A_FORK = 0xFFFFFFFF & ~(0xFF | 0x01000000 | 0x00200000)
# Duplicate a descriptor, its flags, locks. Not F_SETOWN and F_SETSIG, which send signals to other processes.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
# TCGETS, which is how isatty() asks, FIONCLEX and FIOCLEX.
_IOCTL = (0x5401, 0x5450, 0x5451)
# Code from a model tries the network by accident: it is refused, and the process keeps its state.
_NETWORK = ("socket", "connect", "bind", "listen", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg")


class UnknownArchitecture(Exception):
    """There is no system call table for this processor, so nothing can be confined."""


def child_filter(machine: str, *, with_files: bool = False) -> bytes:
    """The program for a child that runs stored code: refuse by default, and kill on clearly hostile
    calls.
    """
    if not with_files:
        return _program(machine, allowed=CHILD_ALLOWED, killed=CHILD_KILLED, can_fork=False)
    allowed, commands = (*CHILD_ALLOWED, *FILE_ALLOWED), {"fcntl": _FCNTL, "ioctl": _IOCTL}
    return _program(machine, allowed=allowed, killed=_killed(_NETWORK), can_fork=False, commands=commands)


def zygote_filter(machine: str, *, with_files: bool = False) -> bytes:
    """The program for the fork server itself; its children inherit it in addition to their own."""
    if not with_files:
        return _program(machine, allowed=ZYGOTE_ALLOWED, killed=_killed(ZYGOTE_ALLOWED), can_fork=True)
    allowed = (*ZYGOTE_ALLOWED, *FILE_ALLOWED, *MOUNTING)
    killed = _killed((*allowed, *_NETWORK))
    return _program(machine, allowed=allowed, killed=killed, can_fork=True, commands={"ioctl": _IOCTL})


def _killed(but: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in CHILD_KILLED if name not in but)


def _program(
    machine: str, *, allowed: tuple[str, ...], killed: tuple[str, ...], can_fork: bool,
    commands: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> bytes:  # fmt: skip
    if machine not in AUDIT_ARCH:
        raise UnknownArchitecture(machine)
    numbers = NUMBERS[machine]
    code = [_load(_ARCH), _jump(_EQUAL, AUDIT_ARCH[machine], 1, 0), _return(KILL), _load(_NUMBER)]
    if machine == "x86_64":
        code += [_jump(_AT_LEAST, _X32_BIT, 0, 1), _return(KILL)]
    code += _when(numbers["mmap"], _unless_bits(2, _PROT_EXEC))
    code += _when(numbers["mprotect"], _unless_bits(2, _PROT_EXEC))
    code += _when(numbers["prlimit64"], _only_zero(0))
    if can_fork:
        code += _when(numbers["clone"], _unless_bits(0, _NOT_A_FORK))
    for name, values in commands.items():
        code += _when(numbers[name], _allow_only(1, values))
    # The C library then uses clone instead.
    code += _when(numbers["clone3"], [_return(ENOSYS)])
    for name in allowed:
        if name in numbers and not (can_fork and name == "clone"):
            code += _when(numbers[name], [_return(ALLOW)])
    for name in killed:
        if name in numbers:
            code += _when(numbers[name], [_return(KILL)])
    code.append(_return(EPERM))
    return b"".join(code)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    return [_jump(_EQUAL, number, 0, len(then)), *then]


def _unless_bits(argument: int, bits: int) -> list[bytes]:
    return [_load(_low_word(argument)), _jump(_ANY_BIT, bits, 0, 1), _return(EPERM), _return(ALLOW)]


def _only_zero(argument: int) -> list[bytes]:
    return [_load(_low_word(argument)), _jump(_EQUAL, 0, 1, 0), _return(EPERM), _return(ALLOW)]


def _allow_only(argument: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [_jump(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [_load(_low_word(argument)), *tests, _return(EPERM), _return(ALLOW)]


def _low_word(argument: int) -> int:
    # Both architectures are little-endian.
    return _ARGUMENTS + 8 * argument


def _load(offset: int) -> bytes:
    return struct.pack("<HBBI", _LOAD, 0, 0, offset)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("<HBBI", kind, if_true, if_false, value)


def _return(action: int) -> bytes:
    return struct.pack("<HBBI", _RETURN, 0, 0, action)
