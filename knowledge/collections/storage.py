"""Changes of a collection's documents: add, replace, index, remove, erase.

A document that is added waits until a worker has read it (knowledge/indexing). Then it becomes part of the next version
of the collection, and the earlier document of that name ends with it.
"""

from collections import defaultdict
from collections.abc import Collection as Members
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from agents import storage as files
from agents.exceptions import Conflict
from agents.models import SiteHold, StoredFile
from knowledge import full_text
from knowledge.models import Chunk, Collection, Document
from plumbing import clock
from plumbing.fair import of_others

from .pieces import LeftOut, Piece, clean_database_text

Source, Status = Document.Source, Document.Status
# A document that ends the worker or its sandbox as often has failed.
ATTEMPTS = 3
# Of a collection.
MAX_DOCUMENTS = 100_000
# Pieces that are inserted at once.
BATCH = 1000


# -- adding ------------------------------------------------------------------------------------------------------------


def add_content(
    collection: Collection, user_id: Any, name: str, content: Any, *, declared: str, untrusted: bool, source: str
) -> tuple[Document, bool]:
    """A document with this content, bytes or a file of Django; see `add_file_document`. Not in a transaction."""
    if isinstance(content, bytes):
        digest = sha256(content).hexdigest()
    else:
        digest = files.hash_content(content)
    # Looked for before anything is stored; under the lock it is looked for once more.
    document = find_same_document(collection, name, digest)
    if document is not None:
        return document, False
    file = files.store_bytes(user_id, name, content, declared=declared, untrusted=untrusted)
    return add_prepared(collection, file, name=name, source=source, untrusted=untrusted)


@transaction.atomic
def add_prepared(
    collection: Collection, file: StoredFile, *, name: str, source: str, untrusted: bool
) -> tuple[Document, bool]:
    """A document with a new file, whose bytes are stored; see `add_file_document`.

    The collection is locked before the file's owner, as where a document becomes ready: two orders could deadlock.
    """
    lock_collection(collection)
    files.insert_file_row(file)
    return add_file_document(collection, file, name=name, source=source, untrusted=untrusted)


@transaction.atomic
def add_file_document(
    collection: Collection, file: StoredFile, *, name: str, source: str, untrusted: bool
) -> tuple[Document, bool]:
    """A document that waits to be indexed, and whether it is new: the same content under the same name is there
    already. Raises Conflict.
    """
    lock_collection(collection)
    document = find_same_document(collection, name, file.sha256)
    if document is not None:
        return document, False
    row = Document(
        collection=collection,
        name=name,
        source=source,
        file=file,
        media_type=file.media_type,
        checksum=file.sha256,
        untrusted=untrusted or file.untrusted,
    )
    return create_document_row(row), True


@transaction.atomic
def add_url(collection: Collection, url: str, *, name: str) -> tuple[Document, bool]:
    """A web page, which the worker fetches. Adding it again fetches it again."""
    lock_collection(collection)
    row = Document(collection=collection, name=name, source=Source.URL, url=url, untrusted=True)
    return create_document_row(row), True


def create_document_row(row: Document) -> Document:
    """Store a new document; it replaces those of this name that are not searched yet. Raises Conflict."""
    rows = Document.objects.filter(collection_id=row.collection_id).current()
    if rows.exclude(name=row.name).count() >= MAX_DOCUMENTS:
        raise Conflict(
            _("A collection can have %(number)s documents.") % {"number": MAX_DOCUMENTS},
            code="too_many_documents",
            hint=_("Delete some, or use another collection."),
        )
    # Saved first: the rows before it may share its file.
    row.save(force_insert=True)
    unsearched = rows.filter(name=row.name).exclude(status=Status.READY)
    discard(unsearched.exclude(pk=row.pk))
    return row


def find_same_document(collection: Collection, name: str, checksum: str) -> Document | None:
    """The document of this name, if its content is the same and it did not fail."""
    current = Document.objects.filter(collection=collection, name=name).current()
    newest = current.exclude(status=Status.FAILED).order_by("-id").first()
    if newest is None or newest.checksum != checksum:
        return None
    return newest


