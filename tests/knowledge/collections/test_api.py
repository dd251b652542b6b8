"""Collections over REST: their owner adds documents, everyone who may use them searches, strangers find nothing."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import MULTIPART_CONTENT

from agents.models import AuditEvent, Membership, StoredFile, Tool, ToolGrant
from knowledge import full_text
from knowledge.models import Chunk, Collection, Document
from tests.files import stored
from tests.knowledge.documents import add, collection_with, index

URL = "/api/v1/collections/"
HANDBOOK = f"{URL}handbook"
DOCUMENTS = f"{HANDBOOK}/documents/"
RETURNS = "# Returns\n\nGoods may be returned within 30 days.\n\n# Shipping\n\nParcels leave on Mondays."


@pytest.fixture
def handbook(alice):
    return collection_with(alice, {"returns.md": RETURNS})


def question(api, query="How are goods returned?", **more):
    return api.post(f"{HANDBOOK}/search", {"query": query, **more})


def test_a_person_makes_a_collection_adds_a_text_and_finds_it(alice_api):
    answer = alice_api.post(URL, {"name": "handbook", "description": "Rules of the shop."})
    assert answer.status_code == 201, answer.json()
    assert (answer.json()["version"], answer["Location"]) == (0, HANDBOOK)
    added = alice_api.post(DOCUMENTS, {"name": "returns.md", "media_type": "text/markdown", "text": RETURNS})
    assert added.status_code == 202, added.json()
    assert (added.json()["status"], added.json()["untrusted"], added.json()["size"]) == ("waiting", True, len(RETURNS))
    assert question(alice_api).json() == {"results": [], "not_searched": []}, "not before it was read"
    index()
    row = alice_api.get(added["Location"]).json()
    assert (row["status"], row["chunks"], row["from_version"], row["error"]) == ("ready", 2, 1, None)
    found = question(alice_api).json()["results"]
    assert [one["text"] for one in found][0] == "Goods may be returned within 30 days."
    assert found[0]["document"] == {"id": row["id"], "name": "returns.md", "untrusted": True, "device": None}
    assert found[0]["place"] == {
        "page": None, "heading": "Returns", "position": 0, "line": None, "text": "Returns",
    }  # fmt: skip
    assert found[0]["score"] > 0
    actions = AuditEvent.objects.filter(actor__username="alice").values_list("action", flat=True)
    assert sorted(actions) == ["collection.created", "document.added"]


def test_the_same_content_is_read_once_and_new_content_replaces_it(alice_api, handbook):
    body = {"name": "returns.md", "media_type": "text/markdown", "text": RETURNS}
    assert alice_api.post(DOCUMENTS, body).status_code == 200
    assert alice_api.post(DOCUMENTS, {**body, "text": "Goods are never returned."}).status_code == 202
    assert len(alice_api.get(DOCUMENTS).json()["results"]) == 2, "the old one is searched until the new one is read"
    assert "30 days" in question(alice_api).json()["results"][0]["text"]
    index()
    assert [one["text"] for one in question(alice_api).json()["results"]] == ["Goods are never returned."]
    assert "30 days" in question(alice_api, version=1).json()["results"][0]["text"], "a version keeps its content"
    assert [row["until_version"] for row in alice_api.get(DOCUMENTS, {"version": 1}).json()["results"]] == [2]


def test_a_removed_document_stays_in_earlier_versions_and_an_erased_one_does_not(alice_api, handbook):
    path = f"{DOCUMENTS}{Document.objects.get().pk}"
    assert alice_api.delete(path).status_code == 204
    assert question(alice_api).json()["results"] == []
    assert question(alice_api, version=1).json()["results"] != []
    assert alice_api.delete(f"{path}/erase").json() == {"erased": 1}
    assert question(alice_api, version=1).json()["results"] == []
    assert not Chunk.objects.exists() and not StoredFile.objects.exists()


def test_a_file_is_uploaded_as_a_form(alice_api, handbook):
    form = {"file": SimpleUploadedFile("hours.md", b"# Hours\n\nThe shop opens at nine.", "text/markdown")}
    added = alice_api.post(DOCUMENTS, form, MULTIPART_CONTENT)
    assert added.status_code == 202, added.json()
    assert (added.json()["name"], added.json()["source"], added.json()["untrusted"]) == ("hours.md", "upload", True)
    index()
    assert question(alice_api, "When does the shop open?").json()["results"][0]["place"]["heading"] == "Hours"
    form["file"].seek(0)
    assert alice_api.post(DOCUMENTS, form, MULTIPART_CONTENT).status_code == 200
    form = {"file": SimpleUploadedFile("a.md", b"a"), "txt": "b"}
    assert alice_api.post(DOCUMENTS, form, MULTIPART_CONTENT).status_code == 422


def test_a_file_of_a_person_becomes_a_document_and_outlives_it(alice_api, bob_api, alice, handbook):
    file = stored(alice, "hours.txt", b"The shop opens at nine.")
    added = alice_api.post(DOCUMENTS, {"file": str(file.pk)})
    assert (added.status_code, added.json()["name"], added.json()["source"]) == (202, "hours.txt", "file")
    index()
    assert question(alice_api, "When does the shop open?").json()["results"][0]["text"] == "The shop opens at nine."
    alice_api.delete(f"{added['Location']}/erase")
    assert StoredFile.objects.filter(pk=file.pk).exists()
    assert bob_api.post(URL, {"name": "mine"}).status_code == 201
    assert bob_api.post(f"{URL}mine/documents/", {"file": str(file.pk)}).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "Send one of"),
        ({"text": "a"}, "name"),
        ({"name": "a", "text": "a", "url": "https://example.com"}, "Send one of"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"name": "a", "text": "a", "txt": "b"}, "txt"),
        ({"name": "a", "text": "a", "untrusted": "no"}, "untrusted"),
        ({"name": "a", "text": 5}, "text"),
    ],
)
def test_a_document_that_cannot_be_meant_is_refused(alice_api, handbook, body, field):
    answer = alice_api.post(DOCUMENTS, body)
    assert answer.status_code == 422 and field in str(answer.json()), answer.json()
    assert Document.objects.count() == 1


def test_a_search_refuses_what_it_does_not_know(alice_api, handbook):
    assert question(alice_api, filters={}).status_code == 422
    assert question(alice_api, query="").status_code == 422
    assert question(alice_api, limit=51).status_code == 422
    assert question(alice_api, query='"; DROP TABLE x; -- NEAR(a b) * ^').json() == {"results": [], "not_searched": []}
    assert question(alice_api, query="the and of").json() == {"results": [], "not_searched": []}


def test_a_stranger_sees_nothing(charlie_api, handbook):
    path = f"{DOCUMENTS}{Document.objects.get().pk}"
    for answer in (
        charlie_api.get(HANDBOOK), question(charlie_api), charlie_api.get(DOCUMENTS), charlie_api.get(path),
        charlie_api.get(f"{path}/text"), charlie_api.delete(path), charlie_api.delete(f"{path}/erase"),
        charlie_api.post(f"{path}/reindex"), charlie_api.delete(HANDBOOK),
        charlie_api.post(DOCUMENTS, {"name": "a", "text": "a"}),
    ):  # fmt: skip
        assert answer.status_code == 404, answer.json()
    assert charlie_api.get(URL).json()["results"] == []
    assert question(charlie_api).status_code == 404 and Document.objects.count() == 1


def test_a_team_mate_searches_and_reads_but_changes_nothing(alice_api, bob_api, handbook, team):
    assert bob_api.get(HANDBOOK).status_code == 404
    assert alice_api.patch(HANDBOOK, {"team": team.name}, "application/json").status_code == 200
    path = f"{DOCUMENTS}{Document.objects.get().pk}"
    assert question(bob_api).json()["results"][0]["place"]["heading"] == "Returns"
    assert bob_api.get(f"{path}/text").json()["results"][0]["text"] == "Goods may be returned within 30 days."
    for answer in (bob_api.delete(path), bob_api.delete(f"{path}/erase"), bob_api.post(f"{path}/reindex"),
                   bob_api.post(DOCUMENTS, {"name": "a", "text": "a"}), bob_api.delete(HANDBOOK)):  # fmt: skip
        assert answer.status_code == 403, answer.json()
    Membership.objects.filter(team=team, user__username="bob").update(role=Membership.Role.VIEWER)
    assert question(bob_api).status_code == 403, "a viewer sees it and does not use it"


def test_two_collections_never_mix(alice, bob, alice_api, bob_api, handbook):
    collection_with(bob, {"secret.md": "Goods may be returned by magic."})
    of_alice, of_bob = (question(api).json()["results"] for api in (alice_api, bob_api))
    assert {one["document"]["name"] for one in of_alice} == {"returns.md"}
    assert [one["text"] for one in of_bob] == ["Goods may be returned by magic."]


def test_scores_do_not_tell_what_others_store(alice_api, bob, handbook):
    """Neither which documents another person has, nor how long or how many they are."""
    more = {"shipping.md": "Parcels leave on Mondays. " * 20, "hours.md": "Goods and parcels, from nine to five."}
    for name, text in more.items():
        add(handbook, name, text)
    index()
    asked = "Which goods and parcels leave on Mondays?"
    before = question(alice_api, asked).json()["results"]
    collection_with(bob, {f"{number}.md": "Parcels, parcels. " * (1 + number % 9) for number in range(60)})
    assert len(before) == 4 and question(alice_api, asked).json()["results"] == before


def test_words_in_most_pieces_rank_and_do_not_find(alice, alice_api, handbook, monkeypatch):
    monkeypatch.setattr(full_text, "COMMON", 4)
    for number in range(6):
        add(handbook, f"{number}.md", f"Goods of kind {number}." + (" They are returned." if number == 4 else ""))
    add(handbook, "kept.md", "Returned parcels.")
    index()
    found = [one["document"]["name"] for one in question(alice_api, "returned goods").json()["results"]]
    assert set(found[:2]) == {"4.md", "returns.md"} and set(found[2:]) == {"kept.md", "returns.md"}
    found = [one["document"]["name"] for one in question(alice_api, "goods").json()["results"]]
    assert len(found) == 7 and "kept.md" not in found


def test_a_collection_goes_with_its_documents_unless_its_tools_are_granted(alice_api, alice, agent):
    alice_api.post(URL, {"name": "handbook"})
    alice_api.post(DOCUMENTS, {"name": "a.md", "text": "Goods."})
    index()
    assert sorted(Tool.objects.filter(owner=alice, kind="knowledge").values_list("name", flat=True)) == [
        "fetch-handbook", "search-handbook",
    ]  # fmt: skip
    grant = ToolGrant.objects.create(agent=agent, tool=Tool.objects.get(name="search-handbook"))
    refused = alice_api.delete(HANDBOOK)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
    assert Document.objects.count() == 1
    grant.delete()
    assert alice_api.delete(HANDBOOK).status_code == 204
    assert not Collection.objects.exists() and not Chunk.objects.exists() and not StoredFile.objects.exists()
    assert not Tool.objects.filter(kind="knowledge", owner=alice).exists()


def test_lists_cost_the_same_for_any_number(alice, alice_api, django_assert_max_num_queries):
    collection_with(alice, {f"page-{number}.md": f"Page {number} about goods." for number in range(30)})
    with django_assert_max_num_queries(9):
        assert len(alice_api.get(DOCUMENTS, {"limit": 25}).json()["results"]) == 25
    with django_assert_max_num_queries(10):
        assert len(question(alice_api, "goods", limit=20).json()["results"]) == 20
    assert len(alice_api.get(DOCUMENTS, {"status": "failed"}).json()["results"]) == 0
    assert alice_api.get(DOCUMENTS, {"state": "failed"}).status_code == 422


def test_a_deleted_file_leaves_the_index_as_it_is(alice_api, handbook):
    StoredFile.objects.all().delete()
    path = f"{DOCUMENTS}{Document.objects.get().pk}"
    assert alice_api.get(path).json()["size"] is None
    assert question(alice_api).json()["results"] != []
    refused = alice_api.post(f"{path}/reindex")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_file")
