"""Files over HTTP: uploads, types, downloads, previews, quotas, and what is left of a deleted file."""

import base64
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.db import connections
from django.test import Client
from django.test.client import MULTIPART_CONTENT
from django.utils import timezone

from agents import storage
from agents.models import AuditEvent, StoredFile
from runs.models import Artifact, Run
from runs.worker import pruning
from tests.files import stored

pytestmark = pytest.mark.django_db
FILES = "/api/v1/files/"
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010100000000376ef924")


def in_storage(settings, words):
    """The stored files that contain these bytes."""
    return [one for one in Path(settings.FILES_DIR).rglob("*") if one.is_file() and words in one.read_bytes()]


def test_a_file_is_uploaded_listed_read_and_deleted(alice_api):
    made = alice_api.post(FILES, {"name": "report.txt", "text": "All is well."})
    assert made.status_code == 201, made.json()
    file = made.json()
    assert (file["name"], file["media_type"], file["size"]) == ("report.txt", "text/plain", 12)
    assert alice_api.get(FILES).json()["results"] == [file]
    assert alice_api.get(f"{FILES}{file['id']}").json() == file
    content = alice_api.get(f"{FILES}{file['id']}/content")
    assert content.content == b"All is well." and content["Content-Disposition"] == 'attachment; filename="report.txt"'
    assert content["X-Content-Type-Options"] == "nosniff" and content["Content-Type"] == "application/octet-stream"
    assert content["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert alice_api.delete(f"{FILES}{file['id']}").status_code == 204
    assert alice_api.get(f"{FILES}{file['id']}").status_code == 404
    assert list(AuditEvent.objects.order_by("id").values_list("action", flat=True)) == [
        "storedfile.created",
        "storedfile.deleted",
    ]


def test_bytes_come_as_base64_and_their_first_bytes_decide_the_type(alice_api):
    data = base64.b64encode(PNG).decode()
    file = alice_api.post(FILES, {"name": "a.txt", "media_type": "text/html", "data": data}).json()
    assert (file["size"], file["media_type"]) == (len(PNG), "image/png")
    assert storage.read_stored_file(StoredFile.objects.get()) == PNG


def uploaded(api, content, called="a.bin", **fields):
    """What a form answers."""
    file = io.BytesIO(content)
    file.name = called
    return api.post(FILES, {"file": file, **fields}, MULTIPART_CONTENT)


def test_a_large_file_is_sent_as_a_form(alice_api, settings):
    content = b"a,b\n1,2\n" * 400_000  # more than a JSON body may have
    made = uploaded(alice_api, content, "prices.csv", media_type="text/csv", untrusted="false")
    assert made.status_code == 201, made.json()
    file = made.json()
    assert (file["name"], file["media_type"], file["untrusted"]) == ("prices.csv", "text/csv", False)
    assert (
        storage.read_stored_file(StoredFile.objects.get()) == content
        and alice_api.get(f"{FILES}{file['id']}").json() == file
    )
    named = uploaded(alice_api, PNG, "x", name="dot.png").json()
    assert (named["name"], named["media_type"], named["untrusted"]) == ("dot.png", "image/png", True)
    assert AuditEvent.objects.filter(action="storedfile.created").count() == 2


@pytest.mark.parametrize(
    "fields", [{"untrusted": "maybe"}, {"owner": "1"}, {"text": "x"}, {"media_type": "html"}, {"name": "a\0b"}]
)
def test_a_malformed_form_is_refused(alice_api, settings, fields):
    words = b"words of a malformed form"  # which no other test's file contains
    assert uploaded(alice_api, words, **fields).status_code == 422
    assert not StoredFile.objects.exists() and not in_storage(settings, words)


def test_a_form_has_one_file_of_a_limited_size(alice_api, settings):
    assert alice_api.post(FILES, {"name": "a"}, MULTIPART_CONTENT).status_code == 422
    both = {"file": [io.BytesIO(b"a"), io.BytesIO(b"b")]}
    assert alice_api.post(FILES, both, MULTIPART_CONTENT).status_code == 400
    settings.FILE_BYTES = 8
    assert uploaded(alice_api, b"x" * 9).status_code == 413, "the file"
    assert uploaded(alice_api, b"x" * 100_000).status_code == 413, "the body"
    assert not StoredFile.objects.exists()


def test_a_form_needs_a_key(db):
    assert Client().post(FILES, {"file": io.BytesIO(b"words")}).status_code == 401


@pytest.mark.parametrize(
    ("content", "declared", "media_type"),
    [
        (b"a,b\n1,2\n", "text/csv", "text/csv"),
        (b"a,b\n1,2\n", "image/png", "text/plain"),
        (b"a,b\n1,2\n", "application/x-msdownload", "text/plain"),
        (b"<script>alert(1)</script>", "image/png", "text/plain"),
        (b"%PDF-1.4 only letters", "application/pdf", "application/pdf"),
        (b"GIF89a/*only letters*/", "text/javascript", "text/javascript"),
        (PNG, "text/html", "image/png"),
        (b"PK\x03\x04" + b"\0" * 60, "image/png", "application/zip"),
        (b"\x00\x01\x02", "image/svg+xml", "application/octet-stream"),
        (b"", "", "text/plain"),
    ],
)
def test_the_type_follows_the_content(content, declared, media_type):
    assert storage.detect_type(content, declared) == media_type
    assert storage.detect_type(ContentFile(content), declared) == media_type


def test_a_letter_that_two_pieces_share_is_still_text():
    file = ContentFile("aä".encode() * 30_000)
    file.DEFAULT_CHUNK_SIZE = 2
    assert storage.is_text_content(file) and not storage.is_text_content(ContentFile(b"words\xc3"))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "a"},
        {"text": "a"},
        {"name": "a", "text": "a", "data": "YQ=="},
        {"name": "a", "data": "%%"},
        {"name": "a", "text": 7},
        {"name": "a", "text": "a", "media_type": "text/html\r\nX: y"},
        {"name": "a" * 201, "text": "a"},
        {"name": "a", "text": "a", "owner": 1},
    ],
)
def test_a_malformed_file_is_refused(alice_api, body):
    assert alice_api.post(FILES, body).status_code == 422 and not StoredFile.objects.exists()


