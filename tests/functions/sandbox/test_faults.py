"""Something really dies: a child, the zygote, the host. Nothing hangs, nothing stays behind, the next call works."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from functions import sandbox
from functions.sandbox import servers as fork_servers
from functions.sandbox.inside import child as children
from functions.sandbox.inside import zygote
from tests.functions.sandbox.processes import children_of, descendants_of, is_running, wait_until

PROJECT = Path(__file__).resolve().parents[3]
SLEEPER = "import time\ndef main():\n    time.sleep(20)\n    return 'slept'\n"
LONG = sandbox.Limits(timeout_s=300)


@pytest.fixture
def pool():
    pool = sandbox.Pool(spares=1)
    assert pool.execute("def main(): return 1").result == 1
    yield pool
    pool.close()


@pytest.fixture
def sleeping(pool):
    """A call in progress, and a box that gets its outcome."""
    box = []
    started = threading.Event()

    class Host:
        def log(self, message, level, fields):
            started.set()

    source = "import time\ndef main(ctx):\n    ctx.log('up')\n    time.sleep(300)\n"
    options = {"allowed_imports": ["time"], "host": Host(), "limits": LONG}
    thread = threading.Thread(target=lambda: box.append(pool.execute(source, **options)))
    thread.start()
    assert started.wait(60)
    yield lambda: (thread.join(60), box[0])[1]
    thread.join(60)


def zygote_of(pool) -> tuple[int, int]:
    """The launcher and process 1 of the core profile."""
    launcher = pool._servers.by_profile["core"]._process.pid
    return launcher, children_of(launcher)[0]


def test_a_killed_child_is_one_typed_outcome(pool, sleeping):
    _, zygote = zygote_of(pool)
    for child in children_of(zygote):
        os.kill(child, signal.SIGKILL)
    outcome = sleeping()
    assert outcome.status == "crash"  # SIGKILL that is not ours, far below its memory limit
    assert pool.execute("def main(): return 2").result == 2


def test_a_child_ended_by_a_signal_without_a_name_is_an_outcome_too(pool, sleeping):
    _, zygote = zygote_of(pool)
    for child in children_of(zygote):
        os.kill(child, signal.SIGRTMIN + 6)
    outcome = sleeping()
    assert (outcome.status, outcome.error.message.split()[-2:]) == ("crash", ["signal", "40"])
    assert pool.execute("def main(): return 2").result == 2


@pytest.mark.parametrize("which", [0, 1], ids=["launcher", "process 1"])
def test_a_killed_zygote_ends_its_calls_and_is_replaced(pool, sleeping, which):
    processes = zygote_of(pool)
    below = descendants_of(processes[0])
    os.kill(processes[which], signal.SIGKILL)
    outcome = sleeping()
    assert outcome.status in ("crash", "memory")
    assert pool.execute("def main(): return 3").result == 3
    wait_until(lambda: not any(is_running(pid) for pid in below))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_host(how):
    script = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "from functions import sandbox\n"
        "class Host:\n    def log(self, message, level, fields): print('up', flush=True)\n"
        "source = 'import time\\ndef main(ctx):\\n    ctx.log(1)\\n    time.sleep(20)'\n"
        "sandbox.execute(source, allowed_imports=['time'], host=Host())\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout.readline() == b"up\n"
    below = descendants_of(host.pid)
    assert len(below) >= 4
    host.send_signal(how)
    host.wait(60)
    host.stdout.close()
    wait_until(lambda: not any(is_running(pid) for pid in below))


def test_nothing_survives_the_launcher_where_root_has_given_up_its_user_id():
    if os.getuid() != 0:
        pytest.skip("needs root")
    pool = sandbox.Pool(spares=1, without_layers=["user_ns"])
    assert pool.execute("def main(): return 1").ok
    launcher, _ = zygote_of(pool)
    below = descendants_of(launcher)
    os.kill(launcher, signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in below))
    pool.close()


INHERITED = {
    "SIGCHLD is ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "signals are blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGXCPU])",
    "CPU time is limited": "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))",
    "memory is limited": "resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))",
}


@pytest.mark.parametrize("inherited", INHERITED.values(), ids=INHERITED)
def test_functions_run_whatever_the_host_itself_was_started_with(inherited):
    script = (
        f"import resource, signal, sys; sys.path.insert(0, {str(PROJECT)!r}); {inherited}\n"
        "from functions import sandbox\n"
        "done = [sandbox.execute('def main(n): return n', {'n': n}, reuse=reuse) for n, reuse in ((1, None), (2, 'r'))]\n"
        "endless = sandbox.execute('def main():\\n    while True: pass', limits=sandbox.Limits(timeout_s=0.3))\n"
        "print(*[one.result for one in done], endless.status, endless.error.line)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout.split() == ["1", "2", "timeout", "2"], done.stdout + done.stderr


TOO_MANY_FILES = f"""
import contextlib, os, resource, sys
sys.path.insert(0, {str(PROJECT)!r})
from functions import sandbox

