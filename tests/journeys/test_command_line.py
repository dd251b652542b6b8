"""The program `muster` against a running server, as a person and as a script use it."""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster_client import AsyncMuster, ConflictError, Muster
from tests.live import ROOT

pytestmark = pytest.mark.live
SOURCE = '''def parcel_cost(weight_kg: float) -> float:
    """What a parcel costs to ship."""
    print("weighed")
    return 4.5 + 1.2 * weight_kg
'''


@pytest.fixture(scope="module")
def key(live):
    """A key of the administrator that may also decide."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BROKER_URL")}
    command = [sys.executable, "manage.py", "create_key", "admin", "--scope", "*", "--scope", "approvals:decide"]
    environment = {**kept, **live.environment, "MUSTER_DATA_DIR": str(live.data_dir)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def environment(live, key):
    """Without the server's settings: the program knows an address and a key."""
    path = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**path, "MUSTER_URL": live.url, "MUSTER_API_KEY": key, "PYTHONPATH": str(ROOT / "client"), "TERM": "xterm"}


@pytest.fixture(scope="module")
def muster(environment):
    def run(*words, stdin="", code=0, cwd="/"):
        command = [sys.executable, "-m", "muster_client", *words]
        done = subprocess.run(
            command, input=stdin, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def parcels(muster, live, tmp_path_factory):
    """A function from a file, and two agents: one that calls it, one that asks before."""
    file = tmp_path_factory.mktemp("functions") / "parcels.py"
    file.write_text(SOURCE)
    assert "version 1" in muster("functions", "publish", str(file)).stderr
    for name, mode in (("cli-parcels", "allow"), ("cli-careful", "ask")):
        grants = [{"tool": "parcel_cost", "mode": mode}]
        body = {"name": name, "provider": "offline", "system_prompt": "You ship.", "grants": grants}
        assert live.http.post("/api/v1/agents/", json=body).status_code == 201
        assert "version 1" in muster("agents", "publish", name).stderr
    return file


def test_a_file_becomes_a_function_that_an_agent_calls(muster, parcels):
    tried = muster("functions", "try", str(parcels), "weight_kg=3")
    assert tried.stdout == "8.1\n" and tried.stderr == "weighed\n"
    assert muster("functions", "run", "parcel_cost", "weight_kg=10").stdout == "16.5\n"

    said = muster("chat", "cli-parcels", "parcel cost for weight_kg 3")
    assert "8.1" in said.stdout and "parcel_cost" in said.stderr
    assert "8.1" in muster("chat", "cli-parcels", stdin="parcel cost for weight_kg 3\n").stdout

    [run] = json.loads(muster("runs", "list", "--agent", "cli-parcels", "-n", "1", "--json").stdout)
    assert run["status"] == "succeeded"
    assert "parcel_cost" in muster("runs", "show", run["id"]).stdout
    events = [json.loads(line) for line in muster("runs", "watch", run["id"], "--json").stdout.splitlines()]
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1)) and events[-1]["type"] == "run.finished"
    again = muster("runs", "retry", run["id"]).stdout.strip()
    assert again != run["id"] and muster("runs", "wait", again).stdout == "succeeded\n"


def test_a_script_finds_the_question_and_approves_it_with_other_arguments(muster, parcels):
    waiting = muster("chat", "cli-careful", "parcel cost for weight_kg 3", code=5)
    assert waiting.stdout == "" and "waits for a person" in waiting.stderr
    open_one = json.loads(muster("approvals", "--json").stdout)[0]
    assert open_one["tool"] == "parcel_cost" and open_one["arguments"] == {"weight_kg": 3.0}

    muster("approvals", "approve", open_one["id"], "--arguments", '{"weight_kg": 10}', "--note", "heavier")

    assert muster("runs", "wait", open_one["run"]).stdout == "succeeded\n"
    assert "16.5" in muster("runs", "watch", open_one["run"]).stdout
    assert muster("approvals", "deny", open_one["id"], code=1).stderr.startswith("muster: ")


def test_a_person_approves_inside_the_chat(environment, parcels):
    seen = at_a_terminal(environment, ["chat", "cli-careful", "parcel cost for weight_kg 3"], {"Approve?": "y\r"})
    assert "8.1" in seen


def test_a_person_at_a_terminal_has_a_conversation(environment, parcels):
    answers = {"Talking to": "parcel cost for weight_kg 3\r", "8.1": "parcel cost for weight_kg 10\r", "16.5": "\x04"}
    assert "To continue: muster chat cli-parcels --session" in at_a_terminal(
        environment, ["chat", "cli-parcels"], answers
    )


