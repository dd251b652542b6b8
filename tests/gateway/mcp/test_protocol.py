"""The MCP endpoint without a worker: eras, versions, headers, errors, and who finds what."""

import pytest

from agents.models import Agent, Tool, ToolGrant
from connectors.mcp.messages import LEGACY, MODERN
from gateway.mcp import methods
from runs.models import Run
from tests.functions.library import ADD, publish

PREFIX = "io.modelcontextprotocol"
META = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {}}


def modern(client, method, params=None, *, meta=META, id=1, **headers):
    named = (params or {}).get("name") or (params or {}).get("uri")
    given = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({"Mcp-Name": named} if named else {})}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": meta}}
    return client.post("/mcp", body, headers={name: value for name, value in given.items() if value is not None})


def legacy(client, method, params=None, id=1, **headers):
    body = {"jsonrpc": "2.0", "method": method, "params": params or {}, **({"id": id} if id is not None else {})}
    return client.post("/mcp", body, headers=headers)


def initialize(client, version=LEGACY, capabilities=None):
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return legacy(client, "initialize", params)


def names(client):
    return [tool["name"] for tool in modern(client, "tools/list").json()["result"]["tools"]]


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


# -- versions and headers ---------------------------------------------------------------------------------------------


def test_discovery_and_the_form_of_results_in_2026_07_28(alice_api):
    found = modern(alice_api, "server/discover").json()["result"]
    assert found["supportedVersions"][:2] == [MODERN, LEGACY]
    assert found["resultType"] == "complete" and found["cacheScope"] == "private" and found["ttlMs"] >= 0
    assert found["_meta"][f"{PREFIX}/serverInfo"]["name"] == "muster"


@pytest.mark.parametrize(
    "asked, settled", [(LEGACY, LEGACY), ("2025-06-18", "2025-06-18"), ("1999-01-01", LEGACY), (MODERN, LEGACY)]
)
def test_initialize_settles_on_a_version_with_sessions(alice_api, asked, settled):
    answer = initialize(alice_api, asked)
    result = answer.json()["result"]
    assert result["protocolVersion"] == settled and result["serverInfo"]["name"] == "muster"
    assert "resultType" not in result and answer["Mcp-Session-Id"].isascii()


@pytest.mark.parametrize("missing", [*META])
def test_a_request_without_its_metadata_is_refused(alice_api, missing):
    meta = {key: value for key, value in META.items() if key != missing}
    assert error(modern(alice_api, "tools/list", meta=meta)) == (400, -32602)


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP_Protocol_Version": None},
        {"MCP_Protocol_Version": LEGACY},
        {"Mcp_Method": None},
        {"Mcp_Method": "prompts/list"},
        {"Mcp_Method": "TOOLS/LIST"},
    ],
)
def test_headers_that_do_not_repeat_the_body_are_refused(alice_api, headers):
    assert error(modern(alice_api, "tools/list", **headers)) == (400, -32020)


def test_an_unknown_version_is_told_which_there_are(alice_api):
    meta = {**META, f"{PREFIX}/protocolVersion": "2031-01-01"}
    answer = modern(alice_api, "tools/list", meta=meta, MCP_Protocol_Version="2031-01-01")
    assert error(answer) == (400, -32022)
    assert answer.json()["error"]["data"] == {"supported": methods.SUPPORTED, "requested": "2031-01-01"}
    assert answer.json()["id"] == 1
    assert legacy(alice_api, "tools/list", **{"MCP-Protocol-Version": "2031-01-01"}).status_code == 400


def test_a_method_that_there_is_not(alice_api):
    for method in ("ping", "initialize", "logging/setLevel", "nothing"):
        assert error(modern(alice_api, method)) == (404, -32601)
    assert error(legacy(alice_api, "nothing")) == (200, -32601)
    assert error(legacy(alice_api, "server/discover")) == (200, -32601)


