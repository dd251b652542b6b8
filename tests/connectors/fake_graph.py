"""Microsoft Graph's documented mail and Teams endpoints on loopback: paging, delta links, 410 for an old link."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from .loopback import Answer, Asked, Tokens


class FakeGraph(Tokens):
    """One mailbox with an inbox, one team with channels, one chat. `forget_deltas()` makes every link expire."""

    def __init__(self) -> None:
        super().__init__()
        self.mail: dict[str, dict[str, Any]] = {}
        self.channels: dict[str, list[dict[str, Any]]] = {"t1/19:general@thread.tacv2": []}
        self.chats: dict[str, list[dict[str, Any]]] = {"19:chat@unq.gbl.spaces": []}
        self.sent: list[Any] = []
        self.page_size = 10
        self.generation = 0
        self.clock = 0
        place = r"/v1.0/teams/([^/]+)/channels/([^/]+)/messages"
        for method, path, handler in [
            ("GET", "/v1.0/me", self.me),
            ("GET", "/v1.0/me/mailFolders", self.folders),
            ("GET", "/v1.0/me/mailFolders/([^/]+)/messages/delta", self.mail_delta),
            ("GET", "/v1.0/me/messages", self.mail_search),
            ("GET", "/v1.0/me/messages/([^/]+)", self.mail_one),
            ("GET", "/v1.0/me/messages/([^/]+)/attachments", self.mail_attachments),
            ("POST", "/v1.0/me/sendMail", self.send_mail),
            ("POST", "/v1.0/me/messages", self.draft),
            ("POST", "/v1.0/me/messages/([^/]+)/reply", self.reply_mail),
            ("POST", "/v1.0/me/messages/([^/]+)/move", self.move),
            ("GET", "/v1.0/me/joinedTeams", self.teams),
            ("GET", "/v1.0/teams/([^/]+)/channels", self.team_channels),
            ("GET", f"{place}/delta", self.channel_delta),
            ("GET", f"{place}/([^/]+)", self.channel_one),
            ("GET", f"{place}/([^/]+)/replies", self.channel_replies),
            ("POST", place, self.channel_send),
            ("POST", f"{place}/([^/]+)/replies", self.channel_reply),
            ("GET", "/v1.0/me/chats", self.my_chats),
            ("GET", "/v1.0/chats/([^/]+)/messages", self.chat_list),
            ("GET", "/v1.0/chats/([^/]+)/messages/([^/]+)", self.chat_one),
            ("POST", "/v1.0/chats/([^/]+)/messages", self.chat_send),
            ("POST", "/v1.0/search/query", self.search),
        ]:
            self.routes.append((method, re.compile(path), self.guarded(handler)))

    def guarded(self, handler: Any) -> Any:
        def checked(asked: Asked, *groups: str) -> Any:
            self.require_token(asked)
            return handler(asked, *groups)

        return checked

    def deliver(self, subject: str = "Hello", text: str = "Good day.", *, days_ago: float = 0, **more: Any) -> str:
        self.clock += 1
        identity = f"AAMk{self.clock:04}="
        at = datetime.now(UTC) - timedelta(days=days_ago)
        self.mail[identity] = {
            "id": identity, "conversationId": "c1", "receivedDateTime": stamp(at), "subject": subject,
            "from": {"emailAddress": {"name": "Dora", "address": "dora@example.net"}}, "toRecipients": [],
            "ccRecipients": [], "bodyPreview": text[:80], "categories": [], "hasAttachments": False,
            "body": {"contentType": "text", "content": text}, "seq": self.clock, **more,
        }  # fmt: skip
        return identity

    def post(
        self, text: str = "Hi all", *, place: str = "t1/19:general@thread.tacv2", days_ago: float = 0, **more: Any
    ) -> str:
        self.clock += 1
        at = stamp(datetime.now(UTC) - timedelta(days=days_ago))
        row = {
            "id": f"16{self.clock:06}", "createdDateTime": at, "lastModifiedDateTime": at, "messageType": "message",
            "from": {"user": {"displayName": "Dora"}}, "body": {"contentType": "html", "content": f"<p>{text}</p>"},
            "attachments": [], "seq": self.clock, **more,
        }  # fmt: skip
        (self.channels if "/" in place else self.chats)[place].append(row)
        return row["id"]

    def forget_deltas(self) -> None:
        self.generation += 1

    # -- mail --------------------------------------------------------------------------------------------------------

    def me(self, asked: Asked) -> Any:
        return {"mail": "alice@example.org", "userPrincipalName": "alice@example.org"}

    def folders(self, asked: Asked) -> Any:
        return {"value": [{"id": "inbox", "displayName": "Inbox"}]}

    def mail_delta(self, asked: Asked, folder: str) -> Any:
        since = re.search(r"ge (\S+)", asked.one("$filter"))
        rows = [row for row in self.mail.values() if not since or row["receivedDateTime"] >= since[1]]
        return self.delta(asked, rows)

    def delta(self, asked: Asked, rows: list[dict[str, Any]]) -> Any:
        """Rows after the token's number, a page at a time; then a link that knows how far it came."""
        generation, seen, skip = (int(word) for word in asked.one("$deltatoken", f"{self.generation}-0-0").split("-"))
        if generation != self.generation:
            raise Answer(410, {"error": {"code": "syncStateNotFound", "message": "The sync state was not found."}})
        fresh = sorted((row for row in rows if row["seq"] > seen), key=lambda row: row["seq"])
        page = fresh[skip : skip + self.page_size]
        found = {"value": [{key: value for key, value in row.items() if key != "seq"} for row in page]}
        base = f"{self.url}{asked.path}?$deltatoken={generation}"
        if skip + self.page_size < len(fresh):
            return {**found, "@odata.nextLink": f"{base}-{seen}-{skip + self.page_size}"}
        return {**found, "@odata.deltaLink": f"{base}-{self.clock}-0"}

    def mail_search(self, asked: Asked) -> Any:
        words = asked.one("$search").strip('"').lower()
        return {"value": [row for row in self.mail.values() if words in row["body"]["content"].lower()]}

    def mail_one(self, asked: Asked, identity: str) -> Any:
        if identity not in self.mail:
            raise Answer(404, {"error": {"code": "ErrorItemNotFound", "message": "The object was not found."}})
        wanted = asked.one("$select").split(",")
        return {key: value for key, value in self.mail[identity].items() if key in wanted}

    def mail_attachments(self, asked: Asked, identity: str) -> Any:
        return {"value": [{"name": "bill.pdf", "contentType": "application/pdf", "size": 1234}]}

    def send_mail(self, asked: Asked) -> Any:
        self.sent.append(asked.json)
        return Answer(202)

    def draft(self, asked: Asked) -> Any:
        return Answer(201, {"id": "draft="})

    def reply_mail(self, asked: Asked, identity: str) -> Any:
        self.sent.append((identity, asked.json))
        return Answer(202)

    def move(self, asked: Asked, identity: str) -> Any:
        return Answer(201, {"id": identity})

    # -- Teams -------------------------------------------------------------------------------------------------------

    def teams(self, asked: Asked) -> Any:
        return {"value": [{"id": team, "displayName": "Team"} for team in {key.split("/")[0] for key in self.channels}]}

    def team_channels(self, asked: Asked, team: str) -> Any:
        mine = [key.split("/")[1] for key in self.channels if key.startswith(f"{team}/")]
        return {"value": [{"id": channel, "displayName": channel} for channel in mine]}

    def channel(self, team: str, channel: str) -> list[dict[str, Any]]:
        if f"{team}/{channel}" not in self.channels:
            raise Answer(404, {"error": {"code": "NotFound", "message": "No such channel."}})
        return self.channels[f"{team}/{channel}"]

    def channel_delta(self, asked: Asked, team: str, channel: str) -> Any:
        since = re.search(r"gt (\S+)", asked.one("$filter"))
        rows = [row for row in self.channel(team, channel) if not since or row["lastModifiedDateTime"] > since[1]]
        return self.delta(asked, rows)

    def channel_one(self, asked: Asked, team: str, channel: str, identity: str) -> Any:
        return found(self.channel(team, channel), identity)

    def channel_replies(self, asked: Asked, team: str, channel: str, identity: str) -> Any:
        return {"value": [{"id": "r1", "body": {"contentType": "text", "content": "a reply"}, "replyToId": identity}]}

    def channel_send(self, asked: Asked, team: str, channel: str) -> Any:
        self.sent.append((f"{team}/{channel}", asked.json))
        return Answer(201, {"id": "new1"})

    def channel_reply(self, asked: Asked, team: str, channel: str, identity: str) -> Any:
        self.sent.append((f"{team}/{channel}", identity, asked.json))
        return Answer(201, {"id": "new2"})

    def my_chats(self, asked: Asked) -> Any:
        return {"value": [{"id": chat} for chat in self.chats]}

    def chat_list(self, asked: Asked, chat: str) -> Any:
        since = re.search(r"gt (\S+)", asked.one("$filter"))
        return {"value": [row for row in self.chats[chat] if not since or row["lastModifiedDateTime"] > since[1]]}

    def chat_one(self, asked: Asked, chat: str, identity: str) -> Any:
        return found(self.chats[chat], identity)

    def chat_send(self, asked: Asked, chat: str) -> Any:
        self.sent.append((chat, asked.json))
        return Answer(201, {"id": "new3"})

    def search(self, asked: Asked) -> Any:
        hit = {"summary": "found it", "resource": {"id": "1", "chatId": "19:chat@unq.gbl.spaces"}}
        return {"value": [{"hitsContainers": [{"hits": [hit]}]}]}


def found(rows: list[dict[str, Any]], identity: str) -> dict[str, Any]:
    for row in rows:
        if row["id"] == identity:
            return row
    raise Answer(404, {"error": {"code": "NotFound", "message": "No such message."}})


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
