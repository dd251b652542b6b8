"""Subscriptions to resources and to the lists. A client of an earlier version subscribes in its session and listens
with GET; one of 2026-07-28 does both with `subscriptions/listen`.

A stream looks at what it watches when an event of a run or a change of an agent, a chain, a function or a team is
announced, and with each heartbeat: an announcement can be lost, and new files and runs have none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agents.models.audit import changes_of
from connectors.mcp.messages import notification
from connectors.mcp.session import PREFIX
from gateway.sse import HEARTBEAT, sse
from plumbing.broker.listener import LISTENER
from plumbing.threads import in_thread
from runs.events.record import events_of

from . import catalogue, own_resources, resources, sessions
from .content import SCHEME
from .protocol import PARAMS, REQUEST, Asked, Fault

JSON = Any
MOST = 100  # of one session or stream
PAUSE_S = 0.5  # between two looks, however much is announced
QUIET_S = 15.0
LISTS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
OFFERED = [changes_of(kind) for kind in ("agent", "chain", "storedfunction", "team", "membership", "invitation")]
RETRY = b"retry: 3000\n\n"
SUBSCRIPTION = f"{PREFIX}/subscriptionId"


def subscribe(asked: Asked) -> dict[str, JSON]:
    """Raises Fault for what this person cannot read."""
    uri = asked.text("uri")
    if not asked.session:
        raise Fault(REQUEST, "Subscriptions belong to a session: send Mcp-Session-Id.")
    if not versions(asked, [uri]):
        raise resources.missing(asked, uri)
    known = sessions.subscribed(asked.session)
    if uri not in known and len(known) >= MOST:
        raise Fault(PARAMS, f"A session can subscribe to {MOST} resources.")
    sessions.set_subscribed(asked.session, [*(one for one in known if one != uri), uri])
    return {}


def unsubscribe(asked: Asked) -> dict[str, JSON]:
    uri = asked.text("uri")
    if asked.session:
        sessions.set_subscribed(asked.session, [one for one in sessions.subscribed(asked.session) if one != uri])
    return {}


def versions(asked: Asked, uris: list[str]) -> dict[str, JSON]:
    """What each of these resources has at the moment that a change would change; those that exist for this person."""
    ids = {uri: resources.id_in(uri.removeprefix(SCHEME).split("/")[1]) for uri in uris if is_ours(uri)}
    runs = resources.runs(asked).filter(pk__in=[id for id in ids.values() if id])
    found: dict[JSON, JSON] = dict(runs.values_list("pk", "last_event"))
    files = [id for uri, id in ids.items() if id and uri.startswith(f"{SCHEME}files/")]
    if files:  # a file never changes
        found |= dict.fromkeys(resources.files(asked).filter(pk__in=files).values_list("pk", flat=True), 0)
    known = {uri: found[id] for uri, id in ids.items() if id in found}
    return known | own_resources.versions(asked, [uri for uri in uris if not is_ours(uri)])


def states(asked: Asked, lists: Collection[str]) -> dict[str, JSON]:
    """What each of these lists has at the moment that a change would change."""
    offered = catalogue.state(asked) if lists else {}
    found: dict[str, JSON] = {"tools": offered, "prompts": offered}
    if "resources" in lists:
        found["resources"] = [offered[catalogue.FUNCTION], resources.newest(asked)]
    return {name: found[name] for name in lists}


def is_ours(uri: str) -> bool:
    return uri.startswith(SCHEME) and "/" in uri.removeprefix(SCHEME)


# -- the stream -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """A stream of notifications. `uris` gives what it watches at the moment; `subscription` is the id of 2026-07-28."""

    asked: Asked
    uris: Callable[[], list[str]]
    lists: Collection[str] = tuple(LISTS)
    subscription: JSON = None
    seen: dict[str, JSON] = field(default_factory=dict)

    def about(self, method: str, params: dict[str, JSON]) -> dict[str, JSON]:
        if self.subscription is not None:
            params = {**params, "_meta": {SUBSCRIPTION: self.subscription}}
        return notification(method, params)

    def changed(self) -> list[dict[str, JSON]]:
        """The notifications since the last look; what is new to the stream has not changed."""
        uris = self.uris()
        now = (versions(self.asked, uris) if uris else {}) | states(self.asked, self.lists)
        before, self.seen = self.seen, now
        return [self.news(name) for name, one in now.items() if name in before and before[name] != one]

    def news(self, name: str) -> dict[str, JSON]:
        if name in LISTS:
            return self.about(f"notifications/{name}/list_changed", {})
        return self.about("notifications/resources/updated", {"uri": name})

    def channels(self) -> set[bytes]:
        """Where changes of what was last seen are announced."""
        ids = {resources.id_in(uri.split("/")[3]) for uri in self.seen if uri.startswith(f"{SCHEME}runs/")}
        own = {sessions.news_of(self.asked.session)} if self.asked.session else set()
        return {*OFFERED, *own, *(events_of(id) for id in ids)}


class Ear:
    """Hears the announcements on the channels of a stream."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.channels: set[bytes] = set()

    def listen_to(self, channels: set[bytes]) -> None:
        for one in channels - self.channels:
            LISTENER.subscribe(one, self.hear, loop=self.loop)
        for one in self.channels - channels:
            LISTENER.unsubscribe(one, self.hear)
        self.channels = channels

    def hear(self, message: bytes | None) -> None:
        self.news.set()

    async def wait(self, seconds: float) -> bool:
        """Whether something was announced within so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), seconds)
        is_news = self.news.is_set()
        self.news.clear()
        return is_news


def of_session(asked: Asked) -> Watch:
    return Watch(asked, lambda: sessions.subscribed(asked.session))


def listen(asked: Asked, headers: Any) -> Watch:
    """`subscriptions/listen` of 2026-07-28. Raises Fault."""
    given = asked.object("notifications")
    wanted = given.get("resourceSubscriptions") or []
    if not isinstance(wanted, list) or len(wanted) > MOST or not all(isinstance(one, str) for one in wanted):
        raise Fault(PARAMS, f"“resourceSubscriptions” must be a list of at most {MOST} addresses.")
    known = [*versions(asked, wanted)]
    lists = [name for name, field in LISTS.items() if given.get(field) is True]
    return Watch(asked, lambda: known, lists, subscription=asked.id)


async def stream_of(watch: Watch) -> AsyncIterator[bytes]:
    yield RETRY
    if watch.subscription is not None:
        uris = {"resourceSubscriptions": watch.uris()} if watch.uris() else {}
        granted = {**uris, **{LISTS[name]: True for name in watch.lists}}
        yield sse(watch.about("notifications/subscriptions/acknowledged", {"notifications": granted}))
    ear = Ear()
    try:
        while True:
            for one in await in_thread(watch.changed):
                yield sse(one)
            ear.listen_to(watch.channels())
            if await ear.wait(QUIET_S):
                await asyncio.sleep(PAUSE_S)
            else:
                yield HEARTBEAT
    finally:
        ear.listen_to(set())
