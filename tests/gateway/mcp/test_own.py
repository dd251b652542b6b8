"""What people offer to MCP clients with functions and chains of their own: content of results, prompts, resources,
log messages, subscriptions, and what an agent asks the client itself.
"""

import json

import pytest

from agents import storage
from agents.models import ApiKey, Chain, Tool
from connectors.mcp.messages import LEGACY
from functions.models import StoredFunction
from gateway.mcp import content, own_resources, sessions, subscriptions
from gateway.mcp.protocol import RpcRequest
from runs.events.record import name_event_channel
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import endings
from tests.costs import measure_cpu
from tests.functions.library import publish
from tests.gateway.mcp import conformance
from tests.gateway.mcp.test_protocol import META, PREFIX, error, initialize, legacy, modern

PROMPT = """def main(topic: str, deep: bool = False) -> dict:
    text = {"type": "text", "text": f"{topic} {deep}"}
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": text}]}
"""
DATA = 'def main(id: str, part: int = 0) -> dict:\n    return {"id": id, "part": part}\n'


@pytest.fixture
def offer(alice):
    """`offer("name", source, marks)` publishes a function of Alice with these keywords in its input schema."""

    def make(name, source, owner=alice, **marks):
        imports = [module for module in ("base64", "time") if module in source]
        function = publish(owner, source, name, entry="main", allowed_imports=imports)
        spec = {**function.published.spec, **marks.pop("spec", {})}
        spec["input_schema"] = {
            **spec["input_schema"],
            **{key.replace("_", "-"): value for key, value in marks.items()},
        }
        type(function.published).objects.filter(pk=function.published_id).update(spec=spec)
        return function

    return make


def call(client, name, arguments=None, **more):
    answer = modern(client, "tools/call", {"name": name, "arguments": arguments or {}, **more})
    assert answer.status_code == 200, answer.content
    return answer.json()["result"]


# -- content of results -----------------------------------------------------------------------------------------------


def test_what_a_function_saves_is_content_of_its_result(alice_api, offer):
    png, wav = conformance.decoded(conformance.PNG), conformance.decoded(conformance.WAV)
    offer("draw", conformance.saves(("a.png", png), ("a.wav", wav), ("a b.txt", '"Text."'), ("a.bin", 'b"\\x00\\x01"')))
    text, image, sound, note, other = call(alice_api, "draw")["content"]
    assert text == {"type": "text", "text": "Multiple content types test:"}
    assert (image["type"], image["mimeType"], image["data"]) == ("image", "image/png", conformance.PNG)
    assert (sound["type"], sound["mimeType"]) == ("audio", "audio/wav")
    assert note == {
        "type": "resource",
        "resource": {"uri": "muster://result/a%20b.txt", "mimeType": "text/plain", "text": "Text."},
    }
    assert other["resource"]["blob"] == "AAE="


def test_a_result_has_room_for_so_much(alice_api, offer, monkeypatch):
    monkeypatch.setattr(content, "LARGEST", 3)
    offer("draw", conformance.saves(("a.txt", '"Text."')))
    result = call(alice_api, "draw")
    assert result["isError"] and "3 bytes" in result["content"][0]["text"]


OWN = [{"type": "text", "text": "a"}, {"type": "resource_link", "uri": "https://example.com/", "name": "b"}]


@pytest.mark.parametrize(
    "value, is_own",
    [
        ({"content": OWN}, True),
        ({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}, True),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "t"}}]}, True),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "t", "blob": "AA=="}}]}, False),
        ({"content": OWN, "isError": False}, False),  # more than content
        ({"content": []}, False),
        ({"content": [{"type": "text"}]}, False),
        ({"content": [{"type": "video", "data": "AA=="}]}, False),
        ({"content": "words"}, False),
    ],
)
def test_a_result_in_mcps_own_form_is_sent_as_it_is(alice_api, offer, value, is_own):
    offer("speak", f"def main() -> dict:\n    return {value!r}\n", spec={"output_schema": None})
    found = call(alice_api, "speak")["content"]
    assert found == value["content"] if is_own else json.loads(found[0]["text"]) == value


