"""Parses a document in the sandbox's profile `files`: hostile files end one process, and nothing else."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from django.conf import settings

from functions import sandbox
from knowledge.collections.parsed import PLAIN, split_text
from knowledge.collections.pieces import LeftOut, Part

PROGRAM = "import documents\ndocuments.write_answer({path!r}, '/mnt/outputs/parts', {name!r})"
LIMITS = sandbox.Limits(timeout_s=60.0, memory_mb=768, traffic_kb=64 << 10, call_kb=1024, max_calls=200)
ENDINGS = {"timeout": ("too_slow", "Reading it takes more than a minute."),
           "cpu": ("too_slow", "Reading it takes more than a minute."),
           "memory": ("too_large", "Reading it needs too much memory.")}  # fmt: skip
# Bytes of JSON before the text of a part.
HEAD = 4096
# A document that gives more has failed.
CHUNKS_PER_DOCUMENT = 10_000
# Places in the list of a document.
MOST_LEFT_OUT = 100
# Of the answer: the sandbox passes no larger file on.
BYTES = 10 << 20
TOO_LARGE = b'{"error": "too_much_text", "message": "The file has too much text."}\n'
INSTALLING_S = 300.0
# Outcomes that say nothing about the document.
AGAIN = ("busy", "cancelled", "refused")
# Of UTF-8.
MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a document with its places, and what was left out of it."""

    parts: list[Part]
    left_out: list[LeftOut] = field(default_factory=list)


class Unreadable(Exception):
    """This document has failed, with a code for programs, a message for its owner and what could not be read of it."""

    def __init__(self, code: str, message: str, left_out: list[LeftOut] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.left_out = left_out or []


class NotNow(Exception):
    """The sandbox has no room or cannot be used; the document is tried again."""


class OneFile:
    """The sandbox's host for one document. An answer that no document needs is not kept."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.answer = b""

    def read_file(self, file: str, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        self.answer = content if len(content) <= BYTES else TOO_LARGE
        return {"file": name, "name": name, "media_type": "application/json", "size": len(content)}


def read_document_text(id: str, name: str, media_type: str, content: bytes) -> Content:
    """The text of a document with its places, and what was left out. Raises Unreadable, NotNow."""
    if name.lower().endswith((".md", ".markdown")) and media_type in ("text/plain", "application/octet-stream"):
        media_type = "text/markdown"
    if media_type in PLAIN and not looks_parsed(name, content):
        try:
            text = content.removeprefix(MARK).decode()
            return Content(list(split_text(media_type, text)))
        except UnicodeDecodeError:
            # Another encoding, which is guessed in the sandbox.
            pass
    read = run_document_parser(id, name, content)
    if media_type != "text/markdown":
        return read
    text = "\n".join(part.text for part in read.parts)
    return Content(list(split_text(media_type, text)), read.left_out)


def looks_parsed(name: str, content: bytes) -> bool:
    """A text that a parser reads: HTML and mail without their media type, and a PDF that has only letters."""
    if name.lower().endswith((".eml", ".html", ".htm")):
        return True
    start = content[:200].lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html", b"%pdf-"))


def run_document_parser(id: str, name: str, content: bytes) -> Content:
    """Read a file in the sandbox: programs that read documents fall over hostile ones. Raises Unreadable, NotNow."""
    host = OneFile(content)
    session = f"document-{id}"
    # Of the name only the ending is passed on, where the reader needs it.
    shown_name = "document"
    suffix = PurePath(name).suffix.lower()
    if suffix in (".eml", ".html", ".htm"):
        shown_name += suffix
    program = PROGRAM.format(path="/mnt/inputs/document", name=shown_name)
    try:
        inputs = [{"file": "document", "name": "document"}]
        outcome = sandbox.interpret(program, inputs, session=session, host=host, limits=LIMITS, owner="collections")
    finally:
        sandbox.release(session)
    if outcome.status in AGAIN:
        raise NotNow(outcome.error.message if outcome.error else outcome.status)
    if not outcome.ok and outcome.status in ENDINGS:
        code, message = ENDINGS[outcome.status]
        raise Unreadable(code, message)
    if not outcome.ok:
        raise Unreadable("broken_file", "The file ends the program that reads it.")
    try:
        return parse_program_answer(host.answer)
    except Unreadable as error:
        if error.code == "library_missing" and is_installing():
            raise NotNow("the libraries that read documents are being installed")
        raise


def is_installing() -> bool:
    """Whether `install_libraries` is at work. What an interrupted one left behind says nothing."""
    fresh = Path(f"{settings.LIBRARIES_DIR}.new")
    try:
        return time.time() - fresh.stat().st_mtime < INSTALLING_S
    except OSError:
        return False


def parse_program_answer(answer: bytes) -> Content:
    """What the program wrote: it may be anything, since the document may have taken it over. Raises Unreadable."""
    try:
        return read_lines(answer)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("broken_file", "The file cannot be read.")


def read_lines(answer: bytes) -> Content:
    """JSON is read in lines of at most HEAD bytes, so that it takes no more memory than the answer itself."""
    read = Content([])
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place, place + HEAD)
        head = json.loads(answer[place:end])
        place = end + 1
        if "error" in head:
            raise Unreadable(str(head["error"])[:64], str(head["message"])[:500], read.left_out)
        if "left_out" in head:
            if len(read.left_out) < MOST_LEFT_OUT:
                read.left_out.append(LeftOut.read(head["left_out"]))
            continue
        place += read_size(head, len(answer) - place)
        # Each part has a piece at least.
        if len(read.parts) >= CHUNKS_PER_DOCUMENT:
            raise Unreadable("too_much_text", f"It has more than {CHUNKS_PER_DOCUMENT} parts: split it.")
        text = answer[end + 1 : place].decode("utf-8", "replace")
        read.parts.append(build_document_part(head, text))
    return read


def read_size(head: dict[str, Any], most: int) -> int:
    """Raises ValueError, KeyError."""
    size = head["size"]
    if type(size) is not int or not 0 <= size <= most:
        raise ValueError("the size of a part")
    return size


def build_document_part(head: dict[str, Any], text: str) -> Part:
    heading = str(head.get("heading", ""))
    page = head.get("page")
    is_page = type(page) is int and 0 < page < 1_000_000
    if not is_page:
        page = None
    return Part(text, heading, page)
