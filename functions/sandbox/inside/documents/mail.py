"""Mail with its attachments and the messages that it forwards."""

from __future__ import annotations

import email.errors
import email.header
import email.message
import email.parser
import email.policy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..letters.reading import CALENDARS, ENRICHED, HEADERS, MARKUP, MESSAGE, REPORTS, LetterReader, Tree
from . import pages, plain
from .report import LeftOut, Part, Refused, describe_refusal

# Messages in messages.
MESSAGES = 5
# What Python's parser raises for damaged headers and parameters, such as a number of 5,000 digits.
HEADER_FAULTS = (email.errors.MessageError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
# Texts in them have no zero bytes.
BYTE_CODECS = ("utf-8", "cp1252")
# Reads an attachment.
Read = Callable[[bytes, str, LeftOut, int], Iterable[Part]]


def read_mail(content: bytes, left_out: LeftOut, read: Read, depth: int = 0) -> Iterator[Part]:
    """The parts of a message. Raises Refused if it stands too deep in others."""
    if depth > MESSAGES:
        raise Refused("too_deep", f"More than {MESSAGES} messages stand in each other.")
    message = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(content)
    yield from read_message(message, left_out, read, depth)


def read_message(message: Any, left_out: LeftOut, read: Read, depth: int) -> Iterator[Part]:
    """The headers with the body, then each attachment below its name."""
    subject = read_header(message, "Subject")
    lines = []
    for name in HEADERS:
        if message.get(name) is not None:
            lines.append(f"{name}: {read_header(message, name)}")
    parts: list[Any] = []
    tree = describe_part(message, parts, left_out)
    letter = LetterReader(left_out, reads_messages=False).read(tree)
    yield {"text": "\n".join([*lines, "", letter.text]), "heading": subject}
    # What the letter shows already is not read again.
    attached = [parts[part["id"]] for part in letter.attached if not part.get("is_shown")]
    for number, part in enumerate(attached, 1):
        yield from read_attached(part, number, left_out, read, depth)


def describe_part(part: Any, parts: list[Any], left_out: LeftOut) -> Tree:
    """The part as a tree for the reader of mails; `parts` gets the parts by their `id`."""
    kind = part.get_content_type()
    described: Tree = {"kind": kind, "id": len(parts), "name": read_file_name(part), "disposition": ""}
    parts.append(part)
    described["disposition"] = read_parameter(part.get_content_disposition)
    if part.is_multipart() and kind not in MESSAGE | REPORTS:
        described["parts"] = [describe_part(one, parts, left_out) for one in part.get_payload()]
    elif kind.startswith("multipart/"):  # announced, but without a part
        described["text"] = str(part.get_payload() or "")
    elif kind in REPORTS and part.is_multipart():
        described["text"] = "\n".join(map(str, part.get_payload()))
    elif kind in REPORTS:
        described["text"] = read_text(part, left_out)
    elif kind in CALENDARS or is_letter_text(kind) and described["disposition"] != "attachment":
        described |= try_to_decode(part, left_out)
        described["is_flowed"] = read_parameter(lambda: part.get_param("format")).lower() == "flowed"
        described["joins"] = read_parameter(lambda: part.get_param("delsp")).lower() == "yes"
    return described


def try_to_decode(part: Any, left_out: LeftOut) -> Tree:
    try:
        return {"text": decode_part(part, left_out)}
    except Refused as error:  # this part is not text; the others are read
        return {"why": str(error)}


def is_letter_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in MARKUP or kind in ENRICHED


def read_parameter(find: Callable[[], Any]) -> str:
    """A parameter of a header; empty for a damaged one."""
    try:
        return str(find() or "")
    except HEADER_FAULTS:
        return ""


def read_text(part: Any, left_out: LeftOut) -> str:
    """The text of an attachment that is text or HTML, in the encoding that it states."""
    text = decode_part(part, left_out)
    if part.get_content_type() != "text/html":
        return text
    texts = []
    for page in pages.read_page(text, left_out):
        texts.append(page.get("heading", "") + "\n" + page["text"])
    return "\n".join(texts).strip()


def decode_part(part: Any, left_out: LeftOut) -> str:
    content = part.get_payload(decode=True) or b""
    declared = read_parameter(lambda: part.get_param("charset"))
    if plain.find_codec(declared) in BYTE_CODECS:
        content = content.replace(b"\0", b"")
    place = read_file_name(part) or "message"
    try:
        return plain.decode_text(content, left_out, declared, place=place)
    except ImportError:  # without the library that guesses, letters are lost, and never the text
        left_out.add(place, "The encoding is unknown: letters that are not ASCII are lost.")
        return content.decode("utf-8", "replace")


def read_attached(part: Any, number: int, left_out: LeftOut, read: Read, depth: int) -> Iterator[Part]:
    """The text of an attachment; one that cannot be read is listed."""
    name = read_file_name(part) or f"attachment {number}"
    kind = part.get_content_type()
    place = f"attachment {name} ({kind})"
    if kind == "message/rfc822" and part.is_multipart():
        if depth >= MESSAGES:
            left_out.add(place, "Messages stand too deep in each other.")
            return
        yield from read_message(part.get_payload()[0], left_out, read, depth + 1)
        return
    inside = LeftOut()
    try:
        content = part.get_payload(decode=True) or b""
        if kind.startswith("text/"):
            parts: list[Part] = [{"text": read_text(part, inside)}]
        elif depth >= MESSAGES:
            raise Refused("too_deep", "Files stand too deep in each other.")
        else:
            parts = list(read(content, name, inside, depth + 1))
    except MemoryError:
        raise
    except Exception as error:  # the libraries raise anything for a damaged file; the other attachments are read
        left_out.add(place, describe_refusal(error)[1])
        return
    for entry in inside.entries():
        left_out.add(f"{place}, {entry['place']}", entry["reason"], is_lost=entry["is_lost"])
    for one in parts:
        heading = f"{name}: {one['heading']}" if one.get("heading") else name
        yield {"text": one["text"], "heading": heading}


def read_file_name(part: Any) -> str:
    """The name of an attachment; empty if it has none that can be read."""
    try:
        return decode_header_value(str(part.get_filename() or ""))
    except HEADER_FAULTS:
        return ""


def read_header(message: Any, name: str) -> str:
    """The first header of this name; empty if there is none. One that Python cannot decode stays as it was sent."""
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return decode_header_value(str(value))
    return ""


def decode_header_value(value: str) -> str:
    """A header with its encoded words decoded; bytes that are no ASCII are read as UTF-8 or as Western letters."""
    if any("\udc80" <= one <= "\udcff" for one in value):
        raw = value.encode("utf-8", "surrogateescape")
        try:
            value = raw.decode("utf-8")
        except UnicodeDecodeError:
            value = raw.decode("cp1252", "replace")
    try:
        pieces = email.header.decode_header(value)
        text = "".join(decode_piece(piece, charset) for piece, charset in pieces)
    except HEADER_FAULTS:
        text = value
    return " ".join(text.split())


def decode_piece(piece: Any, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    codec = plain.find_codec(charset or "")
    return str(piece.decode(codec or "utf-8", "replace"))
