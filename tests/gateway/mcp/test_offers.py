"""Resources, prompts, completion and tasks of the MCP server, and who finds which."""

import json

import pytest

from agents import storage
from agents.models import Agent, Chain
from gateway.mcp import methods, resources
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import endings
from tests.gateway.mcp.test_protocol import META, PREFIX, error, initialize, legacy, modern

TASKING = {**META, f"{PREFIX}/clientCapabilities": {"extensions": {f"{PREFIX}/tasks": {}}, "elicitation": {}}}


def result(answer):
    assert answer.status_code == 200, answer.content
    return answer.json()["result"]


@pytest.fixture
def file(alice):
    return storage.save_file(alice.pk, "report.txt", b"All is well.", declared="text/plain")


@pytest.fixture
def run(alice, agent):
    agent.publish()
    return intake.accept_message(user=alice, agent="librarian", text="hello").run


# -- resources --------------------------------------------------------------------------------------------------------


def test_files_and_runs_are_resources_of_their_owner_alone(alice_api, bob_api, charlie_api, file, run):
    rows = result(modern(alice_api, "resources/list"))["resources"]
    uris = [row["uri"] for row in rows]
    assert uris == [f"muster://files/{file.pk}", f"muster://runs/{run.pk}"]
    assert rows[0]["name"] == "report.txt" and rows[0]["size"] == 12
    [text] = result(modern(alice_api, "resources/read", {"uri": uris[0]}))["contents"]
    assert text == {"uri": uris[0], "mimeType": "text/plain", "text": "All is well."}
    [record] = result(modern(alice_api, "resources/read", {"uri": uris[1]}))["contents"]
    assert json.loads(record["text"])["id"] == str(run.pk)
    [events] = result(modern(alice_api, "resources/read", {"uri": f"{uris[1]}/events"}))["contents"]
    assert json.loads(events["text"])[0]["type"] == "run.queued"
    for client in (bob_api, charlie_api):
        assert result(modern(client, "resources/list"))["resources"] == []
        for uri in (*uris, f"{uris[1]}/events"):
            assert error(modern(client, "resources/read", {"uri": uri})) == (200, -32602)
            assert error(legacy(client, "resources/read", {"uri": uri})) == (200, -32002)


@pytest.mark.parametrize(
    "uri", ["muster://files/x", "muster://nothing/1", "file:///etc/passwd", "muster://runs/", "x" * 5000]
)
def test_what_is_no_resource(alice_api, uri):
    assert error(legacy(alice_api, "resources/read", {"uri": uri})) in [(200, -32002), (200, -32602)]


def test_a_picture_is_sent_as_base64_and_a_large_file_is_refused(alice, alice_api, file, monkeypatch):
    picture = storage.save_file(alice.pk, "dot.png", b"\x89PNG\r\n\x1a\n" + bytes(20))
    [content] = result(modern(alice_api, "resources/read", {"uri": f"muster://files/{picture.pk}"}))["contents"]
    assert content["mimeType"] == "image/png" and content["blob"].startswith("iVBORw0KGgo")
    monkeypatch.setattr(resources, "LARGEST", 5)
    assert error(modern(alice_api, "resources/read", {"uri": f"muster://files/{file.pk}"})) == (200, -32602)


def test_resources_have_pages_and_need_a_scope(alice, api, alice_api, run, monkeypatch):
    monkeypatch.setattr(methods, "PAGE", 2)
    for number in range(3):
        storage.save_file(alice.pk, f"{number}.txt", b"x")
    found, params = [], {}
    for _ in range(2):
        page = result(modern(alice_api, "resources/list", params))
        found += [row["name"] for row in page["resources"]]
        params = {"cursor": page.get("nextCursor")}
    assert found[:3] == ["2.txt", "1.txt", "0.txt"] and found[3].startswith("librarian") and params["cursor"] is None
    for cursor in ("eDp5", "ZmlsZXM6eA=="):
        assert error(modern(alice_api, "resources/list", {"cursor": cursor})) == (200, -32602)
    few = api(alice, "runs:read")
    assert [row["uri"][:13] for row in result(modern(few, "resources/list"))["resources"]] == ["muster://runs"]
    names = [one["name"] for one in result(modern(few, "resources/templates/list"))["resourceTemplates"]]
    assert names == ["run", "run-events"]


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clerk(alice, offline):
    variables = {
        "tone": {"type": "string", "enum": ["kind", "keen", "strict"], "default": "kind"},
        "lines": {"type": "integer", "description": "How many."},
    }
    prompt = "Answer {{ tone }}ly in {{ lines }} lines."
    row = Agent.objects.create(name="clerk", owner=alice, provider=offline, variables=variables, system_prompt=prompt)
    row.publish()
    return row


def test_a_prompt_is_an_agents_filled_instructions(alice_api, charlie_api, clerk):
    [prompt] = result(modern(alice_api, "prompts/list"))["prompts"]
    assert [(one["name"], one["required"]) for one in prompt["arguments"]] == [
        ("tone", False), ("lines", True), ("task", True),
    ]  # fmt: skip
    given = {"name": "clerk", "arguments": {"lines": "3", "task": "Write."}}
    [message] = result(modern(alice_api, "prompts/get", given))["messages"]
    assert message["content"]["text"] == "Answer kindly in 3 lines.\n\nWrite."
    for wrong in ({"task": "x"}, {"lines": "many", "task": "x"}, {"lines": 3, "task": "x"}):
        assert error(modern(alice_api, "prompts/get", {"name": "clerk", "arguments": wrong})) == (200, -32602)
    assert result(modern(charlie_api, "prompts/list"))["prompts"] == []
    assert error(modern(charlie_api, "prompts/get", given)) == (200, -32602)


