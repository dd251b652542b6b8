"""Indexes what waits: claims documents, reads them and makes the next version of their collections.

A worker that dies leaves its claims, which expire; a document that was claimed by another meanwhile is not finished
twice.
"""

import logging
import time
from dataclasses import dataclass, field
from hashlib import sha256

import httpx
from django.conf import settings

from agents import storage as files
from agents.exceptions import MusterError
from agents.models import StoredFile
from knowledge.collections import storage
from knowledge.collections.pieces import Part, Piece, pieces_of
from knowledge.collections.storage import Read
from knowledge.models import Document
from plumbing import outbound
from runs.exceptions import DATABASE_GONE

from .parsing import NotNow, Unreadable, parts_of

log = logging.getLogger(__name__)
BATCH, PIECES = 50, 2000  # documents that are claimed, and pieces that are stored, at once
LEASE_S = 180.0  # longer than the slowest document
TURN_S = 5.0  # a worker that stops waits no longer than that, and for the document in work
FETCH_S = 30.0


def tick() -> int:
    """Index for a few seconds. Returns how many documents became searchable."""
    end, done = time.monotonic() + TURN_S, 0
    while time.monotonic() < end and (claimed := storage.claim(BATCH, LEASE_S)):
        done += index(claimed)
    return done


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
        self.done += storage.finish(read) if read else 0


def index(claimed: list[Document]) -> int:
    group, renewed = Group(), time.monotonic()
    for document in claimed:
        if time.monotonic() - renewed > LEASE_S / 6 and document.lease:
            storage.renew(document.lease, LEASE_S)
            renewed = time.monotonic()
        if read := attempt(document):
            group.add(read)
    group.store()
    return group.done


def attempt(document: Document) -> Read | None:
    """What was read; None if it failed, waits, or has not changed."""
    try:
        return read_document(document)
    except Unreadable as error:
        storage.fail(document, error.code, str(error))
    except MusterError as error:
        storage.fail(document, error.code, " ".join(filter(None, [str(error), error.hint])))
    except NotNow as error:
        log.warning("The document %s waits: %s", document.pk, error)
        storage.put_back(document)
    except DATABASE_GONE:  # the claim expires, and a later turn reads the document
        raise
    except Exception:  # of a parser's library or of the file store, which have kinds of their own: others go on
        log.exception("The document %s", document.pk)
        storage.fail(document, "internal_error", "Reading it failed. The log of the worker says why.")
    return None


def read_document(document: Document) -> Read | None:
    """Raises Unreadable, NotNow, MusterError."""
    name, media_type, file = document.name, document.media_type, None
    if document.url:
        content, declared = fetch(document.url)
        name, media_type = document.url, declared
        document.checksum, document.media_type = sha256(content).hexdigest(), declared[:100]
        if storage.is_unchanged(document, document.checksum):
            storage.drop(document)
            return None
        if document.collection.owner_id:  # the site has no files
            file = files.prepared(document.collection.owner_id, document.name, content, declared=declared)
    else:
        content = content_of(document.file)
    parts = parts_of(str(document.pk), name, media_type, content)
    return Read(document, checked(parts), file)


def content_of(file: StoredFile | None) -> bytes:
    content = files.read(file) if file else None
    if content is None:
        raise Unreadable("no_file", "The file was deleted before it was read.")
    return content


def checked(parts: list[Part]) -> list[Piece]:
    pieces: list[Piece] = []
    for piece in pieces_of(parts):
        pieces.append(piece)
        if len(pieces) > settings.CHUNKS_PER_DOCUMENT:
            raise Unreadable("too_much_text", f"It has more than {settings.CHUNKS_PER_DOCUMENT} pieces: split it.")
    if not pieces:
        raise Unreadable("no_text", "There is no text in it. Scanned pages must be recognised (OCR) before.")
    return pieces


def fetch(url: str) -> tuple[bytes, str]:
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
        raise Unreadable("address_refused", str(error))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreadable("not_fetched", f"The page cannot be fetched: {error or type(error).__name__}"[:300])
