"""The MCP server of a running Muster: both eras, with the reference client for the earlier one and our own client."""

import asyncio
import json
import threading
from contextlib import contextmanager
from itertools import count
from time import monotonic

import httpx2
import pytest
from mcp import types

from connectors.mcp import session as ours
from connectors.mcp.exceptions import InputRequired, McpFailed
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import LEGACY, MODERN
from tests.fakes import calls, says
from tests.gateway.mcp.site import BOTH, messages, result

pytestmark = pytest.mark.live


# -- tools ---------------------------------------------------------------------------------------------------------------


def test_tools_are_listed_with_their_schemas_and_effects(site):
    tools = {tool["name"]: tool for tool in result(site.modern("tools/list"))["tools"]}
    assert {"plain", "careful", "calculate"} <= tools.keys()
    assert tools["plain"]["inputSchema"]["required"] == ["task"]
    assert tools["plain"]["outputSchema"]["required"] == ["reply", "run", "session"]
    assert tools["calculate"]["annotations"]["readOnlyHint"] is True
    names = list(tools)
    assert names == sorted(names)


def test_the_reference_client_calls_an_agent(site, model):
    model.script(says("391"))

    async def talk():
        async with site.reference() as session:
            names = [tool.name for tool in (await session.list_tools()).tools]
            return names, await session.call_tool("plain", {"task": "What is 17 * 23?"})

    names, answer = asyncio.run(talk())
    assert "plain" in names and site.hello.protocolVersion == LEGACY
    assert not answer.isError and answer.content[0].text == "391"
    assert answer.structuredContent["reply"] == "391"


@pytest.mark.parametrize("era", ["", "legacy"])
def test_our_client_calls_a_function_in_both_eras(site, era):
    session = site.ours("2025-11-25" if era else "")
    try:
        assert session.era == (LEGACY if era else MODERN)
        answer = session.call_tool("calculate", {"expression": "17 * 23"}, monotonic() + 60)
    finally:
        session.close()
    assert "391" in answer["content"][0]["text"]
    wrong = result(site.modern("tools/call", {"name": "calculate", "arguments": {"wrong": 1}}))
    assert wrong["isError"] and "expression" in wrong["content"][0]["text"]


def test_a_conversation_goes_on_by_its_session(site, model):
    model.script(says("Hello."), says("You said one."))
    first = result(site.modern("tools/call", {"name": "plain", "arguments": {"task": "one"}}))["structuredContent"]
    again = {"task": "What did I say?", "session": first["session"]}
    second = result(site.modern("tools/call", {"name": "plain", "arguments": again}))
    assert second["structuredContent"]["session"] == first["session"]
    assert [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"] == [
        "one", "What did I say?",
    ]  # fmt: skip


def test_progress_is_told_where_the_client_asks_for_it(site, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("2"))

    async def talk():
        heard = []

        async def hear(progress, total, message):
            heard.append((progress, message))

        async with site.reference() as session:
            await session.call_tool("clerk", {"task": "Add"}, progress_callback=hear)
        return heard

    heard = asyncio.run(talk())
    assert "Calls calculate." in [message for _, message in heard]
    assert [number for number, _ in heard] == sorted({number for number, _ in heard})


# -- questions to the person ---------------------------------------------------------------------------------------------


def test_an_approval_is_an_elicitation_of_the_earlier_version(site, model):
    model.script(calls(("calculate", {"expression": "2 + 2"})), says("4"))
    asked = []

    async def decide(context, params):
        asked.append(params)
        return types.ElicitResult(action="accept", content={"approve": True})

    async def talk():
        async with site.reference(elicitation_callback=decide) as session:
            return await session.call_tool("careful", {"task": "Add"})

    answer = asyncio.run(talk())
    assert answer.content[0].text == "4"
    assert len(asked) == 1 and "calculate" in asked[0].message and "2 + 2" in asked[0].message