def test_small_files_of_a_run_are_content_and_the_others_links(alice, monkeypatch):
    monkeypatch.setattr(content, "LARGEST_TOTAL", 10)
    files = [storage.save_file(alice.pk, f"{text}.txt", text.encode()) for text in ("one", "two", "long text", "three")]
    blocks = content.of_stored(files)
    assert [block["type"] for block in blocks] == ["resource", "resource", "resource_link", "resource_link"]
    assert blocks[0]["resource"] == {"uri": f"muster://files/{files[0].pk}", "mimeType": "text/plain", "text": "one"}


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_a_function_writes_a_prompt(alice_api, charlie_api, api, alice, offer):
    offer("brief", PROMPT, x_mcp_prompt=True)
    offer("plain", PROMPT)
    [prompt] = modern(alice_api, "prompts/list").json()["result"]["prompts"]
    assert prompt["name"] == "brief"
    asked = {one["name"]: one["required"] for one in prompt["arguments"]}  # PostgreSQL keeps no order of keys
    assert asked == {"topic": True, "deep": False}
    ask = {"name": "brief", "arguments": {"topic": "Tea", "deep": "true"}}
    messages = modern(alice_api, "prompts/get", ask).json()["result"]["messages"]
    assert [(one["role"], one["content"]["text"]) for one in messages] == [
        ("user", "Tea True"),
        ("assistant", "Tea True"),
    ]
    assert modern(charlie_api, "prompts/list").json()["result"]["prompts"] == []
    assert error(modern(charlie_api, "prompts/get", ask)) == (200, -32602)
    assert error(modern(api(alice, "messages:write"), "prompts/get", ask)) == (200, -32602), "functions:execute lacks"
    assert error(modern(alice_api, "prompts/get", {"name": "plain", "arguments": {"topic": "Tea"}})) == (200, -32602)
    assert error(modern(alice_api, "prompts/get", {"name": "brief"})) == (200, -32602)
    assert error(modern(alice_api, "prompts/get", {**ask, "arguments": {"topic": "Tea", "deep": "so"}})) == (
        200,
        -32602,
    )


def test_a_text_is_one_message_and_a_failure_an_error(alice_api, offer):
    offer("hello", 'def main() -> str:\n    return "Hello."\n', x_mcp_prompt=True)
    offer("broken", 'def main() -> str:\n    raise ValueError("no")\n', x_mcp_prompt=True)
    [message] = modern(alice_api, "prompts/get", {"name": "hello"}).json()["result"]["messages"]
    assert message == {"role": "user", "content": {"type": "text", "text": "Hello."}}
    assert error(modern(alice_api, "prompts/get", {"name": "broken"})) == (200, -32603)


# -- resources --------------------------------------------------------------------------------------------------------


def read(client, uri, sender=modern):
    return sender(client, "resources/read", {"uri": uri})


def test_functions_are_resources_at_their_address(alice_api, charlie_api, api, alice, offer):
    offer("note", 'def main() -> str:\n    """A note."""\n    return "Words."\n', x_mcp_resource="notes://today")
    offer("data", DATA, x_mcp_resource="data://{id}/part/{part}")
    rows = modern(alice_api, "resources/list").json()["result"]["resources"]
    assert [(row["uri"], row["name"]) for row in rows] == [("notes://today", "note")]
    templates = modern(alice_api, "resources/templates/list").json()["result"]["resourceTemplates"]
    assert templates[-1]["uriTemplate"] == "data://{id}/part/{part}"
    [text] = read(alice_api, "notes://today").json()["result"]["contents"]
    assert text == {"uri": "notes://today", "mimeType": "text/plain", "text": "Words."}
    [data] = read(alice_api, "data://a%20b/part/7").json()["result"]["contents"]
    assert (data["mimeType"], json.loads(data["text"])) == ("application/json", {"id": "a b", "part": 7})
    assert error(read(alice_api, "data://a/b/part/7")) == (200, -32602), "a variable is one part of the path"
    assert error(read(alice_api, "data://a/part/x")) == (200, -32602), "arguments match the schema"
    for stranger in (charlie_api, api(alice, "messages:write")):
        assert modern(stranger, "resources/list").json()["result"]["resources"] == []
        assert error(read(stranger, "notes://today")) == (200, -32602)


def test_a_saved_picture_is_the_content_of_a_resource(alice_api, offer):
    offer("pixel", conformance.saves(("a.png", conformance.decoded(conformance.PNG))), x_mcp_resource="image://pixel")
    [found] = read(alice_api, "image://pixel").json()["result"]["contents"]
    assert found == {"uri": "image://pixel", "mimeType": "image/png", "blob": conformance.PNG}


