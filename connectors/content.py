"""A message as typed content: sender, time, text. Text that is cut carries a mark that says so."""

import re
from dataclasses import asdict, dataclass, field
from email.header import decode_header, make_header
from email.utils import getaddresses, parseaddr
from typing import Any

from plumbing.untrusted.charsets import known_charset
from plumbing.untrusted.formats import clean, html_text

MAX_CHARS = 100_000
MANY_BLANKS = re.compile(r"\n\s*\n\s*\n+")


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    mime_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Message:
    """The result type of every connector. `text_length` is the length of the whole text; times are
    RFC 3339.
    """

    id: str
    thread_id: str
    date: str
    sender: str
    to: list[str]
    subject: str
    text: str
    text_length: int
    is_cut: bool
    labels: list[str] = field(default_factory=list)
    cc: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    place: str = ""
    note: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # as they were sent: only of a message that cannot be read

    def as_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["from"] = value.pop("sender")
        if not self.headers:
            del value["headers"]
        return value


def cut(text: str, max_chars: int) -> tuple[str, int, bool]:
    """The text cut to its limit, its whole length, and whether something is missing. The mark is
    not counted.
    """
    if len(text) <= max_chars:
        return text, len(text), False
    return f"{text[:max_chars]}\n[cut: {len(text) - max_chars} more characters]", len(text), True


def decode(data: bytes, charset: str = "") -> str:
    """Decodes text from its declared charset; an unknown or wrong charset loses characters but
    never the message.
    """
    if codec := known_charset(charset):
        return clean(data.decode(codec, "replace"))
    try:
        return clean(data.decode("utf-8"))
    except UnicodeDecodeError:
        return clean(data.decode("windows-1252", "replace"))


def header_text(value: str) -> str:
    """Decodes the encoded words of a header (RFC 2047) onto one line; a broken one stays as it is."""
    try:
        text = str(make_header(decode_header(value))) or value
    except Exception:  # Python's reader has many ways to fail: a charset's name that is no ASCII is a MessageError
        text = value
    return " ".join(clean(text).split())


def sender_text(value: str) -> str:
    """“Dora <dora@example.net>”. The name is decoded after the address was split off, so it cannot
    forge another address.
    """
    try:
        name, address = parseaddr(value)
    except Exception:  # as above
        name, address = "", ""
    if not address:
        return header_text(value)
    return f"{header_text(name)} <{address}>" if name else address


def address_list(value: str) -> list[str]:
    """The addresses of a header; a broken one has none."""
    try:
        pairs = getaddresses([value])
    except Exception:  # as above
        return []
    return [address for _, address in pairs if address]


def unreadable(id: str, headers: dict[str, str], *, date: str = "", place: str = "") -> dict[str, Any]:
    """A message that nobody can read is delivered all the same, with its headers as they were sent."""
    return Message(
        id=id,
        thread_id="",
        date=date,
        sender=headers.get("from", ""),
        to=[],
        subject=headers.get("subject", ""),
        text="",
        text_length=0,
        is_cut=True,
        place=place,
        note="This message cannot be read; these are its headers as they were sent. The server's log says why.",
        headers=headers,
    ).as_json()


def from_html(source: str) -> str:
    """The readable text of an HTML message, without scripts, styles and hidden parts."""
    return MANY_BLANKS.sub("\n\n", clean(html_text(source))).strip()
