"""Mail with its attachments and the messages that it forwards."""

from __future__ import annotations

import email.header
import email.message
import email.parser
import email.policy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import pages, plain
from .report import LeftOut, Part, Refused, refusal_of

HEADERS = ("From", "To", "Cc", "Date", "Subject")
DEEPEST = 5  # messages in messages
Read = Callable[[bytes, str, LeftOut, int], Iterable[Part]]  # reads an attachment


def read_mail(content: bytes, left_out: LeftOut, read: Read, depth: int = 0) -> Iterator[Part]:
    if depth > DEEPEST:
        raise Refused("too_deep", f"More than {DEEPEST} messages stand in each other.")
    message = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(content)
    yield from read_message(message, left_out, read, depth)


def read_message(message: Any, left_out: LeftOut, read: Read, depth: int) -> Iterator[Part]:
    """The headers with the body, then each attachment below its name."""
    subject = header_of(message, "Subject")
    lines = [f"{name}: {header_of(message, name)}" for name in HEADERS if message.get(name) is not None]
    bodies: list[str] = []
    attached: list[Any] = []
    sort_parts(message, bodies, attached, left_out)
    yield {"text": "\n".join([*lines, "", *bodies]), "heading": subject}
    for number, part in enumerate(attached, 1):
        yield from read_attached(part, number, left_out, read, depth)


def sort_parts(part: Any, bodies: list[str], attached: list[Any], left_out: LeftOut) -> None:
    """Collect the texts that a mail program shows as the message, and what is attached to it."""
    kind = part.get_content_type()
    if kind == "multipart/encrypted" or kind.endswith("pkcs7-mime"):
        left_out.add("message", "The message is encrypted: its text cannot be read.")
    elif kind == "multipart/alternative":
        sort_parts(best_of(part.get_payload()), bodies, attached, left_out)
    elif part.is_multipart() and kind != "message/rfc822":
        for one in part.get_payload():
            sort_parts(one, bodies, attached, left_out)
    elif kind.startswith("multipart/"):  # announced, but without a part
        bodies.append(str(part.get_payload() or ""))
    elif kind in ("text/plain", "text/html") and not name_of(part):
        bodies.append(text_of(part, left_out))
    else:
        attached.append(part)


def best_of(parts: list[Any]) -> Any:
    """Of alternatives, the plain text, unless it is blank; else what a mail program would show, the last."""
    for part in parts:
        if part.get_content_type() == "text/plain" and (part.get_payload(decode=True) or b"").strip():
            return part
    shown = [part for part in parts if part.get_content_type().startswith(("text/html", "multipart/"))]
    return shown[-1] if shown else parts[-1]


def text_of(part: Any, left_out: LeftOut) -> str:
    content = part.get_payload(decode=True) or b""
    declared = str(part.get_param("charset") or "")
    try:
        text = plain.decode_text(content, left_out, declared, place=name_of(part) or "message")
    except ImportError:  # without the library that guesses, letters are lost, and never the text
        text = content.decode("utf-8", "replace")
        left_out.add(name_of(part) or "message", "The encoding is unknown: letters that are not ASCII are lost.")
    if part.get_content_type() != "text/html":
        return text
    shown = pages.read_page(text, left_out)
    return "\n".join(filter(None, (one.get("heading", "") + "\n" + one["text"] for one in shown))).strip()


def read_attached(part: Any, number: int, left_out: LeftOut, read: Read, depth: int) -> Iterator[Part]:
    """The text of an attachment; one that cannot be read is listed."""
    name = name_of(part) or f"attachment {number}"
    kind = part.get_content_type()
    place = f"attachment {name} ({kind})"
    if kind == "message/rfc822" and part.is_multipart():
        if depth >= DEEPEST:
            left_out.add(place, "Messages stand too deep in each other.")
            return
        yield from read_message(part.get_payload()[0], left_out, read, depth + 1)
        return
    inside = LeftOut()
    try:
        content = part.get_payload(decode=True) or b""
        if kind.startswith("text/"):
            parts: list[Part] = [{"text": text_of(part, inside)}]
        elif depth >= DEEPEST:
            raise Refused("too_deep", "Files stand too deep in each other.")
        else:
            parts = list(read(content, name, inside, depth + 1))
    except MemoryError:
        raise
    except Exception as error:
        left_out.add(place, refusal_of(error)[1])
        return
    for entry in inside.entries():
        left_out.add(f"{place}, {entry['place']}", entry["reason"], is_lost=entry["is_lost"])
    for one in parts:
        heading = f"{name}: {one['heading']}" if one.get("heading") else name
        yield {"text": one["text"], "heading": heading}


def name_of(part: Any) -> str:
    try:
        return shown_header(str(part.get_filename() or ""))
    except Exception:  # a damaged parameter
        return ""


def header_of(message: Any, name: str) -> str:
    """A header that Python cannot decode is read as it was sent."""
    values = [str(value) for key, value in message.raw_items() if key.lower() == name.lower()]
    return shown_header(values[0]) if values else ""


def shown_header(value: str) -> str:
    """Its encoded words decoded; bytes that are no ASCII are read as UTF-8 or as Western letters."""
    if any("\udc80" <= one <= "\udcff" for one in value):
        raw = value.encode("utf-8", "surrogateescape")
        try:
            value = raw.decode("utf-8")
        except UnicodeDecodeError:
            value = raw.decode("cp1252", "replace")
    try:
        pieces = email.header.decode_header(value)
        text = "".join(shown_piece(piece, charset) for piece, charset in pieces)
    except Exception:  # Python's reader has many ways to fail
        text = value
    return " ".join(text.split())


def shown_piece(piece: Any, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    codec = plain.codec_of(charset or "")
    return str(piece.decode(codec or "utf-8", "replace"))
