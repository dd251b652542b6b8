"""The command line: what it prints, its exit codes, and what it asks."""

import io
import json
import sys

import httpx
import pytest

from muster_client import config
from muster_client.__main__ import main
from muster_client.cli import app, program
from muster_client.cli.output import clean
from muster_client.cli.runs import news
from tests.client.fakes import Cut, Server, client, error, event, finished, run, sse

OPENED = {"muster-run": "r1", "muster-session": "s1"}
CALLED = event(2, "tool.called", id="c1", name="calculate", arguments={"expression": "17 * 23"})
ASKED = event(3, "approval.requested", id="a1", tool="refund", arguments={"amount": 20})
WAITING = event(4, "run.waiting", waiting_for="approval")
APPROVAL = {"id": "a1", "run": "r1", "tool": "refund", "arguments": {"amount": 20}, "status": "open", "reason": ""}


@pytest.fixture
def muster(monkeypatch, capsys, tmp_path):
    """`muster(server, "runs", "list")` → (exit code, standard output, standard error)."""
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "credentials.json"))

    def call(server, *words, stdin=""):
        monkeypatch.setattr(app, "Muster", lambda url: client(server))
        monkeypatch.setattr(sys, "stdin", stdin if not isinstance(stdin, str) else io.StringIO(stdin))
        return program.run(words), *capsys.readouterr()

    return call


def page(*rows):
    return httpx.Response(200, json={"results": list(rows), "next": None})


def test_a_reply_goes_to_standard_output_and_tool_calls_to_standard_error(muster):
    server = Server(sse(CALLED, finished(5, "17 * 23 is 391."), **OPENED))

    code, out, err = muster(server, "chat", "helper", "What is", "17 * 23?")

    assert (code, out) == (0, "17 * 23 is 391.\n")
    assert 'calculate {"expression": "17 * 23"}' in err
    assert server.bodies()[0]["message"] == "What is 17 * 23?"


def test_a_message_is_read_from_a_pipe(muster):
    server = Server(sse(finished(1, "ok"), **OPENED))
    muster(server, "chat", "-", stdin="line one\nline two\n")
    assert server.bodies()[0]["message"] == "line one\nline two\n"
    assert server.requests[0].url.path == "/api/v1/messages"


def test_what_a_model_writes_cannot_command_the_terminal(muster):
    evil = "\x1b]0;owned\x07\x1b[2Jhidden\x9b31m \u202egnp.exe\r\nnext"
    server = Server(sse(event(2, "tool.log", message=evil), finished(5, evil), **OPENED))

    _, out, err = muster(server, "chat", "helper", "Hi")

    assert out == "]0;owned[2Jhidden31m gnp.exe\nnext\n"
    assert "\x1b" not in err and "\x9b" not in err
    assert clean("a\tb\nc") == "a\tb\nc"


def test_json_has_one_event_a_line(muster):
    server = Server(sse(CALLED, finished(5), **OPENED))
    _, out, _ = muster(server, "chat", "helper", "Hi", "--json")
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["tool.called", "run.finished"]


@pytest.mark.parametrize(("status", "code"), [("succeeded", 0), ("failed", 3), ("partial", 3), ("cancelled", 3)])
def test_the_exit_code_says_how_the_run_ended(muster, status, code):
    assert muster(Server(sse(finished(1, status=status), **OPENED)), "chat", "helper", "Hi")[0] == code


def test_without_a_person_a_run_that_needs_one_is_left_waiting(muster):
    at_work = httpx.Response(200, json=run(status="waiting", finished_at=None))
    server = Server(sse(ASKED, WAITING, finished(9), **OPENED), at_work)

    code, out, err = muster(server, "chat", "helper", "Hi")

    assert (code, out) == (5, "") and "muster approvals" in err


def test_a_wait_that_is_over_does_not_end_the_watching(muster):
    server = Server(sse(ASKED, WAITING, finished(9, "done"), **OPENED), httpx.Response(200, json=run()))
    assert muster(server, "chat", "helper", "Hi")[:2] == (0, "done\n")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ("y\n", {"decision": "approve"}),
        ("n\nToo much\n", {"decision": "deny", "note": "Too much"}),
        ("l\n", None),
    ],
)
def test_a_person_is_asked_and_decides(muster, answer, body):
    server = Server(
        sse(ASKED, finished(9), **OPENED),
        httpx.Response(200, json=APPROVAL),
        httpx.Response(200, json=APPROVAL),
    )
    code, _, err = muster(server, "chat", "helper", "Hi", stdin=Terminal(answer))

    assert code == 0 and 'refund {"amount": 20}' in err
    assert server.bodies()[1:] == [None, *([body] if body else [])]


