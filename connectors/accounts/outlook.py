"""Outlook mail through Microsoft Graph: delta of a folder, search, read, send, reply, draft, move."""

from datetime import UTC, datetime
from typing import Any

from agents.tools import ToolFailed
from connectors.content import Attachment, Entry, Message, clean_untrusted_text, describe_loss
from connectors.models import DeliveredItem

from . import addresses, mail, microsoft
from .base import ACCOUNT_ERRORS, CHARS, LIMIT, TEXT, WORD, Connector, Discovery, matches, operation
from .http import find_rows
from .letters import Reading, read_letter

JSON = Any
ME = "/v1.0/me"
HEAD = "id,conversationId,receivedDateTime,from,toRecipients,ccRecipients,subject,bodyPreview,categories,hasAttachments"
WHOLE = f"{HEAD},body"
EVENT = "microsoft.graph.eventMessage/event"
METHODS = {"meetingrequest": "REQUEST", "meetingcancelled": "CANCEL", "meetingaccepted": "REPLY",
           "meetingtenativelyaccepted": "REPLY", "meetingdeclined": "REPLY"}  # fmt: skip
FILTERS: dict[str, JSON] = {
    "folder": {**WORD, "description": "A folder's id or well-known name; inbox unless given."},
    "senders": mail.SENDERS,
    "query": {**TEXT, "maxLength": 1000, "description": "Words that the message must contain."},
}


