"""Gmail: history since a cursor, search, read, send, reply, draft, label."""

import base64
import binascii
import re
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any

from agents.tools import RetryTool, ToolFailed
from connectors.content import (
    Message,
    address_list,
    clean_untrusted_text,
    decode_mail,
    describe_loss,
    header_text,
    sender_text,
)
from connectors.exceptions import CursorExpired, build_tool_failure
from connectors.models import DeliveredItem

from . import addresses, mail
from .addresses import Recipient
from .base import ACCOUNT_ERRORS, CHARS, LIMIT, TEXT, WORD, WORDS, Connector, Discovery, describe_error, operation
from .http import ANSWER_LIMIT, find_ids, find_rows
from .letters import Reading, Tree, read_letter

JSON = Any
ME = "/gmail/v1/users/me"
NOT_INCOMING = frozenset(["DRAFT", "SENT", "SPAM", "TRASH", "CHAT"])
PAGE = 500
# Parts in parts that are asked for.
DEEPEST = 30
MOST_PARTS = 600
CALENDARS = ("text/calendar", "application/ics")
# Kinds of a part that hold text, besides those that say so.
OTHER_TEXTS = ("", "application/xhtml+xml", *CALENDARS)
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,400}>")
# Headers with the ids of other messages.
THREAD_HEADERS = ("In-Reply-To", "References")
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
        messages: list[dict[str, JSON]] = []
        errors: list[dict[str, JSON]] = []
        for id in find_ids(answer, "messages"):
            try:
                messages.append(self.headline(id))
            except ToolFailed as error:
                # Deleted meanwhile, or one that Gmail cannot give: the others are there.
                if error.code in ACCOUNT_ERRORS:
                    raise
                errors.append(describe_error(id, error))
        # If the first one got no answer and no other one came, Gmail is out of order.
        if errors and not messages and errors[0]["code"] == "service_unavailable":
            raise build_tool_failure("service_unavailable", errors[0]["message"])
        return {"messages": messages, "next": answer.get("nextPageToken"), "errors": errors}

    @mail.reads_one
    def read(self, id: str, max_chars: int = 8000) -> JSON:
        return self.message(id, max_chars)

    @operation("List the labels of this mailbox.", effect="read", access="read")
    def labels(self) -> JSON:
        answer = self.api.get(f"{ME}/labels")
        labels = []
        for row in find_rows(answer, "labels"):
            name = row.get("name") or row["id"]
            labels.append({"id": row["id"], "name": name})
        return {"labels": labels}

    @mail.sends
    def send(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        raw = compose(to=to, cc=cc or [], subject=subject, text=text)
        answer = self.api.post(f"{ME}/messages/send", {"raw": raw}, access="send")
        return build_sent_answer(answer)

    @mail.replies("Reply to a message, in its thread.")
    def reply(self, id: str, text: str, reply_all: bool = False) -> JSON:
        path = f"{ME}/messages/{quote_gmail_id(id)}"
        original = self.api.get(path, params={"format": "metadata"})
        headers = reply_headers(build_gmail_headers(original), reply_all, self.own_addresses())
        raw = compose(**headers, text=text)
        body = {"raw": raw, "threadId": original.get("threadId")}
        answer = self.api.post(f"{ME}/messages/send", body, access="send")
        return build_sent_answer(answer)

    @mail.drafts
    def draft(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        raw = compose(to=to, cc=cc or [], subject=subject, text=text)
        body = {"message": {"raw": raw}}
        answer = self.api.post(f"{ME}/drafts", body, access="write")
        message = answer.get("message") or {}
        return {"id": answer.get("id"), "message_id": message.get("id")}

    @operation(
        "Add and remove labels. Removing INBOX archives the message; adding TRASH deletes it.",
        effect="idempotent", access="write", required=("id",), id=WORD, add=WORDS, remove=WORDS,
    )  # fmt: skip
    def label(self, id: str, add: list[str] | None = None, remove: list[str] | None = None) -> JSON:
        path = f"{ME}/messages/{quote_gmail_id(id)}/modify"
        body = {"addLabelIds": add or [], "removeLabelIds": remove or []}
        answer = self.api.post(path, body, access="write", may_repeat=True)
        return {"id": id, "labels": answer.get("labelIds", [])}

    def wider(self, scopes: list[str]) -> list[str]:
        full = ["https://mail.google.com/", "https://www.googleapis.com/auth/gmail.modify"]
        return [*scopes, *full]

    def check(self) -> str:
        profile = self.profile()
        if not profile:
            # The cheapest request that proves the login.
            self.labels()
        address = profile.get("emailAddress") or self.connection.account
        return str(address)

    def own_addresses(self) -> list[str]:
        """The account's address and the others that it sends as, as far as Gmail tells."""
        profile = self.get_if_allowed(f"{ME}/profile")
        settings = self.get_if_allowed(f"{ME}/settings/sendAs")
        own = [self.connection.account, str(profile.get("emailAddress") or "")]
        for row in find_rows(settings, "sendAs", key="sendAsEmail"):
            own.append(row["sendAsEmail"])
        return [address for address in own if "@" in address]

    def get_if_allowed(self, path: str) -> dict[str, JSON]:
        """An answer that can be done without: empty if Gmail does not give it."""
        try:
            answer: dict[str, JSON] = self.api.get(path)
        except ToolFailed as error:
            if error.code in ("reconnect_needed", "rate_limited", "cancelled"):
                raise
            return {}
        return answer

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
        # Gmail's history knows labels, but neither senders nor words.
        needs_search = filters.get("senders") or filters.get("query")
        if cursor.get("history_id") and not needs_search:
            history_id = self.walk_history(cursor["history_id"], filters, discovery)
            return {"history_id": history_id}
        # Read before the scan, so that messages that arrive meanwhile are seen.
        history_id = self.newest_history()
        ids = list(self.scan(filters, since))
        # The list is newest first; the ledger returns the oldest first.
        discovery.add(reversed(ids))
        if not history_id:
            return {}
        return {"history_id": history_id}

    def newest_history(self) -> str:
        """The mailbox's history id, else the newest message's; "" for an empty mailbox, which is
        scanned by date again.
        """
        if profile := self.profile():
            return str(profile.get("historyId") or "")
        answer = self.api.get(f"{ME}/messages", params={"maxResults": 1})
        newest = find_ids(answer, "messages")
        if not newest:
            return ""
        message = self.api.get(f"{ME}/messages/{newest[0]}")
        return str(message.get("historyId") or "")

    def walk_history(self, history_id: str, filters: dict[str, JSON], discovery: Discovery) -> str:
        """Everything added since then, and the newest history id. Raises CursorExpired (Gmail
        answers 404).
        """
        params: dict[str, JSON] = {"startHistoryId": history_id, "maxResults": PAGE, "historyTypes": ["messageAdded"]}
        if labels := filters.get("labels"):
            params["labelId"] = labels[0]
            params["historyTypes"] = ["messageAdded", "labelAdded"]
        newest = last = history_id
        for page in self.pages(f"{ME}/history", params):
            discovery.add(iterate_added_ids(page))
            newest = str(page.get("historyId") or newest)
            if entries := find_ids(page, "history"):
                last = entries[-1]
            if not page.get("nextPageToken"):
                return newest
        # No entry was new: the pages repeat themselves.
        if last == history_id:
            raise CursorExpired("Gmail's list of changes does not end.")
        # There are too many changes for one scan: the next one continues.
        return str(last)

    def pages(self, path: str, params: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
        """Each page of a list, until one comes again."""
        params, seen = dict(params), {""}
        for _ in range(MAX_PAGES):
            page = self.api.get(path, params=params)
            yield page
            token = str(page.get("nextPageToken") or "")
            if token in seen:
                return
            seen.add(token)
            params["pageToken"] = token

    def scan(self, filters: dict[str, JSON], since: datetime) -> Iterator[str]:
        params = self.list_params(filters, PAGE, "")
        after = f"after:{int(since.timestamp())}"
        params["q"] = f"{params.get('q', '')} {after}".strip()
        for page in self.pages(f"{ME}/messages", params):
            yield from find_ids(page, "messages")

    def list_params(self, filters: dict[str, JSON], limit: int, page: str) -> dict[str, JSON]:
        words = [filters.get("query", "")]
        if senders := filters.get("senders"):
            # Terms in braces are alternatives.
            alternatives = " ".join(f"from:{plain_word(sender)}" for sender in senders)
            words.append("{" + alternatives + "}")
        params: dict[str, JSON] = {"maxResults": limit, "labelIds": filters.get("labels") or []}
        if query := " ".join(filter(None, words)):
            params["q"] = query
        if page:
            params["pageToken"] = page
        return params

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        message = self.message(item.external_id, max_chars)
        labels = set(message["labels"])
        if labels & NOT_INCOMING and "INBOX" not in labels:
            return None
        needed_labels = set(filters.get("labels") or [])
        if needed_labels <= labels:
            return message
        return None

    # -- reading -----------------------------------------------------------------------------------------------------

    def message(self, id: str, max_chars: int) -> dict[str, JSON]:
        """One whole message; if it is too large, what Gmail returns without its body."""
        path = f"{ME}/messages/{quote_gmail_id(id)}"
        try:
            raw = self.api.get(path, params={"format": "full"})
        except ToolFailed as error:
            if error.code != "too_large":
                raise
            raw = self.api.get(path, params={"format": "metadata"})
            return self.typed_safely(id, raw, max_chars, is_whole=False)
        return self.typed_safely(id, raw, max_chars)

    def typed_safely(self, id: str, raw: dict[str, JSON], max_chars: int, *, is_whole: bool = True) -> dict[str, JSON]:
        if not isinstance(raw.get("payload"), dict) and not isinstance(raw.get("snippet"), str):
            raise build_tool_failure("bad_answer", f"{self.api.title} sent an answer that is no message.")

        def build() -> dict[str, JSON]:
            if is_whole:
                reading = self.read_payload(id, raw, max_chars)
            else:
                reading = read_preview(raw, max_chars)
            return self.typed(id, raw, reading, is_whole=is_whole)

        message = self.read_safely(build, id, sent_headers(raw), date=format_gmail_date(raw))
        # Only a message that cannot be read has headers. The filters by label hold for it, too.
        if "headers" in message:
            message["labels"] = list_gmail_labels(raw)
        return message

    def typed(self, id: str, raw: dict[str, JSON], reading: Reading, *, is_whole: bool) -> dict[str, JSON]:
        headers = build_gmail_headers(raw)
        fields = reading.as_fields()
        note = ""
        if not is_whole:
            fields["is_cut"] = True
            note = mail.TOO_LARGE
        message = Message(
            id=id,
            thread_id=str(raw.get("threadId") or ""),
            date=format_gmail_date(raw),
            sender=sender_text(headers.get("from", "")),
            to=address_list(headers.get("to", "")),
            cc=address_list(headers.get("cc", "")),
            subject=header_text(headers.get("subject", "")),
            labels=list_gmail_labels(raw),
            note=note,
            **fields,
        )
        return message.as_json()

    def headline(self, id: str) -> dict[str, JSON]:
        raw = self.api.get(f"{ME}/messages/{quote_gmail_id(id)}", params={"format": "metadata"})
        date = format_gmail_date(raw)
        return self.read_safely(lambda: build_gmail_headline(id, raw), id, sent_headers(raw), date=date)

    def read_payload(self, id: str, raw: dict[str, JSON], max_chars: int) -> Reading:
        payload = raw.get("payload")
        if payload is None:
            return read_preview(raw, max_chars, "Gmail sent the message without its text; this is its beginning.")
        tree = self.describe_part(id, payload, Count())
        return read_letter(tree, max_chars)

    def describe_part(self, id: str, part: JSON, count: "Count", depth: int = 0) -> Tree:
        """The part as a tree for the reader of mails, with its texts."""
        if not isinstance(part, dict) or not isinstance(part.get("filename") or "", str):
            raise TypeError("a part of the message is not an object")
        headers = part_headers(part)
        content_type, _, _ = headers.get("content-type", "").partition(";")
        disposition, _, _ = headers.get("content-disposition", "").partition(";")
        tree: Tree = {
            "kind": str(part.get("mimeType") or content_type),
            "name": clean_untrusted_text(part.get("filename") or ""),
            "disposition": disposition.strip().lower(),
        }
        inner = part.get("parts") or []
        if not isinstance(inner, list):
            raise TypeError("the parts of the message are not a list")
        count.parts += 1
        if inner and (depth >= DEEPEST or count.parts > MOST_PARTS):
            why = "The message has too many parts in each other."
            return {**tree, "kind": "text/plain", "name": "", "why": why}
        # Below the top these are the headers of a forwarded message, not of the part.
        is_message = bool({"from", "subject", "date"} & headers.keys())
        if depth and is_message:
            tree["headers"] = {name: header_text(value)[:1000] for name, value in headers.items()}
        if inner:
            tree["parts"] = [self.describe_part(id, one, count, depth + 1) for one in inner]
            return tree
        return tree | self.describe_body(id, part, tree, headers)

    def describe_body(self, id: str, part: dict[str, JSON], tree: Tree, headers: dict[str, str]) -> Tree:
        """The size and text of a part without others. What the reader does not show is not fetched."""
        kind = tree["kind"].lower()
        body = part.get("body") or {}
        size = int(body.get("size") or 0)
        data = body.get("data")
        is_text = kind.startswith(("text/", "message/", "multipart/")) or kind in OTHER_TEXTS
        # Of the texts that are attached, only invitations are fetched.
        is_wanted = is_text and (tree["disposition"] != "attachment" or kind in CALENDARS)
        if not is_text or (data is None and not is_wanted):
            return {"size": size}
        if data is not None and not isinstance(data, str):
            raise TypeError("the text of a part is not a string")
        if not data and body.get("attachmentId"):
            data, why = self.fetch_text(id, body["attachmentId"], size)
            if why:
                return {"size": size, "why": why}
        parameters = parse_header_parameters(headers.get("content-type", ""))
        text, why = read_data(data or "", parameters.get("charset", ""))
        # Of format=flowed (RFC 3676): lines that belong together, and whether the space between them goes.
        is_flowed = parameters.get("format", "").lower() == "flowed"
        joins = parameters.get("delsp", "").lower() == "yes"
        return {"size": size, "text": text, "why": why, "is_flowed": is_flowed, "joins": joins}

    def fetch_text(self, id: str, attachment: JSON, size: int) -> tuple[str, str]:
        """The text of a large part as it is sent, or why it is not there."""
        # It comes in Base64, which makes four characters of three bytes.
        if size >= ANSWER_LIMIT * 3 // 4:
            return "", f"This part of the message has {size} bytes, which is too much to be read."
        try:
            where = f"{ME}/messages/{quote_gmail_id(id)}/attachments/{quote_gmail_id(str(attachment))}"
            answer = self.api.get(where)
        except RetryTool:
            return "", "Gmail names a part of the message that cannot be asked for."
        except ToolFailed as error:
            if error.code in ACCOUNT_ERRORS:
                raise
            return "", f"This part of the message could not be fetched: {error}"
        return str(answer.get("data") or ""), ""


class Count:
    """Parts of one message."""

    parts = 0


def quote_gmail_id(word: str) -> str:
    """An id as one path segment. Raises RetryTool for an invalid one."""
    is_plain = all(letter.isalnum() or letter in "-_=." for letter in word)
    # Dots alone would lead to another path.
    if not word.strip(".") or not is_plain:
        raise RetryTool(f"“{word[:60]}” is not a message id.")
    return word


def plain_word(word: str) -> str:
    return "".join(letter for letter in word if letter.isalnum() or letter in "@.-_+")


def iterate_added_ids(page: dict[str, JSON]) -> Iterator[str]:
    for entry in find_rows(page, "history", key=""):
        added = find_rows(entry, "messagesAdded", key="")
        labelled = find_rows(entry, "labelsAdded", key="")
        for change in [*added, *labelled]:
            yield from find_ids({"message": [change.get("message")]}, "message")


def build_gmail_headers(raw: dict[str, JSON]) -> dict[str, str]:
    """Headers by lower-case name; of several with one name, the first."""
    return part_headers(raw.get("payload"))


def part_headers(part: JSON) -> dict[str, str]:
    headers: dict[str, str] = {}
    for row in find_rows(part, "headers", key=""):
        name = str(row.get("name") or "").lower()
        value = row.get("value")
        if isinstance(value, str):
            headers.setdefault(name, clean_untrusted_text(value))
    return headers


def sent_headers(raw: dict[str, JSON]) -> JSON:
    payload = raw.get("payload")
    if not isinstance(payload, dict):
        return None
    return payload.get("headers")


def list_gmail_labels(raw: dict[str, JSON]) -> list[str]:
    labels = raw.get("labelIds")
    if not isinstance(labels, list):
        return []
    return [label for label in labels if isinstance(label, str)]


def build_gmail_headline(id: str, raw: dict[str, JSON]) -> dict[str, JSON]:
    headers = build_gmail_headers(raw)
    sender = sender_text(headers.get("from", ""))
    subject = header_text(headers.get("subject", ""))
    snippet = read_snippet(raw)[:200]
    return {
        "id": id,
        "thread_id": str(raw.get("threadId") or ""),
        "date": format_gmail_date(raw),
        "from": sender,
        "subject": subject,
        "snippet": snippet,
        "labels": list_gmail_labels(raw),
    }


def read_snippet(raw: dict[str, JSON]) -> str:
    snippet = raw.get("snippet")
    if not isinstance(snippet, str):
        return ""
    return clean_untrusted_text(snippet)


def format_gmail_date(raw: dict[str, JSON]) -> str:
    """Empty if Gmail sent no time that can be read."""
    try:
        seconds = int(raw["internalDate"]) / 1000
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""


def parse_header_parameters(header: str) -> dict[str, str]:
    """The parameters of a header; none of a broken one."""
    line = (header or "text/plain").replace("\r", " ").replace("\n", " ")
    letter = EmailMessage()
    try:
        letter["Content-Type"] = line[:2000]
        parameters = letter["Content-Type"].params
        return {str(name).lower(): str(value) for name, value in parameters.items()}
    except Exception:
        # Python's reader of headers has many ways to fail.
        return {}


def read_data(data: str, charset: str) -> tuple[str, str]:
    """The text of a part, and what of it is lost."""
    padding = "=" * (-len(data) % 4)
    try:
        content = base64.urlsafe_b64decode(data + padding)
    except (binascii.Error, ValueError):
        return "", "This part of the message is no Base64, so its text is lost."
    text = decode_mail(content, charset)
    # The mark may have been sent: then it stands in the content, too.
    is_whole = "\ufffd" not in text or "\ufffd".encode() in content
    if is_whole:
        return text, ""
    return text, "Some bytes are no text; they stand as \ufffd."


def read_preview(raw: dict[str, JSON], max_chars: int, why: str = mail.TOO_LARGE) -> Reading:
    """The beginning of a message whose parts are not there."""
    size = raw.get("sizeEstimate") or 0
    text = f"{read_snippet(raw)}\n[cut: the message has {size} bytes]"
    loss = describe_loss("message", why)
    return Reading(text=text[:max_chars], length=len(text), left_out=[loss])


class LetterPolicy(EmailPolicy):
    """Writes the ids of messages as they are. Python encodes an id that is longer than a line, as Exchange's are, and
    no mail program recognises it then.
    """

    def fold_binary(self, name: str, value: Any) -> bytes:
        if name not in THREAD_HEADERS:
            return super().fold_binary(name, value)
        lines = textwrap.wrap(
            str(value),
            width=self.max_line_length or 78,
            initial_indent=f"{name}: ",
            subsequent_indent=" ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return "".join(line + self.linesep for line in lines).encode()


def compose(
    *, to: list[str], subject: str, text: str, cc: list[str] | None = None, thread: dict[str, str] | None = None
) -> str:
    """A message in Gmail's format. Raises RetryTool for an address or subject that cannot be sent."""
    receivers, copies = addresses.read_receivers(to, cc or [])
    letter = EmailMessage(policy=LetterPolicy())
    try:
        letter["To"] = list(map(build_mail_address, receivers))
        if copies:
            letter["Cc"] = list(map(build_mail_address, copies))
        letter["Subject"] = subject
        for name, value in (thread or {}).items():
            letter[name] = value
        # A lone surrogate cannot be encoded: a question mark stands in its place.
        sendable = text.encode("utf-8", "replace").decode()
        letter.set_content(sendable)
        return base64.urlsafe_b64encode(letter.as_bytes()).decode()
    except (ValueError, IndexError) as error:
        raise RetryTool(f"The addresses or the subject cannot be sent: {error}")


def build_mail_address(one: Recipient) -> Address:
    words = clean_untrusted_text(one.name).split()
    mailbox, _, domain = one.address.rpartition("@")
    return Address(" ".join(words), mailbox.strip('"'), domain)


def reply_headers(headers: dict[str, str], reply_all: bool, own: list[str]) -> dict[str, Any]:
    """The recipients and headers of a reply to a message. Raises ToolFailed if the message has no sender."""
    senders = find_people(headers, "reply-to") or find_people(headers, "from")
    receivers = find_people(headers, "to")
    copies = find_people(headers, "cc")
    is_own_message = bool(senders) and not drop_own(senders, own)
    # A reply to it goes to its readers.
    if is_own_message:
        senders = drop_own(receivers, own) or senders
        receivers = []
    if not senders:
        raise ToolFailed(
            "This message names no sender that mail can be sent to. Send a new message instead.", code="no_sender"
        )
    others: list[Recipient] = []
    if reply_all:
        keys = {one.key for one in senders}
        others = [one for one in drop_own([*receivers, *copies], own) if one.key not in keys]
    subject = header_text(headers.get("subject", ""))
    if not subject.lower().startswith("re:"):
        subject = f"Re: {subject}"
    return {
        "to": [one.address for one in senders],
        "cc": [one.address for one in others],
        "subject": subject,
        "thread": build_thread_headers(headers),
    }


def find_people(headers: dict[str, str], name: str) -> list[Recipient]:
    people = address_list(headers.get(name, ""))
    return addresses.find_reachable(people)


def build_thread_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers by which mail programs put a reply under its message; none if the message has no valid id."""
    message_ids = MESSAGE_ID.findall(headers.get("message-id", ""))
    if not message_ids:
        return {}
    message_id = message_ids[0]
    references = [*MESSAGE_ID.findall(headers.get("references", "")), message_id]
    return {"In-Reply-To": message_id, "References": " ".join(references[-20:])}


def drop_own(people: list[Recipient], own: list[str]) -> list[Recipient]:
    return [one for one in people if not addresses.is_own(one, own)]


def build_sent_answer(answer: dict[str, JSON]) -> dict[str, JSON]:
    return {"id": answer.get("id"), "thread_id": answer.get("threadId"), "sent": True}