def test_a_key_that_may_not_decide_says_so_and_watches_on(muster):
    refused = error(403, "forbidden")
    server = Server(sse(ASKED, finished(9, "done"), **OPENED), httpx.Response(200, json=APPROVAL), refused)
    code, out, err = muster(server, "chat", "helper", "Hi", stdin=Terminal("y\n"))
    assert (code, out) == (0, "done\n") and "forbidden" in err


class Terminal(io.StringIO):
    """Standard input of a person; standard error is a terminal as well."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def a_person_sees_standard_error(monkeypatch):
    monkeypatch.setattr(
        "muster_client.cli.watching.sys",
        type("Sys", (), {"stdin": property(lambda self: sys.stdin), "stderr": Terminal()})(),
    )


class Interrupted(Cut):
    def __iter__(self):
        yield self.text.encode()
        raise KeyboardInterrupt


def interrupted():
    return httpx.Response(
        200, headers={"content-type": "text/event-stream", **OPENED}, stream=Interrupted('data: {"type": "x"}\n\n')
    )


def test_ctrl_c_ends_the_watching_and_not_the_run(muster):
    server = Server(lambda _: interrupted())
    code, _, err = muster(server, "chat", "helper", "Hi")
    assert code == 130 and "muster runs cancel r1" in err
    assert len(server.requests) == 1


def test_ctrl_c_stops_the_run_if_asked_to(muster):
    server = Server(lambda _: interrupted(), httpx.Response(200, json=run()))
    code, _, err = muster(server, "chat", "helper", "Hi", "--cancel-on-interrupt")
    assert code == 130 and "cancelled" in err
    assert [request.url.path for request in server.requests][-1] == "/api/v1/runs/r1/cancel"


def test_a_list_in_a_pipe_has_a_line_for_each_row(muster):
    row = run("r1", agent="helper\tx", usage={"cost": "0.01"}, created_at="2026-01-01T10:00:00Z")
    code, out, _ = muster(Server(page(row)), "runs", "list", "--status", "failed,expired")
    assert (code, out) == (0, "r1\tsucceeded\thelper x\t2026-01-01 10:00:00\t\t0.01\n")


def test_errors_name_what_is_wrong_and_what_helps(muster):
    body = {"code": "invalid", "message": "The body is not valid.", "hint": "See details.",
            "details": [{"field": "grants.0.tool", "message": "There is no tool “x”."}]}  # fmt: skip
    code, out, err = muster(Server(httpx.Response(422, json={"error": body})), "agents", "publish", "helper")
    assert (code, out) == (1, "")
    assert err == "muster: The body is not valid. (invalid) See details.\n  grants.0.tool: There is no tool “x”.\n"


@pytest.mark.parametrize(
    ("fault", "code"), [(httpx.ConnectError("refused"), 4), (error(401), 1), (error(404), 1), (error(503), 1)]
)
def test_exit_codes_of_failures(muster, fault, code):
    assert muster(Server(fault), "whoami")[0] == code


def test_wrong_usage_is_told_from_a_refusal(muster):
    assert muster(Server(page()), "runs", "list", "--stauts", "failed")[0] == 2
    assert muster(Server(page()), "functions", "run", "add", "--arguments", "[1]")[0] == 2
    assert muster(Server(page()), "functions", "run", "add", "a")[0] == 2


def test_a_file_with_problems_is_not_tried(muster, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("import os\n")
    refusal = {"line": 1, "message": "“os” cannot be imported.", "hint": "Remove it."}
    checked = {"valid": False, "entry": "", "imports": [], "refusals": [refusal]}
    server = Server(lambda _: httpx.Response(200, json=checked))

    code, out, err = muster(server, "functions", "try", str(file))

    assert (code, out, err) == (1, "", f"{file}:1: “os” cannot be imported. Remove it.\n")
    assert {request.url.path for request in server.requests} == {"/api/v1/functions/validate"}


def test_login_tries_the_key_and_stores_it_for_its_owner_alone(monkeypatch, muster):
    from muster_client.cli import account

    server = Server(httpx.Response(200, json={"username": "ada"}))
    monkeypatch.setattr(account, "Muster", lambda url, key: client(server))
    code, _, err = muster(server, "login", "--url", "https://muster.example.org/", stdin="mk_1.secret\n")

    assert code == 0 and "You are ada" in err and "secret" not in err
    assert config.load() == config.Settings("https://muster.example.org", "mk_1.secret")
    assert config.path().stat().st_mode & 0o077 == 0
    assert muster(server, "logout")[0] == 0 and config.load() is None


def test_a_key_that_is_refused_is_not_stored(monkeypatch, muster):
    from muster_client.cli import account

    monkeypatch.setattr(account, "Muster", lambda url, key: client(Server(error(401))))
    assert muster(Server(error(401)), "login", "--url", "https://a.example.org", stdin="mk_1.x\n")[0] == 1
    assert config.load() is None


def test_a_key_is_not_sent_in_the_clear(muster):
    server = Server(httpx.Response(200, json={"username": "ada"}))
    code, _, err = muster(server, "login", "--url", "http://muster.example.org", stdin="mk_1.secret\n")
    assert code == 2 and "TLS" in err and server.requests == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(muster, shell):
    code, out, _ = muster(Server(page()), "completion", shell)
    assert code == 0 and "_MUSTER_COMPLETE" in out


def test_logs_tell_each_event_once_and_let_go_of_ended_runs():
    live = run("r1", status="running", finished_at=None)
    ended = run("r1")
    server = Server(
        page(live), page(event(1, "run.started")),
        page(live), page(event(2, "tool.called", name="add")),
        page(), httpx.Response(200, json=ended), page(finished(3)),
        page(),
    )  # fmt: skip
    seen, connected = {}, client(server)

    looks = [[one.type for _, one in news(connected, seen, {}, None)] for _ in range(4)]

    assert looks == [["run.started"], ["tool.called"], ["run.finished"], []] and seen == {}
    after = [request.url.params.get("after") for request in server.requests if request.url.path.endswith("/events")]
    assert after == [None, "1", "2"]


def test_without_its_packages_the_program_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "muster_client.cli.program", None)
    monkeypatch.setattr(sys, "argv", ["muster"])

    def missing(name, *rest):
        raise ModuleNotFoundError("No module named 'click'", name="click")

    monkeypatch.setattr("builtins.__import__", missing)
    code = main()
    monkeypatch.undo()
    assert code == 1 and "muster-client[cli]" in capsys.readouterr().err


def test_the_device_client_of_the_checkout_is_started_from_anywhere(monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert program.run(["device", "--home", str(tmp_path), "status"]) == 1
    assert "muster-device: " in capfd.readouterr().err  # its own words: this machine is not paired


def test_without_the_device_client_it_is_said_how_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("muster_client.cli.terminal.CHECKOUT", tmp_path)
    assert program.run(["device", "status"]) == 1
    assert "pip install ./devices/client" in capsys.readouterr().err


# -- records ----------------------------------------------------------------------------------------------------------

SUGGESTED = {
    "id": "t1", "kind": "task", "review": "suggested", "reason": "", "title": "Pay the bill",
    "description": "All of it,\nto the last word.", "version": 1, "updated_at": "2026-11-22T10:00:00Z",
}  # fmt: skip


def test_what_waits_is_listed_and_shown_whole(muster):
    code, out, _ = muster(server := Server(page(SUGGESTED)), "records", "list", "--waiting", "--search", "bill")
    assert code == 0 and "Pay the bill" in out
    assert dict(server.requests[0].url.params) == {"waiting": "true", "search": "bill", "limit": "100"}
    _, out, _ = muster(Server(httpx.Response(200, json=SUGGESTED)), "records", "show", "tasks", "t1")
    assert "All of it,\nto the last word." in out


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (("approve", "tasks", "t1"), "tasks/t1/approve", None),
        (("reject", "tasks", "t1", "--reason", "paid"), "tasks/t1/reject", {"reason": "paid"}),
        (("edit", "tasks", "t1", '{"title": "Pay"}'), "tasks/t1", {"title": "Pay"}),
    ],
)
def test_a_record_is_decided_and_edited(muster, words, path, body):
    server = Server(httpx.Response(200, json={**SUGGESTED, "review": "approved"}))
    code, _, err = muster(server, "records", *words)
    assert (code, err) == (0, "task t1: approved\n")
    assert server.requests[0].url.path == f"/api/v1/records/{path}"
    assert body is None or server.bodies()[0] == body
