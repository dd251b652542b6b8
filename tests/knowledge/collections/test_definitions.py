"""Collections as definition files."""

from uuid import uuid4

import pytest
import yaml
from django.core.management import CommandError, call_command

from agents import storage as stored
from agents.definitions import files
from agents.exceptions import Conflict, Invalid, TooLarge
from agents.models import AuditEvent, Provider, StoredFile, Tool, ToolGrant
from knowledge.collections import definitions, evaluation, storage
from knowledge.collections.search import search_collection
from knowledge.indexing import work
from knowledge.models import Collection, CollectionFolder, Document, EvaluationQuestion
from plumbing.fair import Turns
from tests.knowledge.documents import add, collection_with, index

pytestmark = pytest.mark.django_db
API = "/api/v1/definitions/"
RETURNS = "# Returns\n\nGoods may be returned within 30 days.\n\n# Shipping\n\nParcels leave on Mondays."
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
ODD = {
    "crlf.txt": b"a\r\nb",
    "empty.txt": b"",
    "../../etc/passwd": b"a",
    "a: {b}\nc": b"b",
    "n" * 199 + " ": b" c \n\n",
}


def apply(text, owner, actor=None):
    changes = files.plan_changes(files.read_definitions(text), owner=owner)
    files.apply_changes(changes, owner=owner, actor=actor or owner)
    return [(change.verb, change.fields) for change in changes]


def definition(**fields):
    return files.dump_definitions([{"kind": "collection", "name": "handbook", **fields}])


def documents(owner):
    rows = Document.objects.filter(collection__owner=owner).current()
    return {one.name: (one.checksum, one.media_type, one.untrusted, one.url) for one in rows}


def found(owner, question="How are goods returned?"):
    row = Collection.objects.get(owner=owner)
    return [
        (one.chunk.text, one.chunk.place, one.chunk.document.untrusted)
        for one in search_collection(row, question, limit=9)
    ]


def kept_bytes(owner):
    return stored.list_names(str(owner.pk))


@pytest.fixture(autouse=True)
def empty_storage(alice, bob, charlie):
    """The rows of other tests are gone, and their bytes are not."""
    stored.remove_stored_bytes([name for one in (alice, bob, charlie) for name in kept_bytes(one)])


@pytest.fixture
def handbook(alice):
    row = collection_with(alice, {"returns.md": RETURNS}, description="The rules of our shop.")
    add(row, "own.md", "# Hours\n\nThe shop opens at nine.", untrusted=False)
    for name, content in {**ODD, "logo.png": PICTURE}.items():
        storage.add_content(row, alice.pk, name, content, declared="", untrusted=True, source="upload")
    storage.add_url(row, "https://example.com/prices", name="prices")
    evaluation.add_question(row, "How are goods returned?", "returns.md", "Returns")
    evaluation.add_question(row, "When does it open?", "own.md")
    return row


@pytest.mark.parametrize("without", ["prices", "nothing"])
def test_a_collection_comes_back_with_its_documents_and_questions(handbook, alice, bob, without):
    Document.objects.filter(name=without).delete()
    exported = files.dump_definitions(files.export_definitions(alice, only="collection"))
    assert apply(exported, bob) == [("create", [])]
    assert documents(bob) == documents(alice) and len(documents(bob)) >= 8
    assert apply(exported, bob) == [("same", [])] and apply(exported, alice) == [("same", [])]
    assert files.dump_definitions(files.export_definitions(bob, only="collection")) == exported
    copy = Collection.objects.get(owner=bob)
    assert copy.description == "The rules of our shop."
    asked = EvaluationQuestion.objects.filter(collection=copy).values_list("question", "document", "place")
    assert list(asked) == [("How are goods returned?", "returns.md", "Returns"), ("When does it open?", "own.md", "")]
    assert sorted(Tool.objects.filter(owner=bob).values_list("name", flat=True)) == [
        "fetch-handbook",
        "search-handbook",
    ]
    read = yaml.safe_load(exported)["documents"]
    assert read["returns.md"] == {"text": RETURNS, "media_type": "text/markdown"}, "texts are readable"
    assert read["own.md"]["untrusted"] is False and read["empty.txt"] == {"base64": ""}


def test_the_copy_is_searched_like_the_original(alice, bob):
    row = collection_with(alice, {"returns.md": RETURNS, "notes": "# Notes\n\nReturned goods are checked."})
    apply(files.dump_definitions(files.export_definitions(alice, only="collection")), bob)
    assert found(bob) == [], "not before it was read"
    index()
    assert found(bob) == found(alice) and len(found(bob)) >= 2
    assert Collection.objects.get(owner=bob).version == row.version == 1


