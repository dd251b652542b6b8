"""Gmail's documented endpoints on loopback, with the faults that no emulator offers."""

import base64
import re
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import Any

from .loopback import Answer, Asked, Tokens

ME = "/gmail/v1/users/me"


class FakeGmail(Tokens):
    """One mailbox. `deliver()` puts a message in; `forget_history()` makes every cursor expire."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str]] = []
        self.history_from = 0
        self.clock = 1000
        self.sent: list[Any] = []
        self.page_size = 500
        for method, path, handler in [
            ("GET", f"{ME}/profile", self.profile),
            ("GET", f"{ME}/messages", self.listed),
            ("GET", f"{ME}/history", self.changes),
            ("GET", f"{ME}/labels", self.labels),
            ("GET", f"{ME}/messages/([^/]+)", self.one),
            ("POST", f"{ME}/messages/send", self.send),
            ("POST", f"{ME}/drafts", self.draft),
            ("POST", f"{ME}/messages/([^/]+)/modify", self.modify),
        ]:
            self.routes.append((method, re.compile(path), handler))

    def deliver(
        self, subject: str = "Hello", text: str = "Good day.", *, days_ago: float = 0,
        labels: tuple[str, ...] = ("INBOX",), payload: dict[str, Any] | None = None, **more: Any,
    ) -> str:  # fmt: skip
        self.clock += 1
        identity = f"m{self.clock}"
        at = datetime.now(UTC) - timedelta(days=days_ago)
        headers = {"From": "Dora <dora@example.net>", "To": "alice@example.org", "Subject": subject,
                   "Message-ID": f"<{identity}@example.net>"}  # fmt: skip
        part = payload or {"mimeType": "text/plain", "body": {"data": coded(text.encode()), "size": len(text)}}
        part = {**part, "headers": [{"name": k, "value": v} for k, v in headers.items()] + part.get("headers", [])}
        self.messages[identity] = {
            "id": identity, "threadId": f"t{self.clock}", "labelIds": list(labels), "snippet": text[:80],
            "internalDate": str(int(at.timestamp() * 1000)), "payload": part, "historyId": str(self.clock), **more,
        }  # fmt: skip
        self.history.append((self.clock, identity))
        return identity

    def forget_history(self) -> None:
        self.history_from = self.clock + 1

    def profile(self, asked: Asked) -> Any:
        self.require_token(asked)
        return {"emailAddress": "alice@example.org", "historyId": str(self.clock)}

    def listed(self, asked: Asked) -> Any:
        self.require_token(asked)
        rows = sorted(
            self.messages.values(), key=lambda row: (int(row["internalDate"]), int(row["historyId"])), reverse=True
        )
        if after := re.search(r"after:(\d+)", asked.one("q")):
            rows = [row for row in rows if int(row["internalDate"]) >= int(after[1]) * 1000]
        rows = [row for row in rows if set(asked.query.get("labelIds", [])) <= set(row["labelIds"])]
        return self.page(asked, "messages", [{"id": row["id"], "threadId": row["threadId"]} for row in rows])

    def changes(self, asked: Asked) -> Any:
        self.require_token(asked)
        start = int(asked.one("startHistoryId"))
        if start < self.history_from:
            raise Answer(404, {"error": {"code": 404, "message": "Requested entity was not found.",
                                         "status": "NOT_FOUND"}})  # fmt: skip
        label = asked.one("labelId")
        rows = [
            {"id": str(at), "messagesAdded": [{"message": {"id": one, "labelIds": self.messages[one]["labelIds"]}}]}
            for at, one in self.history
            if at > start and one in self.messages and (not label or label in self.messages[one]["labelIds"])
        ]
        return {**self.page(asked, "history", rows), "historyId": str(self.clock)}

    def page(self, asked: Asked, name: str, rows: list[Any]) -> dict[str, Any]:
        size = min(self.page_size, int(asked.one("maxResults", "100")))
        begin = int(asked.one("pageToken", "0"))
        page: dict[str, Any] = {name: rows[begin : begin + size]}
        if begin + size < len(rows):
            page["nextPageToken"] = str(begin + size)
        return page

    def one(self, asked: Asked, identity: str) -> Any:
        self.require_token(asked)
        if identity not in self.messages:
            raise Answer(404, {"error": {"code": 404, "message": "Requested entity was not found."}})
        row = self.messages[identity]
        if asked.one("format") == "metadata":
            headers = row["payload"]["headers"]
            return {**row, "payload": {"mimeType": row["payload"]["mimeType"], "headers": headers}}
        return row

    def labels(self, asked: Asked) -> Any:
        self.require_token(asked)
        return {"labels": [{"id": "INBOX", "name": "INBOX"}, {"id": "Label_1", "name": "Work"}]}

    def send(self, asked: Asked) -> Any:
        self.require_token(asked)
        mail = message_from_bytes(base64.urlsafe_b64decode(asked.json["raw"]))
        self.sent.append((mail, asked.json.get("threadId")))
        return {"id": f"s{len(self.sent)}", "threadId": asked.json.get("threadId") or f"ts{len(self.sent)}"}

    def draft(self, asked: Asked) -> Any:
        self.require_token(asked)
        return {"id": "d1", "message": {"id": "md1"}}

    def modify(self, asked: Asked, identity: str) -> Any:
        self.require_token(asked)
        row = self.messages[identity]
        kept = [label for label in row["labelIds"] if label not in asked.json["removeLabelIds"]]
        row["labelIds"] = kept + asked.json["addLabelIds"]
        return {"id": identity, "labelIds": row["labelIds"]}


def coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
