"""MCP servers that forget sessions, die, never answer, or answer with something else."""

import json
from time import monotonic

import pytest

from agents.tools import OutcomeUnknown, ToolFailed
from connectors.models import RemoteTool
from connectors.toolsets import sessions
from connectors.toolsets.mcp import fetch_server_tools
from tests.connectors.fake_mcp import ECHO, ModernMcp, stream
from tests.connectors.loopback import Answer, Fault
from tests.connectors.mcp.calls import API, call


def test_a_session_is_opened_once_and_anew_when_the_server_forgot_it(alice, server, fake):
    for _ in range(3):
        call(alice, text="hello")
    assert fake.sessions == 1
    fake.open.clear()
    assert call(alice, text="hello").ok
    assert fake.sessions == 2


def test_reading_the_tools_survives_a_forgotten_session_too(alice, server, fake):
    fake.open.clear()
    assert fetch_server_tools(server, alice.pk).gone == [] and fake.sessions == 2


def test_a_session_lost_in_the_middle_of_a_call_does_not_repeat_it(alice, server, fake):
    def pinged(message):
        fake.open.clear()
        return stream({"jsonrpc": "2.0", "id": "p", "method": "ping"}, fake.result(message, {"content": []}))

    fake.reply = pinged
    with pytest.raises(OutcomeUnknown):
        call(alice, text="hello")
    assert fake.called == 1


def test_a_call_that_fails_does_not_end_another_one_in_the_same_session(alice, server, fake):
    """The first waits at the server while the second gets nonsense, which drops the session."""
    kept, key = next(iter(sessions._kept.values())), next(iter(sessions._kept))
    with sessions.open_kept_session(server, alice.pk, monotonic() + 60) as (used, _):
        assert used is kept
        fake.reply = lambda message: Answer(200, b"<html>")
        with pytest.raises(OutcomeUnknown):
            call(alice, text="hello")
        assert key not in sessions._kept
        fake.reply = None
        assert used.session.call_tool("echo", {"text": "still"}, monotonic() + 60)["content"][0]["text"] == "still"
    assert [asked.method for asked in fake.asked].count("DELETE") == 1


def test_a_server_that_was_updated_to_the_newest_version_is_asked_again(alice, server, fake):
    sessions.drop_all(server)
    with ModernMcp() as newer:
        fake.routes[:] = newer.routes
        assert call(alice, text="hello").value == "done"
    assert [asked.json["method"] for asked in fake.asked[-4:]] == [
        "initialize", "server/discover", "tools/list", "tools/call",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"structuredContent": {"n": 1}}, ""),
        ({"content": [{"type": "text", "text": '{"n": 2}'}]}, ""),
        ({"structuredContent": {"n": "1"}}, "output_invalid"),
        ({"content": [{"type": "text", "text": "one"}]}, "output_invalid"),
    ],
)
def test_a_result_must_match_the_output_schema_of_its_tool(alice, server, fake, answer, code):
    rule = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fake.tools = [{**ECHO, "name": "count", "outputSchema": rule}]
    fetch_server_tools(server, alice.pk)
    fake.reply = lambda message: fake.result(message, answer)
    result = call(alice, "fake_count", text="hello")
    assert (result.error or {}).get("code", "") == code and result.untrusted


def test_every_kind_of_content_is_shown_or_named(alice, server, fake):
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "demo://1", "name": "one", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "demo://2", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "demo://3", "blob": "QUJDREVG", "mimeType": "application/zip"}},
        "nonsense",
    ]
    fake.reply = lambda message: fake.result(message, {"content": parts})
    assert call(alice, text="hello").value.split("\n") == [
        "Look:",
        "[left out: image/png, 3 bytes]",
        "[resource: one · demo://1]",
        "inside",
        "[left out: application/zip, 6 bytes]",
    ]


def test_log_messages_are_printed_and_bounded(alice, server, fake):
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warning", "data": "x" * 900}}
    fake.reply = lambda message: stream(*[log] * 300, fake.result(message, {"content": []}))
    printed = call(alice, text="hello").printed
    assert printed.startswith("warning: xxx") and len(printed) < 200 * 600


