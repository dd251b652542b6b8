"""Microsoft Teams through Graph: channels by delta, chats by date, search, read, send, reply."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from agents.tools import RetryTool, ToolFailed
from connectors.content import Message
from connectors.models import DeliveredItem

from . import cards, microsoft
from .base import CHARS, LIMIT, OF_THE_CURSOR, OVERLAP, TEXT, WORD, WORDS, Connector, Discovery, matches, operation
from .http import find_rows
from .letters import Tree, read_letter

JSON = Any
V1 = "/v1.0"
PLACE = {**WORD, "description": "A channel as team/channel (their ids), or a chat's id."}
FILTERS: dict[str, JSON] = {
    "channels": {**WORDS, "description": "Only these channels, each as team/channel; all of yours unless given."},
    "chats": {"type": "boolean", "default": False, "description": "Include your chats."},
    "senders": {**WORDS, "description": "Only messages from people whose name contains one of these."},
    "query": {**TEXT, "maxLength": 1000, "description": "Words that the message must contain."},
}


class Teams(Connector):
    provider = "teams"

    @operation(
        "New messages of channels (and chats) since the last call, each once. The first call looks back seven days.",
        effect="read", access="read", **FILTERS, limit=LIMIT, max_chars=CHARS,
    )  # fmt: skip
    def fetch_new(self, call_id: str, limit: int = 50, max_chars: int = 8000, **filters: JSON) -> JSON:
        return self.sync(call_id, limit, max_chars, filters)

    @operation("List your teams and their channels.", effect="read", access="read")
    def channels(self) -> JSON:
        return {"channels": list(self.all_channels())}

    @operation(
        "Search messages by words.", effect="read", access="read", required=("query",),
        query={**TEXT, "maxLength": 1000}, limit={**LIMIT, "maximum": 25, "default": 25},
    )  # fmt: skip
    def search(self, query: str, limit: int = 25) -> JSON:
        body = {"entityTypes": ["chatMessage"], "query": {"queryString": query}, "from": 0, "size": limit}
        answer = self.api.post(f"{V1}/search/query", {"requests": [body]}, access="read", may_repeat=True)
        messages = []
        # Microsoft Search answers with a list for each request, of boxes, of hits.
        for value in find_rows(answer, "value", key=""):
            for box in find_rows(value, "hitsContainers", key=""):
                for hit in find_rows(box, "hits", key=""):
                    messages.append(self.head(hit))
        return {"messages": messages}

    @operation(
        "Read one message and its replies.", effect="read", access="read", required=("place", "id"),
        place=PLACE, id=WORD, max_chars=CHARS,
    )  # fmt: skip
    def read(self, place: str, id: str, max_chars: int = 8000) -> JSON:
        path = f"{build_messages_path(place)}/{microsoft.segment(id)}"
        message = self.typed_safely(self.one(path), place, max_chars)
        # Only messages of channels have replies.
        if "/" not in place:
            return message
        replies = []
        for row in microsoft.iterate_graph_rows(self.api, f"{path}/replies", {"$top": 50}):
            if not microsoft.is_removed(row):
                replies.append(self.typed_safely(row, place, max_chars))
        message["replies"] = replies
        return message

    @operation(
        "Send a message to a channel or a chat.", effect="destructive", access="send", required=("place", "text"),
        place=PLACE, text=TEXT,
    )  # fmt: skip
    def send(self, place: str, text: str) -> JSON:
        path = build_messages_path(place)
        answer = self.api.post(path, outgoing(text), access="send")
        return {"id": answer.get("id"), "sent": True}

    @operation(
        "Reply to a message in a channel.", effect="destructive", access="send", required=("place", "id", "text"),
        place=PLACE, id=WORD, text=TEXT,
    )  # fmt: skip
    def reply(self, place: str, id: str, text: str) -> JSON:
        if "/" not in place:
            raise RetryTool("A chat has no replies: send a new message to it.")
        path = f"{build_messages_path(place)}/{microsoft.segment(id)}/replies"
        answer = self.api.post(path, outgoing(text), access="send")
        return {"id": answer.get("id"), "sent": True}

    def one(self, path: str) -> dict[str, JSON]:
        row: dict[str, JSON] = self.api.get(path)
        if not isinstance(row.get("id"), str):
            raise ToolFailed(f"{self.api.title} sent an answer that is no message.", code="bad_answer")
        return row

    def head(self, hit: dict[str, JSON]) -> dict[str, JSON]:
        row = hit.get("resource")
        id = microsoft.get_graph_id(row)
        fields = microsoft.raw_fields(row)
        return self.read_safely(lambda: found_by_search(hit), id, fields)

    def typed_safely(self, row: dict[str, JSON], place: str, max_chars: int) -> dict[str, JSON]:
        id = microsoft.get_graph_id(row)
        fields = microsoft.raw_fields(row)
        return self.read_safely(lambda: build_teams_message(row, place, max_chars), id, fields, place=place)

    def check(self) -> str:
        me = self.api.get(f"{V1}/me")
        address = me.get("mail") or me.get("userPrincipalName") or ""
        return str(address)

    # -- sync --------------------------------------------------------------------------------------------------------

    def walk(
        self, cursor: dict[str, JSON], filters: dict[str, JSON], since: datetime, discovery: Discovery
    ) -> dict[str, JSON]:
        """Each place has its own delta link; one that expired is scanned by date, without affecting
        the others.
        """
        links: dict[str, str] = dict(cursor.get("links") or {})
        for place in self.places(filters):
            link = links.get(place, "")
            try:
                links[place] = self.walk_place(place, link, since, discovery)
            except ToolFailed as error:
                if not link or error.code not in OF_THE_CURSOR:
                    raise
                links[place] = self.walk_place(place, "", since, discovery)
        return {"links": links}

    def places(self, filters: dict[str, JSON]) -> list[str]:
        places = list(filters.get("channels") or [])
        if not places:
            places = [f"{row['team_id']}/{row['channel_id']}" for row in self.all_channels()]
        if filters.get("chats"):
            chats = microsoft.iterate_graph_rows(self.api, f"{V1}/me/chats")
            places += [row["id"] for row in chats]
        return places

    def walk_place(self, place: str, link: str, since: datetime, discovery: Discovery) -> str:
        """The link or the time from which the next scan of the place goes on."""
        if "/" not in place:
            return self.walk_chat(place, link, since, discovery)
        path = link
        params = None
        if not link:
            path = f"{build_messages_path(place)}/delta"
            params = {"$filter": f"lastModifiedDateTime gt {stamp(since)}"}
        links = microsoft.Links()
        for page in microsoft.pages(self.api, path, params):
            rows = find_rows(page, "value")
            discovery.add(identities(rows, place), place)
            links.note(page)
        return links.cursor

    def walk_chat(self, chat: str, last: str, since: datetime, discovery: Discovery) -> str:
        """A chat has no delta query: scan by date from a day before the last message; the ledger
        removes duplicates.
        """
        begin = since
        if last:
            begin = max(since, read_time(last, since) - OVERLAP)
        params = {
            "$top": 50,
            "$orderby": "lastModifiedDateTime desc",
            "$filter": f"lastModifiedDateTime gt {stamp(begin)}",
        }
        fresh = list(microsoft.iterate_graph_rows(self.api, build_messages_path(chat), params))
        discovery.add(identities(fresh, chat), chat)
        # Times in this format sort like texts.
        dates = [microsoft.get_row_text(row, "lastModifiedDateTime") for row in fresh]
        return max([*dates, last])

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        identity = item.external_id.rpartition("|")[2]
        path = f"{build_messages_path(item.place)}/{microsoft.segment(identity)}"
        row = self.one(path)
        # Other types say that somebody joined, or that a call ended.
        kind = row.get("messageType") or "message"
        if kind != "message" or microsoft.is_removed(row):
            return None
        message = self.typed_safely(row, item.place, max_chars)
        if not matches(message, filters):
            return None
        return message

    def all_channels(self) -> Iterator[dict[str, str]]:
        for team in microsoft.iterate_graph_rows(self.api, f"{V1}/me/joinedTeams"):
            yield from self.channels_of(team)

    def channels_of(self, team: dict[str, JSON]) -> Iterator[dict[str, str]]:
        path = f"{V1}/teams/{microsoft.segment(team['id'])}/channels"
        try:
            for row in microsoft.iterate_graph_rows(self.api, path):
                yield {
                    "team_id": team["id"],
                    "team": microsoft.get_row_text(team, "displayName"),
                    "channel_id": row["id"],
                    "channel": microsoft.get_row_text(row, "displayName"),
                }
        except ToolFailed as error:
            # A team that was just archived must not hide the others.
            if error.code not in ("not_found", "forbidden"):
                raise


def build_messages_path(place: str) -> str:
    team, _, channel = place.rpartition("/")
    if not team:
        chat = microsoft.segment(channel)
        return f"{V1}/chats/{chat}/messages"
    return f"{V1}/teams/{microsoft.segment(team)}/channels/{microsoft.segment(channel)}/messages"


def identities(rows: list[dict[str, JSON]], place: str) -> list[str]:
    """Ids are unique only within their place. Oldest first."""
    fresh = [row for row in rows if not microsoft.is_removed(row)]
    oldest_first = microsoft.sort_rows(fresh, "createdDateTime")
    return [f"{place}|{row['id']}" for row in oldest_first]


def stamp(at: datetime) -> str:
    """The time as Graph writes it, in milliseconds."""
    text = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text[:-3] + "Z"


def read_time(text: str, default: datetime) -> datetime:
    """A time that the service sent; the default if it cannot be read."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return default
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return at


