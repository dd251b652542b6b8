"""The content parts of a message: which parts are valid, and what a model sees of them.

{"type": "text", "text", "untrusted"?} · {"type": "image", "url" or "data" (base64), "media_type"?} · {"type":
"file", "file": id}. The row keeps what was sent; a file is read again each time, so a deleted file
disappears from the history too.
"""

import base64
import binascii
from collections.abc import Iterable
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from cachetools import LRUCache, cached

from agents import storage
from agents.models import StoredFile
from agents.models.file import IMAGES
from agents.unknown import extra
from knowledge.collections import pieces
from knowledge.indexing import parsing
from plumbing.waits import run_blocking
from runs.models import Message
from runs.models.session import list_file_ids, parsed_id
from runs.rules.untrusted_tags import mark_untrusted

FIELDS = {
    "text": ("type", "text", "untrusted"),
    "image": ("type", "url", "data", "media_type"),
    "file": ("type", "file"),
}
TYPES = tuple(FIELDS)
MOST = 200  # parts of a message
IMAGE_SIZE = 4_000  # characters that an image counts in a budget: models charge about a thousand tokens
FILE_LIMIT = 40_000  # characters of one file shown to a model

READ_BYTES = 16 << 20  # of the texts of files that are kept, in a process

Part = dict[str, Any]
Files = dict[UUID, StoredFile]


def measure_text(read: tuple[str, str]) -> int:
    return 4 * (len(read[0]) + len(read[1])) + 200


def find_part_problem(user: Any, part: Any) -> str:
    """The problems of a part sent by this user; empty if it may be sent."""
    if not isinstance(part, dict) or part.get("type") not in TYPES:
        return f"a part must be an object whose type is one of {', '.join(TYPES)}"
    unknown_fields = extra(part, FIELDS[part["type"]])
    if unknown_fields:
        name, why = next(iter(unknown_fields.items()))
        return f"“{name}”: {why}"
    if part["type"] == "text":
        return text_problem(part)
    if part["type"] == "image":
        return image_problem(part)
    file_id = parsed_id(part.get("file"))
    if file_id is None:
        return "there is no such file"
    readable = StoredFile.objects.visible_to(user).filter(pk=file_id)
    return "" if readable.exists() else "there is no such file"


def text_problem(part: Part) -> str:
    if not isinstance(part.get("text"), str):
        return "a text part needs “text”"
    if not isinstance(part.get("untrusted", False), bool):
        return "“untrusted” must be true or false"
    return ""


def are_untrusted(content: list[Part]) -> bool:
    """Pictures, texts that others wrote, and files except those that their owner marked as their own."""
    for part in content:
        if part.get("type") == "image" or part.get("untrusted"):
            return True
    files = StoredFile.objects.filter(pk__in=list_file_ids(content), untrusted=True)
    return files.exists()


def image_problem(part: Part) -> str:
    url, data = part.get("url"), part.get("data")
    if (url is None) == (data is None):
        return "an image part needs either “url” or “data” (base64)"
    if part.get("media_type", IMAGES[0]) not in IMAGES:
        return f"“media_type” of an image must be one of {', '.join(IMAGES)}"
    if url is not None and not is_web_address(url):
        return "“url” of an image must begin with https:// or http://"
    if data is not None and not is_base64(data):
        return "“data” of an image must be base64, without “data:” before it"
    return ""


def is_web_address(url: Any) -> bool:
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def is_base64(data: Any) -> bool:
    if not isinstance(data, str):
        return False
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(decoded)


# -- what a model reads -----------------------------------------------------------------------------------------------


def load_message_files(rows: Iterable[Message], owner_id: Any) -> Files:
    """The existing files of this user that these messages refer to."""
    file_ids: set[UUID] = set()
    for row in rows:
        file_ids.update(list_file_ids(row.content))
    if not file_ids:
        return {}
    return StoredFile.objects.filter(owner_id=owner_id).in_bulk(file_ids)


def render_content(row: Message, files: Files) -> str | list[Part]:
    """A message's content for a model: plain text if possible; files as their text or picture."""
    is_all_text = all(part.get("type") == "text" for part in row.content)
    if is_all_text:
        return "\n".join(shown_text(part) for part in row.content)
    return [shown_part(part, files) for part in row.content]