def test_a_cancelled_run_is_seen_as_such(muster, parcels):
    muster("chat", "cli-careful", "parcel cost for weight_kg 5", code=5)
    run = json.loads(muster("runs", "list", "--live", "--agent", "cli-careful", "--json").stdout)[0]["id"]
    muster("runs", "cancel", run, "--reason", "no longer needed")
    assert muster("runs", "wait", run, code=3).stdout == "cancelled\n"
    assert muster("approvals", "--run", run).stdout == ""


def test_definitions_are_planned_applied_and_exported(muster, tmp_path):
    (tmp_path / "a").mkdir()
    agent = "kind: agent\nname: cli-doubler\nprovider: offline\nsystem_prompt: You double.\ngrants: [cli_double]\n"
    function = "kind: function\nname: cli_double\nsource: |\n  def cli_double(n: int) -> int:\n      return n * 2\n"
    (tmp_path / "a" / "agent.yaml").write_text(agent)
    (tmp_path / "function.yml").write_text(function)

    assert muster("apply", str(tmp_path), "--plan").stdout.split("\n")[0] == "create   function cli_double"
    assert muster("apply", str(tmp_path)).stderr == "2 written\n"
    assert muster("apply", str(tmp_path)).stderr == "0 written\n"
    exported = muster("export", "--kind", "agent").stdout
    assert "name: cli-doubler" in exported and "kind: function" not in exported
    changed = exported.replace("You double.", "You double numbers.")
    assert "change   agent cli-doubler (system_prompt)" in muster("apply", "-", stdin=changed).stdout
    refused = muster("apply", "-", stdin="kind: agent\nname: x\ninstructions: y\n", code=1).stderr
    assert "unknown_field" in refused and "  instructions: " in refused


def test_names_that_do_not_exist_are_said_so(muster):
    assert "(not_found)" in muster("chat", "nobody", "Hi", code=1).stderr
    assert "(not_found)" in muster("runs", "show", "00000000-0000-0000-0000-000000000000", code=1).stderr


def test_the_python_client_does_the_same(live, key, parcels):
    with Muster(live.url, key) as muster:
        message = muster.agent("cli-parcels").message("parcel cost for weight_kg 3", metadata={"ticket": 17})
        answer = message.send()
        assert "8.1" in (answer.text or "") and answer.run.status == "succeeded"
        assert message.send().run.id == answer.run.id  # the same idempotency key
        other = muster.agent("cli-parcels").message("something else", idempotency_key=message.idempotency_key)
        with pytest.raises(ConflictError):
            other.send()

        with muster.agent("cli-careful").message("parcel cost for weight_kg 3").stream() as stream:
            for event in stream:
                if event.type == "approval.requested":
                    muster.approvals.get(event.data["id"]).deny(note="not today")
        assert stream.status is not None and stream.run
        calls = list(muster.runs.get(stream.run).tool_calls())
        assert [(one["name"], one.get("outcome")) for one in calls] == [("parcel_cost", "denied")]
        assert muster.runs.list(agent="cli-parcels", limit=1).take(2)[1].id  # a second page


def test_the_asynchronous_client_streams(live, key, parcels):
    """In a thread of its own: a browser that an earlier test opened keeps a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, streamed(live, key)).result(timeout=120)


async def streamed(live, key):
    async with AsyncMuster(live.url, key) as muster:
        talk = muster.agent("cli-parcels").conversation()
        async with talk.message("parcel cost for weight_kg 3").stream() as stream:
            text = "".join([piece async for piece in stream.texts()])
        assert "8.1" in text and stream.reply == text
        answer = await talk.message("parcel cost for weight_kg 10").send()
        assert answer.session == stream.session
        run = await muster.runs.get(answer.run.id)
        assert (await run.wait(60)).status == (await run.wait()).status == "succeeded"


def at_a_terminal(environment, words, answers, within=90):
    """Run the program in a terminal; when a text appears, type what belongs to it. What was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster_client", *words]
    program = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, cwd="/")
    os.close(theirs)
    seen, left, until = "", dict(answers), time.monotonic() + within
    try:
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen += os.read(ours, 4096).decode(errors="replace")
                except OSError:  # the program has ended
                    break
            for text in [text for text in list(left)[:1] if text in seen]:
                os.write(ours, left.pop(text).encode())
        assert program.wait(60) == 0, seen
        assert not left, f"never shown: {left}\n{seen}"
        return seen
    finally:
        program.kill()
        program.wait()
        os.close(ours)