def build_teams_message(row: dict[str, JSON], place: str, max_chars: int) -> dict[str, JSON]:
    parts, files, left_out = cards.describe_attachments(row)
    body = microsoft.describe_body(row.get("body"))
    tree: Tree = {"kind": "multipart/mixed", "parts": [body, *parts]}
    fields = read_letter(tree, max_chars).as_fields()
    fields["attachments"] = files
    fields["left_out"] = [*fields["left_out"], *left_out]
    message = Message(
        id=row["id"],
        thread_id=microsoft.get_row_text(row, "replyToId") or row["id"],
        date=microsoft.get_row_text(row, "createdDateTime"),
        sender=cards.sender_name(row.get("from")),
        to=[],
        subject=microsoft.get_row_text(row, "subject"),
        place=place,
        **fields,
    )
    return message.as_json()


def found_by_search(hit: dict[str, JSON]) -> dict[str, JSON]:
    row = hit.get("resource")
    if not isinstance(row, dict):
        row = {}
    channel = row.get("channelIdentity")
    team = microsoft.get_row_text(channel, "teamId")
    place = microsoft.get_row_text(row, "chatId")
    if team:
        place = f"{team}/{microsoft.get_row_text(channel, 'channelId')}"
    sender = row.get("from")
    summary = microsoft.get_row_text(hit, "summary")
    return {
        "id": microsoft.get_row_text(row, "id"),
        "place": place,
        "date": microsoft.get_row_text(row, "createdDateTime"),
        "from": cards.sender_name(sender) or microsoft.format_graph_person(sender),
        "snippet": summary[:300],
    }


def outgoing(text: str) -> dict[str, JSON]:
    return {"body": {"contentType": "text", "content": text}}