def shown_part(part: Part, files: Files) -> Part:
    if part.get("type") == "file":
        return shown_file(part, files)
    if part.get("type") == "text":
        return {"type": "text", "text": shown_text(part)}
    return part


def shown_text(part: Part) -> str:
    text = part.get("text", "")
    return mark_untrusted(text, "attachment") if part.get("untrusted") else text


def shown_file(part: Part, files: Files) -> Part:
    file_id = parsed_id(part.get("file"))
    row = files.get(file_id) if file_id else None
    content = storage.read_stored_file(row) if row else None
    if row is None or content is None:
        return {"type": "text", "text": f"[file {file_id}: deleted]"}
    if row.media_type in IMAGES:
        return {"type": "image", "data": base64.b64encode(content).decode(), "media_type": row.media_type}
    label = f"file {row.name}"
    text, note = read_file_text(row, content)
    if not text:
        if row.untrusted:  # a hostile file may have written the note
            note = mark_untrusted(note, label)
        return {"type": "text", "text": f"[{label}, {row.media_type}, {len(content)} bytes: {note}]"}
    if len(text) > FILE_LIMIT:
        text = f"{text[:FILE_LIMIT]}\n[cut: {len(text) - FILE_LIMIT} more characters]"
    if note:
        text = f"{text}\n{note}"
    if row.untrusted:
        text = mark_untrusted(text, label)
    return {"type": "text", "text": f"File {row.name}:\n{text}"}


def read_file_text(row: StoredFile, content: bytes) -> tuple[str, str]:
    """The text of a file, and what is not in it; without a text, why it has none. Office files, PDF, mail and other
    encodings than UTF-8 are read in the sandbox, as the documents of collections are.
    """
    try:
        text = content.decode("utf-8-sig")
        if "\0" not in text and not content.startswith(b"%PDF-"):
            return text, ""
    except UnicodeDecodeError:
        pass
    try:
        return read_apart(row.sha256, row.name, row.media_type, content)
    except parsing.Unreadable as error:
        return "", str(error)
    except parsing.NotNow as error:
        return "", f"it cannot be read now ({error})"


def name_key(sha256: str, name: str, media_type: str, content: bytes) -> tuple[str, str, str]:
    return sha256, name, media_type


@cached(LRUCache(READ_BYTES, getsizeof=measure_text), key=name_key, lock=Lock())
def read_apart(sha256: str, name: str, media_type: str, content: bytes) -> tuple[str, str]:
    """Kept by content: each turn of a run shows its files again. Raises Unreadable, NotNow."""
    read = run_blocking(parsing.read_document_text, f"file-{uuid4()}", name, media_type, content)
    text = "\n".join("\n".join(filter(None, [name_place(part), part.text])) for part in read.parts).strip()
    losses = list_places(one for one in read.left_out if one.is_lost)
    notes = list_places(one for one in read.left_out if not one.is_lost)
    if not text:
        raise parsing.Unreadable("no_text", losses or "There is no text in it.")
    lines = []
    if losses:
        lines.append(f"[not in this text: {losses}]")
    if notes:
        lines.append(f"[about this text: {notes}]")
    return text, "\n".join(lines)


def list_places(entries: Iterable[pieces.LeftOut]) -> str:
    return "; ".join(f"{one.place}: {one.reason}" for one in entries)


def name_place(part: pieces.Part) -> str:
    page = f"page {part.page}" if part.page else ""
    return ", ".join(filter(None, [page, part.heading]))


def measure_content(content: str | list[Part]) -> int:
    """Characters that count against a budget."""
    if isinstance(content, str):
        return len(content)
    characters = 0
    for part in content:
        characters += IMAGE_SIZE if part.get("type") == "image" else len(part.get("text", ""))
    return characters


def parse_run_ids(value: Any) -> list[UUID]:
    """The run ids in a list; metadata may contain anything."""
    if not isinstance(value, list):
        return []
    ids = []
    for entry in value:
        try:
            ids.append(UUID(str(entry)))
        except ValueError:
            continue
    return ids
