"""MCP's own conformance suite and its Inspector against a running Muster, whose rows are what the suite wants to find.

    npm install --prefix build/mcp node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12 \
        @modelcontextprotocol/inspector@2
"""

import itertools
import json
import os
import subprocess
from pathlib import Path

import httpx2
import pytest

from connectors.mcp.messages import LEGACY, MODERN
from tests.gateway.live_agents import new_key
from tests.gateway.mcp import conformance
from tests.gateway.mcp.site import Site, messages, result

pytestmark = pytest.mark.live
PACKAGES = Path(os.environ.get("MCP_SUITE_HOME", Path(__file__).parents[3] / "build" / "mcp")) / "node_modules"
NODE, SUITE = PACKAGES / ".bin" / "node", PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSPECTOR = PACKAGES / ".bin" / "mcp-inspector"
needs_suite = pytest.mark.skipif(
    not (NODE.exists() and SUITE.exists()), reason="MCP's suite is not installed: see above"
)
needs_inspector = pytest.mark.skipif(not INSPECTOR.exists(), reason="MCP's Inspector is not installed: see above")
# Of the tasks extension. In Muster each call of an agent or chain can be a task and none must be, a run that failed is
# a completed task, and a task asks its questions itself. See docs/howto/mcp-server.md.
NOT_OFFERED = {
    "sep-2663-tasks-get-status-failed", "sep-2663-mrtr-synchronous-before-task-creation",
    "sep-2663-server-returns-missing-capability-when-required",
}  # fmt: skip
NAME, BOTH = {"name": "Alice"}, "test_input_required_result_multiple_inputs"
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.fixture(scope="module")
def suite(live):
    """The site, with a key of the person whose rows the suite finds."""
    key = new_key(live, "mcp-suite", "*", "approvals:decide")
    with httpx2.Client(base_url=live.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        conformance.make_rows(client)
    return Site(live, key)


@needs_suite
@pytest.mark.slow
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_the_conformance_suite(suite, version, tmp_path):
    with conformance.proxy(suite.live.port, suite.key) as url:
        command = [NODE, SUITE, "server", "--url", url, "--requirements", version, "-o", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    assert len(checks) > 80, done.stdout + done.stderr
    bad = {check["id"]: check.get("errorMessage") for check in checks if check["status"] in ("FAILURE", "WARNING")}
    assert bad.keys() <= NOT_OFFERED, bad


@needs_inspector
@pytest.mark.slow
def test_the_inspector_lists_calls_and_reads(suite):
    def inspect(*words):
        command = [
            NODE, INSPECTOR.resolve(), "--cli", suite.url, "--transport", "http",
            "--header", f"Authorization: Bearer {suite.key}", "--method", *words,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    assert "greet" in [tool["name"] for tool in inspect("tools/list")["tools"]]
    greeting = inspect("tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")
    assert greeting["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert inspect("resources/read", "--uri", "test://static-text")["contents"][0]["mimeType"] == "text/plain"
    prompt = inspect("prompts/get", "--prompt-name", "test_simple_prompt")
    assert prompt["messages"][0]["content"]["text"] == "This is a simple prompt for testing."


# -- what the suite asks for, without it ------------------------------------------------------------------------------


def ask(suite, name, capabilities=ABLE, method="tools/call", **params):
    return result(suite.modern(method, {"name": name, **params}, capabilities=capabilities))


def test_everything_that_a_run_waits_for_is_asked_at_one_time(suite):
    asked = ask(suite, BOTH)
    kinds = {key: one["method"] for key, one in asked["inputRequests"].items()}
    assert sorted(kinds.values()) == ["elicitation/create", "roots/list", "sampling/createMessage"]
    assert kinds["user_name"] == "elicitation/create"
    answers = {
        "elicitation/create": {"action": "accept", "content": NAME},
        "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}},
        "roots/list": {"roots": [{"uri": "file:///home", "name": "home"}]},
    }
    given = {key: answers[method] for key, method in kinds.items()}
    wrong = {**given, "user_name": 7}
    again = suite.modern(
        "tools/call", {"name": BOTH, "inputResponses": wrong, "requestState": asked["requestState"]}, capabilities=ABLE
    )
    assert again.json()["error"]["code"] == -32602
    done = ask(suite, BOTH, inputResponses=given, requestState=asked["requestState"])
    text = done["content"][0]["text"]
    assert done["resultType"] == "complete" and all(word in text for word in ("Alice", "Paris", "file:///home"))


def test_a_client_is_asked_only_for_what_it_declared(suite):
    asked = ask(suite, "test_input_required_result_capabilities", {"sampling": {}})
    assert [one["method"] for one in asked["inputRequests"].values()] == ["sampling/createMessage"]


def test_an_answer_may_come_with_the_call(suite):
    given = {"user_name": {"action": "accept", "content": NAME}, "more": {"action": "accept"}}
    done = ask(suite, "test_input_required_result_elicitation", inputResponses=given)
    assert done["content"][0]["text"] == "Hello, Alice!"


def test_a_chain_asks_before_it_writes_a_prompt(suite):
    name = "test_input_required_result_prompt"
    asked = ask(suite, name, method="prompts/get")
    given = {"user_context": {"action": "accept", "content": {"context": "Tea"}}}
    done = ask(suite, name, method="prompts/get", inputResponses=given, requestState=asked["requestState"])
    assert done["messages"] == [{"role": "user", "content": {"type": "text", "text": "Tea"}}]


def test_a_function_says_how_far_it_is_and_logs(suite):
    level = {"io.modelcontextprotocol/logLevel": "info", "progressToken": "p"}
    seen = messages(suite.modern("tools/call", {"name": "test_tool_with_progress", "_meta": level}))
    told = [one["params"] for one in seen if one.get("method") == "notifications/progress"]
    assert [one["message"] for one in told] == ["0%", "50%", "100%"]
    assert all(one["progressToken"] == "p" for one in told)
    assert all(first["progress"] < second["progress"] for first, second in itertools.pairwise(told))
    logged = messages(suite.modern("tools/call", {"name": "test_tool_with_logging", "_meta": level}))
    lines = [one["params"] for one in logged if one.get("method") == "notifications/message"]
    assert [(one["level"], one["data"]) for one in lines][0] == ("info", "Tool execution started") and len(lines) == 3
    quiet = {**level, "io.modelcontextprotocol/logLevel": "error"}
    assert len(messages(suite.modern("tools/call", {"name": "test_tool_with_logging", "_meta": quiet}))) == 1


def newest_run(client):
    rows = client.get("/api/v1/runs/", params={"limit": 1, "status": "waiting"}).json()
    return next(value for value in rows.values() if isinstance(value, list))[0]["id"]


def test_a_listener_hears_that_a_run_has_changed(suite):
    asked = ask(suite, "test_input_required_result_request_state")
    with httpx2.Client(headers={"Authorization": f"Bearer {suite.key}"}, base_url=suite.live.url) as client:
        run = newest_run(client)
        uris = [f"muster://runs/{run}", "muster://runs/00000000-0000-7000-8000-000000000000"]
        body = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {
            "notifications": {"resourceSubscriptions": uris, "toolsListChanged": True},
            "_meta": {"io.modelcontextprotocol/protocolVersion": MODERN,
                      "io.modelcontextprotocol/clientCapabilities": {}},
        }}  # fmt: skip
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        with client.stream("POST", "/mcp", json=body, headers=headers, timeout=30) as stream:
            lines = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
            first = next(lines)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            granted = {"resourceSubscriptions": uris[:1], "toolsListChanged": True}
            assert first["params"]["notifications"] == granted
            assert first["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 5}
            client.post(f"/api/v1/runs/{run}/cancel", json={})
            assert next(lines)["params"]["uri"] == uris[0]
    assert asked["resultType"] == "input_required"
