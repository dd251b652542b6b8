"""The LangGraph API on rows alone: queries, searches by metadata, the store, team-mates."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import AuditEvent, StoredItem
from gateway.langgraph import store
from runs.models import Session

pytestmark = pytest.mark.django_db
NOTES = ["notes", "alice"]
JSON = {"content_type": "application/json"}


@pytest.fixture
def thread_of(alice):
    def make(user=alice, **metadata):
        session = Session.objects.create(owner=user, metadata=metadata, variables={"agent_depth": 0})
        session.add_message("user", [{"type": "text", "text": "hi"}])
        calls = [{"id": "c1", "name": "calculate", "arguments": {}, "result": "2"}]
        session.add_message("assistant", [{"type": "text", "text": "Hello."}], tool_calls=calls)
        return session

    return make


def test_a_page_of_threads_takes_the_same_queries_however_long(alice_api, thread_of):
    alice_api.post("/langgraph/threads/search", {})  # the key is marked as used
    counts = []
    for number in (1, 5):
        for _ in range(number):
            thread_of()
        with CaptureQueriesContext(connection) as made:
            found = alice_api.post("/langgraph/threads/search", {"limit": 100}).json()
        assert [one["type"] for one in found[0]["values"]["messages"]] == ["human", "ai", "tool", "ai"]
        counts.append(len(made))
    assert len(found) == 6 and counts[0] == counts[1] <= 4


@pytest.mark.parametrize("value", [True, False, None, 1, 1.5, "x", {"a": 1}, ["a"], "a__b"])
@pytest.mark.parametrize("key", ["vip", "a b", "$x", "a'b", "key__gt"])
def test_searching_by_metadata(alice_api, thread_of, key, value):
    wanted = thread_of(**{key: value})
    thread_of(**{key: "other"})
    thread_of(other=value)
    found = alice_api.post("/langgraph/threads/search", {"metadata": {key: value}}).json()
    assert [one["thread_id"] for one in found] == [str(wanted.pk)]


@pytest.mark.parametrize("key", ["7", 'q"uote'])
def test_a_key_that_cannot_be_searched_is_refused(alice_api, key):
    assert alice_api.post("/langgraph/threads/search", {"metadata": {key: 1}}).status_code == 422


@pytest.mark.parametrize(
    "body",
    [{"limit": -1}, {"limit": 2000}, {"limit": "x"}, {"offset": True}, {"status": "x"}, {"sort_by": "x"},
     {"select": ["x"]}, {"ids": "x"}, {"metadata": []}, {"values": {"a": 1}}, {"extract": {"a": "b"}}],
)  # fmt: skip
def test_searches_that_are_refused(alice_api, body):
    assert alice_api.post("/langgraph/threads/search", body).status_code == 422


def test_sorting_and_paging_threads(alice_api, thread_of):
    ids = [str(thread_of().pk) for _ in range(3)]

    def found(**body):
        return [one["thread_id"] for one in alice_api.post("/langgraph/threads/search", body).json()]

    assert found(sort_by="created_at") == ids[::-1] and found(sort_by="created_at", sort_order="asc") == ids
    assert found(sort_by="created_at", limit=1, offset=1) == [ids[1]]


def test_a_team_mate_uses_a_shared_agent_but_sees_no_thread(alice, alice_api, bob_api, charlie_api, make_agent, team):
    agent = make_agent("sharer")
    agent.team = team
    agent.save()
    thread = alice_api.post("/langgraph/threads", {}).json()["thread_id"]
    assert bob_api.get("/langgraph/assistants/sharer").json()["metadata"]["owner"] == alice.get_username()
    assert bob_api.get(f"/langgraph/threads/{thread}").status_code == 404
    for api, status in ((bob_api, 403), (charlie_api, 404), (alice_api, 200)):
        assert api.post("/langgraph/assistants/sharer/latest", {"version": 1}).status_code == status


# -- the store --------------------------------------------------------------------------------------------------------


def put(api, namespace=NOTES, key="one", value=None, **more):
    body = {"namespace": namespace, "key": key, "value": {"a": 1} if value is None else value, **more}
    return api.put("/langgraph/store/items", body, **JSON)


def keys_in(api, **body):
    return [one["key"] for one in api.post("/langgraph/store/items/search", body).json()["items"]]


def test_items_are_kept_and_deleted(alice_api):
    assert put(alice_api).status_code == put(alice_api, value={"a": 2}).status_code == 204
    item = alice_api.get("/langgraph/store/items?namespace=notes.alice&key=one").json()
    assert (item["namespace"], item["key"], item["value"]) == (NOTES, "one", {"a": 2})
    assert alice_api.delete("/langgraph/store/items", {"namespace": NOTES, "key": "one"}, **JSON).status_code == 204
    assert alice_api.get("/langgraph/store/items?namespace=notes.alice&key=one").status_code == 404
    lines = AuditEvent.objects.filter(action__startswith="storeditem.").order_by("pk")
    assert [line.action.partition(".")[2] for line in lines] == ["created", "updated", "deleted"]


def test_items_are_found_by_namespace_and_value(alice_api):
    put(alice_api, key="one", value={"colour": "red", "rank": 1})
    put(alice_api, ["notes"], "two", {"colour": "blue", "rank": 1})
    put(alice_api, ["Notes"], "three")
    put(alice_api, ["notes_of_bob"], "four")
    assert keys_in(alice_api, namespace_prefix=["notes"]) == ["two", "one"]
    assert len(keys_in(alice_api, namespace_prefix=[])) == 4
    assert keys_in(alice_api, namespace_prefix=[], filter={"colour": "red", "rank": 1}) == ["one"]
    assert keys_in(alice_api, namespace_prefix=["notes"], limit=1, offset=1) == ["one"]

    def names(**body):
        return alice_api.post("/langgraph/store/namespaces", body).json()["namespaces"]

    assert names(prefix=["notes"]) == [["notes"], ["notes", "alice"]] and names(suffix=["alice"]) == [NOTES]
    assert names(prefix=["notes"], max_depth=1) == [["notes"]]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"namespace": []}, "namespace"),
        ({"namespace": ["a.b"]}, "namespace"),
        ({"namespace": "a"}, "namespace"),
        ({"namespace": ["a" * 501]}, "namespace"),
        ({"key": ""}, "key"),
        ({"key": "k" * 201}, "key"),
        ({"value": [1]}, "value"),
        ({"value": 5}, "value"),
        ({"ttl": 5}, "ttl"),
        ({"index": ["a"]}, "index"),
    ],
)
def test_items_that_are_refused(alice_api, more, field):
    answer = put(alice_api, **more)
    assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == field
    assert not StoredItem.objects.exists()


def test_searches_that_would_need_an_index_are_refused(alice_api):
    for body in ({"query": "cats"}, {"filter": {"rank": {"$gt": 1}}}):
        assert alice_api.post("/langgraph/store/items/search", {"namespace_prefix": [], **body}).status_code == 422


def test_the_store_has_limits(alice_api, bob_api, monkeypatch):
    monkeypatch.setattr(store, "MAX_BYTES", 40)
    monkeypatch.setattr(store, "MAX_VALUE", 30)
    assert put(alice_api, value={"a": "x" * 40}).json()["code"] == "too_large"
    assert put(alice_api, key="1", value={"a": "x" * 15}).status_code == 204
    assert put(alice_api, key="1", value={"a": "y" * 18}).status_code == 204  # it takes the place of the first
    assert put(alice_api, key="2", value={"a": "x" * 18}).json()["code"] == "store_full"
    assert put(bob_api, key="2", value={"a": "x" * 18}).status_code == 204


def test_nobody_else_sees_the_items(alice_api, bob_api, charlie_api, api, alice):
    put(alice_api)
    for other in (bob_api, charlie_api):
        assert other.get("/langgraph/store/items?namespace=notes.alice&key=one").status_code == 404
        assert keys_in(other, namespace_prefix=[]) == []
        assert other.post("/langgraph/store/namespaces", {}).json() == {"namespaces": []}
        other.delete("/langgraph/store/items", {"namespace": NOTES, "key": "one"}, **JSON)
        put(other, value={"b": 1})
    assert alice_api.get("/langgraph/store/items?namespace=notes.alice&key=one").json()["value"] == {"a": 1}
    reader = api(alice, "sessions:read")
    assert put(reader).status_code == 403 and keys_in(reader, namespace_prefix=[]) == ["one"]
    assert reader.delete("/langgraph/store/items", {"namespace": NOTES, "key": "one"}, **JSON).status_code == 403