def test_what_a_file_leaves_out_stays_and_a_list_that_it_has_is_the_whole_list(handbook, alice):
    before = documents(alice)
    assert apply(definition(description="Other."), alice) == [("change", ["description"])]
    assert documents(alice) == before and EvaluationQuestion.objects.count() == 2
    kept = {"returns.md": {"text": RETURNS, "media_type": "text/markdown"}, "new": "A new one."}
    text = definition(description="Other.", documents=kept, questions=[])
    assert apply(text, alice) == [("change", ["documents", "questions"])]
    assert sorted(documents(alice)) == ["new", "returns.md"] and not EvaluationQuestion.objects.exists()
    assert apply(text, alice) == [("same", [])]
    event = AuditEvent.objects.filter(action="collection.applied").first()
    assert (event.details, event.source) == ({"documents_added": 1, "documents_removed": 8}, "definitions")
    apply(definition(documents={}), alice)
    assert found(alice) == [] and Document.objects.filter(name="returns.md").exists(), "an earlier version has it"


def test_new_content_is_the_next_revision_and_the_same_content_is_not_read_again(handbook, alice):
    key = Document.objects.get(name="returns.md").pk
    apply(definition(documents={"returns.md": {"text": RETURNS, "media_type": "text/markdown"}}), alice)
    assert Document.objects.current().get(name="returns.md").pk == key
    apply(definition(documents={"returns.md": "Goods are never returned."}), alice)
    index()
    assert [text for text, *_ in found(alice)] == ["Goods are never returned."]


@pytest.mark.parametrize(
    ("before", "document", "after"),
    [
        (None, "a", True), (None, {"text": "a", "untrusted": False}, False),
        (True, {"text": "a", "untrusted": False}, True), (True, {"text": "b", "untrusted": False}, True),
        (False, "a", False), (False, "b", True), (False, {"text": "a", "untrusted": True}, True),
        (False, {"text": "b", "untrusted": False}, False), (None, {"url": "https://example.com"}, True),
    ],
)  # fmt: skip
def test_applying_removes_no_mark_and_trusts_only_what_the_file_says(alice, before, document, after):
    row = Collection.objects.create(owner=alice, name="handbook")
    if before is not None:
        storage.add_content(row, alice.pk, "one", b"a", declared="", untrusted=before, source="text")
        index()
    text = definition(documents={"one": document})
    apply(text, alice)
    newest = Document.objects.filter(name="one").current().order_by("-id")[0]
    assert newest.untrusted is after
    assert newest.file is None or after is False or before is False or newest.file.untrusted
    assert apply(text, alice) == [("same", [])]


def test_devices_accounts_and_deleted_files_are_neither_exported_nor_removed(alice, handbook):
    Document.objects.all().delete()
    for source in ("device", "connector"):
        storage.add_content(handbook, alice.pk, source, b"a", declared="", untrusted=True, source=source)
    Document.objects.create(collection=handbook, name="file", source="file")
    CollectionFolder.objects.create(collection=handbook, owner=alice, device_id=uuid4(), path="docs")
    [one] = files.export_definitions(alice, only="collection")
    assert "documents" not in one and "folders" not in one
    apply(definition(documents={"one": "a"}), alice)
    assert sorted(documents(alice)) == ["connector", "device", "file", "one"]
    assert CollectionFolder.objects.exists()


def test_a_page_takes_the_place_of_a_text_and_a_text_that_of_a_page(alice):
    for one in ({"url": "https://example.com/"}, "a", {"url": "https://example.com/"}):
        text = definition(documents={"one": one})
        assert apply(text, alice)[0][0] in ("create", "change") and apply(text, alice) == [("same", [])]
    assert [one.url for one in Document.objects.all()] == ["https://example.com/"]


def test_a_page_with_a_private_address_is_not_fetched(alice, monkeypatch):
    monkeypatch.setattr(work, "TURNS", Turns(work.TURN_S))
    apply(definition(documents={"inside": {"url": "http://127.0.0.1:9/"}}), alice)
    work.index_waiting_documents()
    row = Document.objects.get()
    assert (row.status, row.error_code, row.untrusted) == ("failed", "private_address", True)


