"""Gmail: history since a cursor, search, read, send, reply, draft, label."""

import base64
import binascii
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

from agents.tools import RetryTool, ToolFailed
from connectors.content import (
    Attachment,
    Message,
    address_list,
    clean,
    cut,
    decode,
    from_html,
    header_text,
    sender_text,
)
from connectors.exceptions import CursorExpired
from connectors.models import DeliveredItem

from . import mail
from .base import CHARS, LIMIT, TEXT, WORD, WORDS, Connector, Discovery, operation
from .http import ANSWER_LIMIT

JSON = Any
ME = "/gmail/v1/users/me"
NOT_INCOMING = frozenset(["DRAFT", "SENT", "SPAM", "TRASH", "CHAT"])
PAGE = 500
MAX_PAGES = 400
FILTERS: dict[str, JSON] = {
    "labels": {**WORDS, "description": "Only messages with all of these labels, such as INBOX."},
    "senders": mail.SENDERS,
    "query": {**TEXT, "maxLength": 1000, "description": "Gmail search syntax, such as subject:invoice."},
}


class Gmail(Connector):
    provider = "gmail"

    @operation(
        "New messages since the last call, each once. The first call looks back seven days.",
        effect="read", access="read", **FILTERS, limit=LIMIT, max_chars=CHARS,
    )  # fmt: skip
    def fetch_new(self, call_id: str, limit: int = 50, max_chars: int = 8000, **filters: JSON) -> JSON:
        return self.sync(call_id, limit, max_chars, filters)

    @operation(
        "Search messages with Gmail search syntax; newest first, without their text.",
        effect="read", access="read", **FILTERS, limit=LIMIT, page={**WORD, "description": "The value of `next` of the "
            "previous page."},
    )  # fmt: skip
    def search(self, limit: int = 50, page: str = "", **filters: JSON) -> JSON:
        answer = self.api.get(f"{ME}/messages", params=self.list_params(filters, limit, page))
        ids = [row["id"] for row in answer.get("messages", [])]
        return {"messages": [self.headline(one) for one in ids], "next": answer.get("nextPageToken")}

    @mail.reads_one
    def read(self, id: str, max_chars: int = 8000) -> JSON:
        return self.message(id, max_chars)

    @operation("List the labels of this mailbox.", effect="read", access="read")
    def labels(self) -> JSON:
        rows = self.api.get(f"{ME}/labels").get("labels", [])
        return {"labels": [{"id": row["id"], "name": row.get("name", row["id"])} for row in rows]}

    @mail.sends
    def send(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        raw = compose(to=to, cc=cc or [], subject=subject, text=text)
        return sent(self.api.post(f"{ME}/messages/send", {"raw": raw}, access="send"))

    @mail.replies("Reply to a message, in its thread.")
    def reply(self, id: str, text: str, reply_all: bool = False) -> JSON:
        original = self.api.get(f"{ME}/messages/{quoted(id)}", params={"format": "metadata"})
        raw = compose(**reply_headers(headers_of(original), reply_all), text=text)
        body = {"raw": raw, "threadId": original.get("threadId")}
        return sent(self.api.post(f"{ME}/messages/send", body, access="send"))

    @mail.drafts
    def draft(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        raw = compose(to=to, cc=cc or [], subject=subject, text=text)
        answer = self.api.post(f"{ME}/drafts", {"message": {"raw": raw}}, access="write")
        return {"id": answer.get("id"), "message_id": answer.get("message", {}).get("id")}

    @operation(
        "Add and remove labels. Removing INBOX archives the message; adding TRASH deletes it.",
        effect="idempotent", access="write", required=("id",), id=WORD, add=WORDS, remove=WORDS,
    )  # fmt: skip
    def label(self, id: str, add: list[str] | None = None, remove: list[str] | None = None) -> JSON:
        body = {"addLabelIds": add or [], "removeLabelIds": remove or []}
        answer = self.api.post(f"{ME}/messages/{quoted(id)}/modify", body, access="write", may_repeat=True)
        return {"id": id, "labels": answer.get("labelIds", [])}

    def wider(self, scopes: list[str]) -> list[str]:
        full = ["https://mail.google.com/", "https://www.googleapis.com/auth/gmail.modify"]
        return [*scopes, *full]

    def check(self) -> str:
        profile = self.profile()
        if not profile:
            self.labels()  # the cheapest request that proves the login
        return str(profile.get("emailAddress") or self.connection.account)

    def profile(self) -> dict[str, JSON]:
        """Address and newest history id; {} from servers without this path (some emulators)."""
        try:
            return self.api.get(f"{ME}/profile")
        except ToolFailed as error:
            if error.code == "not_found":
                return {}
            raise

    # -- sync --------------------------------------------------------------------------------------------------------

    def walk(
        self, cursor: dict[str, JSON], filters: dict[str, JSON], since: datetime, discovery: Discovery
    ) -> dict[str, JSON]:
        if cursor.get("history_id") and not (filters.get("senders") or filters.get("query")):
            return {"history_id": self.walk_history(cursor["history_id"], filters, discovery)}
        history_id = self.newest_history()  # read before the scan, so that messages arriving meanwhile are seen
        ids = list(self.scan(filters, since))
        discovery.add(reversed(ids))  # the list is newest first; the ledger returns the oldest first
        return {"history_id": history_id} if history_id else {}

    def newest_history(self) -> str:
        """The mailbox's history id, else the newest message's; "" for an empty mailbox, which is
        scanned by date again.
        """
        if profile := self.profile():
            return str(profile.get("historyId") or "")
        newest = self.api.get(f"{ME}/messages", params={"maxResults": 1}).get("messages", [])
        return str(self.api.get(f"{ME}/messages/{newest[0]['id']}").get("historyId") or "") if newest else ""

    def walk_history(self, history_id: str, filters: dict[str, JSON], discovery: Discovery) -> str:
        """Everything added since then, and the newest history id. Raises CursorExpired (Gmail
        answers 404).
        """
        labels = filters.get("labels") or []
        params: dict[str, JSON] = {"startHistoryId": history_id, "maxResults": PAGE, "historyTypes": ["messageAdded"]}
        if labels:
            params |= {"labelId": labels[0], "historyTypes": ["messageAdded", "labelAdded"]}
        for _ in range(MAX_PAGES):
            page = self.history_page(params)
            discovery.add(added_in(page))
            history_id = str(page.get("historyId") or history_id)
            if not page.get("nextPageToken"):
                return history_id
            params["pageToken"] = page["nextPageToken"]
        return params["startHistoryId"]  # too many changes for one scan: the next one continues

    def history_page(self, params: dict[str, JSON]) -> dict[str, JSON]:
        try:
            return self.api.get(f"{ME}/history", params=params)
        except ToolFailed as error:
            if error.code == "not_found":
                raise CursorExpired("Gmail keeps history for about a week.")
            raise

    def scan(self, filters: dict[str, JSON], since: datetime) -> Iterator[str]:
        params = self.list_params(filters, PAGE, "")
        params["q"] = f"{params.get('q', '')} after:{int(since.timestamp())}".strip()
        for _ in range(MAX_PAGES):
            page = self.api.get(f"{ME}/messages", params=params)
            yield from (row["id"] for row in page.get("messages", []))
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def list_params(self, filters: dict[str, JSON], limit: int, page: str) -> dict[str, JSON]:
        words = [filters.get("query", "")]
        if senders := filters.get("senders"):
            words.append("{" + " ".join(f"from:{word}" for word in map(plain_word, senders)) + "}")
        params: dict[str, JSON] = {"maxResults": limit, "labelIds": filters.get("labels") or []}
        if query := " ".join(filter(None, words)):
            params["q"] = query
        return {**params, "pageToken": page} if page else params

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        message = self.message(item.external_id, max_chars)
        labels = set(message["labels"])
        if labels & NOT_INCOMING and "INBOX" not in labels:
            return None
        label_names = set(filters.get("labels") or [])
        return message if label_names <= labels else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def message(self, id: str, max_chars: int) -> dict[str, JSON]:
        """One whole message; if it is too large, what Gmail returns without its body."""
        try:
            raw = self.api.get(f"{ME}/messages/{quoted(id)}", params={"format": "full"})
        except ToolFailed as error:
            if error.code != "too_large":
                raise
            raw = self.api.get(f"{ME}/messages/{quoted(id)}", params={"format": "metadata"})
            return self.typed_safely(id, raw, lambda: too_large_text(raw), max_chars, is_whole=False)
        return self.typed_safely(id, raw, lambda: self.text_in(id, raw.get("payload") or {}), max_chars)

    def typed_safely(
        self, id: str, raw: dict[str, JSON], text: Callable[[], str], max_chars: int, *, is_whole: bool = True
    ) -> dict[str, JSON]:
        def build() -> dict[str, JSON]:
            return self.typed(raw, text(), max_chars, is_whole=is_whole)

        message = self.read_safely(build, id, sent_headers(raw), date=date_of(raw))
        if "headers" in message:  # the filters by label hold for it, too
            message["labels"] = labels_of(raw)
        return message

    def typed(self, raw: dict[str, JSON], text: str, max_chars: int, *, is_whole: bool = True) -> dict[str, JSON]:
        headers = headers_of(raw)
        shown, length, is_cut = cut(text, max_chars)
        return Message(
            id=raw["id"],
            thread_id=raw.get("threadId", ""),
            date=date_of(raw),
            sender=sender_text(headers.get("from", "")),
            to=address_list(headers.get("to", "")),
            cc=address_list(headers.get("cc", "")),
            subject=header_text(headers.get("subject", "")),
            text=shown,
            text_length=length,
            is_cut=is_cut or not is_whole,
            labels=raw.get("labelIds", []),
            attachments=attachments_in(raw.get("payload") or {}),
            note="" if is_whole else mail.TOO_LARGE,
        ).as_json()

    def headline(self, id: str) -> dict[str, JSON]:
        raw = self.api.get(f"{ME}/messages/{quoted(id)}", params={"format": "metadata"})
        return self.read_safely(lambda: headline_of(raw), id, sent_headers(raw), date=date_of(raw))

    def text_in(self, id: str, payload: dict[str, JSON]) -> str:
        """The plain text, else the HTML as text, else "": a message may contain neither."""
        leaves = [part for part in parts_of(payload) if not part.get("filename")]
        for kind, reader in (("text/plain", str), ("text/html", from_html)):
            texts = [self.part_text(id, part) for part in leaves if part.get("mimeType") == kind]
            if any(texts):
                return reader("\n".join(filter(None, texts)))
        return ""

    def part_text(self, id: str, part: dict[str, JSON]) -> str:
        body = part.get("body") or {}
        data = body.get("data")
        if data is None and body.get("attachmentId") and int(body.get("size", 0)) < ANSWER_LIMIT // 2:
            where = f"{ME}/messages/{quoted(id)}/attachments/{quoted(body['attachmentId'])}"
            data = self.api.get(where).get("data")
        return decode(unbase64(data or ""), charset_of(part))


def quoted(word: str) -> str:
    """An id as one path segment. Raises RetryTool for an invalid one."""
    if not word or not all(letter.isalnum() or letter in "-_=." for letter in word) or word.strip(".") == "":
        raise RetryTool(f"“{word[:60]}” is not a message id.")
    return word


def plain_word(word: str) -> str:
    return "".join(letter for letter in word if letter.isalnum() or letter in "@.-_+")


def added_in(page: dict[str, JSON]) -> Iterator[str]:
    for entry in page.get("history", []):
        for change in [*entry.get("messagesAdded", []), *entry.get("labelsAdded", [])]:
            if identity := (change.get("message") or {}).get("id"):
                yield identity


def headers_of(raw: dict[str, JSON]) -> dict[str, str]:
    """Headers by lower-case name; of several with one name, the first."""
    headers: dict[str, str] = {}
    for header in (raw.get("payload") or {}).get("headers", []):
        headers.setdefault(str(header.get("name", "")).lower(), clean(str(header.get("value", ""))))
    return headers


def sent_headers(raw: dict[str, JSON]) -> JSON:
    payload = raw.get("payload")
    return payload.get("headers") if isinstance(payload, dict) else None


def labels_of(raw: dict[str, JSON]) -> list[str]:
    labels = raw.get("labelIds")
    return [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []


def headline_of(raw: dict[str, JSON]) -> dict[str, JSON]:
    headers = headers_of(raw)
    return {
        "id": raw["id"], "thread_id": raw.get("threadId", ""), "date": date_of(raw),
        "from": sender_text(headers.get("from", "")), "subject": header_text(headers.get("subject", "")),
        "snippet": clean(raw.get("snippet", ""))[:200], "labels": raw.get("labelIds", []),
    }  # fmt: skip


def date_of(raw: dict[str, JSON]) -> str:
    try:
        return datetime.fromtimestamp(int(raw["internalDate"]) / 1000, UTC).isoformat()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""


def parts_of(part: dict[str, JSON], depth: int = 0) -> Iterator[dict[str, JSON]]:
    """The leaves of a MIME tree, down to 20 levels."""
    inner = part.get("parts") or []
    if not inner:
        yield part
    for one in inner if depth < 20 else []:
        yield from parts_of(one, depth + 1)


def attachments_in(payload: dict[str, JSON]) -> list[Attachment]:
    return [
        Attachment(clean(part["filename"]), part.get("mimeType", ""), int((part.get("body") or {}).get("size", 0)))
        for part in parts_of(payload)
        if part.get("filename")
    ]


def charset_of(part: dict[str, JSON]) -> str:
    headers = {str(one.get("name", "")).lower(): str(one.get("value", "")) for one in part.get("headers", [])}
    letter = EmailMessage()
    try:
        letter["Content-Type"] = headers.get("content-type", "text/plain").replace("\r", " ").replace("\n", " ")
        return letter.get_content_charset() or ""
    except Exception:  # Python's reader of headers has many ways to fail
        return ""


def unbase64(data: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return b""


def too_large_text(raw: dict[str, JSON]) -> str:
    size = raw.get("sizeEstimate", 0)
    return f"{clean(raw.get('snippet', ''))}\n[cut: the message has {size} bytes]"


def compose(
    *, to: list[str], subject: str, text: str, cc: list[str] | None = None, thread: dict[str, str] | None = None
) -> str:
    """A message in Gmail's format. Raises RetryTool for a line break in an address or subject."""
    letter = EmailMessage()
    try:
        letter["To"] = ", ".join(to)
        if cc:
            letter["Cc"] = ", ".join(cc)
        letter["Subject"] = subject
        for name, value in (thread or {}).items():
            letter[name] = value
    except (ValueError, IndexError) as error:
        raise RetryTool(f"The addresses or the subject cannot be sent: {error}")
    letter.set_content(text)
    return base64.urlsafe_b64encode(letter.as_bytes()).decode()


def reply_headers(headers: dict[str, str], reply_all: bool) -> dict[str, Any]:
    subject = header_text(headers.get("subject", ""))
    others = [*address_list(headers.get("to", "")), *address_list(headers.get("cc", ""))] if reply_all else []
    message_id = headers.get("message-id", "")
    references = f"{headers.get('references', '')} {message_id}".split()
    return {
        "to": address_list(headers.get("reply-to") or headers.get("from", "")),
        "cc": others,
        "subject": subject if subject.lower().startswith("re:") else f"Re: {subject}",
        "thread": {"In-Reply-To": message_id, "References": " ".join(references[-20:])} if message_id else {},
    }


def sent(answer: dict[str, JSON]) -> dict[str, JSON]:
    return {"id": answer.get("id"), "thread_id": answer.get("threadId"), "sent": True}
