"""The text of a mail: which of its parts a mail program shows, as plain text, and what is left out of it.

One reader for mails of accounts and for mails in collections. A mail comes as a tree of parts that somebody else has
taken apart and decoded. Each part is a dictionary; all fields but `kind` may be missing:

    kind         media type, in any case of letters
    name         of the file
    disposition  inline or attachment
    text         of a text, decoded
    why          why a text is not there
    is_flowed, joins   format=flowed and delsp=yes (RFC 3676)
    headers      of a message in the mail: {"From": …}
    parts        the parts in it

The reader adds `is_shown` to files whose text is part of the mail's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .invitations import Event, describe_event, read_events
from .left_out import LeftOut
from .markup import read_markup

Tree = dict[str, Any]
# Parts in parts.
DEEPEST_PARTS = 20
# Messages in messages.
MESSAGES = 5
PARTS = 500
# Characters of a part that is read.
LONGEST = 2_000_000
# The share of the words of a text that stand in another that says the same.
ENOUGH = 0.8
HEADERS = ("From", "To", "Cc", "Date", "Subject")
MARKUP = frozenset(["text/html", "application/xhtml+xml", "text/x-amp-html", "text/xhtml"])
ENRICHED = frozenset(["text/enriched", "text/richtext"])
CALENDARS = frozenset(["text/calendar", "application/ics", "text/x-vcalendar"])
REPORTS = frozenset(["message/delivery-status", "message/disposition-notification", "message/feedback-report",
                     "message/global-delivery-status"])  # fmt: skip
MESSAGE = frozenset(["message/rfc822", "message/global"])
ENCRYPTED = "The message is encrypted: its text cannot be read."
IN_ONE_BLOCK = "The message is encrypted, or signed in one block with its text (S/MIME): it cannot be read."
UNREAD = {
    "application/ms-tnef": "Outlook's winmail.dat is not read: ask for the message as HTML or plain text.",
    "message/external-body": "This part of the message is kept elsewhere and was not fetched.",
    "message/partial": "This is one piece of a message that was sent in several.",
}
BLANK = "\u00a0\u00ad\u034f\u061c\u115f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff"
INVISIBLE = re.compile(f"[\\s{BLANK}]+")
# Letters that no font shows, in which instructions are hidden. Some flags are written with them.
FLAG = "\U0001f3f4[\U000e0061-\U000e007a]{2,7}\U000e007f"
SMUGGLED = "[\U000e0000-\U000e007f]+|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
UNSHOWN = re.compile(f"({FLAG})|{SMUGGLED}")
WORD = re.compile(r"\w{2,}")


@dataclass(slots=True)
class Letter:
    """What was read: the text, events of invitations, and the parts that are no text of the mail."""

    text: str = ""
    events: list[Event] = field(default_factory=list)
    attached: list[Tree] = field(default_factory=list)

    def add(self, other: Letter) -> None:
        texts = [text for text in (self.text, other.text) if not is_blank(text)]
        self.text = "\n\n".join(texts)
        self.take(other)

    def take(self, other: Letter) -> None:
        """All but the text."""
        self.events += other.events
        self.attached += other.attached


def read_here(tree: Tree, max_chars: int) -> dict[str, Any]:
    """The letter as JSON, for a process with limits: so much of its text, its whole length, and what else there is."""
    left_out = LeftOut()
    letter = LetterReader(left_out).read(tree)
    attached = []
    for part in letter.attached:
        attached.append({"name": get_part_name(part), "kind": get_part_kind(part), "size": part.get("size")})
    return {
        "text": letter.text[:max_chars],
        "length": len(letter.text),
        "events": letter.events,
        "left_out": left_out.entries(),
        "attached": attached,
    }


class LetterReader:
    """Reads one mail. With `reads_messages`, forwarded messages are part of its text."""

    def __init__(self, left_out: LeftOut, *, reads_messages: bool = True) -> None:
        self.left_out = left_out
        self.reads_messages = reads_messages
        self.has_body = False
        self.count = 0
        self.known_events: set[tuple[str, str, str]] = set()

    def read(self, tree: Tree) -> Letter:
        letter = self.read_part(tree, 0, 0)
        if is_blank(letter.text):
            self.read_attached_text(letter)
        letter.text = self.remove_unshown(letter.text)
        return letter

    def read_part(self, part: Tree, depth: int, messages: int) -> Letter:
        self.count += 1
        kind = get_part_kind(part)
        if kind.startswith("multipart/") and not part.get("parts") and isinstance(part.get("text"), str):
            # Announced, but without a part.
            part, kind = {**part, "kind": "text/plain"}, "text/plain"
        if depth > DEEPEST_PARTS or self.count > PARTS:
            self.left_out.add("message", "The message has too many parts, or they stand too deep in each other.")
            return Letter(attached=[part])
        if kind == "multipart/encrypted" or "pkcs7-mime" in kind:
            self.left_out.add("message", IN_ONE_BLOCK if "pkcs7-mime" in kind else ENCRYPTED)
            return Letter(attached=list(find_leaves(part)))
        if kind in MESSAGE:
            return self.read_message(part, depth, messages)
        inner = part.get("parts") or []
        if inner and kind == "multipart/alternative":
            return self.read_alternatives(inner, depth, messages)
        if inner:
            letter = Letter()
            for one in inner:
                letter.add(self.read_part(one, depth + 1, messages))
            return letter
        return self.read_leaf(part)

    def read_message(self, part: Tree, depth: int, messages: int) -> Letter:
        """A message in the message, below its headers."""
        if not self.reads_messages or not part.get("parts"):
            if self.reads_messages and not part.get("parts"):
                self.left_out.add(describe_part_place(part), "The attached message is not read.")
            return Letter(attached=[part])
        if messages >= MESSAGES:
            self.left_out.add("message", f"More than {MESSAGES} messages stand in each other.")
            return Letter(attached=[part])
        before, self.has_body = self.has_body, False
        inside = Letter(attached=[part])
        for one in part["parts"]:
            inside.add(self.read_part(one, depth + 1, messages + 1))
        self.has_body = before or not is_blank(inside.text)
        headers = {**find_headers(part["parts"][0]), **find_headers(part)}
        lines = [f"{name}: {headers[name.lower()]}" for name in HEADERS if headers.get(name.lower())]
        inside.text = "\n".join(["--- Message in this message ---", *lines, "", inside.text]).rstrip()
        return inside

    def read_alternatives(self, parts: list[Tree], depth: int, messages: int) -> Letter:
        """The plain text, unless another alternative says more: then that one, or both. Invitations stand below."""
        letter, texts = Letter(), []
        outer, had_body = self.left_out, self.has_body
        calendars = [part for part in parts if get_part_kind(part) in CALENDARS]
        for part in parts:
            if part in calendars:
                continue
            self.left_out, self.has_body = LeftOut(), had_body
            read = self.read_part(part, depth + 1, messages)
            letter.take(read)
            texts.append(Alternative(get_part_kind(part), read.text, self.left_out))
        self.left_out = outer
        shown = choose_alternatives(texts)
        letter.text = "\n\n".join(one.text for one in shown)
        for one in texts:
            if one in shown or is_blank(one.text):
                outer.take(one.left_out)
        self.has_body = had_body or not is_blank(letter.text)
        for part in calendars:
            letter.add(self.read_part(part, depth + 1, messages))
        return letter

    def read_leaf(self, part: Tree) -> Letter:
        kind = get_part_kind(part)
        if kind in UNREAD:
            self.left_out.add(describe_part_place(part), UNREAD[kind])
        if kind in CALENDARS or kind.startswith("application/") and get_part_name(part).lower().endswith(".ics"):
            return self.read_calendar(part)
        if not self.is_body(part, kind):
            return Letter(attached=[part])
        text = self.read_text(part, kind)
        self.has_body = self.has_body or not is_blank(text)
        part["is_shown"] = True
        return Letter(text, attached=[part] if part.get("name") else [])

    def is_body(self, part: Tree, kind: str) -> bool:
        """Whether a mail program shows this text as the message, and not as a file beside it."""
        if part.get("disposition") == "attachment":
            return False
        is_text = kind.startswith("text/") or kind in MARKUP or kind in REPORTS or kind == ""
        if not is_text:
            return False
        if not part.get("name"):
            return True
        is_usual = kind in ("text/plain", "") or kind in MARKUP or kind in ENRICHED
        return is_usual and (part.get("disposition") == "inline" or not self.has_body)

    def read_text(self, part: Tree, kind: str) -> str:
        text = part.get("text")
        if not isinstance(text, str):
            self.left_out.add(
                describe_part_place(part), str(part.get("why") or "This part of the message has no text.")
            )
            return ""
        if len(text) > LONGEST:
            self.left_out.add(
                describe_part_place(part), f"Only the first {LONGEST:,} of {len(text):,} characters are read."
            )
            text = text[:LONGEST]
        if part.get("why"):
            self.left_out.add(describe_part_place(part), str(part["why"]))
        if kind in MARKUP:
            return read_markup(text, self.left_out)
        if kind in ENRICHED:
            return read_enriched(text)
        if part.get("is_flowed"):
            return read_flowed(text, joins=bool(part.get("joins")))
        return text

    def read_calendar(self, part: Tree) -> Letter:
        """An invitation becomes an event, once, and lines of the text."""
        attached = [part] if part.get("name") or part.get("disposition") == "attachment" else []
        text = part.get("text")
        if not isinstance(text, str):
            self.left_out.add(describe_part_place(part), str(part.get("why") or "The invitation is an attachment."))
            return Letter(attached=[part])
        events = read_events(text[:LONGEST], self.left_out)
        if not events and not is_blank(text):
            # A calendar without an event says what it says.
            return Letter(text, attached=attached)
        part["is_shown"] = True
        fresh = [event for event in events if build_event_key(event) not in self.known_events]
        self.known_events.update(map(build_event_key, fresh))
        describe = describe_event if self.has_body else describe_whole
        return Letter("\n\n".join(map(describe, fresh)), fresh, attached)

    def read_attached_text(self, letter: Letter) -> None:
        """A mail whose only text is a file is that text."""
        for part in letter.attached:
            kind = get_part_kind(part)
            is_text = kind in ("text/plain", "text/markdown", "text/x-markdown") or kind in MARKUP or kind in ENRICHED
            if is_text and isinstance(part.get("text"), str) and not is_blank(part["text"]):
                self.left_out.note(
                    describe_part_place(part), "The message has no text of its own: this is the text of this file."
                )
                letter.text = self.read_text(part, kind)
                part["is_shown"] = True
                return

    def remove_unshown(self, text: str) -> str:
        shown = UNSHOWN.sub(lambda match: match[1] or "", text)
        if shown != text:
            self.left_out.add("hidden text", f"{len(text) - len(shown)} invisible letters are not shown.")
        return shown


def get_part_kind(part: Tree) -> str:
    kind = part.get("kind")
    if not isinstance(kind, str):
        return ""
    # Without parameters such as the charset.
    return kind.partition(";")[0].strip().lower()


def find_leaves(part: Tree, depth: int = 0) -> Iterator[Tree]:
    """The files of an encrypted message. They are not read on."""
    inner = part.get("parts") or []
    if not inner or depth > DEEPEST_PARTS:
        part["is_shown"] = True
        yield part
        return
    for one in inner:
        yield from find_leaves(one, depth + 1)


def get_part_name(part: Tree) -> str:
    name = part.get("name")
    if not isinstance(name, str):
        return ""
    return name


def describe_part_place(part: Tree) -> str:
    name = get_part_name(part)
    kind = get_part_kind(part)
    if name:
        return f"{name} ({kind})"
    return kind or "message"


def find_headers(part: Tree) -> dict[str, str]:
    headers = part.get("headers")
    if not isinstance(headers, dict):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def is_blank(text: str) -> bool:
    return not INVISIBLE.sub("", text)


def build_event_key(event: Event) -> tuple[str, str, str]:
    return event["uid"] or event["summary"], event["method"], event["start"]


def describe_whole(event: Event) -> str:
    """The event with the organizer's description: used if the mail has no other text that says it."""
    texts = (describe_event(event), event.get("description", ""))
    return "\n".join(filter(None, texts))


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """One of several texts that should say the same, and what is left out of it."""

    kind: str
    text: str
    left_out: LeftOut

    @property
    def is_plain(self) -> bool:
        return not self.kind.startswith("multipart/") and self.kind not in MARKUP | ENRICHED


