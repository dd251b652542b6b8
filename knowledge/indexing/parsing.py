"""Parses a document in the sandbox's profile `files`: hostile files end one process, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from functions import sandbox
from knowledge.collections.parsed import PLAIN, parts_of_text
from knowledge.collections.pieces import Part

from .program import BYTES

PROGRAM = (Path(__file__).parent / "program.py").read_text()
LIMITS = sandbox.Limits(timeout_s=60.0, memory_mb=768, traffic_kb=64 << 10, call_kb=1024, max_calls=200)
ENDINGS = {"timeout": ("too_slow", "Reading it takes more than a minute."),
           "cpu": ("too_slow", "Reading it takes more than a minute."),
           "memory": ("too_large", "Reading it needs too much memory.")}  # fmt: skip
HEAD = 4096  # bytes of JSON before the text of a part
CHUNKS_PER_DOCUMENT = 10_000  # a document that gives more has failed
TOO_LARGE = b'{"error": "too_much_text", "message": "The file has too much text."}\n'
AGAIN = ("busy", "cancelled", "refused")  # says nothing about the document


class Unreadable(Exception):
    """This document has failed, with a code for programs and a message for its owner."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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


def parts_of(id: str, name: str, media_type: str, content: bytes) -> list[Part]:
    """The text of a document with its places. Raises Unreadable, NotNow."""
    if name.lower().endswith((".md", ".markdown")) and media_type == "text/plain":
        media_type = "text/markdown"
    if media_type in PLAIN and not looks_parsed(name, content):
        return list(parts_of_text(media_type, content.decode("utf-8", "replace")))
    return parsed(id, name, content)


def looks_parsed(name: str, content: bytes) -> bool:
    """A text that a parser reads: HTML and mail without their media type, and a PDF that has only letters."""
    start = content[:200].lstrip().lower()
    return name.lower().endswith((".eml", ".html", ".htm")) or start.startswith((b"<!doctype html", b"<html", b"%pdf-"))


def parsed(id: str, name: str, content: bytes) -> list[Part]:
    host, session = OneFile(content), f"document-{id}"
    suffix = ".eml" if name.lower().endswith(".eml") else ""
    try:
        inputs = [{"file": "document", "name": f"document{suffix}"}]
        outcome = sandbox.interpret(PROGRAM, inputs, session=session, host=host, limits=LIMITS, owner="collections")
    finally:
        sandbox.release(session)
    if outcome.status in AGAIN:
        raise NotNow(outcome.error.message if outcome.error else outcome.status)
    if not outcome.ok:
        raise Unreadable(*ENDINGS.get(outcome.status, ("broken_file", "The file ends the program that reads it.")))
    return read_answer(host.answer)


def read_answer(answer: bytes) -> list[Part]:
    """What the program wrote: it may be anything, since the document may have taken it over."""
    try:
        return list(parts_in(answer))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("broken_file", "The file cannot be read.")


def parts_in(answer: bytes) -> Iterator[Part]:
    """JSON is read in lines of at most HEAD bytes, so that it takes no more memory than the answer itself."""
    place = count = 0
    while place < len(answer):
        end = answer.index(b"\n", place, place + HEAD)
        head = json.loads(answer[place:end])
        if "error" in head:
            raise Unreadable(str(head["error"])[:64], str(head["message"])[:500])
        place = end + 1 + size_in(head, len(answer) - end - 1)
        count += 1
        if count > CHUNKS_PER_DOCUMENT:  # each has a piece at least
            raise Unreadable("too_much_text", f"It has more than {CHUNKS_PER_DOCUMENT} parts: split it.")
        yield part_of(head, answer[end + 1 : place].decode("utf-8", "replace"))


def size_in(head: dict[str, Any], most: int) -> int:
    """Raises ValueError, KeyError."""
    size = head["size"]
    if type(size) is not int or not 0 < size <= most:
        raise ValueError("the size of a part")
    return size


def part_of(head: dict[str, Any], text: str) -> Part:
    page = head.get("page")
    is_page = type(page) is int and 0 < page < 1_000_000
    return Part(text, str(head.get("heading", "")), page if is_page else None)