@transaction.atomic
def index_again(row: Document) -> Document:
    """Read a document again: a failed one, or a page that may have changed. Raises Conflict."""
    lock_collection(row.collection)
    if row.source != Source.URL and row.file_id is None:
        raise Conflict(_("The file of this document was deleted."), code="no_file", hint=_("Add the document again."))
    if row.status in (Status.WAITING, Status.INDEXING):
        return row
    # A new revision with the content of this one.
    fields = ("collection", "name", "source", "url", "file", "media_type", "checksum", "untrusted")
    values = {name: getattr(row, name) for name in fields}
    return create_document_row(Document(**values))


# -- indexing ----------------------------------------------------------------------------------------------------------


def claim_waiting_documents(limit: int, lease_s: float, *, without: Members[int | None] = ()) -> list[Document]:
    """Take documents that wait, or whose worker died; those that were tried too often have failed. Documents of the
    owners in `without` are passed over.
    """
    is_expired = Q(status=Status.INDEXING, lease_expires_at__lte=clock.Now())
    is_due = Q(status=Status.WAITING) | is_expired
    due = Document.objects.filter(SiteHold.absent(), is_due)
    given_up = due.filter(attempts__gte=ATTEMPTS)
    error = f"Reading it was interrupted {ATTEMPTS} times."
    given_up.update(status=Status.FAILED, lease=None, error_code="gave_up", error=error)
    others = of_others(due, "collection__owner", without).order_by("id")
    chosen = list(others.values_list("pk", flat=True)[:limit])
    if not chosen:
        return []
    # Another worker may have taken some of them meanwhile: what bears this lease is ours.
    lease = uuid4()
    expires_at = clock.Now(lease_s)
    unclaimed = due.filter(pk__in=chosen)
    unclaimed.update(status=Status.INDEXING, lease=lease, lease_expires_at=expires_at, attempts=F("attempts") + 1)
    claimed = Document.objects.filter(lease=lease).select_related("file", "collection")
    return list(claimed.order_by("id"))


def renew(lease: UUID, lease_s: float) -> None:
    """Keep the claim of a worker that still reads. A document that was taken from it meanwhile is not taken back."""
    rows = Document.objects.filter(lease=lease, status=Status.INDEXING)
    rows.update(lease_expires_at=clock.Now(lease_s))


@dataclass(frozen=True, slots=True)
class Read:
    """What a worker read of a document it claimed. `file` is a page that was fetched."""

    document: Document
    pieces: list[Piece]
    file: StoredFile | None = None
    left_out: list[LeftOut] = field(default_factory=list)


def finish_read_documents(read: list[Read]) -> int:
    """The next version of each collection with these documents, as far as they are still claimed. Returns how many."""
    groups: dict[int, list[Read]] = defaultdict(list)
    for one in read:
        groups[one.document.collection_id].append(one)
    done = 0
    # In one order, so that two workers do not wait for each other's locks.
    for collection_id in sorted(groups):
        done += finish_collection(collection_id, groups[collection_id])
    return done


@transaction.atomic
def finish_collection(collection_id: int, read: list[Read]) -> int:
    """The same for one collection: all its documents appear at once, in one version."""
    collection = Collection.objects.select_for_update().filter(pk=collection_id).first()
    leases = {one.document.pk: one.document.lease for one in read}
    rows = Document.objects.select_for_update().filter(pk__in=leases, status=Status.INDEXING)
    # A document whose lease ran out belongs to another worker by now, which will finish it.
    mine = {row.pk: row for row in rows if row.lease == leases[row.pk]}
    kept = [one for one in read if one.document.pk in mine]
    if collection is None or not kept:
        return 0
    number = start_next_version(collection)
    names = [one.document.name for one in kept]
    earlier = Document.objects.filter(collection=collection, status=Status.READY, until_version=None, name__in=names)
    earlier.update(until_version=number)
    chunks: list[Chunk] = []
    for one in kept:
        become_ready(mine[one.document.pk], one, number)
        chunks += build_document_chunks(collection_id, one)
    Chunk.objects.bulk_create(chunks, batch_size=BATCH)
    return len(kept)


def become_ready(row: Document, read: Read, number: int) -> None:
    """The document is searched from this version of the collection on."""
    row.checksum = read.document.checksum
    row.media_type = read.document.media_type
    if read.file:
        files.insert_file_row(read.file)
        row.file = read.file
        row.checksum = read.file.sha256
        row.media_type = read.file.media_type
    row.status = Status.READY
    row.from_version = number
    row.chunk_count = len(read.pieces)
    row.left_out = [one.as_json() for one in read.left_out]
    row.lease = None
    row.lease_expires_at = None
    row.indexed_at = timezone.now()
    row.save()


