"""The system call tables, for processors that the tests do not run on too."""

from __future__ import annotations

import struct

import pytest

from functions.sandbox.inside import calls, seccomp
from tests.functions.sandbox import kernel_headers

MACHINES = sorted(calls.NUMBERS)
KILL, ALLOW, EPERM, ENOSYS = seccomp.KILL, seccomp.ALLOW, seccomp.EPERM, seccomp.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_the_kernels_own(machine):
    known = kernel_headers.pinned(machine)
    assert {name: number for name, number in calls.NUMBERS[machine].items() if known.get(name) != number} == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_pinned_numbers_are_those_of_the_header(machine):
    header = kernel_headers.installed(machine)
    if header is None:
        pytest.skip("linux-libc-dev has no header for this processor here")
    pinned = kernel_headers.pinned(machine)
    assert {name: header[name] for name in pinned.keys() & header.keys() if header[name] != pinned[name]} == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_name_in_the_lists_is_without_a_number_that_the_kernel_has(machine):
    named = {*calls.CHILD_ALLOWED, *calls.CHILD_KILLED, *calls.ZYGOTE_ALLOWED, *calls.FILE_ALLOWED, *calls.MOUNTING}
    assert sorted(named & kernel_headers.pinned(machine).keys() - calls.NUMBERS[machine].keys()) == []
    assert sorted(name for name in named if not any(name in numbers for numbers in calls.NUMBERS.values())) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_the_childs_filter_answers_each_call_of_the_kernel_as_the_lists_say(machine):
    program, special = (
        seccomp.child_filter(machine),
        {"clone3": ENOSYS, "mmap": ALLOW, "mprotect": ALLOW, "prlimit64": ALLOW},
    )
    listed = dict.fromkeys(calls.CHILD_KILLED, KILL) | dict.fromkeys(calls.CHILD_ALLOWED, ALLOW) | special
    for name, number in kernel_headers.pinned(machine).items():
        assert (name, answer(program, machine, number)) == (name, listed.get(name, EPERM))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("with_files", [False, True])
@pytest.mark.parametrize("make", [seccomp.child_filter, seccomp.zygote_filter])
def test_arguments_and_architectures_are_looked_at(machine, make, with_files):
    program, number = make(machine, with_files=with_files), calls.NUMBERS[machine]
    assert answer(program, machine, number["mmap"], (0, 4096, 1 | 4)) == EPERM
    assert answer(program, machine, number["mprotect"], (0, 4096, 4)) == EPERM
    assert answer(program, machine, number["prlimit64"], (1,)) == EPERM
    for other in {0x40000003, 0x40000028, *calls.AUDIT_ARCH.values()} - {calls.AUDIT_ARCH[machine]}:
        assert answer(program, other, number["read"]) == KILL
    assert answer(program, machine, 0x40000000 + 39) == (KILL if machine == "x86_64" else EPERM)
    assert answer(program, machine, 100_000) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_a_child_with_files_may_open_them_and_the_network_is_refused_without_a_kill(machine):
    program, number = seccomp.child_filter(machine, with_files=True), calls.NUMBERS[machine]
    assert [answer(program, machine, number[name]) for name in ("openat", "statx", "read")] == [ALLOW] * 3
    assert [answer(program, machine, number[name]) for name in ("socket", "connect", "capset")] == [EPERM] * 3
    assert [answer(program, machine, number[name]) for name in ("mount", "unshare", "execve")] == [KILL] * 3
    assert answer(program, machine, number["fcntl"], (0, 6)) == ALLOW  # a lock
    assert answer(program, machine, number["fcntl"], (0, 8)) == EPERM  # F_SETOWN: signals to another process
    assert answer(program, machine, number["ioctl"], (0, 0x5451)) == ALLOW
    assert answer(program, machine, number["ioctl"], (0, 0x5412)) == EPERM  # TIOCSTI


@pytest.mark.parametrize("machine", MACHINES)
def test_the_fork_server_may_fork_and_nothing_more(machine):
    program, number = seccomp.zygote_filter(machine), calls.NUMBERS[machine]
    assert answer(program, machine, number["clone"], (17 | 0x01200000,)) == ALLOW
    assert answer(program, machine, number["clone"], (17 | 0x10000000,)) == EPERM  # a new user namespace
    assert answer(program, machine, number["execve"]) == KILL


def answer(program: bytes, machine: str | int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel's interpreter would return: the few instructions of classic BPF that the filters use."""
    architecture = machine if isinstance(machine, int) else calls.AUDIT_ARCH[machine]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    code, place, value = list(struct.iter_unpack("<HBBI", program)), 0, 0
    tests = {0x15: lambda a, k: a == k, 0x35: lambda a, k: a >= k, 0x45: lambda a, k: a & k}
    while True:
        kind, if_true, if_false, k = code[place]
        place += 1
        if kind == 0x06:
            return k
        if kind == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        else:
            place += if_true if tests[kind](value, k) else if_false
