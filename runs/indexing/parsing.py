"""Parses a document in the sandbox's profile `files`: hostile files end one process, and nothing else."""

import json
from pathlib import Path
from typing import Any

from functions import sandbox
from knowledge.collections.parsed import PLAIN, parts_of_text
from knowledge.collections.pieces import Part

PROGRAM = (Path(__file__).parent / "program.py").read_text()
LIMITS = sandbox.Limits(timeout_s=60.0, memory_mb=768, traffic_kb=64 << 10, call_kb=1024, max_calls=200)
ENDINGS = {"timeout": ("too_slow", "Reading it takes more than a minute."),
           "cpu": ("too_slow", "Reading it takes more than a minute."),
           "memory": ("too_large", "Reading it needs too much memory.")}  # fmt: skip
AGAIN = ("busy", "cancelled", "refused")  # says nothing about the document


class Unreadable(Exception):
    """This document has failed, with a code for programs and a message for its owner."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotNow(Exception):
    """The sandbox has no room or cannot be used; the document is tried again."""


class OneFile:
    """The sandbox's host for one document."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.answer = b""

    def read_file(self, file: str, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        self.answer = content
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
        found = json.loads(answer)
        if "error" in found:
            raise Unreadable(str(found["error"])[:64], str(found["message"])[:500])
        return [part_of(one) for one in found["parts"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("broken_file", "The file cannot be read.")


def part_of(found: dict[str, Any]) -> Part:
    page = found.get("page")
    is_page = type(page) is int and 0 < page < 1_000_000
    return Part(str(found["text"]), str(found.get("heading", "")), page if is_page else None)