def build_document_chunks(collection_id: int, read: Read) -> list[Chunk]:
    """The title counts as words of each chunk: a question often names the document."""
    name = read.document.name
    chunks = []
    for position, piece in enumerate(read.pieces):
        words = full_text.build_index_tokens(collection_id, f"{name} . {piece.heading} . {piece.text}")
        chunk = Chunk(
            document=read.document,
            position=position,
            page=piece.page,
            heading=piece.heading,
            text=piece.text,
            words=words,
        )
        chunks.append(chunk)
    return chunks


def count_pieces(documents: QuerySet[Document]) -> int:
    count: int | None = documents.aggregate(count=Sum("chunk_count"))["count"]
    return count or 0


def fail(document: Document, code: str, error: str, left_out: Sequence[LeftOut] = ()) -> None:
    """Mark a claimed document as failed; an earlier document of this name stays as it is."""
    error_code = clean_database_text(code)[:64]
    error = clean_database_text(error)[:500]
    entries = [one.as_json() for one in left_out]
    claimed = Document.objects.filter(pk=document.pk, lease=document.lease, status=Status.INDEXING)
    claimed.update(status=Status.FAILED, lease=None, error_code=error_code, error=error, left_out=entries)


def put_back(document: Document) -> None:
    """Let a claimed document wait again, as if it had not been tried."""
    rows = Document.objects.filter(pk=document.pk, lease=document.lease, status=Status.INDEXING)
    rows.update(status=Status.WAITING, lease=None, attempts=F("attempts") - 1)


def is_unchanged(document: Document, checksum: str) -> bool:
    """Whether the index has this content under the document's name."""
    rows = Document.objects.filter(collection_id=document.collection_id, name=document.name, status=Status.READY)
    current = rows.filter(until_version=None, checksum=checksum)
    return current.exists()


def drop(document: Document) -> None:
    """Delete a claimed document: the one before it has the same content."""
    claimed = Document.objects.filter(pk=document.pk, lease=document.lease, status=Status.INDEXING)
    claimed.delete()


# -- removing ----------------------------------------------------------------------------------------------------------


@transaction.atomic
def remove_document(row: Document) -> None:
    """End a document with the next version; agents that keep to an earlier version still find it. What was never
    searched is deleted.
    """
    collection = lock_collection(row.collection)
    current = Document.objects.filter(collection=collection, name=row.name).current()
    searched = current.filter(status=Status.READY)
    if searched.exists():
        searched.update(until_version=start_next_version(collection))
    discard(current.exclude(status=Status.READY))


def erase_document(row: Document) -> int:
    """Delete every revision of the document of this name, in all versions, the index and the disk. Returns how
    many.
    """
    with transaction.atomic():
        lock_collection(row.collection)
        transaction.on_commit(full_text.scrub)
        return discard(Document.objects.filter(collection_id=row.collection_id, name=row.name))


def erase_named(rows: QuerySet[Document], names: set[str]) -> int:
    """Delete the documents with these names, in all versions, the index and the disk: how many revisions."""
    transaction.on_commit(full_text.scrub)
    return discard(rows.filter(name__in=names))


def erase_collection(row: Collection) -> None:
    """Delete the documents of a collection with their files, before the collection itself."""
    discard(Document.objects.filter(collection=row))
    transaction.on_commit(full_text.scrub)


def discard(rows: QuerySet[Document]) -> int:
    """Delete documents, and the files that were stored for them and are used nowhere else."""
    document_ids: list[UUID] = []
    file_ids: set[UUID] = set()
    for document_id, file_id, source in rows.values_list("pk", "file_id", "source"):
        document_ids.append(document_id)
        # A file of its owner stays theirs.
        if file_id and source != Source.FILE:
            file_ids.add(file_id)
    Document.objects.filter(pk__in=document_ids).delete()
    files.delete_files(StoredFile.objects.filter(pk__in=file_ids).unreferenced())
    return len(document_ids)


def lock_collection(collection: Collection) -> Collection:
    """Writers of one collection come one after the other."""
    return Collection.objects.select_for_update().get(pk=collection.pk)


def start_next_version(collection: Collection) -> int:
    """The number of the version that the caller's changes make. The caller holds the lock of the collection."""
    collection.version += 1
    if collection.embeddings:
        collection.embed_after = clock.Now()
    collection.save(update_fields=["version", "embed_after"])
    return collection.version
