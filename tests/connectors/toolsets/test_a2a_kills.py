"""A remote A2A agent that is really killed (SIGKILL) in the middle of a task, and started again."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.tools import CallPending, OutcomeUnknown
from connectors.models import Connection, RemoteTask
from connectors.toolsets import a2a
from connectors.toolsets.a2a import A2aToolset
from tests.connectors.toolsets.test_a2a import call, context, spec

PROGRAM = Path(__file__).with_name("a2a_server.py")


class Remote:
    """The program, which keeps its port when it is started again."""

    def __init__(self, folder):
        self.folder, self.port, self.program = folder, 0, None
        (folder / "keep").touch()

    def start(self):
        (self.folder / "port").unlink(missing_ok=True)
        self.program = subprocess.Popen([sys.executable, PROGRAM, str(self.port), self.folder])
        self.wait_for(lambda: (self.folder / "port").exists() and (self.folder / "port").read_text())
        self.port = int((self.folder / "port").read_text())

    def kill(self):
        self.program.kill()
        self.program.wait()

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []

    def wait_for(self, is_so):
        for _ in range(600):
            if is_so():
                return
            assert self.program.poll() is None
            time.sleep(0.05)
        raise AssertionError


@pytest.fixture
def remote(tmp_path, settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(a2a, "LOOKS_S", (0.0, 0.0))
    agent = Remote(tmp_path)
    agent.start()
    yield agent
    agent.kill()


@pytest.fixture
def connection(alice, remote):
    row = Connection.objects.create(
        owner=alice, name="travel", provider="a2a", base_url=f"http://127.0.0.1:{remote.port}/agent"
    )
    a2a.read_agent(row, alice.pk)
    return row


def waits(alice, made):
    with pytest.raises(CallPending) as pending:
        A2aToolset().call(spec(), made, context(alice))
    assert pending.value.waiting_for == "timer"


def test_a_call_waits_while_the_agent_is_away_and_finds_its_task_again(alice, connection, remote):
    made = call()
    waits(alice, made)
    remote.kill()
    waits(alice, made)
    waits(alice, made)
    remote.start()
    waits(alice, made)
    (remote.folder / "done").touch()
    result = A2aToolset().call(spec(), made, context(alice))
    assert result.ok and result.value["text"] == "Booked."
    assert remote.calls().count("SendMessage") == 1


def test_the_outcome_is_unknown_when_the_agent_has_lost_the_task(alice, connection, remote):
    made = call()
    waits(alice, made)
    remote.kill()
    (remote.folder / "keep").unlink()
    remote.start()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown) as unknown:
            A2aToolset().call(spec(), made, context(alice))
        assert "Task not found" in str(unknown.value)
    assert remote.calls().count("SendMessage") == 1
    assert RemoteTask.objects.get().is_open is False


def test_an_agent_killed_while_it_takes_the_message_is_not_asked_again(alice, connection, remote):
    (remote.folder / "hang").touch()
    made, ends = call(), []

    def kill():
        remote.wait_for(lambda: "SendMessage" in remote.calls())
        remote.kill()
        ends.append(True)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(OutcomeUnknown):
        A2aToolset().call(spec(), made, context(alice))
    killer.join()
    (remote.folder / "hang").unlink()
    remote.start()
    with pytest.raises(OutcomeUnknown):
        A2aToolset().call(spec(), made, context(alice))
    assert ends and remote.calls() == ["SendMessage"]


def test_a_call_outside_of_a_run_does_not_wait(alice, connection, remote):
    made = call()
    waits(alice, made)
    remote.kill()
    alone = context(alice)
    object.__setattr__(alone, "run_id", None)
    with pytest.raises(OutcomeUnknown):
        A2aToolset().call(spec(), made, alone)
    remote.start()


def test_nothing_is_sent_to_an_agent_that_is_away_from_the_beginning(alice, connection, remote):
    remote.kill()
    with pytest.raises(a2a.Unreached):
        A2aToolset().call(spec(), call(), context(alice))
    assert remote.calls() == [] and not RemoteTask.objects.exists()
    remote.start()