@pytest.mark.parametrize(
    "body, code",
    [
        ([], -32600),
        ("[]", -32600),
        ({"method": "ping", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602),
    ],
)
def test_what_is_no_message_is_refused(alice_api, body, code):
    assert error(alice_api.post("/mcp", body)) == (400, code)
    broken = alice_api.post("/mcp", "{", content_type="application/json")
    assert error(broken) == (400, -32700) and "id" not in broken.json()


def test_other_streams_are_not_offered(alice_api):
    assert alice_api.get("/mcp", headers={"Accept": "text/event-stream"}).status_code == 405
    assert alice_api.delete("/mcp").status_code == 405
    wrong = alice_api.get("/mcp", headers={"Accept": "text/event-stream", "Last-Event-ID": "abc"})
    assert error(wrong) == (400, -32602)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_belongs_to_one_person_and_ends_once(alice_api, charlie_api):
    id = initialize(alice_api)["Mcp-Session-Id"]
    session = {"Mcp-Session-Id": id, "MCP-Protocol-Version": LEGACY}
    assert legacy(alice_api, "notifications/initialized", id=None, **session).status_code == 202
    assert legacy(alice_api, "ping", **session).json()["result"] == {}
    assert legacy(charlie_api, "ping", **session).status_code == 404
    assert charlie_api.delete("/mcp", headers=session).status_code == 404
    assert alice_api.delete("/mcp", headers=session).status_code == 204
    assert legacy(alice_api, "ping", **session).status_code == 404
    for changed in (id[:-3] + "xyz", "x" * 5000, "a:b:c"):
        assert legacy(alice_api, "ping", **{"Mcp-Session-Id": changed}).status_code == 404


# -- who may --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://testserver.evil.example"])
def test_pages_of_other_sites_are_refused(alice_api, origin):
    answer = modern(alice_api, "tools/list", Origin=origin)
    assert error(answer) == (403, -32000) and "id" not in answer.json()
    assert modern(alice_api, "tools/list", Origin="http://testserver").status_code == 200


def test_a_host_that_only_resolves_to_this_machine_is_refused(alice_api):
    answer = modern(alice_api, "tools/list", Host="evil.example", Origin="http://evil.example")
    assert answer.status_code in (400, 403)


def test_a_login_session_is_no_credential(alice, signed_in):
    browser = signed_in(alice)
    answer = browser.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, content_type="application/json")
    assert error(answer) == (401, -32000) and answer["WWW-Authenticate"].startswith("Bearer")


def test_team_mates_find_what_is_shared_and_strangers_nothing(alice, team, agent, alice_api, bob_api, charlie_api):
    agent.publish()
    publish(alice)
    assert names(alice_api) == ["add", "librarian"]
    assert names(bob_api) == names(charlie_api) == []
    Agent.objects.filter(pk=agent.pk).update(team=team)
    assert names(bob_api) == ["librarian"] and names(charlie_api) == []
    for client, name in ((charlie_api, "librarian"), (charlie_api, "add"), (bob_api, "add"), (alice_api, "nothing")):
        assert error(modern(client, "tools/call", {"name": name, "arguments": {"task": "x", "a": 1}})) == (200, -32602)
    assert modern(alice_api, "tools/call", {"name": "add", "arguments": {"a": 1}}).json()["result"]["content"] == [
        {"type": "text", "text": "3"}
    ]


def test_an_unknown_argument_of_an_agent_is_told_with_the_names_that_there_are(alice, agent, alice_api):
    agent.publish()
    for arguments in ({"message": "Find books."}, {"task": "Find books.", "topic": "x"}):
        answer = modern(alice_api, "tools/call", {"name": "librarian", "arguments": arguments})
        result = answer.json()["result"]
        assert result["isError"] and "The names are session, task." in result["content"][0]["text"]
    assert not Run.objects.exists()


def test_a_key_finds_what_its_scopes_allow(alice, agent, api):
    agent.publish()
    publish(alice)
    assert names(api(alice, "functions:execute")) == ["add"]
    assert names(api(alice, "messages:write")) == ["librarian"]
    assert names(api(alice, "runs:read")) == []
    refused = modern(api(alice, "messages:write"), "tools/call", {"name": "add", "arguments": {"a": 1}})
    assert error(refused) == (200, -32602)


def test_drafts_and_what_is_switched_off_are_no_tools(alice, agent, alice_api):
    assert names(alice_api) == []
    agent.publish()
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    assert names(alice_api) == []


# -- tools ------------------------------------------------------------------------------------------------------------


