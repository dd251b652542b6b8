"""The tools of a collection: what a model finds, cites and reads, and that strangers' text is marked."""

import pytest

from agents.models import Tool
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolSpec
from knowledge.collections import catalog, storage
from knowledge.models import Collection, Document
from knowledge.tools import KnowledgeToolset
from tests.knowledge.documents import add, collection_with, index


@pytest.fixture
def handbook(alice):
    row = collection_with(alice, {"returns.md": "# Returns\n\nGoods may be returned within 30 days."})
    catalog.save_collection_tools(row)
    return row


def call(verb, alice, *, version=None, **arguments):
    row = Tool.objects.get(name=f"{verb}-handbook")
    spec = ToolSpec(
        id=row.pk, name=row.name, kind=row.kind, description=row.description, input_schema=row.input_schema,
        output_schema=None, effect=row.effect, source=row.source, definition_hash="", pinned_version=version,
    )  # fmt: skip
    return KnowledgeToolset().call(spec, ToolCall("1", row.name, arguments), ToolContext(user_id=alice.pk))


def test_search_cites_and_fetch_reads_the_place(alice, handbook):
    result = call("search", alice, query="returned goods")
    [found] = result.value["results"]
    assert (found["title"], found["text"]) == ("returns.md, Returns", "Goods may be returned within 30 days.")
    assert found["url"] == f"/collections/handbook/documents/{Document.objects.get().pk}/?at=0"
    read = call("fetch", alice, id=found["id"])
    assert (read.value["id"], read.value["title"]) == (found["id"], "returns.md, Returns")
    assert read.value["text"] == "Goods may be returned within 30 days."
    assert read.value["metadata"] == {
        "document": "returns.md", "page": None, "heading": "Returns", "version": 1, "source": None, "next": None,
    }  # fmt: skip


def test_text_of_others_is_marked_and_own_text_is_not(alice, handbook):
    add(handbook, "own.md", "Our parcels leave on Mondays.", untrusted=False)
    index()
    assert call("search", alice, query="goods").untrusted and not call("search", alice, query="parcels").untrusted
    [own] = call("search", alice, query="parcels").value["results"]
    assert not call("fetch", alice, id=own["id"]).untrusted


def test_a_grant_with_a_version_keeps_to_it(alice, handbook):
    add(handbook, "returns.md", "Goods are never returned.")
    index()
    [now], [then] = (call("search", alice, query="goods", version=number).value["results"] for number in (None, 1))
    assert (now["text"], then["text"]) == ("Goods are never returned.", "Goods may be returned within 30 days.")
    assert call("fetch", alice, id=then["id"], version=1).value["text"] == then["text"]
    with pytest.raises(RetryTool):
        call("fetch", alice, id=then["id"])
    with pytest.raises(ToolFailed, match="no version 9"):
        call("search", alice, query="goods", version=9)


def test_fetch_never_leaves_its_collection(alice, bob, handbook):
    collection_with(bob, {"secret.md": "The safe is behind the picture."})
    other = Document.objects.get(name="secret.md")
    for id in (f"{other.pk}:0", str(other.pk), "x", "", f"{other.pk}:-1"):
        with pytest.raises(RetryTool):
            call("fetch", alice, id=id)


def test_a_long_document_is_read_part_by_part(alice, handbook):
    add(handbook, "long.md", "\n\n".join(f"Part {number}. " + "Goods are counted. " * 60 for number in range(40)))
    index()
    id, text = f"{Document.objects.get(name='long.md').pk}:0", ""
    for _ in range(10):
        read = call("fetch", alice, id=id).value
        text += read["text"]
        if (id := read["metadata"]["next"]) is None:
            break
    assert id is None and all(f"Part {number}." in text for number in range(40))


def test_the_tools_follow_the_collection(alice, alice_api, handbook, team):
    answer = alice_api.patch(
        "/api/v1/collections/handbook", {"team": team.name, "name": "rules", "description": "Of the shop."},
        "application/json",
    )  # fmt: skip
    assert answer.status_code == 200, answer.json()
    rows = Tool.objects.filter(source__collection=handbook.pk).order_by("name")
    assert [(row.name, row.team) for row in rows] == [("fetch-rules", team), ("search-rules", team)]
    assert "Of the shop." in rows[1].description


def test_a_deleted_collection_says_so(alice, handbook):
    storage.erase_collection(handbook)
    Collection.objects.all().delete()
    with pytest.raises(ToolFailed, match="deleted"):
        call("search", alice, query="goods")
