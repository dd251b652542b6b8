"""Resources and prompts of MCP servers as tools, granted and approved like others."""

import pytest
from django.contrib.auth import get_user_model

from agents.models import Tool
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed
from connectors.models import Connection, RemoteTool
from connectors.toolsets import mcp_reading
from connectors.toolsets.mcp import McpToolset, fetch_server_tools
from tests.connectors.linked import spec_of
from tests.connectors.loopback import Answer
from tests.connectors.mcp.calls import API, call
from tests.connectors.mcp.test_asking import run_server

ALL = {"resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get"}
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(1000)


def connect(owner, address, name="fake"):
    row = Connection.objects.create(owner=owner, name=name, provider="mcp", base_url=address)
    return row, fetch_server_tools(row, owner.pk)


# -- a real server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address():
    url, running = run_server()
    with running:
        yield url


def test_a_servers_resources_and_prompts_are_listed_and_read(alice, allowed, address, closed_sessions):
    _, listing = connect(alice, address, "notes")
    assert set(listing.new) == ALL | {"ask", "look_around"}
    listed = call(alice, "notes_resources_list").value
    assert {"uri": "note://one", "name": "note", "title": "The first", "mimeType": "text/plain"} in listed["resources"]
    templates = call(alice, "notes_resources_templates_list").value["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "page://{number}"
    assert call(alice, "notes_resources_read", uri="note://one").value == "What the note says."
    assert call(alice, "notes_resources_read", uri="page://7").value == "Page 7."
    [prompt] = call(alice, "notes_prompts_list").value["prompts"]
    assert prompt["arguments"] == [{"name": "name", "required": True}, {"name": "tone", "required": False}]
    filled = call(alice, "notes_prompts_get", name="greet", arguments={"name": "Ada"})
    assert filled.untrusted and filled.value.endswith("user:\nGreet Ada in a warm tone.")


def test_a_picture_that_is_read_becomes_a_file(alice, allowed, address, closed_sessions):
    connect(alice, address, "notes")
    saved = []

    def save(name, content, declared):
        saved.append((content, declared))
        return {"file": "1", "name": name, "media_type": declared, "size": len(content)}

    tool = spec_of(Tool.objects.get(name="notes_resources_read"))
    context = ToolContext(user_id=alice.pk, save_file=save)
    result = McpToolset().call(tool, ToolCall("1", tool.name, {"uri": "picture://one"}), context)
    assert result.value == "[file one, image/png, stored as file:1]" and saved == [(PICTURE, "image/png")]


def test_what_the_server_does_not_have_is_its_refusal(alice, allowed, address, closed_sessions):
    connect(alice, address, "notes")
    with pytest.raises(ToolFailed, match="Unknown resource"):
        call(alice, "notes_resources_read", uri="note://none")
    with pytest.raises(ToolFailed, match="Unknown prompt"):
        call(alice, "notes_prompts_get", name="none")


# -- a scripted one ----------------------------------------------------------------------------------------------------


@pytest.fixture
def full(fake):
    """A fake that has one of each."""
    fake.capabilities = {"tools": {}, "resources": {}, "prompts": {}}
    pages = {
        "resources/list": {"resources": [{"uri": "a://1", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{n}", "name": "any"}]},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/read": {"contents": [{"uri": "a://1", "text": "One."}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Greet."}}]},
    }
    fake.pages = pages
    for method in pages:
        fake.methods[method] = lambda message: fake.result(message, pages[message["method"]])
    return fake


def test_only_what_a_server_has_is_offered(alice, full):
    full.pages["resources/list"] = {"resources": []}
    full.pages["prompts/list"] = {"prompts": []}
    row, listing = connect(alice, full.address)
    assert set(listing.new) == {"echo", "resources/templates/list", "resources/read"}
    full.pages["prompts/list"] = {"prompts": [{"name": "greet"}]}
    assert set(fetch_server_tools(row, alice.pk).new) == {"prompts/list", "prompts/get"}
    full.pages["prompts/list"] = {"prompts": []}
    assert set(fetch_server_tools(row, alice.pk).gone) == {"prompts/list", "prompts/get"}


def test_a_server_that_declares_none_is_not_asked(alice, full):
    full.capabilities = {"tools": {}, "resources": None, "prompts": "yes"}
    assert connect(alice, full.address)[1].new == ["echo"]
    assert not full.sent("resources/list") and not full.sent("prompts/list")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500),
        Answer(404),
        Answer(200, {"jsonrpc": "2.0", "id": 9, "result": 7}),
        Answer(401),
        Answer(200, b"<html>"),
    ],
)
def test_a_list_that_fails_takes_no_tool_away(alice, full, answer):
    full.methods["prompts/list"] = lambda message: answer
    listing = connect(alice, full.address)[1]
    assert "echo" in listing.new and "resources/read" in listing.new
    assert call(alice, text="hello").value == "hello"


def test_they_are_approved_like_others_and_their_claim_is_a_read(alice, alice_api, full):
    row, _ = connect(alice, full.address)
    assert Tool.objects.get(name="fake_resources_read").effect == "destructive"
    sha256 = RemoteTool.objects.get(remote_name="resources/read").offered_hash
    done = alice_api.post(f"{API}/{row.pk}/tools/resources/read/approve", {"sha256": sha256})
    assert done.status_code == 200 and done.json()["effect"] == "read_out"
    shown = {one["name"] for one in alice_api.get(f"{API}/{row.pk}/tools/").json()["results"]}
    assert shown == ALL | {"echo"}


def test_nobody_else_can_call_them(alice, full):
    connect(alice, full.address)
    mallory = get_user_model().objects.create_user("mallory")
    with pytest.raises(ToolFailed) as failure:
        call(mallory, "fake_resources_read", uri="a://1")
    assert failure.value.code == "connection_missing" and not full.sent("resources/read")


def test_a_tool_of_the_server_with_such_a_name_stays_the_servers(alice, full):
    full.tools = [{"name": "resources/read", "inputSchema": {"type": "object"}}]
    full.reply = lambda message: full.result(message, {"content": [{"type": "text", "text": "mine"}]})
    _, listing = connect(alice, full.address)
    assert {one["name"] for one in listing.refused} == {"resources/read"}
    assert call(alice, "fake_resources_read").value == "mine" and not full.sent("resources/read")


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("fake_resources_list", {"cursor": 7}),
        ("fake_resources_read", {"uri": ["a"]}),
        ("fake_prompts_get", {"name": {}}),
    ],
)
def test_values_of_a_wrong_type_are_sent_back_to_the_model(alice, full, name, arguments):
    connect(alice, full.address)
    with pytest.raises(RetryTool):
        call(alice, name, **arguments)


ODD = [
    ("resources/list", {"resources": [7, None, {"uri": 7, "name": ["x"], "size": "many"}]}, {"resources": [{}]}),
    ("resources/list", {"resources": [{"uri": "a://" + "x" * 9000}]}, None),
    ("prompts/list", {"prompts": [{"name": "a", "arguments": [7, {"name": 3, "required": "yes"}]}]}, None),
    ("resources/read", {"contents": [7, {}, {"text": 3}, {"blob": "%%"}, {"blob": 7}]}, None),
    ("prompts/get", {"messages": [7, {"role": 7}, {"content": ["x", {"type": "text", "text": "y"}]}]}, None),
]


@pytest.mark.parametrize("method, result, expected", ODD, ids=range(len(ODD)))
def test_odd_answers_are_read_as_far_as_they_go(method, result, expected):
    answer = mcp_reading.build_reading_answer(method, result)
    assert expected is None or answer["structuredContent"] == expected


@pytest.mark.parametrize("method", sorted(ALL))
@pytest.mark.parametrize("result", [{}, {"resources": 7, "resourceTemplates": 7, "prompts": {}, "contents": "x"}])
def test_an_answer_without_its_list_is_a_failure_of_the_server(alice, full, method, result):
    connect(alice, full.address)
    full.methods[method] = lambda message: full.result(message, result)
    name = "fake_" + method.replace("/", "_")
    given = {"resources/read": {"uri": "a://1"}, "prompts/get": {"name": "greet"}}.get(method, {})
    with pytest.raises(ToolFailed) as failure:
        call(alice, name, **given)
    assert failure.value.code == "bad_answer"


def test_pages_are_asked_for_by_their_cursor(alice, full):
    full.pages["resources/list"] = {"resources": [{"uri": "a://1"}], "nextCursor": "more"}
    connect(alice, full.address)
    assert call(alice, "fake_resources_list").value["next_cursor"] == "more"
    call(alice, "fake_resources_list", cursor="more")
    assert full.sent("resources/list")[-1].json["params"] == {
        "_meta": full.sent("resources/list")[-1].json["params"]["_meta"],
        "cursor": "more",
    }


# -- tools that demand a task --------------------------------------------------------------------------------------------


@pytest.fixture
def tasking(fake):
    """A fake whose tool only runs as a task."""
    fake.capabilities = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
    fake.tools = [{"name": "search", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}]
    fake.states = ["working", "working", "completed"]
    final = {"content": [{"type": "text", "text": "found"}]}

    def task(message):
        state = fake.states.pop(0) if len(fake.states) > 1 else fake.states[0]
        about = {"taskId": "t1", "status": state, "pollInterval": 1, "statusMessage": "because"}
        return fake.result(message, {"task": about} if message["method"] == "tools/call" else about)

    fake.reply = task
    fake.methods["tasks/get"] = task
    fake.methods["tasks/result"] = lambda message: fake.result(message, final)
    fake.methods["tasks/cancel"] = lambda message: fake.result(message, {"taskId": "t1", "status": "cancelled"})
    return fake


def test_a_tool_that_demands_a_task_is_called_as_one(alice, tasking):
    connect(alice, tasking.address)
    assert call(alice, "fake_search").value == "found"
    [made] = tasking.sent("tools/call")
    assert 0 < made.json["params"]["task"]["ttl"] <= 30_000
    assert len(tasking.sent("tasks/get")) == 2 and tasking.called == 1


def test_without_tasks_at_the_server_it_is_not_offered(alice, tasking):
    tasking.capabilities = {"tools": {}}
    _, listing = connect(alice, tasking.address)
    assert listing.new == [] and "task" in listing.refused[0]["reason"]


@pytest.mark.parametrize(
    "execution", [{"taskSupport": "optional"}, {"taskSupport": "forbidden"}, {"taskSupport": 7}, 7, None]
)
def test_other_tools_are_called_as_ever(alice, tasking, execution):
    tasking.tools[0]["execution"] = execution
    tasking.reply = None
    tasking.tools[0]["name"] = "echo"
    connect(alice, tasking.address)
    assert call(alice, text="hello").value == "hello" and "task" not in tasking.sent("tools/call")[0].json["params"]


def test_a_task_that_the_server_cancels_or_loses_fails_the_call(alice, tasking):
    connect(alice, tasking.address)
    tasking.states = ["working", "cancelled"]
    with pytest.raises(ToolFailed, match="because"):
        call(alice, "fake_search")
    tasking.states = ["working", "failed"]
    error = {"code": -32603, "message": "it broke"}
    tasking.methods["tasks/result"] = lambda message: {"jsonrpc": "2.0", "id": message["id"], "error": error}
    with pytest.raises(ToolFailed, match="it broke"):
        call(alice, "fake_search")


def test_a_task_that_takes_too_long_is_cancelled_at_the_server(alice, tasking):
    from agents.tools import OutcomeUnknown

    connect(alice, tasking.address)
    tasking.states = ["working"]
    with pytest.raises(OutcomeUnknown):
        call(alice, "fake_search", seconds=1.5)
    assert tasking.sent("tasks/cancel") and tasking.called == 1


@pytest.mark.parametrize("task", [None, 7, {}, {"taskId": 7}, {"taskId": None, "status": "working"}])
def test_a_server_that_answers_without_a_task_has_answered(alice, tasking, task):
    content = [{"type": "text", "text": "at once"}]
    tasking.reply = lambda message: tasking.result(message, {"task": task, "content": content})
    connect(alice, tasking.address)
    assert call(alice, "fake_search").value == "at once" and not tasking.sent("tasks/get")
