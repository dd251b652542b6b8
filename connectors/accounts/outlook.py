"""Outlook mail through Microsoft Graph: delta of a folder, search, read, send, reply, draft, move."""

from datetime import UTC, datetime
from typing import Any

from agents.tools import ToolFailed
from connectors.content import Attachment, Message, clean, cut
from connectors.models import DeliveredItem

from . import mail, microsoft
from .base import CHARS, LIMIT, TEXT, WORD, Connector, Discovery, matches, operation

JSON = Any
ME = "/v1.0/me"
HEAD = "id,conversationId,receivedDateTime,from,toRecipients,ccRecipients,subject,bodyPreview,categories,hasAttachments"
WHOLE = f"{HEAD},body"
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
        return {"messages": [self.head(row) for row in page.get("value", [])[:limit]]}

    def head(self, row: dict[str, JSON]) -> dict[str, JSON]:
        return self.read_safely(lambda: headline(row), microsoft.id_in(row), microsoft.raw_fields(row))

    @mail.reads_one
    def read(self, id: str, max_chars: int = 8000) -> JSON:
        return self.message(id, max_chars)

    @operation("List the mail folders.", effect="read", access="read")
    def folders(self) -> JSON:
        rows = microsoft.rows(self.api, f"{ME}/mailFolders", {"$top": 100})
        return {"folders": [{"id": row["id"], "name": row.get("displayName", "")} for row in rows]}

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
        return {"id": answer.get("id", id), "folder": folder}

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
        link = ""
        for page in microsoft.pages(self.api, path, params):
            fresh = [row for row in page["value"] if not microsoft.is_removed(row)]
            discovery.add(row["id"] for row in sorted(fresh, key=lambda row: row.get("receivedDateTime", "")))
            link = page.get("@odata.deltaLink") or link
        return {"link": link}

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        message = self.message(item.external_id, max_chars)
        return message if matches(message, filters) else None

    def message(self, id: str, max_chars: int) -> dict[str, JSON]:
        path = f"{ME}/messages/{microsoft.segment(id)}"
        headers = {"Prefer": f'{microsoft.STABLE["Prefer"]}, outlook.body-content-type="text"'}
        try:
            row = self.api.get(path, params={"$select": WHOLE}, headers=headers)
        except ToolFailed as error:
            if error.code != "too_large":
                raise
            row = self.api.get(path, params={"$select": HEAD}, headers=headers)
            row["body"] = None
        return self.read_safely(lambda: self.typed(row, max_chars), id, microsoft.raw_fields(row))

    def typed(self, row: dict[str, JSON], max_chars: int) -> dict[str, JSON]:
        is_whole = row.get("body") is not None
        preview = f"{clean(row.get('bodyPreview') or '')}\n[cut: the message is too large to be read]"
        text, length, is_cut = microsoft.text_of(row["body"], max_chars) if is_whole else cut(preview, max_chars)
        return Message(
            id=row["id"],
            thread_id=row.get("conversationId") or "",
            date=row.get("receivedDateTime") or "",
            sender=microsoft.person(row.get("from")),
            to=[microsoft.person(one) for one in row.get("toRecipients") or []],
            cc=[microsoft.person(one) for one in row.get("ccRecipients") or []],
            subject=clean(row.get("subject") or ""),
            text=text,
            text_length=length,
            is_cut=is_cut or not is_whole,
            labels=row.get("categories") or [],
            attachments=self.attachments(row),
            note="" if is_whole else mail.TOO_LARGE,
        ).as_json()

    def attachments(self, row: dict[str, JSON]) -> list[Attachment]:
        if not row.get("hasAttachments"):
            return []
        path = f"{ME}/messages/{microsoft.segment(row['id'])}/attachments"
        listed = microsoft.rows(self.api, path, {"$select": "name,contentType,size"})
        return [
            Attachment(clean(one.get("name") or ""), one.get("contentType") or "", int(one.get("size") or 0))
            for one in listed
        ]


def headline(row: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "id": row["id"], "thread_id": row.get("conversationId") or "", "date": row.get("receivedDateTime") or "",
        "from": microsoft.person(row.get("from")), "subject": clean(row.get("subject") or ""),
        "snippet": clean(row.get("bodyPreview") or "")[:200], "labels": row.get("categories") or [],
    }  # fmt: skip


def outgoing(to: list[str], cc: list[str] | None, subject: str, text: str) -> dict[str, JSON]:
    def people(addresses: list[str] | None) -> list[dict[str, JSON]]:
        return [{"emailAddress": {"address": address}} for address in addresses or []]

    return {
        "subject": subject,
        "body": {"contentType": "Text", "content": text},
        "toRecipients": people(to),
        "ccRecipients": people(cc),
    }