def test_a_tool_whose_header_marks_break_the_rules_is_refused(alice, server, fake):
    marked = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "a\r\nb"}}}
    fake.tools = [dict(ECHO), {**ECHO, "name": "marked", "inputSchema": marked}]
    assert [one["name"] for one in fetch_server_tools(server, alice.pk).refused] == ["marked"]


def test_a_server_that_never_answers_costs_its_own_time_and_no_more(alice, server, fake):
    fake.reply = lambda message: fake.stuck.wait(300) and None
    started = monotonic()
    with pytest.raises(OutcomeUnknown):
        call(alice, text="hello", seconds=3)
    assert monotonic() - started < 60  # the server would have taken minutes
    fake.stuck.set()
    server.refresh_from_db()
    assert server.health == "broken"
    fake.reply = None
    assert call(alice, text="hello").ok
    server.refresh_from_db()
    assert server.health == "ok"


def test_a_reading_tool_that_did_not_answer_failed_plainly(alice, alice_api, server, fake):
    alice_api.post(f"{API}/{server.pk}/tools/echo/approve", {"sha256": RemoteTool.objects.get().offered_hash})
    fake.reply = lambda message: fake.stuck.wait(300) and None
    with pytest.raises(ToolFailed) as failure:
        call(alice, text="hello", seconds=3)
    fake.stuck.set()
    assert failure.value.code == "timeout"


def test_five_megabytes_are_refused(alice, server, fake):
    fake.reply = lambda message: fake.result(message, {"content": [{"type": "text", "text": "x" * 5_000_000}]})
    with pytest.raises((ToolFailed, OutcomeUnknown), match="larger"):
        call(alice, text="hello")


@pytest.mark.parametrize("body", [b"<html>", b"[1, 2", b"null", b'{"jsonrpc": "2.0", "id": 99, "result": {}}', b""])
def test_an_answer_that_is_none_is_told_as_such(alice, server, fake, body):
    fake.reply = lambda message: Answer(200, body)
    with pytest.raises((ToolFailed, OutcomeUnknown)):
        call(alice, text="hello")


def test_a_server_that_dies_in_the_middle_leaves_the_outcome_unknown(alice, server, fake):
    call(alice, text="hello")
    fake.faults += [Fault("/mcp", cut=True)]
    with pytest.raises(OutcomeUnknown):
        call(alice, text="hello")
    assert call(alice, text="hello").ok


def test_events_in_between_are_answered_and_a_changed_list_is_seen(alice, server, fake):
    def stream(message):
        said = [
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {}},
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {"jsonrpc": "2.0", "id": "p1", "method": "ping"},
            {"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}},
            fake.result(message, {"content": [{"type": "text", "text": "done"}]}),
        ]
        text = "".join(f"event: message\ndata: {json.dumps(one)}\n\n" for one in said)
        return Answer(200, text.encode(), {"Content-Type": "text/event-stream"})

    fake.reply = stream
    assert call(alice, text="hello").value == "done"
    answers = [asked.json for asked in fake.asked if asked.method == "POST" and "method" not in asked.json]
    assert answers[0]["result"] == {} and answers[1]["error"]["code"] == -32601
    fake.tools = [{**ECHO, "description": "Other."}]
    with pytest.raises(ToolFailed) as failure:
        call(alice, text="hello")
    assert failure.value.code == "definition_changed"


def test_a_tool_with_a_slash_in_its_name_can_be_approved(alice_api, server, fake):
    fake.tools.append({**ECHO, "name": "files/list"})
    assert alice_api.post(f"{API}/{server.pk}/tools/refresh").json()["new"] == ["files/list"]
    shown = next(one for one in alice_api.get(f"{API}/{server.pk}/tools/").json()["results"] if "/" in one["name"])
    answer = alice_api.post(f"{API}/{server.pk}/tools/files/list/approve", {"sha256": shown["sha256"]})
    assert answer.status_code == 200 and answer.json()["is_approved"]


def test_calls_are_counted_per_tool(alice, alice_api, server, fake):
    call(alice, text="hello")
    fake.reply = lambda message: {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -1, "message": "no"}}
    with pytest.raises(ToolFailed, match="no"):
        call(alice, text="hello")
    shown = alice_api.get(f"{API}/{server.pk}/tools/").json()["results"][0]
    assert (shown["calls"], shown["failures"]) == (2, 1) and shown["mean_ms"] > 0 and "no" in shown["last_error"]
