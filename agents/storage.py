"""Stores the content of files: checks the owner's quota, scans for malware, determines the type, shares equal
content, deletes bytes that no row refers to.
"""

import codecs
import hashlib
import logging
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import filetype
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage, storages
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext_noop as _

from agents import scanning
from agents.exceptions import Conflict, TooLarge
from agents.models import StoredFile
from plumbing.waits import run_blocking

log = logging.getLogger(__name__)
# Bytes are written before their row.
GRACE = timedelta(hours=1)
BATCH = 500
FILES_PER_PERSON = 10_000
# Bytes that tell the type.
HEAD = 8192
# A file is read in pieces.
Content = bytes | File
# Bytes that no text contains.
UNPRINTED = frozenset(range(32)) - frozenset(b"\t\n\f\r\x1b")
# A name that the library uses → the one that clients know.
REGISTERED = {"audio/x-wav": "audio/wav"}
TEXTS = (
    "text/plain", "text/csv", "text/tab-separated-values", "text/markdown", "text/html", "text/css", "text/xml",
    "text/calendar", "text/vcard", "text/x-python", "text/javascript", "application/json", "application/x-ndjson",
    "application/xml", "application/yaml", "application/toml", "application/sql", "image/svg+xml",
)  # fmt: skip


def get_storage() -> Storage:
    return storages["files"]


def save_file(
    owner_id: Any, name: str, content: Content, *, declared: str = "", untrusted: bool = True, source: str = "upload"
) -> StoredFile:
    """Store a file of this person. `declared`: the type the caller names; see `detect_type`.

    Raises TooLarge for one file that is too large, Conflict (too_many_files, quota_exceeded) for all, Invalid
    (file_infected), Unavailable (scanner_unavailable).
    """
    file = store_bytes(owner_id, name, content, declared=declared, untrusted=untrusted, source=source)
    with transaction.atomic():
        insert_file_row(file)
    return file


def store_bytes(
    owner_id: Any, name: str, content: Content, *, declared: str = "", untrusted: bool = True, source: str = "upload"
) -> StoredFile:
    """The row of a file whose bytes are stored. `insert_file_row` stores the row; without it the bytes are swept later.

    Must not be called in a transaction: scanning and storing may take seconds.
    """
    if isinstance(content, bytes):
        content = ContentFile(content)
    if content.size > settings.FILE_BYTES:
        message = _("The file has %(size)s bytes; the maximum is %(most)s.")
        numbers = {"size": content.size, "most": settings.FILE_BYTES}
        raise TooLarge(message % numbers, hint=_("Split it or compress it."))
    # Before the work; `insert_file_row` checks again, with a lock.
    check_quota(owner_id, content.size)
    name = clean_name(name)
    scanning.check_malware(name, content.chunks())
    digest = hash_content(content)
    media_type = detect_type(content, declared)
    file = StoredFile(
        owner_id=owner_id, name=name, media_type=media_type, size=content.size, sha256=digest,
        untrusted=untrusted, source=source,
    )  # fmt: skip
    # The name contains the hash; the rest is random, so that two writers of the same content do not share a name.
    stored_name = f"{owner_id}/{digest}.{uuid4().hex[:12]}"
    file.stored = run_blocking(get_storage().save, stored_name, content)
    return file


def hash_content(content: File) -> str:
    digest = hashlib.sha256()
    for piece in content.chunks():
        digest.update(piece)
    return digest.hexdigest()


def clean_name(name: str) -> str:
    """The name without path separators and without control and direction characters, at most 200 characters."""
    letters = []
    for letter in name:
        is_unsafe = letter in "/\\" or unicodedata.category(letter).startswith("C")
        letters.append("_" if is_unsafe else letter)
    return "".join(letters).strip()[:200] or "file"


def insert_file_row(file: StoredFile) -> None:
    """Insert the row of a prepared file. Must be called in a transaction.

    The owner's row is locked, so that concurrent files cannot exceed the quota together, and a row with equal
    content is locked, so that the bytes are not deleted while this row begins to share them.
    """
    users: Any = get_user_model()
    list(users.objects.select_for_update(no_key=True).filter(pk=file.owner_id).values_list("pk"))
    check_quota(file.owner_id, file.size)
    twins = StoredFile.objects.select_for_update().filter(owner_id=file.owner_id, sha256=file.sha256)
    twin = twins.order_by("pk").first()
    if twin is not None:
        own_bytes = file.stored
        file.stored = twin.stored
        # Only then: a rollback would leave the row without its bytes.
        transaction.on_commit(lambda: remove_stored_bytes([own_bytes]))
    file.save(force_insert=True)


