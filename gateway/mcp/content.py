"""Content of results in MCP's form: images, sounds, embedded resources and links."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from agents import storage
from agents.models import StoredFile

JSON = Any
SCHEME = "muster://"
LARGEST = 1 << 20  # bytes of a file that is part of a result; larger ones are links
LARGEST_TOTAL = 4 << 20
KINDS = {  # type → the texts that such a block has
    "text": ("text",), "image": ("data", "mimeType"), "audio": ("data", "mimeType"), "resource_link": ("uri", "name"),
}  # fmt: skip


def text(value: str) -> dict[str, JSON]:
    return {"type": "text", "text": value}


def in_their_form(value: JSON, name: str) -> list[dict[str, JSON]] | None:
    """The list under `name` if a value is a result in MCP's own form: {"content": […]}, {"messages": […]} or
    {"contents": […]}; None if it is anything else.
    """
    rows = value.get(name) if isinstance(value, dict) and set(value) == {name} else None
    if not isinstance(rows, list) or not rows or not all(FORMS[name](row) for row in rows):
        return None
    return rows


def is_block(value: JSON) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "resource":
        return is_contents(value.get("resource"))
    return kind in KINDS and all(isinstance(value.get(name), str) for name in KINDS[kind])


def is_contents(value: JSON) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
        return False
    return isinstance(value.get("text"), str) != isinstance(value.get("blob"), str)


def is_message(value: JSON) -> bool:
    return isinstance(value, dict) and value.get("role") in ("user", "assistant") and is_block(value.get("content"))


FORMS = {"content": is_block, "messages": is_message, "contents": is_contents}


def of_stored(files: Iterable[StoredFile]) -> list[dict[str, JSON]]:
    """Files of a run: small ones as content, the others as links."""
    rows, room = [], LARGEST_TOTAL
    for file in files:
        content = storage.read_stored_file(file) if file.size <= min(LARGEST, room) else None
        room -= len(content or b"")
        uri = f"{SCHEME}files/{file.pk}"
        rows.append(build_file_link(file) if content is None else block(uri, file.media_type, content))
    return rows


def of_unstored(name: str, media_type: str, content: bytes) -> dict[str, JSON]:
    """A file that a function made without a run: it is nowhere but in the result."""
    return block(f"{SCHEME}result/{quote(name)}", media_type, content)


def block(uri: str, media_type: str, content: bytes) -> dict[str, JSON]:
    kind = media_type.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": b64encode(content).decode(), "mimeType": media_type, "_meta": {"muster/uri": uri}}
    return {"type": "resource", "resource": contents(uri, media_type, content)}


def contents(uri: str, media_type: str, content: bytes) -> dict[str, JSON]:
    shown = {"text": content.decode()} if storage.is_text_content(content) else {"blob": b64encode(content).decode()}
    return {"uri": uri, "mimeType": media_type, **shown}


def build_file_link(file: StoredFile) -> dict[str, JSON]:
    return {
        "type": "resource_link", "uri": f"{SCHEME}files/{file.pk}", "name": file.name, "mimeType": file.media_type,
        "size": file.size,
    }  # fmt: skip
