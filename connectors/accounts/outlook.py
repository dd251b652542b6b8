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
        words = query.replace("\\", " ").replace('"', " ")
        params = {"$search": f'"{words}"', "$top": limit, "$select": HEAD}
        page = self.api.get(f"{ME}/messages", params=params, headers=microsoft.STABLE)
        return {"messages": [self.head(row) for row in find_rows(page, "value")[:limit]]}

    def head(self, row: dict[str, JSON]) -> dict[str, JSON]:
        return self.read_safely(lambda: headline(row), microsoft.get_graph_id(row), microsoft.raw_fields(row))

    @mail.reads_one
    def read(self, id: str, max_chars: int = 8000) -> JSON:
        return self.message(id, max_chars)

    @operation("List the mail folders.", effect="read", access="read")
    def folders(self) -> JSON:
        rows = microsoft.iterate_graph_rows(self.api, f"{ME}/mailFolders", {"$top": 100})
        return {"folders": [{"id": row["id"], "name": microsoft.get_row_text(row, "displayName")} for row in rows]}

    @mail.sends
    def send(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        self.api.post(f"{ME}/sendMail", {"message": outgoing(to, cc, subject, text)}, access="send")
        return {"sent": True}

    @mail.replies("Reply to a message.")
    def reply(self, id: str, text: str, reply_all: bool = False) -> JSON:
        verb = "replyAll" if reply_all else "reply"
        self.api.post(
            f"{ME}/messages/{microsoft.segment(id)}/{verb}", {"comment": text}, access="send", headers=microsoft.STABLE
        )
        return {"sent": True}

    @mail.drafts
    def draft(self, to: list[str], subject: str, text: str, cc: list[str] | None = None) -> JSON:
        answer = self.api.post(
            f"{ME}/messages", outgoing(to, cc, subject, text), access="write", headers=microsoft.STABLE
        )
        return {"id": answer.get("id")}

    @operation(
        "Move a message into another folder.", effect="idempotent", access="write", required=("id", "folder"),
        id=WORD, folder=WORD,
    )  # fmt: skip
    def move(self, id: str, folder: str) -> JSON:
        where = f"{ME}/messages/{microsoft.segment(id)}/move"
        answer = self.api.post(
            where, {"destinationId": folder}, access="write", headers=microsoft.STABLE, may_repeat=True
        )
        return {"id": answer.get("id") or id, "folder": folder}

    def wider(self, scopes: list[str]) -> list[str]:
        return [*scopes, "Mail.ReadWrite"] if "Mail.Read" in scopes else scopes

    def check(self) -> str:
        me = self.api.get(f"{ME}")
        return str(me.get("mail") or me.get("userPrincipalName") or "")

    # -- sync --------------------------------------------------------------------------------------------------------

    def walk(
        self, cursor: dict[str, JSON], filters: dict[str, JSON], since: datetime, discovery: Discovery
    ) -> dict[str, JSON]:
        path, params = cursor.get("link"), None
        if not path:
            path = f"{ME}/mailFolders/{microsoft.segment(filters.get('folder') or 'inbox')}/messages/delta"
            params = {
                "changeType": "created",
                "$filter": f"receivedDateTime ge {since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}",
                "$select": "id,receivedDateTime",
            }
        links = microsoft.Links()
        for page in microsoft.pages(self.api, path, params):
            fresh = [row for row in find_rows(page, "value") if not microsoft.is_removed(row)]
            discovery.add(row["id"] for row in microsoft.sort_rows(fresh, "receivedDateTime"))
            links.note(page)
        return {"link": links.cursor}

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        message = self.message(item.external_id, max_chars)
        return message if matches(message, filters) else None

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
        if not row.keys() & set(WHOLE.split(",")):
            raise ToolFailed(f"{self.api.title} sent an answer that is no message.", code="bad_answer")
        fields = microsoft.raw_fields(row)
        return self.read_safely(lambda: self.typed(id, row, max_chars, is_whole=is_whole), id, fields)

    def typed(self, id: str, row: dict[str, JSON], max_chars: int, *, is_whole: bool) -> dict[str, JSON]:
        reading = read_letter(microsoft.describe_body(row.get("body")), max_chars) if is_whole else preview(row)
        fields = reading.as_fields()
        fields["is_cut"] = fields["is_cut"] or not is_whole
        fields["attachments"], more = self.attachments(id, row)
        fields["left_out"] = [*fields["left_out"], *more]
        if "eventmessage" in str(row.get("@odata.type") or "").lower() or "event" in row:
            self.add_event(id, row, fields)
        return Message(
            id=id,
            thread_id=microsoft.get_row_text(row, "conversationId"),
            date=microsoft.get_row_text(row, "receivedDateTime"),
            sender=microsoft.format_graph_person(row.get("from")),
            to=[microsoft.format_graph_person(one) for one in microsoft.list_row_objects(row, "toRecipients")],
            cc=[microsoft.format_graph_person(one) for one in microsoft.list_row_objects(row, "ccRecipients")],
            subject=microsoft.get_row_text(row, "subject"),
            labels=[clean_untrusted_text(one) for one in row.get("categories") or [] if isinstance(one, str)],
            note="" if is_whole else mail.TOO_LARGE,
            **fields,
        ).as_json()

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
                    name = microsoft.get_row_text(one, "name")
                    size = one.get("size")
                    kind = microsoft.get_row_text(one, "contentType")
                    attachments.append(Attachment(name, kind, size if isinstance(size, int) else 0))
                    if "itemattachment" in str(one.get("@odata.type") or "").lower():
                        left_out.append(describe_loss(name or "attachment", "The attached message is not read."))
        except ToolFailed as error:
            if error.code in ACCOUNT_ERRORS:
                raise
            left_out.append(describe_loss("attachments", f"The list of attachments could not be fetched: {error}"))
        return attachments, left_out

    def add_event(self, id: str, row: dict[str, JSON], fields: dict[str, JSON]) -> None:
        """The event that an invitation is about."""
        if not isinstance(row.get("event"), dict):
            path = f"{ME}/messages/{microsoft.segment(id)}"
            try:
                row = {**row, **self.api.get(path, params={"$expand": EVENT}, headers=microsoft.STABLE)}
            except ToolFailed as error:
                if error.code in ACCOUNT_ERRORS:
                    raise
                fields["left_out"] = [
                    *fields["left_out"],
                    describe_loss("event", f"The event could not be fetched: {error}"),
                ]
        event = read_letter({"kind": "text/calendar", "text": write_calendar(row)}, 10_000)
        fields["events"] = event.events
        if event.text:
            fields["text"] = f"{fields['text']}\n\n{event.text}".strip()
            fields["text_length"] += len(event.text)


def preview(row: dict[str, JSON]) -> Reading:
    """The beginning of a message that is too large."""
    text = f"{microsoft.get_row_text(row, 'bodyPreview')}\n[cut: the message is too large to be read]"
    return Reading(text=text, length=len(text), left_out=[describe_loss("message", mail.TOO_LARGE)])


def write_calendar(row: dict[str, JSON]) -> str:
    """Graph's event as a calendar, so that all invitations are read alike."""
    held = row.get("event")
    event = held if isinstance(held, dict) else {}
    kind = microsoft.get_row_text(row, "meetingMessageType").lower()
    method = METHODS.get(kind, "REQUEST")
    uid = microsoft.get_row_text(event, "iCalUId") or microsoft.get_row_text(event, "id")
    subject = microsoft.get_row_text(event, "subject") or microsoft.get_row_text(row, "subject")
    start = event.get("start") or row.get("startDateTime")
    end = event.get("end") or row.get("endDateTime")
    location = microsoft.get_row_text(event.get("location") or row.get("location"), "displayName")
    organizer = microsoft.format_graph_person(event.get("organizer") or row.get("from"))
    attendees = map(microsoft.format_graph_person, microsoft.list_row_objects(event, "attendees"))
    lines = [
        f"METHOD:{method}",
        "BEGIN:VEVENT",
        f"UID:{escape(uid)}",
        f"SUMMARY:{escape(subject)}",
        write_moment("DTSTART", start, event, row),
        write_moment("DTEND", end, event, row),
        f"LOCATION:{escape(location)}",
        f"ORGANIZER:{escape(organizer)}",
        *[f"ATTENDEE:{escape(attendee)}" for attendee in attendees],
        "END:VEVENT",
    ]
    return "\n".join(filter(None, lines))


def write_moment(name: str, moment: JSON, event: dict[str, JSON], row: dict[str, JSON]) -> str:
    time = microsoft.get_row_text(moment, "dateTime")
    if not time:
        return ""
    if event.get("isAllDay") or row.get("isAllDay"):
        return f"{name}:{time[:10].replace('-', '')}"
    zone = microsoft.get_row_text(moment, "timeZone")
    plain = time[:19].replace("-", "").replace(":", "")
    return f"{name}:{plain}Z" if zone == "UTC" else f"{name};TZID={escape(zone).replace(';', '')}:{plain}"


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def headline(row: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "id": row["id"], "thread_id": microsoft.get_row_text(row, "conversationId"),
        "date": microsoft.get_row_text(row, "receivedDateTime"), "from": microsoft.format_graph_person(row.get("from")),
        "subject": microsoft.get_row_text(row, "subject"), "snippet": microsoft.get_row_text(row, "bodyPreview")[:200],
        "labels": row.get("categories") or [],
    }  # fmt: skip


def outgoing(to: list[str], cc: list[str] | None, subject: str, text: str) -> dict[str, JSON]:
    receivers, copies = addresses.read_receivers(to, cc or [])
    return {
        "subject": subject,
        "body": {"contentType": "Text", "content": text},
        "toRecipients": list(map(build_graph_recipient, receivers)),
        "ccRecipients": list(map(build_graph_recipient, copies)),
    }


def build_graph_recipient(one: addresses.Recipient) -> dict[str, JSON]:
    name = {"name": one.name} if one.name else {}
    return {"emailAddress": {"address": one.address, **name}}
