"""The content of files in definitions: a text where YAML can carry it unchanged, else {base64: …}."""

import base64
import binascii
from typing import Any

from agents.exceptions import Invalid


def write_content(content: bytes) -> str | dict[str, str]:
    """A text where YAML can carry it unchanged, else base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if content and is_plain(text):
        return text
    return {"base64": base64.b64encode(content).decode()}


def is_plain(text: str) -> bool:
    """Whether YAML gives back the same text: no control characters and no other ends of lines than LF."""
    if not text:
        return False
    return all(letter.isprintable() or letter in "\n\t" for letter in text)


def read_content(name: str, content: Any) -> bytes:
    """Raises Invalid."""
    if isinstance(content, str):
        return content.encode()
    try:
        return base64.b64decode(content["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(f"The file “{name[:100]}” is not valid base64.", code="invalid")