def test_only_an_image_has_a_preview_whatever_its_owner_calls_it(alice_api):
    picture = alice_api.post(FILES, {"name": "a.html", "data": base64.b64encode(PNG).decode()}).json()
    shown = alice_api.get(f"{FILES}{picture['id']}/preview")
    assert (shown.content, shown["Content-Type"]) == (PNG, "image/png")
    assert shown["Content-Disposition"].startswith("inline") and shown["X-Content-Type-Options"] == "nosniff"
    assert shown["Content-Security-Policy"] == "default-src 'none'; sandbox"
    page = alice_api.post(FILES, {"name": "a.png", "media_type": "image/svg+xml", "text": "<svg onload='x()'/>"}).json()
    refused = alice_api.get(f"{FILES}{page['id']}/preview")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_preview")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a\u202egnp.exe", 'a"\r\nX-Evil: 1', "/"])
def test_a_name_is_only_a_name(alice_api, settings, name):
    file = StoredFile.objects.get(pk=stored(alice_api.user, name).pk)
    assert not set(file.name) & set("/\\\r\n\u202e") and file.name
    assert file.stored.startswith(f"{alice_api.user.pk}/{file.sha256}.")
    content = alice_api.get(f"{FILES}{file.pk}/content")
    assert content.status_code == 200 and "X-Evil" not in content


def test_there_are_only_so_many(alice_api, monkeypatch):
    monkeypatch.setattr(storage, "FILES_PER_PERSON", 1)
    assert alice_api.post(FILES, {"name": "a", "text": "a"}).status_code == 201
    assert alice_api.post(FILES, {"name": "b", "text": "b"}).json()["error"]["code"] == "too_many_files"


def test_all_files_of_a_person_have_a_limit_of_bytes_which_is_nobody_elses(alice_api, charlie_api, settings):
    settings.FILE_BYTES_PER_PERSON, settings.FILE_BYTES = 10, 8
    assert alice_api.post(FILES, {"name": "a", "text": "x" * 8}).status_code == 201
    refused = alice_api.post(FILES, {"name": "b", "text": "x" * 8})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "quota_exceeded")
    assert alice_api.post(FILES, {"name": "b", "text": "x" * 9}).status_code == 413
    assert charlie_api.post(FILES, {"name": "b", "text": "y" * 8}).status_code == 201
    assert StoredFile.objects.count() == 2


def test_equal_files_of_a_person_share_their_bytes_and_those_of_two_people_do_not(alice, charlie, settings):
    first, second, other = stored(alice, "a", b"unique"), stored(alice, "b", b"unique"), stored(charlie, "c", b"unique")
    assert first.stored == second.stored != other.stored


def test_bytes_stay_until_the_last_file_that_shares_them_is_deleted(
    alice, alice_api, charlie, settings, django_capture_on_commit_callbacks
):
    words = b"shared by two rows of alice"
    with django_capture_on_commit_callbacks(execute=True):
        first, second, _ = stored(alice, "a", words), stored(alice, "b", words), stored(charlie, "c", words)
    assert len(in_storage(settings, words)) == 2
    for file, left in ((first, 2), (second, 1)):
        with django_capture_on_commit_callbacks(execute=True):
            assert alice_api.delete(f"{FILES}{file.pk}").status_code == 204
        assert len(in_storage(settings, words)) == left
    assert in_storage(settings, words)[0].parent.name == str(charlie.pk)


def test_nothing_of_a_deleted_person_stays_on_the_disk(charlie, settings):
    stored(charlie, "diary.txt", b"what charlie wrote")
    charlie.delete()
    pruning.prune()
    assert in_storage(settings, b"what charlie wrote"), "the bytes are kept for an hour: their row may come yet"
    pruning.prune(timezone.now() + timedelta(hours=2))
    assert not in_storage(settings, b"what charlie wrote")