def test_rows_with_one_name_have_their_kind_before_it(alice, agent, alice_api):
    publish(alice, ADD.replace("add", "librarian"), "librarian", entry="librarian")
    agent.publish()
    assert names(alice_api) == ["agent.librarian", "function.librarian"]
    answer = modern(alice_api, "tools/call", {"name": "librarian", "arguments": {"a": 1}})
    assert error(answer) == (200, -32602) and "function.librarian" in answer.json()["error"]["message"]
    found = modern(alice_api, "tools/call", {"name": "function.librarian", "arguments": {"a": 1}}).json()["result"]
    assert found["content"] == [{"type": "text", "text": "3"}]


def test_the_list_has_pages(alice, offline, alice_api, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(methods, "PAGE", 2)
    for name in "abcde":
        Agent.objects.create(name=name, owner=alice, provider=offline).publish()
    found, params = [], {}
    for _ in range(3):
        with django_assert_max_num_queries(8):
            page = modern(alice_api, "tools/list", params).json()["result"]
        found += [tool["name"] for tool in page["tools"]]
        params = {"cursor": page.get("nextCursor")}
    assert found == [*"abcde"] and "nextCursor" not in page
    for cursor in ("%%%", 7, "", "AA=="):
        assert error(modern(alice_api, "tools/list", {"cursor": cursor})) == (200, -32602)


def test_annotations_follow_the_effects_of_what_an_agent_may_call(alice, agent, alice_api):
    reading = Tool.objects.create(name="look", kind="builtin", effect="read", owner=alice)
    ToolGrant.objects.create(agent=agent, tool=reading)
    agent.publish()
    [tool] = modern(alice_api, "tools/list").json()["result"]["tools"]
    assert tool["annotations"] == {"title": "librarian", "readOnlyHint": True, "openWorldHint": False}
    wiping = Tool.objects.create(name="wipe", kind="builtin", effect="destructive", owner=alice)
    ToolGrant.objects.create(agent=agent, tool=wiping, mode="ask")
    agent.publish()
    [tool] = modern(alice_api, "tools/list").json()["result"]["tools"]
    assert tool["annotations"]["destructiveHint"] is True and tool["annotations"]["readOnlyHint"] is False
    other = Tool.objects.create(name="helper", kind="agent", effect="idempotent", owner=alice)
    ToolGrant.objects.create(agent=agent, tool=other)
    agent.publish()
    [tool] = modern(alice_api, "tools/list").json()["result"]["tools"]
    assert tool["annotations"] == {"title": "librarian"}  # unknown: what the specification takes for the worst


def test_arguments_marked_for_headers_are_compared(alice, alice_api):
    function = publish(alice, ADD.replace("add", "route"), "route", entry="route")
    schema = {**function.published.spec["input_schema"]}
    schema["properties"] = {**schema["properties"], "a": {"type": "integer", "x-mcp-header": "Place"}}
    spec = {**function.published.spec, "input_schema": schema}
    type(function.published).objects.filter(pk=function.published_id).update(spec=spec)
    call = {"name": "route", "arguments": {"a": 1}}
    assert error(modern(alice_api, "tools/call", call)) == (400, -32020)
    assert error(modern(alice_api, "tools/call", call, **{"Mcp-Param-Place": "2"})) == (400, -32020)
    assert (
        modern(alice_api, "tools/call", call, **{"Mcp-Param-Place": "1"}).json()["result"]["content"][0]["text"] == "3"
    )
    encoded = {"Mcp-Param-Place": "=?base64?MQ==?="}
    assert modern(alice_api, "tools/call", call, **encoded).status_code == 200
    assert error(modern(alice_api, "tools/call", {"name": "route"}, **{"Mcp-Param-Place": "1"})) == (400, -32020)


def test_a_name_outside_ascii_is_compared_decoded(alice_api):
    encoded = "=?base64?w6Q=?="
    answer = modern(alice_api, "tools/call", {"name": "ä"}, Mcp_Name=encoded)
    assert error(answer) == (200, -32602)
    assert error(modern(alice_api, "tools/call", {"name": "ä"}, Mcp_Name="=?base64?!!?=")) == (400, -32020)