def test_a_prompt_of_a_chain_calls_its_tool(alice, alice_api, offline):
    chain = Chain.objects.create(
        name="review", owner=alice, input_schema={"type": "object", "properties": {"text": {"type": "string"}}}
    )
    Agent.objects.create(name="reader", owner=alice, provider=offline).publish()
    chain.replace_steps(
        [{"key": "read", "target_kind": "agent", "target": "reader", "input": {"message": "input.text"}}]
    )
    chain.publish()
    given = {"name": "review", "arguments": {"text": "A poem"}}
    [message] = result(modern(alice_api, "prompts/get", given))["messages"]
    assert "“review”" in message["content"]["text"] and '{"text":"A poem"}' in message["content"]["text"]


def test_completion(alice_api, charlie_api, clerk, run):
    def suggested(client, reference, value, name="tone"):
        params = {"ref": reference, "argument": {"name": name, "value": value}}
        return modern(client, "completion/complete", params)

    prompt = {"type": "ref/prompt", "name": "clerk"}
    assert result(suggested(alice_api, prompt, "k"))["completion"]["values"] == ["kind", "keen"]
    assert error(suggested(charlie_api, prompt, "k")) == (200, -32602)
    template = {"type": "ref/resource", "uri": "muster://runs/{run}"}
    found = result(suggested(alice_api, template, str(run.pk)[:3], "run"))["completion"]
    assert found == {"values": [str(run.pk)], "total": 1, "hasMore": False}
    assert result(suggested(charlie_api, template, "", "run"))["completion"]["values"] == []
    assert error(suggested(alice_api, {"type": "other"}, "")) == (200, -32602)
    assert error(suggested(alice_api, {"type": "ref/resource", "uri": "x"}, "")) == (200, -32602)


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_a_call_is_a_task_for_a_client_with_the_extension(alice_api, bob_api, charlie_api, agent):
    agent.publish()
    call = {"name": "librarian", "arguments": {"task": "hello"}}
    task = result(modern(alice_api, "tools/call", call, meta=TASKING))
    assert task["resultType"] == "task" and task["status"] == "working" and task["ttlMs"] is None
    ask = {"taskId": task["taskId"]}

    def of(client, method, **more):
        return modern(client, method, {**ask, **more}, meta=TASKING, Mcp_Name=task["taskId"])

    state = result(of(alice_api, "tasks/get"))
    assert (state["resultType"], state["status"]) == ("complete", "working")
    for client in (bob_api, charlie_api):
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            assert error(of(client, method)) == (200, -32602)
    assert error(modern(alice_api, "tasks/get", ask, meta=TASKING)) == (400, -32020)  # without Mcp-Name
    assert result(of(alice_api, "tasks/update", inputResponses={"x": {"action": "accept"}}))["resultType"] == "complete"
    assert result(of(alice_api, "tasks/cancel"))["resultType"] == "complete"
    assert result(of(alice_api, "tasks/get"))["status"] == "cancelled"
    assert result(of(alice_api, "tasks/cancel"))["resultType"] == "complete"  # again: nothing happens
    assert error(of(alice_api, "tasks/list")) == (404, -32601)


def test_a_finished_task_has_the_result(alice_api, agent):
    agent.publish()
    call = {"name": "librarian", "arguments": {"task": "hello"}}
    task = result(modern(alice_api, "tools/call", call, meta=TASKING))
    endings.finish_run(Run.objects.get(pk=task["taskId"]), Run.Status.SUCCEEDED, reply="Good morning.")
    state = result(modern(alice_api, "tasks/get", {"taskId": task["taskId"]}, meta=TASKING, Mcp_Name=task["taskId"]))
    assert state["status"] == "completed" and state["result"]["structuredContent"]["reply"] == "Good morning."


def test_tasks_of_2025_11_25(alice_api, charlie_api, agent):
    agent.publish()
    headers = {"Mcp-Session-Id": initialize(alice_api)["Mcp-Session-Id"]}
    [tool] = result(legacy(alice_api, "tools/list", **headers))["tools"]
    assert tool["execution"] == {"taskSupport": "optional"}
    call = {"name": "librarian", "arguments": {"task": "hello"}, "task": {"ttl": 60000}}
    task = result(legacy(alice_api, "tools/call", call, id=5, **headers))["task"]
    assert task["status"] == "working" and "ttl" in task
    again = result(legacy(alice_api, "tools/call", call, id=5, **headers))["task"]
    assert again["taskId"] == task["taskId"]
    listed = result(legacy(alice_api, "tasks/list", **headers))["tasks"]
    assert [one["taskId"] for one in listed] == [task["taskId"]]
    assert result(legacy(charlie_api, "tasks/list"))["tasks"] == []
    assert error(legacy(charlie_api, "tasks/result", {"taskId": task["taskId"]})) == (200, -32602)
    ended = result(legacy(alice_api, "tasks/cancel", {"taskId": task["taskId"]}, **headers))
    assert ended["status"] == "cancelled"
    assert error(legacy(alice_api, "tasks/cancel", {"taskId": task["taskId"]}, **headers)) == (200, -32602)


def test_another_run_is_no_task(alice_api, run):
    assert error(legacy(alice_api, "tasks/get", {"taskId": run.pk.hex})) == (200, -32602)
