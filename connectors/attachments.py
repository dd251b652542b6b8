"""Images, audio and other binary content in the answers of MCP servers: it becomes files of the run.

A server may send a picture as a part of its content, inside its structured content, as a `data:`
address or as bare Base64 in a text, and often in two of these places. A model gets the name of the
file in each of them, never the Base64.
"""

import binascii
import re
from base64 import b64decode
from typing import Any

from agents.schema import hash_json
from agents.tools import ToolContext, ToolFailed, ToolSpec

# Files of one answer.
FILES = 20
# Type of a part → the field with its Base64.
DATA = {"image": "data", "audio": "data", "resource": "blob"}
TYPES = ("mimeType", "mime_type", "mediaType", "media_type", "contentType", "content_type")
# Fields that hold Base64 beside one of these types, whatever it looks like.
FIELDS = ("data", "blob")
# Characters: what is shorter costs a model little.
LEAST = 512
# The same, of Base64 without a media type beside it, which may be something else.
LEAST_BARE = 4000
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
        # By the hash of the Base64 and its media type.
        self._texts: dict[tuple[str, str], str] = {}

    def replace_parts(self, parts: JSON) -> JSON:
        """The content of an answer, in which a text names each stored file."""
        if not isinstance(parts, list):
            return parts
        return [self._replace_part(part) for part in parts]

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
            # A media type beside it says that this is content, also if it is short.
            may_be_content = isinstance(one, str) and bool(declared) and (name in FIELDS or looks_encoded(one))
            if may_be_content and is_base64(one, LEAST):
                replaced[name] = self._name_file(one, declared, "")
            else:
                replaced[name] = self.replace_in(one, depth + 1)
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
        texts = []
        for text in self._texts.values():
            if not is_named(text, value):
                texts.append(text)
        return texts

    def _replace_part(self, part: JSON) -> JSON:
        if is_text(part):
            text = self.replace_in_text(part["text"])
            return {**part, "text": text}
        if not is_binary_part(part):
            return part
        resource = get_resource(part)
        data = resource[DATA[part["type"]]]
        kind = str(resource.get("mimeType") or "")
        name = str(resource.get("uri") or "").rpartition("/")[2]
        text = self._name_file(data, kind, name)
        return {"type": "text", "text": text}

    def _name_bare(self, text: str) -> str:
        is_binary = len(text) >= LEAST_BARE and looks_encoded(text) and is_base64(text, LEAST_BARE)
        if not is_binary:
            return text
        return self._name_file(text, "", "")

    def _name_file(self, data: str, declared: str, name: str) -> str:
        """Stores the file. The text says its name, or why it could not be stored."""
        # Without line breaks: one place of the answer may have them, and another not.
        digest = hash_json(BREAKS.sub("", data))
        for (stored_digest, kind), text in self._texts.items():
            is_same_kind = not declared or declared == kind
            if stored_digest == digest and is_same_kind:
                return text
        text = self._store(data, declared, name)
        self._texts[digest, declared] = text
        return text

    def _store(self, data: str, declared: str, name: str) -> str:
        number = len(self._texts) + 1
        kind = declared[:100] or "content"
        size = len(data) * 3 // 4
        if self._context.save_file is None:
            return f"[left out: {kind}, {size} bytes]"
        if number > FILES:
            return f"[left out: {kind}, {size} bytes: an answer can have {FILES} files]"
        if not name:
            extension = declared.rpartition("/")[2] or "bin"
            name = f"{self._tool.name}-{number}.{extension}"
        try:
            content = decode_base64(data)
            file = self._context.save_file(name, content, declared)
        except (binascii.Error, ValueError, ToolFailed) as error:
            return f"[left out: {kind}: {error}]"
        return f"[file {file['name']}, {file['media_type']}, stored as file:{file['file']}]"


def is_text(part: JSON) -> bool:
    if not isinstance(part, dict) or part.get("type") != "text":
        return False
    return isinstance(part.get("text"), str)


def is_binary_part(part: JSON) -> bool:
    """An image, audio, or a resource with a blob."""
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    field = DATA.get(part["type"], "")
    resource = get_resource(part)
    return isinstance(resource.get(field), str)


def get_resource(part: dict[str, JSON]) -> dict[str, JSON]:
    """Where the data of a part stands: in its resource, or in the part itself."""
    if part.get("type") != "resource":
        return part
    resource = part.get("resource")
    if not isinstance(resource, dict):
        return {}
    return resource


def declared_type(value: dict[str, JSON]) -> str:
    """The media type that a structured value says of its content, or ""."""
    for name in TYPES:
        kind = value.get(name)
        if isinstance(kind, str) and "/" in kind:
            return kind
    return ""


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
    sample = text[:2000]
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(map(is_kind, sample)) for is_kind in kinds)


def decode_base64(data: str) -> bytes:
    """The bytes of Base64 in either alphabet, with line breaks and with or without padding. Raises ValueError."""
    plain = BREAKS.sub("", data).rstrip("=")
    padding = "=" * (-len(plain) % 4)
    # The alphabet for addresses has other characters in two places.
    standard = plain.replace("-", "+").replace("_", "/")
    return b64decode(standard + padding, validate=True)


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
