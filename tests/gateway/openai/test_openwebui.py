"""What Open WebUI 0.12 sends in its Responses mode, and what its page needs of the answers.

Open WebUI calls no SDK: it keeps the items of each answer, sends all of them again with the next
message, executes every `function_call` without an output, and stops by closing the connection.
"""

import json

import httpx2
import pytest

from tests.fakes import calls, says
from tests.live import wait_for

pytestmark = pytest.mark.live
CLOCK = {
    "type": "function", "name": "get_current_timestamp", "description": "Get the current Unix timestamp in seconds.",
    "parameters": {"properties": {}, "type": "object"}, "strict": False,
}  # fmt: skip
REPORT = """
def report_for_openwebui(ctx, title: str) -> dict:
    "Write a report."
    ctx.save_file(title + ".txt", "the report", "text/plain")
    return {"written": title}
"""


@pytest.fixture
def webui(agents, model):
    live, key = agents
    model.turns.clear()
    model.requests.clear()
    with httpx2.Client(base_url=f"{live.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        yield http


def said(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def stored(items):
    """An answer's items as Open WebUI sends them again."""
    for item in items:
        if item["type"] == "message":
            yield {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": part["text"]} for part in item["content"]]}  # fmt: skip
        elif item["type"] in ("function_call", "function_call_output"):
            yield {name: item[name] for name in ("type", "call_id", "name", "arguments", "output") if name in item}
        else:
            yield item


def unanswered(items):
    done = {item["call_id"] for item in items if item["type"] == "function_call_output"}
    return [item for item in items if item["type"] == "function_call" and item["call_id"] not in done]


def ask(webui, agent, input):
    """(the events, the items at the end)"""
    body = {"stream": True, "model": agent, "tools": [CLOCK], "input": input}
    with webui.stream("POST", "/responses", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
    events = list(map(json.loads, lines))
    assert events[-1]["type"] == "response.completed"
    return events, events[-1]["response"]["output"]


def test_a_call_of_the_agent_comes_back_with_its_result(webui, model):
    """It is nothing that the page would execute."""
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("42."), says("Still 42."))
    _, items = ask(webui, "clerk", [said("6 * 7?")])
    assert [(item["type"], item.get("output")) for item in items] == [("mcp_call", "42"), ("message", None)]
    assert unanswered(items) == []
    _, items = ask(webui, "clerk", [said("6 * 7?"), *stored(items), said("Sure?")])
    assert items[-1]["content"][0]["text"] == "Still 42."
    assert "42" in json.dumps(model.requests[-1]["messages"])


def test_a_file_is_a_source_of_the_message(agents, webui, model):
    live, _ = agents
    assert live.http.post("/api/v1/functions/", json={"name": "report_for_openwebui", "source": REPORT}).is_success
    assert live.http.post("/api/v1/functions/report_for_openwebui/publish").is_success
    grants = [{"tool": "report_for_openwebui", "mode": "allow"}]
    agent = {"name": "webui-reporter", "description": "Writes", "provider": "scripted", "model_name": "scripted"}
    assert live.http.post("/api/v1/agents/", json={**agent, "grants": grants}).is_success
    assert live.http.post("/api/v1/agents/webui-reporter/publish", json={}).is_success
    model.script(calls(("report_for_openwebui", {"title": "figures"})), says("Done."))
    events, items = ask(webui, "webui-reporter", [said("Write it.")])
    (source,) = items[-1]["content"][0]["annotations"]
    assert (source["type"], source["title"]) == ("url_citation", "figures.txt")
    assert source in [one.get("annotation") for one in events]
    path = source["url"].partition("/api/")[2]
    assert live.http.get(f"/api/{path}").content == b"the report"


def test_a_call_of_its_own_tool_beside_one_of_the_agent(webui, model):
    """The agent's call is sent along with the result that is needed."""
    model.script(
        calls(("calculate", {"expression": "6 * 7"}), ("get_current_timestamp", {})), says("42, at five past eight.")
    )
    _, items = ask(webui, "clerk", [said("6 * 7, and the time?")])
    (call,) = unanswered(items)
    assert call["name"] == "get_current_timestamp"
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": '{"current_timestamp": 1}'}
    _, items = ask(webui, "clerk", [said("6 * 7, and the time?"), *stored(items), result])
    assert items[-1]["content"][0]["text"] == "42, at five past eight."


def test_an_approval_is_decided_in_muster_and_the_answer_goes_on(agents, webui, model):
    """Open WebUI knows no approvals: over chat completions it waits for the answer."""
    live, _ = agents
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("Approved: 42."))
    body = {"stream": True, "model": "careful", "messages": [{"role": "user", "content": "6 * 7?"}]}
    open_before = list_open_approvals(live)
    with webui.stream("POST", "/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        assert "assistant" in next(lines)
        (approval,) = wait_for(lambda: list_open_approvals(live) - open_before)
        assert webui.post(f"{live.url}/api/v1/approvals/{approval}", json={"decision": "approve"}).is_success
        assert "Approved: 42." in "".join(
            json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
            for line in lines
            if line.startswith("data: {")
        )


def list_open_approvals(live):
    """Other tests of the same site may have left some."""
    answer = live.http.get("/api/v1/approvals/", params={"status": "open", "limit": 500})
    return {approval["id"] for approval in answer.json()["results"]}


def test_another_persons_call_cannot_be_followed(agents, webui, model):
    from tests.gateway.live_agents import new_key

    model.script(calls(("calculate", {"expression": "6 * 7"}), ("get_current_timestamp", {})))
    _, items = ask(webui, "clerk", [said("mine")])
    (call,) = unanswered(items)
    failed = {"type": "function_call_output", "call_id": call["call_id"], "output": "Error"}
    stranger = {"Authorization": f"Bearer {new_key(agents[0], 'webui-stranger', '*')}"}
    answer = webui.post("/responses", json={"model": "router", "input": [failed]}, headers=stranger)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "unknown_call"


@pytest.mark.parametrize("path", ["responses", "chat/completions"])
def test_stop_closes_the_connection_and_cancels_the_run(agents, webui, model, path):
    live, _ = agents
    model.script(says("word " * 400, pause_s=0.05))
    given = {"input": [said("A long story")]} if path == "responses" else {
        "messages": [{"role": "user", "content": "A long story"}]}  # fmt: skip
    with webui.stream("POST", f"/{path}", json={"stream": True, "model": "plain", **given}) as answer:
        for line in answer.iter_lines():
            if "word" in line:
                break
    newest = {"agent": "plain", "limit": 1}
    wait_for(lambda: live.http.get("/api/v1/runs/", params=newest).json()["results"][0]["status"] == "cancelled")


def test_a_tool_with_the_name_of_an_agents_tool_is_named_in_the_error(webui):
    tool = {**CLOCK, "name": "ask_user"}
    answer = webui.post("/responses", json={"model": "curious", "tools": [tool], "input": [said("Ask me")]})
    assert answer.status_code == 400 and "“ask_user” is already used" in answer.json()["error"]["message"]
