"""Files for messages over HTTP."""

import base64
from datetime import timedelta

import pytest
from django.utils import timezone

from runs.models import RunFile
from runs.worker import pruning

pytestmark = pytest.mark.django_db
FILES = "/api/v1/files/"


def test_a_file_is_uploaded_listed_read_and_deleted(alice_api):
    made = alice_api.post(FILES, {"name": "report.txt", "text": "All is well."})
    assert made.status_code == 201, made.json()
    file = made.json()
    assert (file["name"], file["media_type"], file["size"]) == ("report.txt", "text/plain", 12)
    assert alice_api.get(FILES).json()["results"] == [file]
    assert alice_api.get(f"{FILES}{file['id']}").json() == file
    content = alice_api.get(f"{FILES}{file['id']}/content")
    assert content.content == b"All is well." and content["Content-Disposition"] == "attachment"
    assert content["X-Content-Type-Options"] == "nosniff" and content["Content-Type"] == "application/octet-stream"
    assert alice_api.delete(f"{FILES}{file['id']}").status_code == 204
    assert alice_api.get(f"{FILES}{file['id']}").status_code == 404


def test_bytes_come_as_base64(alice_api):
    data = base64.b64encode(b"\x89PNG\xff").decode()
    file = alice_api.post(FILES, {"name": "a.png", "media_type": "image/png", "data": data}).json()
    assert file["size"] == 5 and bytes(RunFile.objects.get().content) == b"\x89PNG\xff"


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
    ],
)
def test_a_malformed_file_is_refused(alice_api, body):
    assert alice_api.post(FILES, body).status_code == 422 and not RunFile.objects.exists()


def test_there_are_only_so_many(alice_api, monkeypatch):
    monkeypatch.setattr("runs.api.files.MOST", 1)
    assert alice_api.post(FILES, {"name": "a", "text": "a"}).status_code == 201
    assert alice_api.post(FILES, {"name": "b", "text": "b"}).json()["error"]["code"] == "too_many_files"


def test_charlie_sees_no_file_of_alices(alice_api, charlie_api):
    file = alice_api.post(FILES, {"name": "a", "text": "a"}).json()["id"]
    assert charlie_api.get(FILES).json()["results"] == []
    for path in (f"{FILES}{file}", f"{FILES}{file}/content"):
        assert charlie_api.get(path).status_code == 404
    assert charlie_api.delete(f"{FILES}{file}").status_code == 404 and RunFile.objects.exists()


def test_old_files_are_pruned(alice_api):
    alice_api.post(FILES, {"name": "old", "text": "a"})
    RunFile.objects.update(created_at=timezone.now() - timedelta(days=1000))
    alice_api.post(FILES, {"name": "new", "text": "a"})
    pruning.prune()
    assert RunFile.objects.get().name == "new"
