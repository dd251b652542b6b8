"""The supervisor's judgement of children that end: killed by somebody, or by a fault of their own."""

import os
import resource
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from supervisor import handover, postgres, refusals
from supervisor.supervision import Child, StartFailed, Supervision
from tests.live import wait_for


@pytest.fixture
def supervision(tmp_path):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    made = Supervision(tmp_path / "logs")
    yield made
    made.stop()
    signal.set_wakeup_fd(-1)
    for number, handler in {**before, signal.SIGCHLD: signal.SIG_DFL}.items():
        signal.signal(number, handler)


def test_a_child_that_is_killed_while_it_starts_is_started_again(supervision, tmp_path):
    mark = tmp_path / "began"

    def work(notify):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        notify()
        time.sleep(60)

    supervision.start(Child("web", work))
    assert supervision.children[0].ready


def test_a_child_that_ends_by_itself_while_it_starts_ends_the_start(supervision):
    def work(notify):
        raise SystemExit(3)

    with pytest.raises(StartFailed):
        supervision.start(Child("web", work))


def test_a_child_that_others_kill_often_is_not_slowed_for_a_fault_of_its_own(supervision):
    child = Child("web", lambda notify: None, started=time.monotonic() - 5)
    pauses = [supervision.pause_after(child, -signal.SIGKILL) for _ in range(20)]
    assert set(pauses) == {0.0}
    assert supervision.pause_after(child, 1) <= 0.5


def test_a_child_that_falls_by_itself_again_and_again_is_slowed(supervision):
    child = Child("web", lambda notify: None, started=time.monotonic() - 5)
    pauses = [supervision.pause_after(child, 1) for _ in range(9)]
    assert pauses[0] == 0.0 and pauses[-1] == 30.0


def test_a_server_that_writes_its_data_for_seconds_is_not_killed(supervision, tmp_path, monkeypatch):
    """As PostgreSQL does before it ends, on a busy disk."""
    written, ready = tmp_path / "written", tmp_path / "ready"

    def end_slowly(*_):
        time.sleep(2)
        written.touch()
        os._exit(0)

    def become_server():
        signal.signal(signal.SIGTERM, end_slowly)
        ready.touch()
        while True:
            time.sleep(0.1)

    monkeypatch.setattr(handover, "build_valkey_server", lambda place: (become_server, ready.exists, signal.SIGTERM))
    with (tmp_path / "lock").open("w") as lock:
        supervision.start(handover.server("valkey", SimpleNamespace(lock=lock.fileno())))
        supervision.stop()
    assert written.exists()


def test_the_limit_of_descriptors_is_raised():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        refusals.raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, refusals.DESCRIPTORS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_start_waits_for_the_processes_of_a_postgresql_that_was_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "STARTS_WITHIN", 600.0)
    pid = os.fork()
    if not pid:
        os.chdir(tmp_path)
        time.sleep(600)
        os._exit(0)
    wait_for(lambda: postgres.has_working_directory(postgres.Path(f"/proc/{pid}"), tmp_path))
    start = threading.Thread(target=postgres.wait_for_earlier, args=(postgres.Cluster(tmp_path, tmp_path, tmp_path),))
    start.start()
    start.join(0.2)
    assert start.is_alive()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    start.join(60)
    assert not start.is_alive()