def test_agents_of_the_same_file_are_granted_its_tools(alice):
    Provider.objects.create(name="offline", kind="offline")
    agent = {"kind": "agent", "name": "aide", "provider": "offline", "grants": ["search-handbook", "fetch-handbook"]}
    apply(files.dump_definitions([agent]) + "---\n" + definition(embeddings="offline:words"), alice)
    assert ToolGrant.objects.filter(agent__name="aide").count() == 2
    assert Collection.objects.get().embed_after is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"draft": True}, {"version": 3}, {"folders": []}, {"owner": "bob"}, {"description": 5}, {"description": "a" * 501},
        {"embeddings": "offline"}, {"embeddings": "nobody:model"}, {"team": "nobody"}, {"documents": None},
        {"documents": ["a"]}, {"documents": {"": "a"}}, {"documents": {" ": "a"}}, {"documents": {"n" * 201: "a"}},
        {"documents": {"a": 1}}, {"documents": {"a": {}}}, {"documents": {"a": {"text": "a", "base64": ""}}},
        {"documents": {"a": {"base64": "!"}}}, {"documents": {"a": {"base64": "YQ"}}}, {"documents": {"a": {"text": 1}}},
        {"documents": {"a": {"text": "a", "file": "1"}}}, {"documents": {"a": {"text": "a", "untrusted": "no"}}},
        {"documents": {"a": {"url": "file:///etc/passwd"}}}, {"documents": {"a": {"url": "https://a/" + "a" * 2000}}},
        {"documents": {"a": {"url": "https://example.com", "untrusted": False}}},
        {"documents": {"ok": "a", "a": {"url": "https://example.com", "text": "a"}}},
        {"documents": {f"{number}": "a" for number in range(501)}},
        {"questions": {}}, {"questions": ["a"]}, {"questions": [{"question": "a"}]},
        {"questions": [{"question": "a", "document": "b", "place": 5}]},
        {"questions": [{"question": "a", "document": "b", "answer": "c"}]},
        {"questions": [{"question": "a" * 501, "document": "b"}]}, {"questions": [{"question": "a", "document": "b"}] * 2},
        {"questions": [{"question": f"{number}", "document": "b"} for number in range(101)]},
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_nothing_is_stored(api, alice, wrong):
    fine = {"documents": {"fine": "a"}} if "documents" not in wrong else {}
    answer = api(alice).post(f"{API}apply", {"yaml": definition(**fine, **wrong)})
    assert answer.status_code == 422, answer.content
    assert not Collection.objects.exists() and not StoredFile.objects.exists() and kept_bytes(alice) == []
    if wrong.get("embeddings") != "nobody:model":  # which the command reports as not found
        with pytest.raises(Exception) as refused:  # noqa: PT011  (Invalid, or Django's ValidationError)
            apply(definition(**fine, **wrong), alice)
        assert type(refused.value).__name__ in ("Invalid", "ValidationError")
    assert not Collection.objects.exists() and kept_bytes(alice) == []


def test_contents_beyond_a_limit_leave_no_bytes(alice, settings, monkeypatch):
    settings.FILE_BYTES = 10
    with pytest.raises(TooLarge):
        apply(definition(documents={"a": "short", "b": "too long for this"}), alice)
    settings.FILE_BYTES = 100
    monkeypatch.setattr(stored, "FILES_PER_PERSON", 1)
    with pytest.raises(Conflict) as refused:
        apply(definition(documents={"a": "short", "b": "other"}), alice)
    assert refused.value.code == "too_many_files"
    monkeypatch.setattr(stored, "FILES_PER_PERSON", 10)
    monkeypatch.setattr(storage, "MAX_DOCUMENTS", 1)
    with pytest.raises(Conflict):
        apply(definition(documents={"a": "short", "b": "other"}), alice)
    assert not Collection.objects.exists() and kept_bytes(alice) == []


def test_a_refused_file_deletes_no_bytes_that_others_share(alice, monkeypatch):
    file = stored.save_file(alice.pk, "mine", b"shared")
    monkeypatch.setattr(storage, "MAX_DOCUMENTS", 1)
    with pytest.raises(Conflict):
        apply(definition(documents={"a": "shared", "b": "other"}), alice)
    assert stored.read_stored_file(file) == b"shared" and kept_bytes(alice) == [file.stored]