def choose_alternatives(texts: list[Alternative]) -> list[Alternative]:
    """The plain text if it says what the richest one says; the richest one if it says more; all that say something of
    their own.
    """
    texts = [one for one in texts if not is_blank(one.text)]
    plain = [one for one in texts if one.is_plain][-1:]
    rich = [one for one in texts if not one.is_plain and one.kind != "text/x-amp-html"][-1:]
    shown = plain or rich
    if plain and rich and not is_contained(rich[0].text, plain[0].text):
        shown = rich
    for one in texts:
        if not any(is_contained(one.text, other.text) for other in shown):
            shown = [*shown, one]
    return shown


def is_contained(text: str, other: str) -> bool:
    """Whether nearly all words of a text stand in another, too. Addresses and pictures do not count."""
    words = find_words(text)
    others = find_words(other)
    # A number that differs may be all that matters, such as a sum of money.
    if find_numbers(words) - others:
        return False
    return len(words & others) >= ENOUGH * len(words)


def find_words(text: str) -> set[str]:
    plain = re.sub(r"\[picture: [^\]\n]*\]|https?://\S+", " ", text)
    return set(WORD.findall(plain.casefold()))


def find_numbers(words: set[str]) -> set[str]:
    return {word for word in words if word.isdecimal()}


def read_flowed(text: str, *, joins: bool) -> str:
    """Paragraphs that were divided into lines, whole again (RFC 3676)."""
    lines: list[list[str]] = []
    flows, last_depth = False, 0
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        bare = line.lstrip(">")
        depth = len(line) - len(bare)
        content = bare.removeprefix(" ")
        is_signature = content == "-- "
        goes_on = flows and depth == last_depth and not is_signature
        flows = content.endswith(" ") and not is_signature
        last_depth = depth
        piece = content[:-1] if flows and joins else content
        if goes_on:
            lines[-1].append(piece)
        else:
            quoted = ">" * depth + " " if depth else ""
            lines.append([quoted, piece])
    return "\n".join("".join(pieces) for pieces in lines)


def read_enriched(text: str) -> str:
    """Text with the commands of RFC 1896, without them."""
    text = re.sub(r"(?is)<param>.*?(?:</param>|\Z)", "", text.replace("\r\n", "\n"))
    text = re.sub(r"\n(\n*)", lambda match: match[1] or " ", text)
    text = re.sub(r"<<", "\0", text)
    return re.sub(r"</?[A-Za-z0-9-]{1,60}>", "", text).replace("\0", "<")
