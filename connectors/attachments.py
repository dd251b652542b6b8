"""Images, audio and other binary content in the answers of MCP servers: it becomes files of the run.

A server may send a picture as a part of its content, inside its structured content, as a `data:`
address or as bare Base64 in a text, and often in two of these places. A model gets the name of the
file in each of them, never the Base64.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from agents.schema import hash_json
from agents.tools import ToolContext, ToolFailed, ToolSpec

FILES = 20  # of one answer
DATA = {"image": "data", "audio": "data", "resource": "blob"}  # type of a part → the field with its base64
TYPES = ("mimeType", "mime_type", "mediaType", "media_type", "contentType", "content_type")
FIELDS = ("data", "blob")  # that hold Base64 beside one of these, whatever it looks like
LEAST = 512  # characters: what is shorter costs a model little
LEAST_BARE = 4000  # without a media type beside it
DEEPEST = 100
DATA_URL = re.compile(rf"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/_-]{{{LEAST},}}+={{0,2}})")
# Lines of Base64; a break may be written \n, as in JSON. Possessive, so that no text makes it try again and again.
BARE = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?:[A-Za-z0-9+/_-]{40,}+(?:\r?\n|\\n)?+)++"
    r"(?:[A-Za-z0-9+/_-]{1,39}+(?:={1,2}|(?=[\r\n\"']|\\n|\Z)))?+={0,2}+"
)
WHOLE = re.compile(r"[A-Za-z0-9+/_\s-]+={0,2}\s*")
BREAKS = re.compile(r"\\n|\s")
JSON = Any


def with_files_stored(answer: dict[str, JSON], tool: ToolSpec, context: ToolContext) -> dict[str, JSON]:
    """The answer with its images and other binary content as files of the run: a text names each.

    Files that the structured content does not name stand in it under `files`: it is what the model sees.
    """
    attachments = Attachments(tool, context)
    stored = {**answer, "content": attachments.replace_parts(answer.get("content"))}
    structured = answer.get("structuredContent")
    if structured is None:
        return stored
    structured = attachments.replace_in(structured)
    if more := attachments.texts_outside(structured):
        structured = add_files(structured, more)
    return {**stored, "structuredContent": structured}


class Attachments:
    """The binary content of one answer. What stands in several places of it is stored once."""

    def __init__(self, tool: ToolSpec, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._texts: dict[tuple[str, str], str] = {}  # by the hash of the Base64 and its media type

    def replace_parts(self, parts: JSON) -> JSON:
        """The content of an answer, in which a text names each stored file."""
        return [self._replace_part(part) for part in parts] if isinstance(parts, list) else parts

    def replace_in(self, value: JSON, depth: int = 0) -> JSON:
        """Structured content without Base64."""
        if isinstance(value, str):
            return self.replace_in_text(value)
        if depth > DEEPEST:
            return value
        if isinstance(value, list):
            return [self.replace_in(one, depth + 1) for one in value]
        if not isinstance(value, dict):
            return value
        declared = declared_type(value)
        replaced = {}
        for name, one in value.items():
            may_be = isinstance(one, str) and bool(declared) and (name in FIELDS or looks_encoded(one))
            is_binary = may_be and is_base64(one, LEAST)
            replaced[name] = self._name_file(one, declared, "") if is_binary else self.replace_in(one, depth + 1)
        return replaced

    def replace_in_text(self, text: str) -> str:
        if len(text) < LEAST:
            return text
        text = DATA_URL.sub(lambda match: self._name_file(match[2], match[1] or "", ""), text)
        if len(text) < LEAST_BARE:
            return text
        return BARE.sub(lambda match: self._name_bare(match[0]), text)

    def texts_outside(self, value: JSON) -> list[str]:
        """The texts that name the files which this value does not name."""
        names = self._texts.values()
        return [text for text in names if not is_named(text, value)]

    def _replace_part(self, part: JSON) -> JSON:
        if is_text(part):
            return {**part, "text": self.replace_in_text(part["text"])}
        if not is_binary_part(part):
            return part
        held = get_resource(part)
        name = str(held.get("uri") or "").rpartition("/")[2]
        return {
            "type": "text",
            "text": self._name_file(held[DATA[part["type"]]], str(held.get("mimeType") or ""), name),
        }

    def _name_bare(self, text: str) -> str:
        is_binary = len(text) >= LEAST_BARE and looks_encoded(text) and is_base64(text, LEAST_BARE)
        return self._name_file(text, "", "") if is_binary else text

    def _name_file(self, data: str, declared: str, name: str) -> str:
        """Stores the file. The text says its name, or why it could not be stored."""
        digest = hash_json(BREAKS.sub("", data))
        for (stored_digest, kind), text in self._texts.items():
            if stored_digest == digest and (not declared or declared == kind):
                return text
        text = self._texts[digest, declared] = self._store(data, declared, name)
        return text

    def _store(self, data: str, declared: str, name: str) -> str:
        number = len(self._texts) + 1
        kind = declared[:100] or "content"
        if self._context.save_file is None:
            return f"[left out: {kind}, {len(data) * 3 // 4} bytes]"
        if number > FILES:
            return f"[left out: {kind}, {len(data) * 3 // 4} bytes: an answer can have {FILES} files]"
        name = name or f"{self._tool.name}-{number}.{declared.rpartition('/')[2] or 'bin'}"
        try:
            file = self._context.save_file(name, decode_base64(data), declared)
        except (binascii.Error, ValueError, ToolFailed) as error:
            return f"[left out: {kind}: {error}]"
        return f"[file {file['name']}, {file['media_type']}, stored as file:{file['file']}]"


def is_text(part: JSON) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def is_binary_part(part: JSON) -> bool:
    """An image, audio, or a resource with a blob."""
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    return isinstance(get_resource(part).get(DATA.get(part["type"], "")), str)


def get_resource(part: dict[str, JSON]) -> dict[str, JSON]:
    held = part.get("resource") if part.get("type") == "resource" else part
    return held if isinstance(held, dict) else {}


def declared_type(value: dict[str, JSON]) -> str:
    """The media type that a structured value says of its content, or ""."""
    named: Iterable[JSON] = (value.get(name) for name in TYPES)
    return next((one for one in named if isinstance(one, str) and "/" in one), "")


def is_base64(text: str, least: int) -> bool:
    if len(text) < least or not WHOLE.fullmatch(text.replace("\\n", "\n")):
        return False
    try:
        decode_base64(text)
    except ValueError:
        return False
    return True


def looks_encoded(text: str) -> bool:
    """Small and capital letters and digits, as Base64 has: a hex dump or a sequence of genes has not all of them."""
    kinds = (str.islower, str.isupper, str.isdigit)
    sample = text[:2000]
    return all(any(is_kind(letter) for letter in sample) for is_kind in kinds)


def decode_base64(data: str) -> bytes:
    """The bytes of Base64 in either alphabet, with line breaks and with or without padding. Raises ValueError."""
    plain = BREAKS.sub("", data).rstrip("=")
    padded = plain + "=" * (-len(plain) % 4)
    if "-" in plain or "_" in plain:
        padded = padded.replace("-", "+").replace("_", "/")
    return b64decode(padded, validate=True)


def add_files(structured: JSON, texts: list[str]) -> JSON:
    if isinstance(structured, dict) and "files" not in structured:
        return {**structured, "files": texts}
    return {"result": structured, "files": texts}


def is_named(text: str, value: JSON) -> bool:
    """Whether a string in this value holds the text."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and text in one:
            return True
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return False
