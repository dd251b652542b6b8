"""Indexes what waits: claims documents, reads them and makes the next version of their collections.

A worker that dies leaves its claims, which expire; a document that was claimed by another meanwhile is not finished
twice. A document that cannot be read or stored fails alone, and people take turns.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby

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
BATCH, PIECES = 50, 2000  # documents that are claimed, and pieces that are stored, at once
LEASE_S = 180.0  # longer than the slowest document
TURN_S = 5.0  # a worker that stops waits no longer than that, and for the document in work
FETCH_S = 30.0
seconds: Callable[[], float] = time.monotonic
TURNS = Turns(TURN_S)  # of the owners of collections


def index_waiting_documents() -> int:
    """Index for a few seconds. Returns how many documents became searchable."""
    end, done = seconds() + TURN_S, 0
    while seconds() < end and (claimed := claim_in_turn()):
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
        read, self.read, self.pieces = self.read, [], 0
        in_order = sorted(read, key=lambda one: one.document.collection_id)
        for _, of_one in groupby(in_order, key=lambda one: one.document.collection_id):
            self.done += store_read_documents(list(of_one))


def store_read_documents(read: list[Read]) -> int:
    """How many documents of one collection became searchable. One that cannot be stored fails alone."""
    try:
        check_piece_room(read)
        return storage.finish_read_documents(read)
    except DATABASE_GONE:  # the claims expire, and a later turn reads the documents
        raise
    except Exception as error:  # a quota, or a text that the database refuses
        if len(read) > 1:
            return sum(store_read_documents([one]) for one in read)
        record_failure(read[0].document, error)
        return 0


def check_piece_room(read: list[Read]) -> None:
    """Of documents of one collection. Raises Unreadable."""
    owner = read[0].document.collection.owner_id
    rows = Document.objects.filter(collection__owner=owner)
    if owner and storage.count_pieces(rows) + sum(len(one.pieces) for one in read) > settings.CHUNKS_PER_PERSON:
        raise Unreadable(
            "too_much_text",
            f"All documents of a person can have {settings.CHUNKS_PER_PERSON} pieces, with those of earlier versions: "
            "erase some that are not needed.",
        )


def index(claimed: list[Document]) -> int:
    group, renewed = Group(), seconds()
    for document in claimed:
        if TURNS.is_over(document.collection.owner_id):
            storage.put_back(document)
            continue
        if seconds() - renewed > LEASE_S / 6 and document.lease:
            storage.renew(document.lease, LEASE_S)
            renewed = seconds()
        if read := attempt(document):
            group.add(read)
    group.store()
    return group.done


def attempt(document: Document) -> Read | None:
    """The content that was read; None if reading failed, must wait, or found nothing new."""
    owner, begun = document.collection.owner_id, seconds()
    try:
        return read_claimed_document(document)
    except NotNow as error:
        log.warning("The document %s waits: %s", document.pk, error)
        storage.put_back(document)
    except DATABASE_GONE:  # the claim expires, and a later turn reads the document
        raise
    except Exception as error:  # of a parser's library or of the file store: other documents go on
        record_failure(document, error)
    finally:
        TURNS.add(owner, seconds() - begun)
    return None


def record_failure(document: Document, error: Exception) -> None:
    if isinstance(error, Unreadable):
        storage.fail(document, error.code, str(error), error.left_out)
    elif isinstance(error, MusterError):
        storage.fail(document, error.code, " ".join(filter(None, [str(error), error.hint])))
    else:
        log.error("The document %s", document.pk, exc_info=error)
        storage.fail(document, "internal_error", "Reading it failed. The log of the worker says why.")


def read_claimed_document(document: Document) -> Read | None:
    """Raises Unreadable, NotNow, MusterError."""
    name, media_type, file = document.name, document.media_type, None
    if document.url:
        content, declared = fetch_public_page(document.url)
        name, media_type = document.url, declared
        document.checksum, document.media_type = sha256(content).hexdigest(), declared[:100]
        if storage.is_unchanged(document, document.checksum):
            storage.drop(document)
            return None
        if document.collection.owner_id:  # the site has no files
            file = files.store_bytes(document.collection.owner_id, document.name, content, declared=declared)
    else:
        content = load_content(document.file)
    read = read_document_text(str(document.pk), name, media_type, content)
    return Read(document, cut_pieces(read.parts, read.left_out), file, read.left_out)


def load_content(file: StoredFile | None) -> bytes:
    content = files.read_stored_file(file) if file else None
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
    try:
        with (
            outbound.until(FETCH_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED, follow_redirects=True) as client,
            client.stream("GET", url, headers={"Accept": "text/html,text/*;q=0.9,*/*;q=0.5"}) as response,
        ):
            if response.status_code != 200:
                raise Unreadable("not_fetched", f"The page answered with the status {response.status_code}.")
            content = outbound.read_body(response, settings.FILE_BYTES)
            return content, response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    except outbound.AddressRefused as error:
        raise Unreadable("private_address", str(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unreadable("not_fetched", f"The page cannot be fetched: {str(error) or describe_failure(error)}"[:300])
