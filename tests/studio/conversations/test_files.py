"""The page of files: what a person sees, uploads and deletes, and nobody else."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from agents import storage
from agents.models import AuditEvent, StoredFile
from knowledge.models import Collection, Document
from runs.models import Artifact, Attachment, Message, Run, Session
from tests.files import stored


def text(answer):
    return answer.content.decode()


def test_an_empty_page_says_how_to_begin(alice, signed_in):
    shown = text(signed_in(alice).get("/files/"))
    assert "There are no files yet." in shown and "0 files" in shown and "1.0" in shown and "365 days" in shown


def test_a_file_is_uploaded_found_and_deleted(alice, signed_in):
    browser = signed_in(alice)
    sent = {"file": SimpleUploadedFile("prices.csv", b"a,b\n1,2\n", "text/csv"), "own": "yes"}
    assert "“prices.csv” is stored." in text(browser.post("/files/", sent, follow=True))
    file = StoredFile.objects.get()
    assert (file.name, file.media_type, file.untrusted, file.owner) == ("prices.csv", "text/csv", False, alice)
    shown = text(browser.get("/files/?search=PRICES&source=upload"))
    assert "prices.csv" in shown and "not used" in shown and reverse("file-content", args=[file.pk]) in shown
    assert "No file matches." in text(browser.get("/files/?search=else"))
    assert "is deleted." in text(browser.post(f"/files/{file.pk}/delete", follow=True))
    assert not StoredFile.objects.exists()
    actions = list(AuditEvent.objects.filter(action__startswith="storedfile").values_list("action", flat=True))
    assert sorted(actions) == ["storedfile.created", "storedfile.deleted"]


def test_a_refusal_is_shown_with_its_reason(alice, signed_in, settings):
    settings.FILE_BYTES = 4
    refused = signed_in(alice).post("/files/", {"file": SimpleUploadedFile("a", b"12345")}, follow=True)
    assert "the maximum is 4" in text(refused) and not StoredFile.objects.exists()
    assert "Choose a file." in text(signed_in(alice).post("/files/", {}, follow=True))


def test_it_shows_where_a_file_is_used(alice, signed_in):
    session = Session.objects.create(owner=alice)
    message = Message.objects.create(session=session, seq=1, role="user", content=[])
    Attachment.objects.create(message=message, file=stored(alice, "sent.txt", b"sent"))
    run = Run.objects.create(principal=alice)
    Artifact.objects.create(run=run, file=stored(alice, "made.txt", b"made", source="run"))
    shown = text(signed_in(alice).get("/files/"))
    assert reverse("page:session", args=[session.pk]) in shown and reverse("page:run", args=[run.pk]) in shown


def test_a_file_of_a_collection_is_used(alice, signed_in):
    collection = Collection.objects.create(name="handbook", owner=alice)
    Document.objects.create(collection=collection, name="a.txt", file=stored(alice, "a.txt", b"a"), from_version=1)
    shown = text(signed_in(alice).get("/files/"))
    assert reverse("page:collection", args=["handbook"]) in shown and "not used" not in shown


def test_the_number_of_queries_does_not_grow(alice, signed_in, django_assert_max_num_queries):
    browser = signed_in(alice)
    for number in range(60):
        stored(alice, f"{number}.txt", b"%d" % number)
    with django_assert_max_num_queries(17):
        shown = text(browser.get("/files/"))
    assert "Older" in shown and "59.txt" in shown


@pytest.mark.parametrize("name", ["bob", "charlie"])
def test_nobody_else_sees_or_deletes_it(alice, signed_in, request, name):
    file = stored(alice, "secret.txt", b"secret")
    browser = signed_in(request.getfixturevalue(name))
    assert "secret.txt" not in text(browser.get("/files/"))
    assert browser.post(f"/files/{file.pk}/delete").status_code == 404
    assert storage.read_stored_file(StoredFile.objects.get()) == b"secret"


def test_a_file_of_a_skill_is_not_deleted_below_it(alice, alice_api, signed_in):
    text_of_skill = "---\nname: minutes\ndescription: Writes minutes.\n---\nBe brief.\n"
    body = {"text": text_of_skill, "files": [{"path": "a.txt", "text": "one"}]}
    assert alice_api.post("/api/v1/skills/", body, content_type="application/json").status_code == 201
    file = StoredFile.objects.get()
    refused = signed_in(alice).post(f"/files/{file.pk}/delete")
    assert refused.status_code == 409 and "minutes" in text(refused)
    assert StoredFile.objects.exists() and not AuditEvent.objects.filter(action="storedfile.deleted").exists()
