"""What stands in a Teams message beside its text: cards, quotes, forwarded messages, files."""

import json
from collections.abc import Iterator
from typing import Any

from connectors.content import Attachment, Entry, clean_untrusted_text, describe_loss

from . import microsoft
from .http import find_rows
from .letters import Tree

JSON = Any
LONGEST = 200_000  # characters of a card
MOST = 500  # texts of a card
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
    body = body.get("content") if isinstance(body, dict) else body
    if not isinstance(body, str) or not body.strip():
        return [{"kind": "text/plain", "why": "The message that this one quotes is not here: read it by its id."}]
    sender = quoted.get("messageSender") or quoted.get("originalMessageSender")
    who = sender_name(sender)
    head = f"--- Quoted message of {who} ---" if who else "--- Quoted message ---"
    kind = "text/html" if "<" in body else "text/plain"
    return [{"kind": "text/plain", "text": head}, {"kind": kind, "text": body}]


def sender_name(sender: JSON) -> str:
    held = sender if isinstance(sender, dict) else {}
    who = held.get("user") or held.get("application") or held.get("device") or {}
    return microsoft.get_row_text(who, "displayName")


def describe_card(one: dict[str, JSON], name: str, left_out: list[Entry]) -> list[Tree]:
    content = read_content(one)
    texts = [text for _, text in zip(range(MOST), find_texts(content), strict=False)]
    if not texts:
        left_out.append(describe_loss(name, "The text of this card cannot be read."))
        return []
    if len(texts) == MOST:
        left_out.append(describe_loss(name, f"Only the first {MOST} texts of this card are read."))
    text = "\n".join(dict.fromkeys(texts))
    is_html = "</" in text or "<br" in text
    return [{"kind": "text/html" if is_html else "text/plain", "text": f"[card]\n{text}"}]


def read_content(one: dict[str, JSON]) -> dict[str, JSON]:
    """The content of an attachment, which Teams sends as an object or as its JSON; empty if it is neither."""
    content = one.get("content")
    if isinstance(content, str) and len(content) <= LONGEST:
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return {}
    return content if isinstance(content, dict) else {}


def find_texts(value: JSON, depth: int = 0) -> Iterator[str]:
    """The texts that a person reads on a card, in their order; a fact as “title: value”."""
    if depth > DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from find_texts(one, depth + 1)
    if not isinstance(value, dict) or value.get("isVisible") is False:
        return
    title, fact = value.get("title") or value.get("name"), value.get("value")
    if isinstance(title, str) and isinstance(fact, str):
        yield f"{clean_untrusted_text(title)}: {clean_untrusted_text(fact)}"
    else:
        words = [value[name] for name in SHOWN if isinstance(value.get(name), str) and value[name].strip()]
        yield from map(clean_untrusted_text, words)
    for name, one in value.items():
        if isinstance(one, list | dict) and name not in ("data", "msteams", "tokenExchangeResource"):
            yield from find_texts(one, depth + 1)