def test_a_document_that_changed_meanwhile_is_not_overwritten(alice, handbook):
    text = {"text": RETURNS, "media_type": "text/markdown"}
    [one] = files.read_definitions(definition(documents={"returns.md": text}))
    kind = files.kinds()["collection"]
    kind.prepare(one, owner=alice, actor=alice)
    Document.objects.filter(name="returns.md").delete()
    with pytest.raises(Conflict) as refused:
        kind.write(one, owner=alice, actor=alice, row=handbook)
    assert refused.value.code == "changed"


def test_a_collection_of_the_site_has_no_documents_in_a_file(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(definition(documents={"a": "a"}))
    with pytest.raises(CommandError, match="has no documents"):
        call_command("apply_definitions", str(path), verbosity=0)
    path.write_text(definition(description="For everybody.", questions=[{"question": "a", "document": "b"}]))
    call_command("apply_definitions", str(path), verbosity=0)
    assert Collection.objects.get().owner is None and Tool.objects.filter(owner=None, kind="knowledge").count() == 2
    assert {change.verb for change in files.plan_changes(files.load_definition_files(path), owner=None)} == {"same"}
    storage.add_url(Collection.objects.get(), "https://example.com", name="page")
    assert "documents" not in files.export_definitions(None, only="collection")[0]


def test_a_collection_that_is_too_large_is_neither_exported_nor_replaced(api, alice, handbook, monkeypatch, tmp_path):
    monkeypatch.setattr("runs.api.definitions.MOST_BYTES", 100)
    answer = api(alice).get(API)
    assert answer.status_code == 413 and "one by one" in answer.json()["error"]["hint"]
    assert api(alice).get(f"{API}?kind=agent").status_code == 200
    monkeypatch.setattr(definitions, "MOST_BYTES", 100)
    with pytest.raises(CommandError, match="have more than"):
        call_command("export_definitions", str(tmp_path / "all.yaml"), user="alice")
    monkeypatch.setattr(definitions, "MOST", 3)
    with pytest.raises(TooLarge):
        apply(definition(documents={"a": "a"}), alice)
    assert len(documents(alice)) == 9
    assert apply(definition(description="Other."), alice) == [("change", ["description"])]


def test_it_needs_the_scope_of_collections(api, alice, handbook):
    exported = api(alice, "collections:read").get(f"{API}?kind=collection")
    assert exported.status_code == 200 and "name: handbook" in exported.json()["yaml"]
    body = {"yaml": exported.json()["yaml"]}
    assert api(alice, "skills:write").post(f"{API}apply", body).status_code == 403
    assert api(alice, "collections:write").post(f"{API}apply", body).json()["changes"][0]["verb"] == "same"


def test_a_stranger_gets_nothing_and_a_team_mate_makes_a_copy(api, alice, bob, charlie, team, handbook):
    Collection.objects.update(team=team)
    Provider.objects.create(owner=alice, name="hers", kind="offline")
    text = definition(team=team.name, documents={"returns.md": "Hacked."})
    for other in (bob, charlie):
        assert api(other).get(API).json() == {"yaml": ""}
    assert api(charlie).post(f"{API}apply", {"yaml": text}).status_code == 422
    refused = api(bob).post(f"{API}apply", {"yaml": text})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "name_taken")
    assert kept_bytes(bob) == kept_bytes(charlie) == []
    assert api(bob).post(f"{API}apply", {"yaml": definition(embeddings="hers:words")}).status_code == 422
    assert api(bob).post(f"{API}apply", {"yaml": definition(documents={"returns.md": "Mine."})}).status_code == 200
    assert found(alice)[0][0].startswith("Goods may be returned") and documents(bob).keys() == {"returns.md"}


def test_a_tool_with_the_name_of_its_search_is_a_conflict(alice):
    Tool.objects.create(owner=alice, name="search-handbook", kind="builtin", source={"builtin": "calculate"})
    with pytest.raises(Conflict):
        apply(definition(documents={"a": "a"}), alice)
    assert not Collection.objects.exists() and kept_bytes(alice) == []


def test_a_plan_reads_no_content(alice, handbook, monkeypatch):
    exported = files.dump_definitions(files.export_definitions(alice, only="collection"))
    monkeypatch.setattr(stored, "read_stored_file", lambda file: pytest.fail("read"))
    assert {change.verb for change in files.plan_changes(files.read_definitions(exported), owner=alice)} == {"same"}


def test_a_file_that_the_storage_lost_is_reported(alice, handbook):
    stored.remove_stored_bytes(kept_bytes(alice))
    with pytest.raises(Invalid) as refused:
        files.export_definitions(alice, only="collection")
    assert refused.value.code == "file_gone"
