"""Content of results in MCP's form: images, sounds, embedded resources and links."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from agents import storage
from agents.models import StoredFile

JSON = Any
SCHEME = "muster://"
# Bytes of a file that is part of a result, and of all of them. Others are links.
LARGEST = 1 << 20
LARGEST_TOTAL = 4 << 20
# Type → the texts that such a block has.
KINDS = {
    "text": ("text",), "image": ("data", "mimeType"), "audio": ("data", "mimeType"), "resource_link": ("uri", "name"),
}  # fmt: skip


def text(value: str) -> dict[str, JSON]:
    return {"type": "text", "text": value}


def in_their_form(value: JSON, name: str) -> list[dict[str, JSON]] | None:
    """The list under `name` if a value is a result in MCP's own form: {"content": […]}, {"messages": […]} or
    {"contents": […]}; None if it is anything else.
    """
    if not isinstance(value, dict) or set(value) != {name}:
        return None
    rows = value[name]
    if not isinstance(rows, list) or not rows:
        return None
    has_form = FORMS[name]
    return rows if all(has_form(row) for row in rows) else None


def is_block(value: JSON) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "resource":
        return is_contents(value.get("resource"))
    return kind in KINDS and all(isinstance(value.get(name), str) for name in KINDS[kind])


def is_contents(value: JSON) -> bool:
    """Whether it has an address, and either a text or bytes."""
    if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
        return False
    has_text = isinstance(value.get("text"), str)
    has_bytes = isinstance(value.get("blob"), str)
    return has_text != has_bytes


def is_message(value: JSON) -> bool:
    if not isinstance(value, dict) or value.get("role") not in ("user", "assistant"):
        return False
    return is_block(value.get("content"))


FORMS = {"content": is_block, "messages": is_message, "contents": is_contents}


def of_stored(files: Iterable[StoredFile]) -> list[dict[str, JSON]]:
    """Files of a run: small ones as content, the others as links."""
    blocks = []
    room = LARGEST_TOTAL
    for file in files:
        content = None
        if file.size <= min(LARGEST, room):
            content = storage.read_stored_file(file)
        if content is None:
            blocks.append(build_file_link(file))
        else:
            room -= len(content)
            blocks.append(block(f"{SCHEME}files/{file.pk}", file.media_type, content))
    return blocks


def of_unstored(name: str, media_type: str, content: bytes) -> dict[str, JSON]:
    """A file that a function made without a run: it is nowhere but in the result."""
    uri = f"{SCHEME}result/{quote(name)}"
    return block(uri, media_type, content)


def block(uri: str, media_type: str, content: bytes) -> dict[str, JSON]:
    kind, _, _ = media_type.partition("/")
    if kind in ("image", "audio"):
        data = b64encode(content).decode()
        return {"type": kind, "data": data, "mimeType": media_type, "_meta": {"muster/uri": uri}}
    return {"type": "resource", "resource": contents(uri, media_type, content)}


def contents(uri: str, media_type: str, content: bytes) -> dict[str, JSON]:
    entry = {"uri": uri, "mimeType": media_type}
    if storage.is_text_content(content):
        entry["text"] = content.decode()
    else:
        entry["blob"] = b64encode(content).decode()
    return entry


def build_file_link(file: StoredFile) -> dict[str, JSON]:
    return {
        "type": "resource_link",
        "uri": f"{SCHEME}files/{file.pk}",
        "name": file.name,
        "mimeType": file.media_type,
        "size": file.size,
    }