@pytest.mark.parametrize("uri", ["muster://files/x", "no address", "", 7, None, "a:" + "b" * 600])
def test_what_is_no_address_is_no_resource(alice_api, offer, uri):
    offer("note", 'def main() -> str:\n    return "Words."\n', x_mcp_resource=uri)
    assert modern(alice_api, "resources/list").json()["result"]["resources"] == []


@pytest.mark.parametrize("effect", ["write", "idempotent", "sends_out", "destructive"])
def test_a_function_that_does_more_than_read_is_no_resource(alice_api, offer, effect):
    offer("note", 'def main() -> str:\n    return "Words."\n', x_mcp_resource="notes://a", spec={"effect": effect})
    assert modern(alice_api, "resources/list").json()["result"]["resources"] == []
    assert error(read(alice_api, "notes://a")) == (200, -32602)


def test_a_team_mate_reads_what_is_shared(alice, team, bob_api, offer):
    function = offer("note", 'def main() -> str:\n    return "Words."\n', x_mcp_resource="notes://team")
    assert error(read(bob_api, "notes://team")) == (200, -32602)
    StoredFunction.objects.filter(pk=function.pk).update(team=team)
    assert read(bob_api, "notes://team").json()["result"]["contents"][0]["text"] == "Words."


def test_values_of_a_templates_variable_are_suggested(alice_api, offer):
    source = 'from typing import Literal\n\n\ndef main(id: Literal["tea", "tee", "milk"]) -> str:\n    return id\n'
    function = publish(alice_api.user, source, "drink", entry="main", allowed_imports=["typing"])
    spec = {**function.published.spec}
    spec["input_schema"] = {**spec["input_schema"], "x-mcp-resource": "drinks://{id}"}
    type(function.published).objects.filter(pk=function.published_id).update(spec=spec)
    reference = {"type": "ref/resource", "uri": "drinks://{id}"}
    answer = modern(alice_api, "completion/complete", {"ref": reference, "argument": {"name": "id", "value": "te"}})
    assert answer.json()["result"]["completion"]["values"] == ["tea", "tee"]


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("notes://{id}", "notes://7", {"id": "7"}),
        ("notes://{id}", "notes://", None),
        ("notes://{id}", "notes://a/b", None),
        ("notes://{name}.{kind}", "notes://a.b.txt", {"name": "a.b", "kind": "txt"}),
        ("notes://{a}/{b}", "notes://a/b", {"a": "a", "b": "b"}),
        ("notes://{a}/{a}", "notes://a/b", None),
        ("notes://today", "notes://today", {}),
        ("notes://{a}{b}", "notes://abc", {"a": "ab", "b": "c"}),
    ],
)
def test_an_address_has_the_values_of_its_template(template, uri, values):
    assert own_resources.parse_template_values(template, uri) == values


def test_an_address_made_for_its_template_is_read_once():
    template = "x:" + "".join(f"{{v{number}}}-" for number in range(50)) + "!"
    uri = "x:" + "-" * 4000
    assert own_resources.parse_template_values(template, uri) is None
    assert measure_cpu(lambda: own_resources.parse_template_values(template, uri), below=0.1) < 0.1


# -- log messages and subscriptions -----------------------------------------------------------------------------------


def session_of(client, **capabilities):
    return {"Mcp-Session-Id": initialize(client, capabilities=capabilities).headers["Mcp-Session-Id"]}


def test_a_session_sets_its_level(alice_api, charlie_api):
    session = session_of(alice_api)
    assert legacy(alice_api, "logging/setLevel", {"level": "info"}, **session).json()["result"] == {}
    assert error(legacy(alice_api, "logging/setLevel", {"level": "loud"}, **session)) == (200, -32602)
    assert error(legacy(charlie_api, "logging/setLevel", {"level": "info"}, **session)) == (404, -32001)
    assert error(modern(alice_api, "logging/setLevel", {"level": "info"})) == (404, -32601)
    wrong = {**META, f"{PREFIX}/logLevel": "loud"}
    assert error(modern(alice_api, "tools/list", meta=wrong)) == (200, -32602)


@pytest.fixture
def run(alice, agent):
    agent.publish()
    return intake.accept_message(user=alice, agent="librarian", text="hello").run


