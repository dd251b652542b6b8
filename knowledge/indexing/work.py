"""Indexes what waits: claims documents, reads them and makes the next version of their collections.

A worker that dies leaves its claims, which expire; a document that was claimed by another meanwhile is not finished
twice. A document that cannot be read or stored fails alone, and people take turns.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import httpx2
from django.conf import settings

from agents import storage as files
from agents.exceptions import MusterError
from agents.models import StoredFile
from knowledge.collections import storage
from knowledge.collections.pieces import LeftOut, Part, Piece, cut_parts
from knowledge.collections.storage import Read
from knowledge.models import Document
from plumbing.database import DATABASE_GONE
from plumbing.fair import Turns
from plumbing.http import outbound
from plumbing.http.failures import describe_failure

from .parsing import CHUNKS_PER_DOCUMENT, NotNow, Unreadable, read_document_text

log = logging.getLogger(__name__)
# Documents that are claimed, and pieces that are stored, at once.
BATCH, PIECES = 50, 2000
# Longer than the slowest document.
LEASE_S = 180.0
# A worker that stops waits no longer than that, and for the document in work.
TURN_S = 5.0
FETCH_S = 30.0
seconds: Callable[[], float] = time.monotonic
# Of the owners of collections.
TURNS = Turns(TURN_S)


def index_waiting_documents() -> int:
    """Index for a few seconds. Returns how many documents became searchable."""
    end = seconds() + TURN_S
    done = 0
    while seconds() < end:
        claimed = claim_in_turn()
        if not claimed:
            break
        done += index(claimed)
    return done


def claim_in_turn() -> list[Document]:
    """Claim documents of people whose turn is not over. If there are none, the next turn of everybody begins."""
    over = TURNS.find_over()
    claimed = storage.claim_waiting_documents(BATCH, LEASE_S, without=over)
    if claimed or not over:
        return claimed
    TURNS.begin_anew()
    return storage.claim_waiting_documents(BATCH, LEASE_S)


@dataclass(slots=True)
class Group:
    """Documents that were read and are stored together."""

    read: list[Read] = field(default_factory=list)
    pieces: int = 0
    done: int = 0

    def add(self, read: Read) -> None:
        self.read.append(read)
        self.pieces += len(read.pieces)
        if self.pieces >= PIECES:
            self.store()

    def store(self) -> None:
        by_collection: dict[int, list[Read]] = defaultdict(list)
        for one in self.read:
            by_collection[one.document.collection_id].append(one)
        self.read = []
        self.pieces = 0
        for collection_id in sorted(by_collection):
            self.done += store_read_documents(by_collection[collection_id])


def store_read_documents(read: list[Read]) -> int:
    """How many documents of one collection became searchable. One that cannot be stored fails alone."""
    try:
        check_piece_room(read)
        return storage.finish_read_documents(read)
    except DATABASE_GONE:
        # The claims expire, and a later turn reads the documents.
        raise
    except Exception as error:
        # A quota, or a text that the database refuses.
        if len(read) > 1:
            return sum(store_read_documents([one]) for one in read)
        record_failure(read[0].document, error)
        return 0


def check_piece_room(read: list[Read]) -> None:
    """Of documents of one collection. Raises Unreadable."""
    owner = read[0].document.collection.owner_id
    # Collections of the site have no limit.
    if not owner:
        return
    stored = storage.count_pieces(Document.objects.filter(collection__owner=owner))
    new = sum(len(one.pieces) for one in read)
    if stored + new > settings.CHUNKS_PER_PERSON:
        raise Unreadable(
            "too_much_text",
            f"All documents of a person can have {settings.CHUNKS_PER_PERSON} pieces, with those of earlier versions: "
            "erase some that are not needed.",
        )


def index(claimed: list[Document]) -> int:
    """Read these documents, and store them in groups. Returns how many became ready."""
    group = Group()
    renewed = seconds()
    for document in claimed:
        if TURNS.is_over(document.collection.owner_id):
            storage.put_back(document)
            continue
        if seconds() - renewed > LEASE_S / 6 and document.lease:
            storage.renew(document.lease, LEASE_S)
            renewed = seconds()
        if read := read_document(document):
            group.add(read)
    group.store()
    return group.done


def read_document(document: Document) -> Read | None:
    """The content that was read; None if reading failed, must wait, or found nothing new."""
    owner = document.collection.owner_id
    begun = seconds()
    try:
        return read_claimed_document(document)
    except NotNow as error:
        log.warning("The document %s waits: %s", document.pk, error)
        storage.put_back(document)
    except DATABASE_GONE:
        # The claim expires, and a later turn reads the document.
        raise
    except Exception as error:
        # Of a parser's library or of the file store: other documents go on.
        record_failure(document, error)
    finally:
        TURNS.add(owner, seconds() - begun)
    return None


def record_failure(document: Document, error: Exception) -> None:
    """The document has failed; its person is told what they can mend, the log has the rest."""
    if isinstance(error, Unreadable):
        storage.fail(document, error.code, str(error), error.left_out)
    elif isinstance(error, MusterError):
        message = " ".join(filter(None, [str(error), error.hint]))
        storage.fail(document, error.code, message)
    else:
        log.error("The document %s", document.pk, exc_info=error)
        storage.fail(document, "internal_error", "Reading it failed. The log of the worker says why.")


def read_claimed_document(document: Document) -> Read | None:
    """Raises Unreadable, NotNow, MusterError."""
    if document.url:
        return read_claimed_page(document)
    content = load_content(document.file)
    return read_document_content(document, document.name, document.media_type, content)


def read_claimed_page(document: Document) -> Read | None:
    """None if the page has not changed since it was read."""
    content, media_type = fetch_public_page(document.url)
    document.checksum = sha256(content).hexdigest()
    document.media_type = media_type[:100]
    if storage.is_unchanged(document, document.checksum):
        storage.drop(document)
        return None
    file = None
    owner_id = document.collection.owner_id
    # The site has no files.
    if owner_id:
        file = files.store_bytes(owner_id, document.name, content, declared=media_type)
    return read_document_content(document, document.url, media_type, content, file)


def read_document_content(
    document: Document, name: str, media_type: str, content: bytes, file: StoredFile | None = None
) -> Read:
    """The pieces of a content, and what of it was left out."""
    read = read_document_text(str(document.pk), name, media_type, content)
    return Read(
        document=document,
        pieces=cut_pieces(read.parts, read.left_out),
        file=file,
        left_out=read.left_out,
    )


def load_content(file: StoredFile | None) -> bytes:
    content = None
    if file is not None:
        content = files.read_stored_file(file)
    if content is None:
        raise Unreadable("no_file", "The file was deleted before it was read.")
    return content


def cut_pieces(parts: list[Part], left_out: list[LeftOut] | None = None) -> list[Piece]:
    """The pieces of a text. Raises Unreadable if there are none, or too many."""
    pieces: list[Piece] = []
    for piece in cut_parts(parts):
        pieces.append(piece)
        if len(pieces) > CHUNKS_PER_DOCUMENT:
            raise Unreadable("too_much_text", f"It has more than {CHUNKS_PER_DOCUMENT} pieces: split it.")
    if not pieces:
        raise Unreadable("no_text", "There is no text in it.", left_out)
    return pieces


def fetch_public_page(url: str) -> tuple[bytes, str]:
    """The content and media type of a public page. Raises Unreadable."""
    headers = {"Accept": "text/html,text/*;q=0.9,*/*;q=0.5"}
    try:
        with (
            outbound.until(FETCH_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED, follow_redirects=True) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise Unreadable("not_fetched", f"The page answered with the status {response.status_code}.")
            content = outbound.read_body(response, settings.FILE_BYTES)
            media_type, _, _ = response.headers.get("Content-Type", "").partition(";")
            return content, media_type.strip().lower()
    except outbound.AddressRefused as error:
        raise Unreadable("private_address", str(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unreadable("not_fetched", f"The page cannot be fetched: {str(error) or describe_failure(error)}"[:300])
