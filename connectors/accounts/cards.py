"""What stands in a Teams message beside its text: cards, quotes, forwarded messages, files."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from connectors.content import Attachment, Entry, clean_untrusted_text, describe_loss

from . import microsoft
from .http import find_rows
from .letters import Tree

JSON = Any
# Parts of a card that only its program reads.
HIDDEN = ("data", "msteams", "tokenExchangeResource")
# Characters of a card.
LONGEST = 200_000
# Texts of a card.
MOST = 500
DEEPEST = 30
# Fields of a card that a person reads, in the order in which they are shown.
SHOWN = ("title", "activityTitle", "subtitle", "activitySubtitle", "name", "text", "activityText", "altText", "label",
         "fallbackText", "value", "placeholder")  # fmt: skip
REFERENCES = ("messagereference", "forwardedmessagereference")


def describe_attachments(row: dict[str, JSON]) -> tuple[list[Tree], list[Attachment], list[Entry]]:
    """Parts for the reader of mails, the files, and what is left out."""
    parts: list[Tree] = []
    files: list[Attachment] = []
    left_out: list[Entry] = []
    for one in find_rows(row, "attachments", key=""):
        media_type = microsoft.get_row_text(one, "contentType")
        name = microsoft.get_row_text(one, "name")
        kind, content = media_type.lower(), one.get("content")
        is_json = isinstance(content, str) and content.lstrip().startswith("{")
        if kind in REFERENCES:
            parts += describe_quote(one)
        elif "card" in kind or is_json:
            parts += describe_card(one, name or kind, left_out)
        else:
            files.append(Attachment(name, media_type, 0))
    return parts, files, left_out


def describe_quote(one: dict[str, JSON]) -> list[Tree]:
    """The message that is answered or forwarded, as far as Teams gives it."""
    quoted = read_content(one)
    body = quoted.get("originalMessageContent") or quoted.get("messagePreview") or quoted.get("content")
    if isinstance(body, dict):
        body = body.get("content")
    if not isinstance(body, str) or not body.strip():
        return [{"kind": "text/plain", "why": "The message that this one quotes is not here: read it by its id."}]
    who = sender_name(quoted.get("messageSender") or quoted.get("originalMessageSender"))
    head = "--- Quoted message ---"
    if who:
        head = f"--- Quoted message of {who} ---"
    title = {"kind": "text/plain", "text": head}
    if "<" in body:
        return [title, {"kind": "text/html", "text": body}]
    return [title, {"kind": "text/plain", "text": body}]


def sender_name(sender: JSON) -> str:
    if not isinstance(sender, dict):
        return ""
    who = sender.get("user") or sender.get("application") or sender.get("device")
    return microsoft.get_row_text(who, "displayName")


def describe_card(one: dict[str, JSON], name: str, left_out: list[Entry]) -> list[Tree]:
    content = read_content(one)
    texts = list(islice(find_texts(content), MOST))
    if not texts:
        left_out.append(describe_loss(name, "The text of this card cannot be read."))
        return []
    if len(texts) == MOST:
        left_out.append(describe_loss(name, f"Only the first {MOST} texts of this card are read."))
    # Cards repeat themselves, for instance in their fallback: each text is read once.
    text = "\n".join(dict.fromkeys(texts))
    kind = "text/plain"
    if "</" in text or "<br" in text:
        kind = "text/html"
    return [{"kind": kind, "text": f"[card]\n{text}"}]


def read_content(one: dict[str, JSON]) -> dict[str, JSON]:
    """The content of an attachment, which Teams sends as an object or as its JSON; empty if it is neither."""
    content = one.get("content")
    if isinstance(content, str) and len(content) <= LONGEST:
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(content, dict):
        return {}
    return content


def find_texts(value: JSON, depth: int = 0) -> Iterator[str]:
    """The texts that a person reads on a card, in their order; a fact as “title: value”."""
    if depth > DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from find_texts(one, depth + 1)
    if not isinstance(value, dict) or value.get("isVisible") is False:
        return
    title = value.get("title") or value.get("name")
    fact = value.get("value")
    if isinstance(title, str) and isinstance(fact, str):
        yield f"{clean_untrusted_text(title)}: {clean_untrusted_text(fact)}"
    else:
        yield from find_field_texts(value)
    for name, one in value.items():
        if isinstance(one, list | dict) and name not in HIDDEN:
            yield from find_texts(one, depth + 1)


def find_field_texts(element: dict[str, JSON]) -> Iterator[str]:
    for name in SHOWN:
        text = element.get(name)
        if isinstance(text, str) and text.strip():
            yield clean_untrusted_text(text)
