"""The host's end of a zygote where something is wrong: it does not start, it lets go twice, a child ends slowly."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from functions import sandbox
from functions.sandbox import conversation, forkserver, servers
from functions.sandbox.callbacks import Callbacks
from functions.sandbox.conversation import Conversation
from functions.sandbox.forkserver import Child
from functions.sandbox.libraries import CORE

SOURCE = "def main(): return 1"
EXITED_3 = struct.pack("<iddQ", 3 << 8, 0.0, 0.0, 100)


@pytest.mark.parametrize(
    ("program", "said"),
    [("/nowhere/python", "No such file"), (shutil.which("true"), "it ended immediately")],
)
def test_a_fork_server_that_does_not_start_is_told_in_words(monkeypatch, program, said):
    monkeypatch.setattr(forkserver, "sys", SimpleNamespace(executable=program, platform=sys.platform))
    pool = sandbox.Pool(spares=1)
    outcome = pool.execute(SOURCE)
    assert (outcome.status, outcome.error.type) == ("refused", "SandboxUnavailable")
    assert "the compiler fork server did not start" in outcome.error.message and said in outcome.error.message
    with pytest.raises(sandbox.SandboxUnavailable):
        pool.check(SOURCE)


def test_the_sandbox_says_that_it_needs_linux(monkeypatch):
    monkeypatch.setattr(forkserver, "sys", SimpleNamespace(executable=sys.executable, platform="darwin"))
    with pytest.raises(sandbox.SandboxUnavailable, match="the sandbox needs Linux"):
        sandbox.Pool().check(SOURCE)


def test_a_child_let_go_twice_takes_nobody_elses_descriptors_along():
    child = Child(*(os.open(os.devnull, os.O_RDONLY) for _ in range(3)))
    child.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]  # they get the numbers that are free now
    child.close()
    child.kill()
    for descriptor in others:
        os.close(descriptor)  # raises where it is closed already


@pytest.fixture
def silent():
    """(child, process): it closes its socket without a word and stays until its input ends, then exits with 3."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    report, reporting = os.pipe()
    program = f"import os, sys; os.close({theirs.fileno()}); sys.stdin.read(); sys.exit(3)"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()])
    theirs.close()
    os.write(reporting, EXITED_3)
    yield Child(ours.detach(), report, os.pidfd_open(process.pid)), process
    os.close(reporting)
    process.kill()
    process.communicate()


def talk(child):
    """The outcome of a call to this child."""
    server = SimpleNamespace(isolation="full", layers=())
    limits = sandbox.Limits(timeout_s=60)
    return Conversation(child, limits, server).run(b"{}", Callbacks(None, None, limits))


def test_a_child_that_ends_slowly_is_no_violation(silent, monkeypatch):
    child, process = silent
    select_readable = conversation.select_readable

    def end_while_it_is_waited_for(descriptor, timeout_s):
        if descriptor == child.pidfd:
            assert process.poll() is None
            process.stdin.close()
            timeout_s = 60
        return select_readable(descriptor, timeout_s)

    monkeypatch.setattr(conversation, "select_readable", end_while_it_is_waited_for)
    outcome = talk(child)
    assert (outcome.status, outcome.error.message) == ("crash", "the function ended its process with exit code 3")


def test_a_child_that_stays_without_a_word_is_one(silent, monkeypatch):
    monkeypatch.setattr(conversation, "_PATIENCE_S", 0.05)
    child, process = silent
    outcome = talk(child)
    assert outcome.status == "violation" and "it closed its socket but did not end" in outcome.error.message
    assert process.wait(60) == -9


def test_a_server_at_rest_ends_and_the_one_that_is_kept_does_not(monkeypatch):
    monkeypatch.setattr(servers, "REST_S", 0.2)
    pool = sandbox.Pool(spares=0)
    try:
        pool.start()
        assert pool.check("def main():\n    return 1\n") == []
        compiler, core = (pool._servers.by_profile[profile] for profile in ("compiler", CORE))
        until = time.monotonic() + 20
        while compiler.is_alive and time.monotonic() < until:
            time.sleep(0.05)
        assert not compiler.is_alive and core.is_alive
        assert pool.check("def main():\n    return 2\n") == []
        assert pool.execute("def main():\n    return 2\n").result == 2
    finally:
        pool.close()
