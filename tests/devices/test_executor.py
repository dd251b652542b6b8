"""The client between a tool_call and its tool_result, without a network: frames go into a list."""

import asyncio
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from devices.client import approvals, pairing, review, stopping
from devices.client.approvals import Approvals
from devices.client.exceptions import Fatal
from devices.client.executor import Executor, seconds_left
from devices.client.home import Config, Home, McpServer
from devices.client.journal import Journal
from devices.client.mcp_bridge import Bridge, filter_fitting_offers
from devices.client.store import Store
from devices.client.tools import TOOLS, Tool
from devices.client.workspace import Workspace
from devices.protocol import Offer, ToolCall


class Device:
    """An executor over real files; `sent` is what the server would have got."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        self.store = Store(folder / "device.sqlite3")
        self.journal = Journal(self.store)
        self.bridge = Bridge((config or Config()).mcp_servers)
        self.sent: list = []
        workspace = Workspace({"docs": folder})
        self.executor = Executor(
            self.store, self.journal, workspace, Approvals(config or Config()), self.bridge, self.send
        )

    async def send(self, frame) -> None:
        self.sent.append(frame)

    async def run(self, name: str, *, id: str = "c1", timeout_s: float = 30.0, **args):
        """One call to its end; its tool_result."""
        await self.executor.take(ToolCall(id, name, args, {"run": "r1"}, "", timeout_s))
        if running := self.executor.running.get(id):
            await running.task
        return self.sent[-1]

    def types(self) -> list[str]:
        return [frame.type for frame in self.sent]


@pytest.fixture
def device(tmp_path):
    made = Device(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def slow(monkeypatch):
    """A tool that waits until it is told to stop, and one that never looks."""
    release = threading.Event()

    def wait_politely(workspace: Workspace) -> dict:
        """Waits."""
        while not release.wait(0.01):
            stopping.raise_if_stopped()
        return {"done": True}

    def never_return(workspace: Workspace) -> dict:
        """Never returns."""
        release.wait()
        return {"done": True}

    for function in (wait_politely, never_return):
        monkeypatch.setitem(TOOLS, function.__name__, Tool.of(function, "workspace", "read"))
    yield release
    release.set()


async def test_a_call_is_in_the_journal_before_it_is_acknowledged(device):
    result = await device.run("create_task", title="Buy milk")
    assert result.ok
    assert device.types() == ["tool_ack", "tool_result"]
    assert device.journal.find("c1").state == "done"


async def test_a_call_that_is_sent_twice_runs_once(device):
    first = await device.run("create_task", title="Buy milk")
    again = await device.run("create_task", title="Buy milk")
    assert again.result == first.result
    assert len(device.store.all("task", limit=10)) == 1


async def test_the_journal_outlives_the_client(device, tmp_path):
    first = await device.run("create_task", title="Buy milk")
    device.store.close()
    later = Device(tmp_path)
    assert later.journal.id == device.journal.id
    assert later.journal.recover() == 0
    assert (await later.run("create_task", title="Buy milk")).result == first.result
    assert len(later.store.all("task", limit=10)) == 1
    later.store.close()


async def test_what_was_running_when_the_client_died_is_run_again_or_said_to_be_unknown(device):
    device.journal.begin(ToolCall("read", "list_tasks", {}), repeatable=True)
    device.journal.begin(ToolCall("mail", "send_mail", {}), repeatable=False)
    assert device.journal.recover() == 2
    assert device.journal.find("read") is None
    assert [(item.id, item.state) for item in device.journal.unfinished()] == [("mail", "failed")]
    assert device.journal.find("mail").result.error["code"] == "outcome_unknown"


async def test_a_result_is_listed_until_the_server_no_longer_asks_for_it(device):
    await device.run("list_tasks")
    listed = device.journal.unfinished()
    assert [item.id for item in listed] == ["c1"]
    device.journal.confirm(listed, ids=("c1",))
    assert device.journal.unfinished() == listed
    device.journal.confirm(listed, ids=())
    assert device.journal.unfinished() == ()


async def test_a_record_and_its_journal_entry_commit_together_or_not_at_all(device, monkeypatch):
    def crash(result, durable=False):
        raise OSError("the machine died here")

    monkeypatch.setattr(device.journal, "finish", crash)
    await device.executor.take(ToolCall("c1", "create_task", {"title": "Buy milk"}, {}, "", 30.0))
    await asyncio.wait([device.executor.running["c1"].task])
    assert device.store.all("task", limit=10) == []
    assert device.journal.find("c1").state == "running"
    assert device.journal.recover() == 1
    assert device.journal.find("c1") is None


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("no_such_tool", {}, "unknown_tool"),
        ("create_task", {}, "invalid_arguments"),
        ("create_task", {"title": 7}, "invalid_arguments"),
        ("create_task", {"title": "a", "colour": "red"}, "invalid_arguments"),
        ("create_task", {"title": " "}, "invalid_arguments"),
        ("create_task", {"title": "a", "project_id": "nowhere"}, "not_found"),
        ("update_task", {"task_id": "nowhere", "title": "a"}, "not_found"),
        ("read_file_content", {"path": "/etc/passwd"}, "outside"),
    ],
)
async def test_a_call_that_cannot_be_done_gets_a_reason(device, name, args, code):
    result = await device.run(name, **args)
    assert (result.ok, result.error["code"]) == (False, code)


async def test_a_tool_that_raises_is_a_failed_call_not_a_dead_client(device, monkeypatch):
    def explode(workspace: Workspace) -> dict:
        """Explodes."""
        raise RuntimeError("boom")

    monkeypatch.setitem(TOOLS, "explode", Tool.of(explode, "workspace", "read"))
    result = await device.run("explode")
    assert result.error == {"code": "tool_failed", "message": "RuntimeError: boom"}
    assert (await device.run("list_tasks", id="c2")).ok


async def test_a_tool_that_never_returns_ends_at_its_deadline(device, slow):
    result = await device.run("never_return", timeout_s=0.3)
    assert result.error["code"] == "deadline"
    assert (await device.run("list_tasks", id="c2")).ok


@pytest.mark.parametrize("name", ["wait_politely", "never_return"])
async def test_a_cancelled_tool_is_stopped_and_says_so(device, slow, name):
    running = asyncio.create_task(device.run(name))
    while "c1" not in device.executor.running:
        await asyncio.sleep(0.01)
    assert device.executor.cancel("c1", "the run was cancelled")
    result = await running
    assert result.error == {"code": "cancelled", "message": "the run was cancelled"}
    assert not device.executor.cancel("c1", "again")


async def test_a_tool_that_stops_when_asked_does_not_stand_for_one_that_hangs(device, slow):
    """Threads that hang are counted, since too many of them refuse further calls."""
    assert (await device.run("never_return", timeout_s=0.3)).error["code"] == "deadline"
    assert device.executor.abandoned == 1
    obedient = asyncio.create_task(device.run("wait_politely", id="c2"))
    while "c2" not in device.executor.running:
        await asyncio.sleep(0.01)
    assert device.executor.cancel("c2", "the run was cancelled")
    assert (await obedient).error["code"] == "cancelled"
    assert device.executor.abandoned == 1
    slow.set()
    async with asyncio.timeout(60):
        while device.executor.abandoned:
            await asyncio.sleep(0.01)


async def test_an_answer_that_does_not_fit_into_a_frame_is_an_error(device, monkeypatch):
    def flood(workspace: Workspace) -> dict:
        """Says too much."""
        return {"text": "a" * 2_000_000}

    monkeypatch.setitem(TOOLS, "flood", Tool.of(flood, "workspace", "read"))
    assert (await device.run("flood")).error["code"] == "too_large"


async def test_text_that_no_frame_carries_is_mended_where_it_is_only_a_reason(device, monkeypatch):
    def broken(workspace: Workspace) -> dict:
        """Fails with what it found."""
        raise ValueError("\0 and \ud800")

    def raw(workspace: Workspace) -> dict:
        """Says what it found."""
        return {"text": "\0"}

    for function in (broken, raw):
        monkeypatch.setitem(TOOLS, function.__name__, Tool.of(function, "workspace", "read"))
    assert (await device.run("broken")).error == {"code": "tool_failed", "message": "ValueError: \ufffd and \\ud800"}
    assert (await device.run("raw", id="c2")).error["code"] == "not_json"


def test_a_definition_that_no_frame_takes_does_not_keep_the_others_from_being_offered():
    broken = Offer("broken", "half a pair: \ud800", {})
    large = [Offer(f"large-{number}", "a" * 300_000, {}) for number in range(3)]
    assert [offer.name for offer in filter_fitting_offers([broken, *large])] == ["large-0", "large-1"]


async def test_a_suggestions_text_does_not_move_the_cursor(device):
    assert (await device.run("create_task", title="Pay\x1b[2J\rme", description="one\n0f3c  task\x1b[2J")).ok
    lines = review.list_suggestion_lines(device.store)
    assert "  title: Pay\ufffd[2J" in lines and not any("\x1b" in line for line in lines)
    assert [line for line in lines if line and not line.startswith("  ")] == lines[:1], "text makes no line of its own"


def test_the_seconds_of_the_frame_count_not_this_machines_clock():
    assert seconds_left(ToolCall("c", "t", {}, {}, "1999-01-01T00:00:00Z", 12.0)) == 12.0
    assert seconds_left(ToolCall("c", "t", {}, {}, "1999-01-01T00:00:00Z")) == 0.0
    assert seconds_left(ToolCall("c", "t", {}, {}, "nonsense")) == 30.0


# -- approval at the device


async def test_a_denied_tool_does_not_run(tmp_path):
    device = Device(tmp_path, Config(approvals={"create_task": "deny"}))
    assert (await device.run("create_task", title="a")).error["code"] == "denied"
    assert device.store.all("task", limit=10) == []


@pytest.mark.parametrize(("answer", "ok"), [("y\n", True), ("n\n", False), ("\n", False)])
async def test_the_person_at_the_device_is_asked(tmp_path, monkeypatch, answer, ok):
    asked = []

    async def read_line(question: str) -> str:
        asked.append(question)
        return answer

    monkeypatch.setattr(approvals, "can_ask", lambda: True)
    monkeypatch.setattr(approvals, "read_line", read_line)
    device = Device(tmp_path, Config(approvals={"create_task": "ask"}))
    result = await device.run("create_task", title="Buy \x1b[2J milk")
    assert result.ok is ok
    assert "create_task" in asked[0]
    assert "\x1b" not in asked[0], "a model cannot write to the person's terminal"


async def test_a_question_dies_with_the_calls_deadline(tmp_path, monkeypatch):
    async def nobody(question: str) -> str:
        await asyncio.sleep(3600)
        return "y"

    monkeypatch.setattr(approvals, "can_ask", lambda: True)
    monkeypatch.setattr(approvals, "read_line", nobody)
    device = Device(tmp_path, Config(default_approval="ask"))
    result = await device.run("list_tasks", timeout_s=0.3)
    assert result.error["code"] == "denied"
    assert "in time" in result.error["message"]


@pytest.fixture
def terminal(monkeypatch):
    """Where the person types; what the client reads as its standard input."""
    try:
        person, shown = os.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo-terminals: {error}")
    with os.fdopen(shown) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield person
    os.close(person)


async def test_a_late_yes_is_no_answer_to_the_next_question(terminal):
    os.write(terminal, b"y\n")
    asking = asyncio.create_task(approvals.read_line("Delete it? "))
    await asyncio.sleep(0)
    os.write(terminal, b"n\ny\n")
    assert await asking == "n"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(approvals.read_line("And that? "), 0.05)


def test_a_question_says_what_it_does_not_show():
    question = approvals.build_approval_question(ToolCall("c", "create_note", {"content": "a" * 1000}))
    assert "more characters" in question


# -- a disk that is full


async def test_a_call_that_cannot_be_recorded_is_answered_and_not_made(device):
    device.store.db.execute("VACUUM")
    pages = device.store.db.execute("PRAGMA page_count").fetchone()[0]
    device.store.db.execute(f"PRAGMA max_page_count = {pages}")
    codes = []
    for number in range(60):  # until the pages that there are have no room
        result = await device.run("create_note", id=f"c{number}", title="A note", content="text" * 300)
        codes.append("ok" if result.ok else result.error["code"])
    assert codes[-1] == "tool_failed"
    assert "full" in device.sent[-1].error["message"]

    device.store.db.execute("PRAGMA max_page_count = 1000000")
    assert (await device.run("create_note", id="later", title="A note", content="text")).ok
    assert len(device.store.all("note", limit=100)) == codes.count("ok") + 1


async def test_a_call_that_was_made_is_answered_even_if_it_cannot_be_recorded(device, monkeypatch):
    def full(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(device.journal, "finish", full)
    assert (await device.run("list_directory")).ok


async def test_records_that_cannot_be_written_at_the_end_of_their_call_are_reported_as_that(device, monkeypatch):
    def full(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(device.journal, "finish", full)
    result = await device.run("create_note", title="A note", content="text")
    assert result.error["code"] == "tool_failed"
    assert "nothing was changed: database or disk is full" in result.error["message"]
    assert device.store.all("note", limit=10) == []


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path):
    """As SQLite behaves where a foreign key is checked at the end; a full disk may be noticed there, too."""
    store = Store(tmp_path / "device.sqlite3")
    store.db.execute("PRAGMA foreign_keys = ON")
    store.db.execute("CREATE TABLE below (id TEXT REFERENCES meta (name) DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(sqlite3.IntegrityError), store.transaction() as db:
        db.execute("INSERT INTO below VALUES ('nothing')")
    with store.transaction() as db:
        assert db.execute("SELECT count(*) FROM below").fetchone()[0] == 0


# -- what the person writes and keeps


def test_a_wrong_configuration_is_one_sentence(tmp_path):
    home = Home(tmp_path / "home")
    for text in ("[roots", "roots = 7", '[approvals]\ncreate_task = "perhaps"'):
        (home.path / "config.toml").write_text(text)
        with pytest.raises(Fatal, match="config.toml"):
            home.config()


def test_the_credential_is_for_its_person_alone(tmp_path):
    from devices.client.home import Identity

    home = Home(tmp_path / "home")
    home.keep_identity(Identity("http://127.0.0.1:1", "d", "secret", "alice", "laptop"))
    assert (home.path / "device.json").stat().st_mode & 0o777 == 0o600
    assert home.identity().credential == "secret"


@pytest.mark.parametrize(
    "server", ["http://muster.example.org", "http://10.0.0.1", "ftp://x", "", "http://127.0.0.1.evil.org"]
)
def test_only_an_encrypted_or_local_server_gets_a_credential(server):
    with pytest.raises(Fatal):
        pairing.check_server_address(server)


@pytest.mark.parametrize("server", ["https://muster.example.org/x", "http://localhost:8000", "http://[::1]:80"])
def test_these_servers_do(server):
    assert pairing.check_server_address(server) == server


@pytest.mark.parametrize("page", ["/", "/devices", "/devices/", "/devices/?code=1"])
def test_a_path_of_the_site_is_kept_and_that_of_the_page_is_not(page):
    for site in ("https://example.org", "https://example.org/muster"):
        assert pairing.check_server_address(site + page) == site


async def test_a_mounted_mcp_server_offers_its_tools_and_is_called(tmp_path):
    pytest.importorskip("mcp")
    slow_server = Path(__file__).with_name("slow_server.py")
    server = McpServer("slow", sys.executable, [str(slow_server), str(tmp_path / "marks"), "1"])
    device = Device(tmp_path, Config(mcp_servers=(server,), offered_approval="allow"))
    await device.bridge.start()
    try:
        offers = device.bridge.offers()
        assert [offer.name for offer in offers] == ["slow-leave_mark"]
        assert offers[0].hash == offers[0].true_hash()
        result = await device.run("slow-leave_mark", text="here")
        assert result.ok, result
        assert (tmp_path / "marks").read_text() == "here\n"
        refusal = await device.run("slow-leave_mark", id="c2", timeout_s=0.2, text="again")
        assert refusal.error["code"] == "deadline"
    finally:
        async with asyncio.timeout(60):
            await device.bridge.stop()  # while the tool is still at work: its answer comes when nobody reads any more
