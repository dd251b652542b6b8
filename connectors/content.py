"""A message as typed content: sender, time, text. Text that is cut carries a mark that says so."""

from dataclasses import asdict, dataclass, field
from email.header import decode_header, make_header
from email.utils import getaddresses, parseaddr
from typing import Any

from plumbing.untrusted.charsets import known_charset
from plumbing.untrusted.formats import clean_untrusted_text

MAX_CHARS = 100_000
# Charsets whose bytes are all ASCII.
SHIFTING = ("iso2022", "hz")
# In a name that is not quoted, these would be part of the address.
SPECIAL = frozenset('()<>[]:;@\\,."')
# Place, reason, and is_lost: false for a note on a text that is there.
Entry = dict[str, Any]
UNREADABLE = "This message cannot be read; these are its headers as they were sent. The server's log says why."


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    mime_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Message:
    """The result type of every connector. `text_length` is the length of the whole text; times are
    RFC 3339. `left_out` lists what of the message is not in `text`; `events` are its invitations.
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
    events: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[Entry] = field(default_factory=list)
    # As they were sent: only of a message that cannot be read.
    headers: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["from"] = value.pop("sender")
        if not self.headers:
            del value["headers"]
        return value


def describe_loss(place: str, reason: str, *, is_lost: bool = True) -> Entry:
    """One line of the list of what is left out."""
    return {"place": place[:120], "reason": reason[:300], "is_lost": is_lost}


def mark_cut(text: str, length: int) -> str:
    """The beginning of a text of this length, with a mark if something is missing. The mark is not counted."""
    missing = length - len(text)
    if missing <= 0:
        return text
    return f"{text}\n[cut: {missing} more characters]"


def cut_marked_text(text: str, max_chars: int) -> tuple[str, int, bool]:
    """The text cut to its limit, its whole length, and whether something is missing."""
    length = len(text)
    marked = mark_cut(text[:max_chars], length)
    return marked, length, length > max_chars


def decode(data: bytes, charset: str = "") -> str:
    """Decodes text from its declared charset; an unknown or wrong charset loses characters but
    never the message.
    """
    if codec := known_charset(charset):
        return clean_untrusted_text(data.decode(codec, "replace"))
    try:
        return clean_untrusted_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return clean_untrusted_text(data.decode("windows-1252", "replace"))


def decode_mail(data: bytes, charset: str = "") -> str:
    """Text of a mail. What is UTF-8 is read so, whatever its header says: Gmail converts texts, and keeps the header
    of what they were.
    """
    codec = known_charset(charset)
    # A charset that shifts with escapes, and UTF-16, may consist of ASCII alone and mean something else.
    has_shifts = codec.startswith(SHIFTING) and b"\x1b" in data
    codecs = [codec] if codec else []
    if b"\0" not in data and not has_shifts:
        codecs.insert(0, "utf-8")
    for name in codecs:
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    return data.decode(codec or "windows-1252", "replace")


def header_text(value: str) -> str:
    """Decodes the encoded words of a header (RFC 2047) onto one line; a broken one stays as it is."""
    try:
        text = str(make_header(decode_header(value))) or value
    except Exception:
        # Python's reader has many ways to fail: a charset's name that is no ASCII is a MessageError.
        text = value
    return " ".join(clean_untrusted_text(text).split())


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
    return write_person(header_text(name), address)


def write_person(name: str, address: str) -> str:
    """“"Doe, Dora" <dora@example.net>”: as a mail program reads it back."""
    if not name or name == address:
        return address
    if SPECIAL.isdisjoint(name):
        return f"{name} <{address}>"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>'


def address_list(value: str) -> list[str]:
    """The addresses of a header; a broken one has none."""
    addresses = []
    for _, address in split_addresses(value):
        # An encoded word is part of a name that was split in the wrong place.
        if "@" in address and "=?" not in address:
            addresses.append(address)
    return addresses


def split_addresses(value: str) -> list[tuple[str, str]]:
    """The names and addresses of a header; a broken header has none."""
    try:
        return getaddresses([value])
    except Exception:  # as above
        return []


def unreadable(
    id: str, headers: dict[str, str], *, date: str = "", place: str = "", reason: str = UNREADABLE
) -> dict[str, Any]:
    """A message that nobody can read is delivered all the same, with its headers as they were sent."""
    message = Message(
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
        note=reason,
        left_out=[describe_loss("message", reason)],
        headers=headers,
    )
    return message.as_json()
