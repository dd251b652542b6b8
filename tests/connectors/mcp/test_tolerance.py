"""What servers in use do beside the letter of the protocol, and official SDKs let pass."""

import shlex
import sys
from types import SimpleNamespace

import pytest

from agents.models import Tool
from agents.tools import ToolFailed
from connectors.models import Connection
from connectors.toolsets.mcp import fetch_server_tools
from connectors.toolsets.mcp_results import build_mcp_result
from tests.connectors.fake_mcp import ECHO
from tests.connectors.loopback import Answer
from tests.connectors.mcp.calls import call, forget_list

TEXT = [{"type": "text", "text": '{"a": 1}'}]
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("answer", "output_schema", "value"),
    [
        ({"content": TEXT, "structuredContent": None}, None, '{"a": 1}'),
        ({"content": TEXT, "structuredContent": None}, OBJECT, {"a": 1}),
        ({"content": TEXT}, OBJECT, {"a": 1}),
        ({"content": [], "structuredContent": {"a": 1}}, None, {"a": 1}),
        ({"content": None, "structuredContent": {"a": 1}}, OBJECT, {"a": 1}),
        ({"structuredContent": 0}, None, 0),
    ],
)
def test_null_is_no_structured_content(answer, output_schema, value):
    result = build_mcp_result(answer, SimpleNamespace(output_schema=output_schema))
    assert result.ok and result.value == value


def test_an_error_that_is_structured_alone_is_told():
    result = build_mcp_result(
        {"isError": True, "content": [], "structuredContent": {"reason": "no"}}, SimpleNamespace()
    )
    assert result.error["message"] == '{"reason": "no"}'


@pytest.mark.django_db
@pytest.mark.parametrize(
    "answer",
    [
        Answer(200),
        Answer(204),
        Answer(200, b""),
        Answer(200, b"null"),
        Answer(200, b"accepted", {"Content-Type": "text/plain"}),
        Answer(200, {"jsonrpc": "2.0", "id": None}),
        Answer(202, {"status": "accepted"}),
        Answer(200, b": nothing\n\n", {"Content-Type": "text/event-stream"}),
    ],
    ids=["200", "204", "empty", "null", "text", "id null", "202 with a body", "stream"],
)
def test_any_success_is_an_answer_to_a_notification(alice, fake, answer):
    message = fake.message
    fake.routes[0] = (*fake.routes[0][:2], lambda asked: message(asked) if "id" in asked.json else answer)
    row = Connection.objects.create(owner=alice, name="fake", provider="mcp", base_url=fake.address)
    assert fetch_server_tools(row, alice.pk).new == ["echo"]
    assert call(alice, text="hello").value == "hello"


@pytest.mark.django_db
def test_of_two_tools_with_one_name_the_first_is_used(alice, server, fake):
    other = {**ECHO, "description": "Another one of this name."}
    fake.tools = [dict(ECHO), other]
    assert [one["reason"] for one in fetch_server_tools(server, alice.pk).refused] == ["Two tools have the same name."]
    forget_list()
    assert call(alice, text="hello").value == "hello"

    fake.tools = [other, dict(ECHO)]
    forget_list()
    with pytest.raises(ToolFailed) as failure:
        call(alice, text="hello")
    assert failure.value.code == "definition_changed", "the first has changed"


@pytest.mark.django_db
def test_of_two_tools_with_one_name_the_usable_one_is_used(alice, server, fake):
    fake.tools = [{**ECHO, "inputSchema": {"type": "object", "$ref": "https://other.example"}}, dict(ECHO)]
    fetch_server_tools(server, alice.pk)
    forget_list()
    assert call(alice, text="hello").value == "hello"


@pytest.mark.django_db
@pytest.mark.parametrize("schema", [{}, {"properties": {"text": {"type": "string"}}}, None])
def test_a_schema_without_a_type_describes_an_object(alice, server, fake, schema):
    fake.tools.append({**ECHO, "name": "other", "inputSchema": schema})
    assert fetch_server_tools(server, alice.pk).new == ["other"]
    assert Tool.objects.get(name="fake_other").input_schema["type"] == "object"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "reply",
    [
        lambda message, result: {**result, "error": None},
        lambda message, result: {**result, "id": str(message["id"])},
        lambda message, result: [result],
        lambda message, result: [{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, result],
    ],
    ids=["error null", "id as text", "array", "array with a notification"],
)
def test_answers_in_an_odd_form_are_read(alice, server, fake, reply):
    fake.reply = lambda message: reply(message, fake.result(message, {"content": [{"type": "text", "text": "done"}]}))
    assert call(alice, text="hello").value == "done"


@pytest.mark.django_db
def test_an_error_without_an_id_is_told(alice, server, fake):
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "too strange"}}
    fake.reply = lambda message: error
    with pytest.raises(ToolFailed, match="too strange"):
        call(alice, text="hello")


@pytest.mark.django_db
def test_events_that_are_no_messages_are_skipped(alice, server, fake):
    def stream(message):
        text = f'event: ping\ndata: ping\n\ndata: [1]\n\ndata: {{"jsonrpc": "2.0", "id": {message["id"]}, '
        text += '"result": {"content": [{"type": "text", "text": "done"}]}}\n\n'
        return Answer(200, text.encode(), {"Content-Type": "Text/Event-Stream; charset=utf-8"})

    fake.reply = stream
    assert call(alice, text="hello").value == "done"


PROGRAM = """
import json, sys
print("Starting the server on stdio", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    print("DEBUG", message.get("method"), flush=True)
    print('"a JSON text"', flush=True)
    print("[1, 2]", flush=True)
    print("", flush=True)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x"}}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "done"}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.django_db
def test_lines_of_a_program_that_are_no_messages_are_skipped(alice, settings, closed_sessions, tmp_path):
    (tmp_path / "server.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "server.py")]
    settings.MCP_COMMANDS = [shlex.join(command)]
    row = Connection.objects.create(owner=alice, name="fake", provider="mcp", config={"command": command})
    assert fetch_server_tools(row, alice.pk).new == ["echo"]
    assert call(alice, seconds=60).value == "done"
