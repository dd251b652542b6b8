"""What the tools of every mail account have in common: their arguments and descriptions."""

from typing import Any

from .base import CHARS, TEXT, WORD, WORDS, operation

JSON = Any
SENDERS = {**WORDS, "description": "Only messages from one of these addresses or domains."}
LETTER: dict[str, JSON] = {
    "to": {**WORDS, "minItems": 1, "description": "Mail addresses."},
    "cc": WORDS,
    "subject": {**TEXT, "maxLength": 900},
    "text": TEXT,
}
TOO_LARGE = "The message is too large to be read; this is its beginning."
reads_one = operation("Read one message.", effect="read", access="read", required=("id",), id=WORD, max_chars=CHARS)
sends = operation(
    "Send a new message.", effect="destructive", access="send", required=("to", "subject", "text"), **LETTER
)
drafts = operation(
    "Write a draft; nothing is sent.", effect="write", access="write", required=("to", "subject", "text"), **LETTER
)


def replies(description: str) -> Any:
    return operation(
        description, effect="destructive", access="send", required=("id", "text"),
        id=WORD, text=TEXT, reply_all={"type": "boolean", "default": False},
    )  # fmt: skip
