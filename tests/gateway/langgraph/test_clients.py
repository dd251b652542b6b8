"""Clients of LangGraph besides its Python SDK: the JavaScript SDK, and the calls that Agent Chat UI makes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.fakes import calls, says
from tests.gateway.langgraph.sdk import client_of, human

pytestmark = pytest.mark.live
HERE = Path(__file__).parent
PACKAGES = Path(os.environ.get("LANGGRAPH_JS_HOME", HERE.parents[2] / "build" / "langgraph"))
SDK = PACKAGES / "node_modules" / "@langchain" / "langgraph-sdk"


@pytest.fixture
def http(agents, model):
    """As the page calls it: with the key in X-Api-Key, from another origin."""
    live, key = agents
    model.turns.clear()
    model.requests.clear()
    with httpx2.Client(base_url=f"{live.url}/langgraph", headers={"X-Api-Key": key}, timeout=60) as http:
        yield http


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
@pytest.mark.skipif(not SDK.exists(), reason=f"npm install --prefix {PACKAGES} @langchain/langgraph-sdk@2")
def test_the_javascript_sdk(agents, model):
    live, key = agents
    model.turns.clear()
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Two."), says("Batch."))
    command = ["node", str(HERE / "langgraph.mjs"), str(PACKAGES), f"{live.url}/langgraph", key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "404" in found.pop("refused")
    assert found == {
        "assistant": "careful", "nodes": ["__start__", "model", "tools", "__end__"],
        "schemas": ["graph_id", "input_schema", "output_schema", "state_schema", "config_schema", "context_schema"],
        "events": ["metadata", "values", "messages", "end"], "interrupt": {"expression": "1 + 1"}, "created": True,
        "status": "interrupted", "next": ["tools"], "reply": "Two.", "history": 2, "copy": 4, "run": "success",
        "runs": 1, "cancelled": "success", "threads": [True], "batch": "Batch.",
        "joined": ["metadata", "updates", "end"], "cron": ["0 9 * * 1"],
    }  # fmt: skip


def submit(http, thread, **body):
    """`useStream` of the page: the events of POST runs/stream, as (event, data)."""
    body = {
        "stream_mode": ["values", "custom"], "stream_subgraphs": True, "stream_resumable": True,
        "assistant_id": "careful", "on_disconnect": "continue", **body,
    }  # fmt: skip
    answer = http.post(f"/threads/{thread}/runs/stream", json=body)
    assert answer.status_code == 200, answer.text
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in answer.text.strip().split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


def test_agent_chat_ui(http, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Two."), says("You are welcome."))
    assert http.get("/info").is_success
    thread = http.post("/threads", json={"metadata": {}}).json()["thread_id"]
    assert http.post(f"/threads/{thread}/history", json={"limit": 10}).json() == []
    message = {"id": "0b7b9f5e-0000-4000-8000-000000000001", "type": "human",
               "content": [{"type": "text", "text": "1 + 1?"}]}  # fmt: skip
    events = submit(http, thread, input={"messages": [message]})
    (interrupt,) = events[-2][1]["__interrupt__"]
    request, config = interrupt["value"]["action_requests"][0], interrupt["value"]["review_configs"][0]
    assert request["name"] == config["action_name"] == "calculate" and isinstance(request["args"], dict)
    head, *_ = http.post(f"/threads/{thread}/history", json={"limit": 10}).json()
    assert head["tasks"][-1]["interrupts"] == [interrupt]
    checkpoint = {name: value for name, value in head["checkpoint"].items() if name != "thread_id"}
    decisions = {"decisions": [{"type": "edit", "edited_action": {"name": "calculate", "args": {"expression": "1+2"}}}]}
    events = submit(http, thread, input={}, command={"resume": decisions}, checkpoint=checkpoint)
    assert events[-2][1]["messages"][-1]["content"] == "Two." and "3" in events[-2][1]["messages"][-2]["content"]
    head, *_ = http.post(f"/threads/{thread}/history", json={"limit": 10}).json()
    message = {**message, "id": "0b7b9f5e-0000-4000-8000-000000000002"}
    events = submit(http, thread, input={"messages": [message]}, checkpoint=head["checkpoint"])
    assert events[-2][1]["messages"][-1]["content"] == "You are welcome."
    listed = http.post("/threads/search", json={"metadata": {"graph_id": "careful"}, "limit": 100, "offset": 0}).json()
    assert listed[0]["thread_id"] == thread and listed[0]["values"]["messages"][0]["content"] == "1 + 1?"


def test_agent_chat_ui_after_a_message_that_replaces_an_interrupt(http, model):
    """The page answers calls without a result itself; and a thread that waits is marked as resolved."""
    model.script(
        calls(("calculate", {"expression": "1 + 1"})), says("Fine."), calls(("calculate", {"expression": "2"}))
    )
    thread = http.post("/threads", json={}).json()["thread_id"]
    values = submit(http, thread, input=human("1 + 1?"))[-2][1]
    filler = {"type": "tool", "tool_call_id": values["messages"][-1]["tool_calls"][0]["id"],
              "id": "do-not-render-1", "name": "calculate", "content": "Successfully handled tool call."}  # fmt: skip
    head, *_ = http.post(f"/threads/{thread}/history", json={"limit": 10}).json()
    messages = [filler, *human("Never mind.")["messages"]]
    events = submit(http, thread, input={"messages": messages}, checkpoint=head["checkpoint"])
    assert events[-2][1]["messages"][-1]["content"] == "Fine."
    submit(http, thread, input=human("again"))
    events = submit(http, thread, input={}, command={"goto": "__end__"})
    assert events[-1][0] == "end" and http.get(f"/threads/{thread}").json()["status"] == "idle"


def test_after_a_cancelled_run_the_page_goes_on_from_what_it_knows(agents, http, model):
    live, key = agents
    model.script(says("One."), says("slow", silent_s=30), says("Two."))
    thread = http.post("/threads", json={}).json()["thread_id"]
    submit(http, thread, input=human("first"))
    head, *_ = http.post(f"/threads/{thread}/history", json={"limit": 10}).json()
    run = http.post(f"/threads/{thread}/runs", json={"assistant_id": "careful", "input": human("slow")}).json()
    client_of(live, key).runs.cancel(thread, run["run_id"], wait=True)
    events = submit(http, thread, input=human("second"), checkpoint=head["checkpoint"])
    assert events[-2][1]["messages"][-1]["content"] == "Two."
    regenerate = {"assistant_id": "careful", "input": human("third"), "checkpoint": head["parent_checkpoint"]}
    assert "Copy the thread" in http.post(f"/threads/{thread}/runs", json=regenerate).json()["detail"]


def test_a_page_of_another_origin_may_read_where_the_run_is(agents):
    live, key = agents
    answer = httpx2.options(
        f"{live.url}/langgraph/threads",
        headers={"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"},
    )
    assert "Access-Control-Allow-Origin" not in answer.headers  # the operator has not allowed it