def test_an_approval_is_an_input_request_of_2026_07_28(site, model):
    model.script(calls(("calculate", {"expression": "2 + 3"})), says("5"))
    call = {"name": "careful", "arguments": {"task": "Add"}}
    asks = {"elicitation": {"form": {}}}
    waiting = result(site.modern("tools/call", call, capabilities=asks))
    assert waiting["resultType"] == "input_required"
    [id] = waiting["inputRequests"]
    state = {"requestState": waiting["requestState"]}
    again = result(site.modern("tools/call", {**call, **state}, capabilities=asks))
    assert again["resultType"] == "input_required" and [*again["inputRequests"]] == [id]
    yes = {"inputResponses": {id: {"action": "accept", "content": {"approve": True}}, "other": {"action": "cancel"}}}
    answer = result(site.modern("tools/call", {**call, **state, **yes}, capabilities=asks))
    assert answer["resultType"] == "complete" and answer["structuredContent"]["reply"] == "5"
    repeated = result(site.modern("tools/call", {**call, **state, **yes}, capabilities=asks))
    assert repeated["structuredContent"] == answer["structuredContent"]


def test_our_client_answers_a_question(site, model):
    model.script(calls(("ask_user", {"question": "Which colour?"})), says("Blue it is."))
    session = site.ours("")
    try:
        with pytest.raises(InputRequired) as asked:
            session.call_tool("curious", {"task": "Paint"}, monotonic() + 60, listener=ours.Listener())
        [(id, question)] = asked.value.requests.items()
        assert question["params"]["message"] == "Which colour?"
        more = {
            **asked.value.state["more"],
            "inputResponses": {id: {"action": "accept", "content": {"answer": "blue"}}},
        }
        answer = session.call_tool("curious", {"task": "Paint"}, monotonic() + 60, listener=ours.Listener(), more=more)
    finally:
        session.close()
    assert answer["structuredContent"]["reply"] == "Blue it is."
    assert "blue" in json.dumps(model.requests[-1]["messages"])


def test_changed_state_and_that_of_another_call_or_person_are_refused(site, model, stranger):
    model.script(calls(("calculate", {"expression": "1"})), says("1"))
    call = {"name": "careful", "arguments": {"task": "Add"}}
    asks = {"elicitation": {}}
    state = result(site.modern("tools/call", call, capabilities=asks))["requestState"]
    for wrong, name, key in (
        (state[:-2] + "xx", "careful", None),
        (state, "plain", None),
        (state, "calculate", stranger),
    ):
        again = {**call, "name": name, "requestState": wrong}
        answer = site.modern("tools/call", again, capabilities=asks, key=key)
        assert "result" not in answer.json() or answer.json()["result"].get("isError"), answer.text


# -- leaving and coming back ---------------------------------------------------------------------------------------------


def runs_of(site, tool):
    rows = site.live.http.get("/api/v1/runs/", params={"ordering": "-created_at"}).json()["results"]
    return [row for row in rows if row["metadata"].get("mcp", {}).get("tool") == tool]