@pytest.mark.django_db(transaction=True)
def test_an_administrator_who_deletes_a_person_deletes_their_bytes_at_once(admin_client, alice, charlie, settings):
    words = b"what both of them wrote"
    stored(charlie, "diary.txt", words)
    kept = stored(alice, "diary.txt", words)
    answer = admin_client.post(f"/admin/agents/user/{charlie.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 302 and not type(charlie).objects.filter(pk=charlie.pk).exists()
    assert [one.name for one in in_storage(settings, words)] == [kept.stored.split("/")[1]]
    chosen = {"action": "delete_selected", "_selected_action": [alice.pk], "post": "yes"}
    assert admin_client.post("/admin/agents/user/", chosen).status_code == 302
    assert not in_storage(settings, words)


def test_bytes_of_a_program_that_was_killed_before_their_row_are_swept(alice, settings):
    words = b"its row never came"
    storage.store_bytes(alice.pk, "a.txt", words)
    assert storage.sweep() == 0 and in_storage(settings, words)
    assert storage.sweep(timezone.now() + timedelta(hours=2)) == 1 and not in_storage(settings, words)


def test_charlie_sees_no_file_of_alices(alice_api, charlie_api):
    file = alice_api.post(FILES, {"name": "a", "data": base64.b64encode(PNG).decode()}).json()["id"]
    assert charlie_api.get(FILES).json()["results"] == []
    for path in (f"{FILES}{file}", f"{FILES}{file}/content", f"{FILES}{file}/preview"):
        assert charlie_api.get(path).status_code == 404
    assert charlie_api.delete(f"{FILES}{file}").status_code == 404 and StoredFile.objects.exists()


def test_a_team_mate_sees_no_file_of_alices(alice_api, bob_api):
    file = alice_api.post(FILES, {"name": "a", "text": "a"}).json()["id"]
    assert bob_api.get(FILES).json()["results"] == []
    assert bob_api.get(f"{FILES}{file}/content").status_code == 404


def test_old_files_are_pruned_unless_a_message_contains_them(alice, alice_api, make_agent):
    make_agent("helper")
    old = alice_api.post(FILES, {"name": "old", "text": "an old one"}).json()["id"]
    attached = alice_api.post(FILES, {"name": "attached", "text": "an attached one"}).json()["id"]
    part = {"type": "file", "file": attached}
    sent = alice_api.post("/api/v1/agents/helper/messages", {"message": [part]}, headers={"Prefer": "respond-async"})
    assert sent.status_code == 202, sent.json()
    StoredFile.objects.update(created_at=timezone.now() - timedelta(days=1000))
    alice_api.post(FILES, {"name": "new", "text": "a"})
    assert pruning.prune(dry_run=True)["files"] == 1
    assert pruning.prune()["files"] == 1
    assert set(StoredFile.objects.values_list("name", flat=True)) == {"attached", "new"}
    assert not StoredFile.objects.filter(pk=old).exists()


def test_files_that_runs_made_have_a_limit_of_their_own(alice, settings):
    run = Run.objects.create(principal=alice, status=Run.Status.SUCCEEDED, finished_at=timezone.now())
    artifact = Artifact.objects.create(run=run, file=stored(alice, "drawing.png", b"drawn", source="run"))
    pruning.prune()
    assert StoredFile.objects.exists()
    Artifact.objects.filter(pk=artifact.pk).update(created_at=timezone.now() - timedelta(days=8))
    settings.KEEP_DAYS = {**settings.KEEP_DAYS, "artifacts": 7}
    counts = pruning.prune()
    assert (counts["artifacts"], counts["files"]) == (1, 1) and Run.objects.filter(pk=run.pk).exists()


# -- two at once ------------------------------------------------------------------------------------------------------


def at_once(*works):
    """What these return that begin at the same moment, each on a connection of its own."""
    start = threading.Barrier(len(works))

    def begin(work):
        try:
            start.wait(60)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begin, works))


@pytest.mark.django_db(transaction=True)
def test_two_uploads_of_one_content_at_once_can_both_be_read(alice, settings):
    files = at_once(*[lambda: stored(alice, "a", b"the same")] * 2)
    assert [storage.read_stored_file(StoredFile.objects.get(pk=file.pk)) for file in files] == [b"the same"] * 2
    assert len(in_storage(settings, b"the same")) <= 2
    storage.delete_files(StoredFile.objects.all())
    assert not in_storage(settings, b"the same")


@pytest.mark.django_db(transaction=True)
def test_a_file_that_begins_to_share_bytes_while_they_are_deleted_keeps_its_content(alice):
    for attempt in range(5):
        first = stored(alice, "first", b"content %d" % attempt)
        _, second = at_once(
            partial(storage.delete_files, StoredFile.objects.filter(pk=first.pk)),
            partial(stored, alice, "second", b"content %d" % attempt),
        )
        assert storage.read_stored_file(StoredFile.objects.get(pk=second.pk)) == b"content %d" % attempt
