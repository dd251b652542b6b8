"""Documents of collections for tests, indexed without a worker."""

from typing import Any

from agents import storage as files
from knowledge.collections import storage
from knowledge.collections.parsed import split_text
from knowledge.collections.pieces import cut_parts
from knowledge.models import Collection, Document


def index(**more: Any) -> int:
    """Read what waits, as a worker does with plain texts."""
    claimed = storage.claim_waiting_documents(1000, 60)
    read = []
    for document in claimed:
        content = files.read_stored_file(document.file) or b""
        read.append(storage.Read(document, list(cut_parts(split_text(document.media_type, content.decode())))))
    return storage.finish_read_documents(read)


def collection_with(owner: Any, texts: dict[str, str], *, name: str = "handbook", **fields: Any) -> Collection:
    row = Collection.objects.create(owner=owner, name=name, **fields)
    for title, text in texts.items():
        add(row, title, text)
    index()
    row.refresh_from_db()
    return row


def add(row: Collection, name: str, text: str, *, untrusted: bool = True) -> Document:
    return storage.add_content(
        row, row.owner_id, name, text.encode(), declared="text/markdown", untrusted=untrusted, source="text"
    )[0]