def begin(site, headers=None):
    """A legacy session; its headers."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    hello = site.post({"method": "initialize", "params": params, "id": 0}, headers)
    return {"Mcp-Session-Id": hello.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}


def leave(site, message, headers):
    """Send a request and go away after the stream's first bytes, which are returned."""
    own = {"Accept": BOTH, "Authorization": f"Bearer {site.key}", **headers}
    with httpx2.stream("POST", site.url, json={"jsonrpc": "2.0", **message}, headers=own, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("id: ") or "Waits for the approval" in line:
                return line


def test_a_client_of_the_earlier_version_comes_back_to_its_stream(site, model):
    model.script(calls(("calculate", {"expression": "3 + 3"})), says("6"))
    headers = begin(site)
    params = {"name": "careful", "arguments": {"task": "Add"}}
    line = leave(site, {"method": "tools/call", "params": params, "id": 7}, headers)
    [run] = runs_of(site, "careful")[:1]
    approve(site, run["id"])
    last = {"Authorization": f"Bearer {site.key}", "Accept": "text/event-stream", "Last-Event-ID": line[4:], **headers}
    rest = messages(httpx2.get(site.url, headers=last, timeout=60))
    assert rest[-1]["id"] == 7 and rest[-1]["result"]["structuredContent"]["run"] == run["id"]
    again = messages(site.post({"method": "tools/call", "params": params, "id": 7}, headers))
    assert again[-1]["result"]["structuredContent"]["run"] == run["id"]  # the same request starts no second run


def approve(site, run):
    """Approve what the run asks, in Muster."""
    for _ in range(600):
        if rows := site.live.http.get("/api/v1/approvals/", params={"status": "open", "run": run}).json()["results"]:
            head = {"Authorization": f"Bearer {site.key}"}
            decided = site.live.http.post(
                f"/api/v1/approvals/{rows[0]['id']}", json={"decision": "approve"}, headers=head
            )
            assert decided.status_code == 200, decided.text
            return
        wait(0.05)
    raise AssertionError("no approval was asked for")


def wait(seconds):
    asyncio.run(asyncio.sleep(seconds))


def ended(site, run):
    for _ in range(1200):
        status = site.live.http.get(f"/api/v1/runs/{run}/").json()["status"]
        if status not in ("queued", "running", "waiting"):
            return status
        wait(0.05)
    return status


def test_only_the_newest_version_cancels_by_leaving(site, model):
    model.script(calls(("calculate", {"expression": "4 + 4"})))
    params = {
        "name": "careful",
        "arguments": {"task": "Add"},
        "_meta": {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "careful"}
    leave(site, {"method": "tools/call", "params": params, "id": 1}, headers)
    assert ended(site, runs_of(site, "careful")[0]["id"]) == "cancelled"


def test_the_earlier_version_cancels_by_a_notification(site, model):
    model.script(calls(("calculate", {"expression": "5 + 5"})))
    headers = begin(site)
    params = {"name": "careful", "arguments": {"task": "Add"}, "_meta": {"progressToken": "p"}}
    leave(site, {"method": "tools/call", "params": params, "id": "c1"}, headers)
    [run] = runs_of(site, "careful")[:1]
    assert site.live.http.get(f"/api/v1/runs/{run['id']}/").json()["status"] != "cancelled"
    told = {"method": "notifications/cancelled", "params": {"requestId": "c1"}}
    assert site.post(told, begin(site)).status_code == 202  # of another session: nothing happens
    assert site.live.http.get(f"/api/v1/runs/{run['id']}/").json()["status"] != "cancelled"
    assert site.post(told, headers).status_code == 202
    assert ended(site, run["id"]) == "cancelled"


def test_an_ended_session_is_not_found(site, stranger):
    headers = begin(site)
    assert site.post({"method": "ping", "id": 1}, headers).json()["result"] == {}
    own = {"Authorization": f"Bearer {site.key}", **headers}
    assert httpx2.delete(site.url, headers=own).status_code == 204
    assert site.post({"method": "ping", "id": 2}, headers).status_code == 404
    assert site.post({"method": "ping", "id": 3}, begin(site), key=stranger).status_code == 404


def test_without_a_credential_and_with_a_revoked_one(site):
    for key in ("", "mk_wrong.key"):
        answer = site.modern("tools/list", key=key)
        assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["error"]["code"] == -32000
    with pytest.raises(McpFailed):
        ours.open_server_session(lambda: HttpTransport(site.url, {}, ["127.0.0.1"]), monotonic() + 60)


# -- what has changed ----------------------------------------------------------------------------------------------------


@contextmanager
def publishing(site, name):
    """Agents are published one after another: what was there at the listener's first look is no news to it."""
    enough, statuses = threading.Event(), []

    def publish():
        for number in count():
            each = f"{name}-{number}"
            made = {"name": each, "description": each, "provider": "scripted", "model_name": "scripted", "grants": []}
            statuses.append(site.live.http.post("/api/v1/agents/", json=made).status_code)
            statuses.append(site.live.http.post(f"/api/v1/agents/{each}/publish", json={}).status_code)
            if enough.wait(2):
                return

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
    assert set(statuses) == {200, 201}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_listener_hears_that_an_agent_was_published(site, version):
    own = {"Accept": BOTH, "Authorization": f"Bearer {site.key}"}
    meta = {"protocolVersion": version, "clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": True, "promptsListChanged": False},
        "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()},
    }}  # fmt: skip
    if version == MODERN:
        own |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        asked = {"method": "POST", "json": body}
    else:
        own |= begin(site)
        asked = {"method": "GET"}
    with httpx2.stream(**asked, url=site.url, headers=own, timeout=60) as stream:
        lines = stream.iter_lines()
        if version == MODERN:
            first = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
            assert first["params"]["notifications"] == {"toolsListChanged": True}
        with publishing(site, f"heard-{version}"):
            heard = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
    assert heard["method"] == "notifications/tools/list_changed"
