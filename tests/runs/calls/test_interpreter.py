"""The built-in tool run_python: files of the conversation in, files of the run out."""

import threading

import pytest
from django.db.models import F

from agents.models import StoredFile, Tool
from functions import interpreter, sandbox
from runs.calls import approvals, artifacts
from runs.models import Artifact, Run, Session
from tests.fakes import calls, says
from tests.files import stored
from tests.live import wait_for

pytestmark = pytest.mark.django_db
BUILTIN = {
    "kind": "builtin",
    "source": {"builtin": "run_python"},
    "effect": "read",
    "input_schema": {},
    "deadline_s": 90.0,
}
CODE = """
import csv
rows = list(csv.DictReader(open('/mnt/inputs/sales.csv')))
open('/mnt/outputs/report.txt', 'w').write('two rows')
total = sum(int(row['sales']) for row in rows)
print('read')
total
"""


@pytest.fixture
def send(worker, alice, make_agent, make_tool, stub_provider, stub):
    """A message with these files to an agent whose model runs this code, one call after another."""
    tool = make_tool("run_python", **BUILTIN)
    agent = make_agent(tools=[tool], provider=stub_provider)

    def send(*codes, files=(), by=alice, **more):
        stub.script(*(calls(("run_python", {"code": code})) for code in codes), says("Done."))
        parts = [{"type": "text", "text": "Go"}, *({"type": "file", "file": str(file.pk)} for file in files)]
        return worker.send_message(by, None, agent, parts=parts, **more)

    send.agent = agent
    return send


def results(run):
    return [call.result or call.error for call in run.tool_calls.order_by("created_at")]


def test_an_agent_reads_a_sent_file_and_writes_one(send, alice, alice_api):
    run = send(CODE, "total * 2", files=[stored(alice, "sales.csv", b"month,sales\n1,20\n2,40\n")])
    first, second = results(run)
    assert (first["value"], first["inputs"], first["is_new"]) == ("60", ["sales.csv"], True)
    assert (second["value"], second["files"], second["is_new"]) == ("120", [], False)
    assert run.tool_calls.order_by("created_at").first().printed == "read\n"
    (made,) = alice_api.get(f"/api/v1/runs/{run.pk}/artifacts/").json()["results"]
    assert (made["name"], made["size"]) == ("report.txt", 8)
    assert alice_api.get(f"/api/v1/files/{made['file']}/content").content == b"two rows"


def test_a_later_message_of_the_session_sees_the_files_of_the_earlier_one(send, alice):
    first = send("1", files=[stored(alice, "a.csv", b"1")])
    run = send("open('/mnt/inputs/a.csv').read()", session=first.session)
    assert results(run)[0]["value"] == "'1'"


def test_the_files_of_another_conversation_and_of_another_person_are_not_there(send, alice, bob):
    stored(bob, "bobs.csv", b"1")
    send("1", files=[stored(alice, "other.csv", b"1")])
    assert results(send("1"))[0]["inputs"] == []


def test_two_files_of_one_name_have_two_names_and_too_much_is_left_out(monkeypatch):
    monkeypatch.setattr(interpreter, "INPUT_BYTES", 25)
    files = [{"file": str(n), "name": "a.csv", "size": 10} for n in range(3)]
    assert interpreter.choose_input_files(files) == [{"file": "0", "name": "a.csv"}, {"file": "1", "name": "a-2.csv"}]
    assert interpreter.find_free_file_name("..", {}) not in (".", "..")


def test_an_error_and_a_limit_are_told_with_what_is_lost(send, monkeypatch):
    from functions import sandbox

    monkeypatch.setattr(interpreter, "LIMITS", sandbox.Limits(timeout_s=3, kept_s=600))
    broken, endless, after = results(send("a = 1\n1 / 0", "while True: pass", "'a' in globals()"))
    assert (broken["code"], broken["type"], broken["line"]) == ("function_error", "ZeroDivisionError", 2)
    assert endless["code"] == "timeout" and interpreter.LOST in endless["message"]
    assert (after["value"], after["is_new"]) == ("False", True)


@pytest.fixture
def nobody_waits():
    """Runs of other tests that waited in this process are gone with their database."""
    for run in list(interpreter.waiting):
        interpreter.end_interpreter(run)