def test_a_subscription_hears_of_changes_of_what_the_person_can_read(alice, alice_api, charlie_api, run):
    uri = f"muster://runs/{run.pk}"
    session, other = session_of(alice_api), session_of(charlie_api)
    assert legacy(alice_api, "resources/subscribe", {"uri": uri}, **session).json()["result"] == {}
    for wrong in (uri, "muster://runs/x", "muster://", "notes://none", f"{uri[:-1]}x"):
        assert error(legacy(charlie_api, "resources/subscribe", {"uri": wrong}, **other)) == (200, -32002)
    assert error(legacy(alice_api, "resources/subscribe", {"uri": uri})) == (200, -32600), "without a session"
    watch = watch_of(alice, session)
    assert (watch.changed(), watch.changed()) == ([], [])
    endings.cancel_run(run, by=alice, reason="")
    [heard] = watch.changed()
    assert (heard["method"], heard["params"]) == ("notifications/resources/updated", {"uri": uri})
    assert watch.changed() == []
    assert name_event_channel(run.pk) in watch.channels()
    legacy(alice_api, "resources/unsubscribe", {"uri": uri}, **session)
    assert watch.uris() == []


def watch_of(user, session):
    found = sessions.load_mcp_session(user, session["Mcp-Session-Id"])
    return subscriptions.of_session(RpcRequest(user, None, "", {}, None, found.version, session=found.digest))


def heard_of(watch):
    return sorted(one["method"].split("/")[1] for one in watch.changed())


def test_a_client_hears_that_its_lists_have_changed(alice, team, bob, alice_api, bob_api, run):
    """Alice shares a function with her team: Bob's lists change, and nobody else hears of it."""
    watches = {one.username: watch_of(one, session_of(client)) for one, client in ((alice, alice_api), (bob, bob_api))}
    assert {name: heard_of(one) for name, one in watches.items()} == {"alice": [], "bob": []}
    function = publish(alice, DATA, "made", entry="main")
    assert heard_of(watches["alice"]) == ["prompts", "resources", "tools"]
    assert heard_of(watches["bob"]) == []
    type(function).objects.filter(pk=function.pk).update(team=team)
    assert (heard_of(watches["alice"]), heard_of(watches["bob"])) == ([], ["prompts", "resources", "tools"])
    storage.save_file(alice.pk, "new.txt", b"x", declared="text/plain")
    assert (heard_of(watches["alice"]), heard_of(watches["bob"])) == (["resources"], [])


def test_a_list_that_the_scopes_hide_does_not_change(alice, api):
    api(alice, "messages:write")
    watch = subscriptions.of_session(RpcRequest(alice, ApiKey.objects.latest("pk"), "", {}, None, LEGACY))
    watch.changed()
    publish(alice, DATA, "made", entry="main")
    storage.save_file(alice.pk, "new.txt", b"x", declared="text/plain")
    assert watch.changed() == []


def test_a_session_subscribes_to_so_many(alice_api, run, monkeypatch):
    monkeypatch.setattr(subscriptions, "MOST", 1)
    session = session_of(alice_api)
    for uri, ok in ((f"muster://runs/{run.pk}", True), (f"muster://runs/{run.pk}/events", False)):
        answer = legacy(alice_api, "resources/subscribe", {"uri": uri}, **session).json()
        assert ("result" in answer) is ok


# -- what an agent asks the client ------------------------------------------------------------------------------------


@pytest.fixture
def sampling(alice, api):
    """A chain that asks the client's model."""
    client = api(alice, "*")
    body = {
        "name": "sample", "input_schema": {"type": "object", "properties": {}}, "steps": [conformance.SAMPLE],
        "grants": [{"tool": "ask_client_model"}],
    }  # fmt: skip
    Tool.objects.get_or_create(
        name="ask_client_model", defaults={"kind": "builtin", "source": {"builtin": "ask_client_model"}}
    )
    assert client.post("/api/v1/chains/", body).status_code == 201
    assert client.post("/api/v1/chains/sample/publish", {}).status_code == 200
    return Chain.objects.get(name="sample")


def test_a_client_that_cannot_be_asked_is_refused_before_anything_runs(alice_api, sampling):
    answer = modern(alice_api, "tools/call", {"name": "sample", "arguments": {}})
    assert error(answer) == (400, -32021)
    assert answer.json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert error(legacy(alice_api, "tools/call", {"name": "sample"}, **session_of(alice_api))) == (200, -32021)
    assert not Run.objects.exists()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_tasks_are_for_clients_that_declared_them(alice_api, method):
    answer = modern(alice_api, method, {"taskId": "0" * 32}, Mcp_Name="0" * 32)
    assert error(answer) == (400, -32021)
