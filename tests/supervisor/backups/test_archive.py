"""A backup proves itself: what is damaged, cut or of another site is refused before anything is changed."""

import tarfile

import pytest
from django.contrib.auth import get_user_model

from agents import storage
from agents.models import AuditEvent, StoredFile
from supervisor.backups import making, postgresql, restoring
from supervisor.backups.archive import Archive, BackupError

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def backup(alice, tmp_path):
    storage.save_file(alice.pk, "report.txt", b"All is well.")
    making.make(tmp_path / "site.backup", lambda _: None)
    return tmp_path / "site.backup"


def test_a_backup_names_its_rows_and_files_and_is_private(backup):
    with Archive(backup) as archive:
        manifest = archive.manifest
    assert manifest.tables["agents_user"]["rows"] == get_user_model().objects.count() == 1
    assert manifest.files == [StoredFile.objects.get().stored]
    assert backup.stat().st_mode & 0o777 == 0o600
    assert list(backup.parent.iterdir()) == [backup]
    assert AuditEvent.objects.get(action="backup.made").details["rows"] == manifest.rows


def test_one_changed_byte_is_noticed(backup):
    with tarfile.open(backup) as tar:
        member = next(one for one in tar if one.name.startswith("files/"))
    data = bytearray(backup.read_bytes())
    data[member.offset_data] ^= 1
    backup.write_bytes(data)
    with Archive(backup) as archive, pytest.raises(BackupError, match="damaged"):
        archive.check()


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.9])
def test_a_cut_backup_is_refused(backup, kept):
    data = backup.read_bytes()
    backup.write_bytes(data[: int(kept * len(data)) if kept < 1 else kept])
    with pytest.raises(BackupError, match="not a complete backup"):
        Archive(backup)


def test_a_missing_file_and_a_text_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello" * 1000)
    for name in ("nothing", "text"):
        with pytest.raises(BackupError, match="not a complete backup"):
            Archive(tmp_path / name)


def test_another_key_is_refused(backup, settings, tmp_path):
    settings.FIELD_KEYS = ["another"]
    with Archive(backup) as archive, pytest.raises(BackupError, match="MUSTER_FIELD_KEYS"):
        making.prove(archive, tmp_path)


def test_a_backup_of_a_newer_version_is_refused(backup):
    with Archive(backup) as archive:
        archive.manifest.migrations.append(["runs", "0999_later"])
        with pytest.raises(BackupError, match=r"runs.0999_later"):
            restoring.require_known_migrations(archive.manifest)


def test_rows_that_are_missing_are_noticed(backup, tmp_path):
    with Archive(backup) as archive, pytest.raises(BackupError, match="instead of 2|rows are missing"):
        archive.manifest.tables["agents_user"]["rows"] += 1
        making.prove(archive, tmp_path)


def test_a_full_disk_leaves_no_half_backup(alice, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(BackupError, match="No space left on device"):
        making.make(tmp_path / "site.backup", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_file_is_listed(alice, tmp_path):
    file = storage.save_file(alice.pk, "report.txt", b"All is well.")
    storage.get_storage().delete(file.stored)
    assert making.make(tmp_path / "site.backup", lambda _: None).gone == [file.stored]


def test_rows_come_back_as_they_were(backup, alice, monkeypatch):
    if making.choose_database_module() is not postgresql:
        pytest.skip("SQLite's file is replaced while nobody uses it: tests/journeys/test_backup.py")
    alice.delete()
    monkeypatch.setattr(postgresql, "others", lambda: 0)
    restoring.restore(backup, replace=True)
    user = get_user_model().objects.get()
    assert (user.username, StoredFile.objects.get().owner) == ("alice", user)
    assert get_user_model().objects.create(username="new").pk > user.pk  # the sequences go on