@pytest.fixture
def paused(nobody_waits, send, make_tool, make_agent, stub_provider, stub, worker, alice, functions):
    """A run that has a variable and waits for Alice's answer; `go_on` approves and uses the variable."""
    agent = make_agent("careful", tools=[Tool.objects.get(name="run_python"), make_tool()], provider=stub_provider)
    agent.grants.filter(tool__name="add").update(mode="ask")
    stub.script(
        calls(("run_python", {"code": "open('a.txt', 'w').write('1'); x = 41"})), calls(("add", {"a": 1, "b": 2})),
        calls(("run_python", {"code": "x + int(open('a.txt').read()) if 'x' in globals() else 0"})),
        says("Done."),
    )  # fmt: skip
    run = worker.send_message(alice, "Go", agent)
    assert run.status == "waiting"

    def go_on():
        with worker.capture(execute=True):
            approvals.decide_approval(run.approvals.get(), "approve", by=alice)
        worker.work()
        return run.tool_calls.order_by("created_at").last().result

    go_on.run = run
    return go_on


def test_variables_and_files_last_while_the_run_waits(paused):
    after = paused()
    assert (after["value"], after["is_new"]) == ("42", False)
    assert not interpreter.waiting, "nothing is kept of a run that has ended"


def test_a_process_that_another_worker_has_overtaken_is_not_used_again(paused):
    Run.objects.update(attempt=F("attempt") + 1)
    after = paused()
    assert (after["value"], after["is_new"]) == ("0", True)


def test_only_a_run_with_a_process_is_kept(nobody_waits):
    threads = set(threading.enumerate())
    for number in range(20):
        interpreter.keep_interpreter(f"without {number}", 1)
    assert not interpreter.waiting and set(threading.enumerate()) <= threads


def test_few_processes_wait_and_not_for_long(paused, monkeypatch):
    run = str(paused.run.pk)
    assert list(interpreter.waiting) == [run]
    monkeypatch.setattr(sandbox, "keeps", lambda _: True)
    threads = set(threading.enumerate())
    for number in range(20):
        interpreter.keep_interpreter(f"more {number}", 1)
    wait_for(lambda: len(set(threading.enumerate()) - threads) <= interpreter.MOST_WAITING)
    for number in range(interpreter.MOST_WAITING):
        interpreter.keep_interpreter(f"other {number}", 1)
    assert run not in interpreter.waiting and len(interpreter.waiting) == interpreter.MOST_WAITING
    interpreter.end_late(f"other {number}", 2)
    assert f"other {number}" in interpreter.waiting, "a timer of another wait"
    for number in range(interpreter.MOST_WAITING):
        interpreter.end_late(f"other {number}", 1)
    assert not interpreter.waiting and paused()["is_new"] is True


def test_the_output_of_a_run_that_read_a_strangers_file_is_marked(send, alice):
    run = send("open('/mnt/outputs/a.txt', 'w').write('x')", files=[stored(alice, "a.csv", b"1", untrusted=True)])
    assert run.artifacts.get().file.untrusted and run.tool_calls.get().untrusted


def test_a_strangers_file_marks_the_call_before_the_run_is_marked(send, alice, monkeypatch):
    """A child run may write one while its parent's call of the same turn is at work."""
    file = stored(alice, "found.txt", b"x", untrusted=True)
    monkeypatch.setattr(artifacts, "reachable", lambda run: StoredFile.objects.filter(pk=file.pk))
    run = send("open('/mnt/inputs/found.txt').read()")
    assert run.tool_calls.get().untrusted
    run.refresh_from_db()
    assert run.has_untrusted


@pytest.mark.django_db(transaction=True)
def test_calls_of_one_turn_share_the_variables_one_after_another(send, stub, worker, alice):
    both = [("run_python", {"code": "import time\nn = globals().get('n', 0) + 1\ntime.sleep(0.1)\nn"})] * 2
    stub.script(calls(*both), says("Done."))
    run = worker.send_message(alice, "Go", send.agent)
    assert sorted(result["value"] for result in results(run)) == ["1", "2"]


def test_the_starter_names_the_tool(db):
    from django.core.management import call_command

    call_command("init_db", verbosity=0)
    tool = Tool.objects.get(name="run_python")
    assert (tool.kind, tool.effect, tool.source) == ("builtin", "read", {"builtin": "run_python"})
    assert Artifact.objects.count() == Session.objects.count() == 0
