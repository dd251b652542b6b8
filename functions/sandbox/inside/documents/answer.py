"""Writes what a reader found as short lines of JSON with texts between them, for the server."""

from __future__ import annotations

import json
from typing import Any

from .kinds import read_content
from .report import LeftOut, Part, Refused, describe_refusal, limit_parts

# Characters of a heading.
HEADING = 200
# Bytes of the answer: the sandbox passes no larger file on.
BYTES = 10 << 20


def write_answer(path: str, output: str, name: str = "") -> None:
    """Read the document at `path` and write the answer for `knowledge/indexing/parsing.py`.

    Each entry of the list is a line of JSON ({"left_out": {"place", "reason", "is_lost"}}). Each part is a line of
    JSON ({"size", "heading"?, "page"?}) and then so many bytes of UTF-8. A document that cannot be read has a line
    {"error", "message"} in place of parts. So a reader of the answer parses only short lines of JSON.
    """
    left_out = LeftOut()
    try:
        with open(path, "rb") as file:
            content = file.read()
        parts = list(limit_parts(read_content(content, name, left_out)))
        written = b"".join(map(encode_part, parts))
        if len(written) > BYTES:
            raise Refused("too_much_text", f"The document has more than {BYTES >> 20} MB of text.")
    except Exception as error:  # the libraries raise anything for a damaged file, and the server needs an answer
        code, message = describe_refusal(error)
        written = encode_line({"error": code, "message": message})
    listed = b"".join(encode_line({"left_out": entry}) for entry in left_out.entries())
    with open(output, "wb") as file:
        file.write(listed + written)


def encode_part(part: Part) -> bytes:
    """A long heading is kept whole: as the first line of the text."""
    heading = part.get("heading", "")
    text = part["text"]
    if len(heading) > HEADING:
        text = f"{heading}\n{text}"
    written = text.encode("utf-8", "replace")
    head = {"size": len(written), "heading": heading[:HEADING], "page": part.get("page")}
    return encode_line(head) + bytes(written)


def encode_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