def numbers():
    return [int(name) for name in os.listdir("/proc/self/fd")]

pool = sandbox.Pool(spares=1)
assert pool.execute("def main(): return 1").ok
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
before = len(numbers())
for free in (0, 1, 2):
    taken = []
    # for those that are given back, also where no number is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(numbers()) + 3, limit[1]))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    for _ in range(free):
        os.close(taken.pop())
    outcome = pool.execute("def main(): return 1")
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    for descriptor in taken:
        os.close(descriptor)
    print(outcome.status, "too many open files" in outcome.error.message)
print(pool.execute("def main(): return 1").status)
print(len(numbers()) - before)
"""


def test_a_host_with_too_many_files_open_says_so_and_leaks_none():
    """A host of its own: what else this process opens and closes meanwhile is nobody's affair."""
    done = subprocess.run(
        [sys.executable, "-c", TOO_MANY_FILES], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    *refused, after, more = done.stdout.splitlines()
    assert (refused, after) == (["busy True"] * 3, "ok")
    assert int(more) <= 3  # of the last child, until somebody asks for its figures


def test_a_zygote_that_may_not_fork_says_so_and_leaks_no_descriptor(monkeypatch):
    host, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nursery = zygote._Nursery(control, confine_child=None, child=None)
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", refuse_to_fork)
        assert all(nursery._spawn_or_say_why(is_spare=False) for _ in range(5))
    assert len(os.listdir("/proc/self/fd")) < len(before) + 5  # one of each refusal would be five
    assert [host.recv(100) for _ in range(5)] == [b"E[Errno 11] no process left"] * 5
    host.close()
    control.close()


def refuse_to_fork():
    raise BlockingIOError(errno.EAGAIN, "no process left")


def test_a_host_that_ends_normally_leaves_nothing():
    script = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "from functions import sandbox\n"
        "print(sandbox.execute('def main(): return 1').result, flush=True)\n"
        "import os; print(*[p for p in os.popen('pgrep -P %d' % os.getpid()).read().split()], flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=True)
    result, pids = done.stdout.splitlines()
    assert result == "1"
    wait_until(lambda: not any(is_running(int(pid)) for pid in pids.split()))


def test_a_forked_host_starts_its_own_and_leaves_the_parents_alone(pool):
    pid = os.fork()
    if pid == 0:
        outcome = pool.execute("def main(): return 4")
        pool.close()
        os._exit(0 if outcome.result == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pool.execute("def main(): return 5").result == 5


def test_a_cancelled_call_ends_at_once(pool):
    cancellation = sandbox.Cancellation()
    started = threading.Event()

    class Host:
        def log(self, message, level, fields):
            started.set()

    def cancel():
        started.wait(60)
        cancellation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    source = "import time\ndef main(ctx):\n    ctx.log('up')\n    time.sleep(300)\n"
    options = {"allowed_imports": ["time"], "host": Host(), "limits": LONG, "cancellation": cancellation}
    outcome = pool.execute(source, **options)
    thread.join()
    assert outcome.status == "cancelled"
    assert outcome.wall_ms < 60_000


def test_spares_that_have_died_cost_no_call():
    pool = sandbox.Pool(spares=4)
    assert pool.execute("def main(): return 0").ok
    (zygote,) = psutil.Process(pool._servers.by_profile["core"]._process.pid).children()
    killed = set()
    wait_until(lambda: kill_children(zygote, killed) and len(killed) >= 4)
    outcome = pool.execute("def main(): return 1")
    pool.close()
    assert outcome.result == 1, outcome


def kill_children(process, killed):
    """Kills those there are and adds their ids: true if there were none. A spare may come after the first were killed."""
    found = process.children()
    for child in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
        killed.add(child.pid)
    return not found


def test_a_spare_that_is_slow_to_rehearse_stays_alive():
    """A timer of five seconds began with the rehearsal, and ended spares of a busy machine."""
    order = json.loads(children.REHEARSAL[children.REHEARSAL.index(b"{") :])
    assert order["timeout_s"] >= 600


def test_a_stopped_fork_server_is_replaced(monkeypatch):
    monkeypatch.setattr(fork_servers, "_STUCK_S", 0.5)
    pool = sandbox.Pool(spares=0)
    assert pool.execute("def main(): return 1").ok
    launcher = psutil.Process(pool._servers.by_profile["core"]._process.pid)
    for process in launcher.children():
        process.suspend()
    assert pool.execute("def main(): return 2").result == 2
    wait_until(lambda: not launcher.is_running() or launcher.status() == psutil.STATUS_ZOMBIE)
    pool.close()


def test_a_fork_servers_death_costs_no_call_that_had_not_begun():
    pool = sandbox.Pool(spares=4)
    assert pool.execute("def main(): return 0").ok
    for number in range(5):
        launcher = psutil.Process(pool._servers.by_profile["core"]._process.pid)
        zygotes = launcher.children()
        launcher.kill()
        psutil.wait_procs(zygotes, 5)
        assert pool.execute("def main(n): return n", {"n": number}).result == number
    pool.close()


SYSTEM_PYTHON = Path("/usr/bin/python3")


@pytest.mark.parametrize(
    ("user", "without", "isolation"),
    [
        ("root", (), "full"),
        ("root", ("user_ns",), "full"),
        ("nobody", (), "full"),
        ("nobody", ("user_ns",), "reduced"),
    ],
)
def test_it_works_under_every_privilege_set_up(user, without, isolation):
    if user == "root" and os.getuid() != 0:
        pytest.skip("needs root")
    if user == "nobody" and os.getuid() == 0:
        same = SYSTEM_PYTHON.exists() and subprocess.run(
            [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip() == str(sys.version_info[:2])
        if not same:
            pytest.skip("no interpreter of this version that every user may run")
    python = str(SYSTEM_PYTHON) if user == "nobody" and os.getuid() == 0 else sys.executable
    import RestrictedPython

    paths = [str(PROJECT), str(Path(RestrictedPython.__file__).parent.parent)]
    script = (
        f"import sys; sys.path[:0] = {paths!r}\n"
        "from functions import sandbox\n"
        f"pool = sandbox.Pool(without_layers={without!r})\n"
        "o = pool.execute('import os\\ndef main(): return [os.getuid()]', safe_mode=False)\n"
        "b = pool.execute('def main(): return open(\"/etc/passwd\").read()', safe_mode=False)\n"
        "print(o.status, o.isolation, b.status, o.result, o.error)\n"
    )
    identity = {"user": pwd.getpwnam("nobody").pw_uid} if user == "nobody" and os.getuid() == 0 else {}
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=180, check=False,
                          cwd="/", **identity)  # fmt: skip
    assert done.stdout.split()[:3] == ["ok", isolation, "error"], done.stdout + done.stderr
    assert "[0]" not in done.stdout
