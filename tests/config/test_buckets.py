"""Files in S3: the address in the settings, and the life of a file in a bucket (moto's, in this process)."""

from datetime import timedelta

import boto3
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from moto import mock_aws

from agents import storage
from agents.models import StoredFile
from config import buckets

FILES = "/api/v1/files/"


@pytest.fixture
def bucket(settings, monkeypatch):
    """The names in the bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    settings.STORAGES = {**settings.STORAGES, "files": buckets.storage("s3://muster/site?region=us-east-1")}
    with mock_aws():
        made = boto3.resource("s3", region_name="us-east-1").create_bucket(Bucket="muster")
        yield lambda: [one.key for one in made.objects.all()]


@pytest.mark.django_db
def test_a_file_lives_in_the_bucket(alice_api, bucket, django_capture_on_commit_callbacks):
    made = alice_api.post(FILES, {"name": "report.txt", "text": "All is well."}).json()
    row = StoredFile.objects.get()
    assert bucket() == [f"site/{row.stored}"]
    assert alice_api.get(f"{FILES}{made['id']}/content").content == b"All is well."
    with django_capture_on_commit_callbacks(execute=True):
        assert alice_api.post(FILES, {"name": "same.txt", "text": "All is well."}).status_code == 201
    assert bucket() == [f"site/{row.stored}"], "equal files share their bytes"
    with django_capture_on_commit_callbacks(execute=True):
        storage.delete_files(StoredFile.objects.all())
    assert bucket() == [] and storage.read_stored_file(row) is None


@pytest.mark.django_db
def test_bytes_without_a_row_are_swept_from_the_bucket(alice, bucket):
    assert storage.sweep() == 0
    storage.store_bytes(alice.pk, "a.txt", b"its program was killed")
    kept = storage.save_file(alice.pk, "b.txt", b"with a row")
    assert storage.sweep() == 0 and len(bucket()) == 2
    assert storage.sweep(timezone.now() + timedelta(hours=2)) == 1
    assert bucket() == [f"site/{kept.stored}"]
    storage.erase_stored_files(alice.pk)
    assert bucket() == []


def test_the_address_names_bucket_folder_and_server():
    options = buckets.storage("s3://muster/a/b?endpoint=https://minio.example.org:9000&region=x")["OPTIONS"]
    assert (options["bucket_name"], options["location"]) == ("muster", "a/b")
    assert (options["endpoint_url"], options["region_name"]) == ("https://minio.example.org:9000", "x")


@pytest.mark.parametrize("url", ["https://muster", "s3://", "s3://key:secret@muster", "s3://muster?end=x", "muster"])
def test_an_address_that_cannot_be_meant_is_refused(url):
    with pytest.raises(ImproperlyConfigured, match="MUSTER_S3_URL must be"):
        buckets.storage(url)


def test_the_libraries_are_an_extra(monkeypatch):
    monkeypatch.setattr(buckets, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match="requirements-s3.txt"):
        buckets.storage("s3://muster")
