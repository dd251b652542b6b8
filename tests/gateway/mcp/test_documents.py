"""The tools `search` and `fetch` over all collections: their shapes, who has them, and what they find."""

import json

import pytest

from agents.models import AuditEvent
from knowledge.models import Collection
from tests.functions.library import publish
from tests.gateway.mcp.test_protocol import error, legacy, modern
from tests.knowledge.documents import add, collection_with, index

pytestmark = pytest.mark.django_db
RETURNS = "# Returns\n\nGoods may be returned within 30 days."
TOOLS = {"search", "fetch"}


@pytest.fixture
def handbook(alice):
    return collection_with(alice, {"returns.md": RETURNS})


def result(answer):
    assert answer.status_code == 200, answer.content
    return answer.json()["result"]


def names(client):
    return {one["name"] for one in result(modern(client, "tools/list"))["tools"]}


def call(client, name, **arguments):
    return result(modern(client, "tools/call", {"name": name, "arguments": arguments}))


def found(client, query):
    return [one["title"] for one in call(client, "search", query=query)["structuredContent"]["results"]]


def test_search_and_fetch_have_the_shapes_that_hosts_expect(alice_api, handbook, settings):
    settings.PUBLIC_URL = "https://muster.example"
    searched = call(alice_api, "search", query="How long may goods be returned?")
    [one] = searched["structuredContent"]["results"]
    assert one.keys() == {"id", "title", "url"} and one["title"] == "returns.md, Returns"
    document = handbook.documents.get()
    assert one["url"] == f"https://muster.example/collections/handbook/documents/{document.pk}/?at=0"
    assert [json.loads(part["text"]) for part in searched["content"]] == [searched["structuredContent"]]
    fetched = call(alice_api, "fetch", id=one["id"])
    value = fetched["structuredContent"]
    assert value.keys() == {"id", "title", "text", "url", "metadata"}
    assert (value["id"], value["url"], value["title"]) == (one["id"], one["url"], one["title"])
    assert value["text"] == "Goods may be returned within 30 days."
    assert value["metadata"]["collection"] == "handbook" and set(map(type, value["metadata"].values())) == {str}
    assert json.loads(fetched["content"][0]["text"]) == value


def test_they_are_listed_for_people_who_may_use_a_collection(api, alice, alice_api, charlie_api, handbook):
    tools = {one["name"]: one for one in result(modern(alice_api, "tools/list"))["tools"]}
    assert tools.keys() >= TOOLS and tools["search"]["annotations"]["readOnlyHint"]
    assert tools["search"]["inputSchema"]["required"] == ["query"] and tools["fetch"]["inputSchema"]["required"] == [
        "id"
    ]
    assert {one["name"] for one in result(legacy(alice_api, "tools/list"))["tools"]} >= TOOLS
    assert not TOOLS & names(charlie_api) and not TOOLS & names(api(alice, "functions:execute"))
    assert names(api(alice, "collections:read")) == TOOLS


def test_a_stranger_finds_nothing_and_a_team_mate_what_is_shared(alice, bob_api, charlie_api, team, handbook):
    [place] = handbook.documents.values_list("pk", flat=True)
    for client in (bob_api, charlie_api):
        assert error(modern(client, "tools/call", {"name": "fetch", "arguments": {"id": f"{place}:0"}})) == (
            200,
            -32602,
        )
    Collection.objects.filter(pk=handbook.pk).update(team=team)
    assert found(bob_api, "returned goods") == ["returns.md, Returns"]
    assert call(bob_api, "fetch", id=f"{place}:0")["structuredContent"]["text"].startswith("Goods")


def test_a_person_with_a_collection_reads_no_document_of_others(bob, bob_api, handbook):
    collection_with(bob, {"mine.md": "Parcels."}, name="mine")
    [place] = handbook.documents.values_list("pk", flat=True)
    assert found(bob_api, "returned goods") == []
    refused = call(bob_api, "fetch", id=f"{place}:0")
    assert refused["isError"] and "no document with this id" in refused["content"][0]["text"]


def test_all_collections_are_searched_and_the_better_place_is_first(alice, alice_api, handbook):
    collection_with(alice, {"prices.md": "Goods have prices."}, name="prices")
    collection_with(alice, {"staff.md": "Staff has lunch at noon."}, name="staff")
    assert found(alice_api, "When may goods be returned?") == ["returns.md, Returns", "prices.md, part 1"]
    assert found(alice_api, "goods prices")[0] == "prices.md, part 1"


def test_what_strangers_wrote_is_marked(alice, alice_api, handbook):
    assert call(alice_api, "search", query="goods")["_meta"]["muster/untrusted"] is True
    add(handbook, "own.md", "Parcels leave on Mondays.", untrusted=False)
    index()
    mine = call(alice_api, "search", query="parcels")
    assert mine["_meta"]["muster/untrusted"] is False
    [one] = mine["structuredContent"]["results"]
    fetched = call(alice_api, "fetch", id=one["id"])
    assert fetched["_meta"]["muster/untrusted"] is False and "untrusted" not in fetched["structuredContent"]["metadata"]


def test_a_function_of_the_name_search_and_the_tool_have_their_kinds_before_it(alice, alice_api, handbook):
    publish(alice, "def search(text: str) -> str:\n    return text", "search", entry="search")
    assert {"function.search", "collections.search", "fetch"} <= names(alice_api)
    assert call(alice_api, "collections.search", query="goods")["structuredContent"]["results"]
    assert error(modern(alice_api, "tools/call", {"name": "search", "arguments": {"query": "a"}})) == (200, -32602)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {}), ("search", {"query": ""}), ("search", {"query": 7}), ("search", {"query": "a" * 501}),
        ("fetch", {"id": "nothing"}), ("fetch", {"id": "device:x"}), ("fetch", {}),
    ],
)  # fmt: skip
def test_wrong_arguments_are_answered_in_words(alice_api, handbook, name, arguments):
    assert call(alice_api, name, **arguments)["isError"]


def test_each_call_is_in_the_audit_log_without_the_question(alice, alice_api, handbook):
    [one] = call(alice_api, "search", query="goods")["structuredContent"]["results"]
    call(alice_api, "fetch", id=one["id"])
    events = AuditEvent.objects.filter(source="mcp").order_by("id")
    assert [event.action for event in events] == ["collections.searched", "collection.fetched"]
    assert all(event.actor == alice for event in events) and "goods" not in str(events[0].details)
    assert events[0].details["collections"] == ["handbook"] and events[1].details["place"] == one["id"]