class Outlook(Connector):
    provider = "outlook"

    @operation(
        "New messages since the last call, each once. The first call looks back seven days.",
        effect="read", access="read", **FILTERS, limit=LIMIT, max_chars=CHARS,
    )  # fmt: skip
    def fetch_new(self, call_id: str, limit: int = 50, max_chars: int = 8000, **filters: JSON) -> JSON:
        return self.sync(call_id, limit, max_chars, filters)

    @operation(
        "Search messages by words; without their text.", effect="read", access="read", required=("query",),
        query={**TEXT, "maxLength": 1000}, limit=LIMIT,
    )  # fmt: skip
    def search(self, query: str, limit: int = 50) -> JSON:
        # A quotation mark would end the words.
        words = query.replace("\\", " ").replace('"', " ")
        params = {"$search": f'"{words}"', "$top": limit, "$select": HEAD}
        page = self.api.get(f"{ME}/messages", params=params, headers=microsoft.STABLE)
        rows = find_rows(page, "value")[:limit]
        return {"messages": [self.head(row) for row in rows]}

    def head(self, row: dict[str, JSON]) -> dict[str, JSON]:
        id = microsoft.get_graph_id(row)
        fields = microsoft.raw_fields(row)
        return self.read_safely(lambda: headline(row), id, fields)

    @mail.reads_one
    def read(self, id: str, max_chars: int = 8000) -> JSON:
        return self.message(id, max_chars)

    @operation("List the mail folders.", effect="read", access="read")
    def folders(self) -> JSON:
        folders = []
        for row in microsoft.iterate_graph_rows(self.api, f"{ME}/mailFolders", {"$top": 100}):
            name = microsoft.get_row_text(row, "displayName")
            folders.append({"id": row["id"], "name": name})
        return {"folders": folders}

    @mail.sends
    def send(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        message = outgoing(to, cc, subject, text)
        self.api.post(f"{ME}/sendMail", {"message": message}, access="send")
        return {"sent": True}

    @mail.replies("Reply to a message.")
    def reply(self, id: str, text: str, reply_all: bool = False) -> JSON:
        verb = "replyAll" if reply_all else "reply"
        path = f"{ME}/messages/{microsoft.segment(id)}/{verb}"
        self.api.post(path, {"comment": text}, access="send", headers=microsoft.STABLE)
        return {"sent": True}

    @mail.drafts
    def draft(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        message = outgoing(to, cc, subject, text)
        answer = self.api.post(f"{ME}/messages", message, access="write", headers=microsoft.STABLE)
        return {"id": answer.get("id")}

    @operation(
        "Move a message into another folder.", effect="idempotent", access="write", required=("id", "folder"),
        id=WORD, folder=WORD,
    )  # fmt: skip
    def move(self, id: str, folder: str) -> JSON:
        path = f"{ME}/messages/{microsoft.segment(id)}/move"
        body = {"destinationId": folder}
        answer = self.api.post(path, body, access="write", headers=microsoft.STABLE, may_repeat=True)
        return {"id": answer.get("id") or id, "folder": folder}

    def wider(self, scopes: list[str]) -> list[str]:
        if "Mail.Read" not in scopes:
            return scopes
        return [*scopes, "Mail.ReadWrite"]

    def check(self) -> str:
        me = self.api.get(f"{ME}")
        address = me.get("mail") or me.get("userPrincipalName") or ""
        return str(address)

    # -- sync --------------------------------------------------------------------------------------------------------

    def walk(
        self, cursor: dict[str, JSON], filters: dict[str, JSON], since: datetime, discovery: Discovery
    ) -> dict[str, JSON]:
        path = cursor.get("link")
        params = None
        if not path:
            folder = microsoft.segment(filters.get("folder") or "inbox")
            moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            path = f"{ME}/mailFolders/{folder}/messages/delta"
            params = {
                "changeType": "created",
                "$filter": f"receivedDateTime ge {moment}",
                "$select": "id,receivedDateTime",
            }
        links = microsoft.Links()
        for page in microsoft.pages(self.api, path, params):
            fresh = [row for row in find_rows(page, "value") if not microsoft.is_removed(row)]
            oldest_first = microsoft.sort_rows(fresh, "receivedDateTime")
            discovery.add(row["id"] for row in oldest_first)
            links.note(page)
        return {"link": links.cursor}

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        message = self.message(item.external_id, max_chars)
        if not matches(message, filters):
            return None
        return message

    def message(self, id: str, max_chars: int) -> dict[str, JSON]:
        """One message. Its HTML is asked for: Graph's own plain text holds what the HTML hides."""
        path = f"{ME}/messages/{microsoft.segment(id)}"
        is_whole = True
        try:
            row = self.api.get(path, params={"$select": WHOLE}, headers=microsoft.STABLE)
        except ToolFailed as error:
            if error.code != "too_large":
                raise
            row = self.api.get(path, params={"$select": HEAD}, headers=microsoft.STABLE)
            is_whole = False
        known_fields = row.keys() & set(WHOLE.split(","))
        if not known_fields:
            raise ToolFailed(f"{self.api.title} sent an answer that is no message.", code="bad_answer")
        fields = microsoft.raw_fields(row)
        return self.read_safely(lambda: self.typed(id, row, max_chars, is_whole=is_whole), id, fields)

    def typed(self, id: str, row: dict[str, JSON], max_chars: int, *, is_whole: bool) -> dict[str, JSON]:
        if is_whole:
            body = microsoft.describe_body(row.get("body"))
            fields = read_letter(body, max_chars).as_fields()
            note = ""
        else:
            fields = preview(row).as_fields()
            fields["is_cut"] = True
            note = mail.TOO_LARGE
        attachments, left_out = self.attachments(id, row)
        fields["attachments"] = attachments
        fields["left_out"] = [*fields["left_out"], *left_out]
        is_invitation = "eventmessage" in str(row.get("@odata.type") or "").lower() or "event" in row
        if is_invitation:
            self.add_event(id, row, fields)
        message = Message(
            id=id,
            thread_id=microsoft.get_row_text(row, "conversationId"),
            date=microsoft.get_row_text(row, "receivedDateTime"),
            sender=microsoft.format_graph_person(row.get("from")),
            to=format_people(row, "toRecipients"),
            cc=format_people(row, "ccRecipients"),
            subject=microsoft.get_row_text(row, "subject"),
            labels=list_categories(row),
            note=note,
            **fields,
        )
        return message.as_json()

    def attachments(self, id: str, row: dict[str, JSON]) -> tuple[list[Attachment], list[Entry]]:
        """What is attached, and what of the message stands only there."""
        if not row.get("hasAttachments"):
            return [], []
        path = f"{ME}/messages/{microsoft.segment(id)}/attachments"
        attachments: list[Attachment] = []
        left_out: list[Entry] = []
        try:
            for page in microsoft.pages(self.api, path, {"$select": "name,contentType,size"}):
                for one in find_rows(page, "value", key=""):
                    attachment = read_attachment(one)
                    attachments.append(attachment)
                    if "itemattachment" in str(one.get("@odata.type") or "").lower():
                        what = attachment.name or "attachment"
                        left_out.append(describe_loss(what, "The attached message is not read."))
        except ToolFailed as error:
            if error.code in ACCOUNT_ERRORS:
                raise
            # The message is worth reading without the list of its attachments.
            left_out.append(describe_loss("attachments", f"The list of attachments could not be fetched: {error}"))
        return attachments, left_out

    def add_event(self, id: str, row: dict[str, JSON], fields: dict[str, JSON]) -> None:
        """The event that an invitation is about."""
        if not isinstance(row.get("event"), dict):
            path = f"{ME}/messages/{microsoft.segment(id)}"
            try:
                more = self.api.get(path, params={"$expand": EVENT}, headers=microsoft.STABLE)
                row = {**row, **more}
            except ToolFailed as error:
                if error.code in ACCOUNT_ERRORS:
                    raise
                # The message itself has the times and the place.
                loss = describe_loss("event", f"The event could not be fetched: {error}")
                fields["left_out"] = [*fields["left_out"], loss]
        calendar = {"kind": "text/calendar", "text": write_calendar(row)}
        event = read_letter(calendar, 10_000)
        fields["events"] = event.events
        if event.text:
            fields["text"] = f"{fields['text']}\n\n{event.text}".strip()
            fields["text_length"] += len(event.text)


def format_people(row: dict[str, JSON], name: str) -> list[str]:
    people = microsoft.list_row_objects(row, name)
    return list(map(microsoft.format_graph_person, people))


def list_categories(row: dict[str, JSON]) -> list[str]:
    categories = row.get("categories") or []
    return [clean_untrusted_text(one) for one in categories if isinstance(one, str)]


def read_attachment(one: dict[str, JSON]) -> Attachment:
    name = microsoft.get_row_text(one, "name")
    kind = microsoft.get_row_text(one, "contentType")
    size = one.get("size")
    if not isinstance(size, int):
        size = 0
    return Attachment(name, kind, size)


def preview(row: dict[str, JSON]) -> Reading:
    """The beginning of a message that is too large."""
    text = f"{microsoft.get_row_text(row, 'bodyPreview')}\n[cut: the message is too large to be read]"
    loss = describe_loss("message", mail.TOO_LARGE)
    return Reading(text=text, length=len(text), left_out=[loss])


def write_calendar(row: dict[str, JSON]) -> str:
    """Graph's event as a calendar, so that all invitations are read alike."""
    event = row.get("event")
    if not isinstance(event, dict):
        event = {}
    kind = microsoft.get_row_text(row, "meetingMessageType").lower()
    # What the event does not say, the message that invites to it may say.
    uid = microsoft.get_row_text(event, "iCalUId") or microsoft.get_row_text(event, "id")
    subject = microsoft.get_row_text(event, "subject") or microsoft.get_row_text(row, "subject")
    start = event.get("start") or row.get("startDateTime")
    end = event.get("end") or row.get("endDateTime")
    location = microsoft.get_row_text(event.get("location") or row.get("location"), "displayName")
    organizer = microsoft.format_graph_person(event.get("organizer") or row.get("from"))
    lines = [
        f"METHOD:{METHODS.get(kind, 'REQUEST')}",
        "BEGIN:VEVENT",
        f"UID:{escape(uid)}",
        f"SUMMARY:{escape(subject)}",
        write_moment("DTSTART", start, event, row),
        write_moment("DTEND", end, event, row),
        f"LOCATION:{escape(location)}",
        f"ORGANIZER:{escape(organizer)}",
    ]
    for attendee in format_people(event, "attendees"):
        lines.append(f"ATTENDEE:{escape(attendee)}")
    lines.append("END:VEVENT")
    return "\n".join(filter(None, lines))


def write_moment(name: str, moment: JSON, event: dict[str, JSON], row: dict[str, JSON]) -> str:
    """A line such as `DTSTART;TZID=Europe/Berlin:20260131T090000`; empty without a time."""
    time = microsoft.get_row_text(moment, "dateTime")
    if not time:
        return ""
    if event.get("isAllDay") or row.get("isAllDay"):
        day = time[:10].replace("-", "")
        return f"{name}:{day}"
    plain = time[:19].replace("-", "").replace(":", "")
    zone = microsoft.get_row_text(moment, "timeZone")
    if zone == "UTC":
        return f"{name}:{plain}Z"
    # A semicolon would begin another parameter of the line.
    zone = escape(zone).replace(";", "")
    return f"{name};TZID={zone}:{plain}"


def escape(text: str) -> str:
    text = text.replace("\\", "\\\\")
    return text.replace("\n", "\\n")


def headline(row: dict[str, JSON]) -> dict[str, JSON]:
    snippet = microsoft.get_row_text(row, "bodyPreview")
    return {
        "id": row["id"],
        "thread_id": microsoft.get_row_text(row, "conversationId"),
        "date": microsoft.get_row_text(row, "receivedDateTime"),
        "from": microsoft.format_graph_person(row.get("from")),
        "subject": microsoft.get_row_text(row, "subject"),
        "snippet": snippet[:200],
        "labels": row.get("categories") or [],
    }


def outgoing(to: list[str], cc: list[str] | None, subject: str, text: str) -> dict[str, JSON]:
    receivers, copies = addresses.read_receivers(to, cc or [])
    return {
        "subject": subject,
        "body": {"contentType": "Text", "content": text},
        "toRecipients": list(map(build_graph_recipient, receivers)),
        "ccRecipients": list(map(build_graph_recipient, copies)),
    }


def build_graph_recipient(one: addresses.Recipient) -> dict[str, JSON]:
    address = {"address": one.address}
    if one.name:
        address["name"] = one.name
    return {"emailAddress": address}