def usage(owner_id: Any) -> dict[str, int]:
    """How many files this person has, and how many bytes: {"files", "bytes"}."""
    rows = StoredFile.objects.filter(owner_id=owner_id)
    return rows.aggregate(files=Count("pk"), bytes=Coalesce(Sum("size"), 0))


def check_quota(owner_id: Any, more: int) -> None:
    """Raises Conflict if this person has no room for one more file of `more` bytes."""
    used = usage(owner_id)
    if used["files"] >= FILES_PER_PERSON:
        raise Conflict(
            _("You already have %(number)s files.") % {"number": used["files"]},
            code="too_many_files",
            hint=_("Delete some."),
        )
    if used["bytes"] + more > settings.FILE_BYTES_PER_PERSON:
        raise Conflict(
            _("Your files may have %(number)s MB in total.") % {"number": settings.FILE_BYTES_PER_PERSON >> 20},
            code="quota_exceeded",
            hint=_("Delete some files."),
        )


def detect_type(content: Content, declared: str = "") -> str:
    """The media type by the content. A declared type only decides which kind of text a text is."""
    media_type: str = filetype.guess_mime(read_head(content)) or ""
    signature = REGISTERED.get(media_type, media_type)
    if not is_text_content(content):
        return signature or "application/octet-stream"
    is_plausible = declared in TEXTS or declared == signature
    if declared and is_plausible:
        return declared
    return "text/plain"


def is_text_content(content: Content) -> bool:
    if not UNPRINTED.isdisjoint(read_head(content)):
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in iterate_pieces(content):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def read_head(content: Content) -> bytes:
    return next(iter(iterate_pieces(content)), b"")[:HEAD]


def iterate_pieces(content: Content) -> Iterable[bytes]:
    if isinstance(content, bytes):
        return [content]
    return content.chunks()


def read_stored_file(file: StoredFile) -> bytes | None:
    """The content; None if it was deleted meanwhile."""
    return run_blocking(read_now, file.stored)


def read_now(stored: str) -> bytes | None:
    try:
        with get_storage().open(stored) as opened:
            return opened.read()
    except FileNotFoundError:
        return None


@transaction.atomic
def delete_files(files: QuerySet[StoredFile]) -> int:
    """Delete these rows and, after the commit, the bytes that no other row shares. Returns the number of rows."""
    stored_names = dict(files.values_list("pk", "stored"))
    StoredFile.objects.filter(pk__in=list(stored_names)).delete()
    unused = set(stored_names.values())
    unused -= set(StoredFile.objects.filter(stored__in=unused).values_list("stored", flat=True))
    transaction.on_commit(lambda: remove_stored_bytes(unused))
    return len(stored_names)


def remove_stored_bytes(names: Iterable[str]) -> None:
    for name in names:
        try:
            get_storage().delete(name)
        except OSError:
            log.exception("The stored file %s could not be deleted; the next sweep tries again", name)


def erase_stored_files(*owner_ids: Any) -> None:
    """Delete all stored bytes of people whose rows are deleted, and what the rows left in the database's files."""
    for owner_id in owner_ids:
        remove_stored_bytes(list_names(str(owner_id)))
    for name in settings.SCRUBS:
        transaction.on_commit(import_string(name))


def sweep(now: datetime | None = None) -> int:
    """Delete stored bytes without a row: of a program that was killed between the bytes and the row, or of a person
    who was deleted in the database. Returns how many.
    """
    before = (now or timezone.now()) - GRACE
    unknown = [name for name in without_row() if get_storage().get_modified_time(name) < before]
    remove_stored_bytes(unknown)
    return len(unknown)


def without_row() -> Iterable[str]:
    """The names of stored bytes that no row refers to."""
    owners, _files = list_folder("")
    for owner in owners:
        names = list_names(owner)
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            with_row = set(StoredFile.objects.filter(stored__in=batch).values_list("stored", flat=True))
            yield from (name for name in batch if name not in with_row)


def list_names(owner: str) -> list[str]:
    _folders, files = list_folder(owner)
    return [f"{owner}/{name}" for name in files]


def list_folder(path: str) -> tuple[list[str], list[str]]:
    """(folders, files); nothing for a folder that does not exist yet."""
    with suppress(FileNotFoundError):
        return get_storage().listdir(path)
    return [], []
