"""The pages of collections: adding documents, their state, search, the text at a place, and who may do what."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import AuditEvent, Preference, StoredFile, Tool
from functions.sandbox.inside.documents.report import PICTURE
from knowledge.collections import storage
from knowledge.collections.calls import reference
from knowledge.collections.search import search_collection
from knowledge.models import Collection, CollectionFolder, Document
from tests.devices.scripted import paired
from tests.knowledge.documents import add, collection_with, index

HANDBOOK = "/collections/handbook/"
NOBODYS = "0190a0a0-0000-7000-8000-000000000001"
RETURNS = "# Returns\n\nGoods may be returned within 30 days.\n\n# Shipping\n\nParcels leave on Mondays."


@pytest.fixture
def handbook(alice):
    return collection_with(alice, {"returns.md": RETURNS})


def text(answer):
    return answer.content.decode()


def test_a_page_that_could_not_be_read_has_no_separator_before_its_first_words(alice, handbook, signed_in):
    Document.objects.create(
        collection=handbook, name="page", source="url", url="https://x.invalid/", status="failed", error="not found"
    )
    assert '<span class="small soft">may contain text written by strangers</span>' in text(
        signed_in(alice).get(HANDBOOK)
    )


def test_a_collection_is_created_filled_searched_and_deleted(alice, signed_in):
    browser = signed_in(alice)
    assert "There are no collections yet." in text(browser.get("/collections/"))
    made = browser.post("/collections/", {"name": "handbook", "description": "Rules of the shop"}, follow=True)
    assert "There are no documents yet." in text(made)
    assert set(Tool.objects.values_list("name", flat=True)) >= {"search-handbook", "fetch-handbook"}
    sent = [SimpleUploadedFile("returns.md", RETURNS.encode(), "text/markdown"), SimpleUploadedFile("b.txt", b"Other.")]
    shown = text(browser.post(HANDBOOK, {"file": sent}, follow=True))
    assert "returns.md" in shown and "b.txt" in shown and "Documents are being read." in shown
    index()
    found = text(browser.get(f"{HANDBOOK}?query=returned goods"))
    document = Document.objects.get(name="returns.md")
    assert f"{HANDBOOK}documents/{document.pk}/?at=0" in found and "returns.md, Returns" in found
    assert document.untrusted and document.file.untrusted and "Documents are being read." not in found
    assert "Rules of the shop" in text(browser.get("/collections/?search=rules"))
    assert "deleted." in text(browser.post(f"{HANDBOOK}delete", follow=True))
    assert not Collection.objects.exists() and not Document.objects.exists() and not StoredFile.objects.exists()
    actions = AuditEvent.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["collection.created", "document.added", "document.added", "collection.deleted"]


def test_a_place_is_opened_in_its_document(alice, signed_in, handbook):
    document = Document.objects.get()
    shown = text(signed_in(alice).get(f"{HANDBOOK}documents/{document.pk}/?at=1"))
    assert "<mark>Parcels leave on Mondays.</mark>" in shown and "Goods may be returned" in shown
    assert "<mark>" not in text(signed_in(alice).get(f"{HANDBOOK}documents/{document.pk}/"))
    assert signed_in(alice).get(f"{HANDBOOK}documents/{NOBODYS}/").status_code == 404


def test_a_source_opens_its_own_document_where_names_are_shared(alice, bob, signed_in, team, handbook):
    """The person has a collection of the name of the team's, and later the team's gets another name."""
    collection_with(bob, {"mine.md": "Nothing about goods."})
    Collection.objects.filter(pk=handbook.pk).update(team=team)
    [found] = search_collection(handbook, "goods", limit=5)
    address = reference(handbook, found.chunk)["url"]
    assert "<mark>Goods may be returned" in text(signed_in(bob).get(address))
    crumb = f'<a href="{HANDBOOK}">handbook</a>'
    assert crumb not in text(signed_in(bob).get(address)), "the link would open another collection"
    assert f'<a href="{HANDBOOK}?owner=alice">handbook</a> ({team.name})' in text(signed_in(bob).get(address))
    assert crumb in text(signed_in(handbook.owner).get(address))
    Collection.objects.filter(pk=handbook.pk).update(name="rules")
    renamed = text(signed_in(bob).get(address))
    assert "<mark>Goods may be returned" in renamed and '<a href="/collections/rules/">rules</a>' in renamed
    Collection.objects.filter(pk=handbook.pk).update(team=None)
    assert signed_in(bob).get(address).status_code == 404


def test_a_document_is_stored_text_and_never_a_page(alice, signed_in, handbook):
    add(handbook, "evil.md", "# Start\n\n<script>alert(1)</script> {{ 7|add:7 }}")
    index()
    document = Document.objects.get(name="evil.md")
    shown = text(signed_in(alice).get(f"{HANDBOOK}documents/{document.pk}/?at=0"))
    assert "<script>alert" not in shown and "&lt;script&gt;alert" in shown and "{{ 7|add:7 }}" in shown


def test_a_failure_is_shown_and_the_document_is_read_again_removed_or_erased(alice, signed_in, handbook):
    browser = signed_in(alice)
    broken = add(handbook, "broken.pdf", "%PDF")
    [claimed] = storage.claim_waiting_documents(10, 60)
    storage.fail(claimed, "encrypted", "The document is encrypted.")
    assert "The document is encrypted." in text(browser.get(HANDBOOK))
    assert browser.post(f"{HANDBOOK}documents/{broken.pk}/reindex").status_code == 302
    assert Document.objects.get(name="broken.pdf").status == "waiting"
    ready = Document.objects.get(name="returns.md")
    browser.post(f"{HANDBOOK}documents/{ready.pk}/remove")
    assert "returns.md" not in text(browser.get(HANDBOOK)) and Document.objects.filter(pk=ready.pk).exists()
    browser.post(f"{HANDBOOK}documents/{ready.pk}/erase")
    assert not Document.objects.filter(pk=ready.pk).exists()
    actions = set(AuditEvent.objects.values_list("action", flat=True))
    assert {"document.reindexed", "document.removed", "document.erased"} <= actions


def test_what_cannot_be_added_is_refused_with_its_reason(alice, signed_in, handbook, settings):
    browser = signed_in(alice)
    assert "Choose a file, or write an address." in text(browser.post(HANDBOOK, {}, follow=True))
    assert "http" in text(browser.post(HANDBOOK, {"url": "ftp://example.org/a"}, follow=True))
    same = SimpleUploadedFile("returns.md", RETURNS.encode(), "text/markdown")
    assert "already" in text(browser.post(HANDBOOK, {"file": same}, follow=True))
    settings.FILE_BYTES = 4
    assert "maximum is 4" in text(browser.post(HANDBOOK, {"file": SimpleUploadedFile("a", b"12345")}, follow=True))
    taken = browser.post("/collections/", {"name": "handbook"}, follow=True)
    assert "is already called" in text(taken)
    assert Document.objects.count() == 1 and Collection.objects.count() == 1


def test_a_stranger_sees_nothing(signed_in, charlie, handbook):
    browser, document = signed_in(charlie), Document.objects.get()
    assert "handbook" not in text(browser.get("/collections/"))
    for path in (HANDBOOK, f"{HANDBOOK}documents/{document.pk}/", f"{HANDBOOK}?query=goods"):
        assert browser.get(path).status_code == 404
    for verb in ("reindex", "remove", "erase"):
        assert browser.post(f"{HANDBOOK}documents/{document.pk}/{verb}").status_code == 404
    assert browser.post(f"{HANDBOOK}delete").status_code == 404 and Document.objects.get().until_version is None


def test_a_team_mate_reads_and_searches_but_changes_nothing(signed_in, bob, team, handbook):
    Collection.objects.update(team=team)
    browser, document = signed_in(bob), Document.objects.get()
    assert "returns.md" in text(browser.get(HANDBOOK)) and "Add documents" not in text(browser.get(HANDBOOK))
    assert "Goods may be returned" in text(browser.get(f"{HANDBOOK}documents/{document.pk}/?at=0"))
    for verb in ("reindex", "remove", "erase"):
        assert browser.post(f"{HANDBOOK}documents/{document.pk}/{verb}").status_code == 403
    sent = {"file": SimpleUploadedFile("a.txt", b"words")}
    assert browser.post(HANDBOOK, sent).status_code == 403 and browser.post(f"{HANDBOOK}delete").status_code == 403
    assert Document.objects.get().until_version is None and Collection.objects.exists()


def test_queries_do_not_grow_with_the_documents(alice, signed_in, handbook):
    browser, counts = signed_in(alice), []
    browser.get(HANDBOOK)
    for number in range(20):
        add(handbook, f"{number}.md", f"# Rule {number}\n\nGoods number {number} may be returned.")
        if number in (3, 19):
            index()
            with CaptureQueriesContext(connection) as queries:
                assert f"{number}.md" in text(browser.get(f"{HANDBOOK}?query=goods returned"))
            counts.append(len(queries))
    assert counts[0] == counts[1] <= 30


def test_questions_are_added_evaluated_and_removed_and_a_change_for_the_worse_is_shown(alice, signed_in, handbook):
    browser = signed_in(alice)
    body = {"question": "How are goods returned?", "document": "returns.md", "place": "Returns"}
    assert "How are goods returned?" in text(browser.post(f"{HANDBOOK}questions", body, follow=True))
    assert "blank" in text(browser.post(f"{HANDBOOK}questions", {"question": "", "document": "a"}, follow=True))
    shown = text(browser.post(f"{HANDBOOK}evaluate", follow=True))
    assert "1.00 <small>recall@5" in shown and "1.00 <small>MRR" in shown and "lowered" not in shown
    storage.remove_document(Document.objects.get())
    assert "have changed since" in text(browser.get(HANDBOOK))
    shown = text(browser.post(f"{HANDBOOK}evaluate", follow=True))
    assert "lowered recall@5 from 1.00 to 0.00" in shown and "not found" in shown
    browser.post(f"{HANDBOOK}questions/{handbook.questions.get().pk}/remove")
    assert not handbook.questions.exists() and handbook.evaluations.count() == 2


def test_a_stranger_and_a_team_mate_do_not_change_the_questions(signed_in, bob, charlie, team, handbook):
    row = handbook.questions.create(question="How?", document="returns.md")
    Collection.objects.update(team=team)
    for person, status in ((charlie, 404), (bob, 403)):
        browser = signed_in(person)
        for path in ("questions", f"questions/{row.pk}/remove", "evaluate"):
            assert browser.post(HANDBOOK + path, {"question": "a", "document": "b"}).status_code == status
    assert handbook.questions.count() == 1 and not handbook.evaluations.exists()
    shown = text(signed_in(bob).get(HANDBOOK))
    assert "How?" in shown and "Add question" not in shown


def test_a_folder_of_an_own_device_is_added_and_named_when_the_device_is_away(alice, signed_in, handbook):
    browser, device = signed_in(alice), paired(alice)[0]
    device.folders = ["docs"]
    device.save()
    page = "/collections/handbook/"
    browser.post(f"{page}folders", {"folder": f"{device.pk}/docs", "path": "contracts"})
    [folder] = CollectionFolder.objects.all()
    assert folder.path == "docs/contracts"
    shown = text(browser.get(page, {"query": "goods"}))
    assert "docs/contracts (laptop): the device is not connected" in shown and "stay on the device" in shown
    browser.post(f"{page}folders/{folder.pk}/remove")
    browser.post(f"{page}folders", {"folder": f"{device.pk}/photos"})
    assert not CollectionFolder.objects.exists()


def test_the_table_of_documents_is_a_part_of_its_own_while_they_are_read(alice, signed_in, handbook):
    browser = signed_in(alice)
    assert "data-busy" not in text(browser.get(HANDBOOK))
    storage.index_again(handbook.documents.get())
    assert "data-busy" in text(browser.get(HANDBOOK)) and "muster/collection" in text(browser.get(HANDBOOK))
    part = text(browser.get(f"{HANDBOOK}?part=documents"))
    assert "data-busy" in part and "returns.md" in part and "<html" not in part
    index()
    part = text(browser.get(f"{HANDBOOK}?part=documents"))
    assert "data-busy" not in part and "returns.md" in part


def test_a_note_on_a_text_is_listed_and_not_counted_as_lost(alice, signed_in, handbook):
    document = handbook.documents.get()
    note = {"place": "sheet Stock", "reason": "The sheet is hidden in the file. Its text was read.", "is_lost": False}
    loss = {"place": "page 2", "reason": "It needs OCR.", "is_lost": True}
    browser, page = signed_in(alice), f"{HANDBOOK}documents/{document.pk}/"
    for left_out, counted in (([note], ""), ([note, loss], "1 place is not in the text")):
        Document.objects.update(left_out=left_out)
        shown = text(browser.get(HANDBOOK))
        assert ("not in the text" in shown) == bool(counted) and counted in shown
        opened = text(browser.get(page))
        assert all(one["place"] in opened and one["reason"] in opened for one in left_out)
        assert "About the text" in opened and ("Not in the text" in opened) == bool(counted)


def test_places_in_documents_are_in_the_persons_language(alice, signed_in):
    Preference.objects.create(user=alice, language="de")
    box = collection_with(alice, {"plain.txt": "Goods return.", "sheet.md": "# page 3, part of it\n\nParcels leave."})
    Document.objects.filter(name="plain.txt").update(
        left_out=[
            {"place": "sheet Umsätze, picture (2 times)", "reason": PICTURE, "is_lost": True},
            {"place": "attachment alles.zip (application/zip)", "reason": PICTURE, "is_lost": True},
            {"place": "hidden text", "reason": "Text that Word does not show.", "is_lost": True},
        ]
    )
    browser = signed_in(alice)
    plain = text(browser.get(f"/collections/handbook/documents/{box.documents.get(name='plain.txt').pk}/"))
    for place in ("Blatt Umsätze, Bild (2 Mal)", "Anhang alles.zip (application/zip)", "verborgener Text", ">Teil 1<"):
        assert place in plain
    assert "plain.txt, Teil 1" in text(browser.get(f"{HANDBOOK}?query=goods"))
    box.documents.get(name="sheet.md").chunks.update(page=7)
    found = text(browser.get(f"{HANDBOOK}?query=parcels"))
    assert "sheet.md, Seite 7, page 3, part of it" in found, "a heading is text of the document"
