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

from agents.models.audit import change_channel
from connectors.mcp.messages import notification
from connectors.mcp.session import PREFIX
from gateway.sse import HEARTBEAT, sse
from plumbing.broker.listener import LISTENER
from plumbing.threads import in_thread
from runs.events.record import name_event_channel

from . import catalogue, own_resources, resources, sessions
from .content import SCHEME
from .protocol import PARAMS, REQUEST, Fault, RpcRequest

JSON = Any
# Resources of one session or stream.
MOST = 100
# Between two looks, however much is announced.
PAUSE_S = 0.5
QUIET_S = 15.0
LISTS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
OFFERED = [change_channel(kind) for kind in ("agent", "chain", "storedfunction", "team", "membership", "invitation")]
RETRY = b"retry: 3000\n\n"
SUBSCRIPTION = f"{PREFIX}/subscriptionId"


def subscribe(rpc: RpcRequest) -> dict[str, JSON]:
    """Raises Fault for what this person cannot read."""
    uri = rpc.text("uri")
    if not rpc.session:
        raise Fault(REQUEST, "Subscriptions belong to a session: send Mcp-Session-Id.")
    # Nothing may be learned from what is announced of a resource that the person cannot read.
    if not find_resource_versions(rpc, [uri]):
        raise resources.refuse_missing_resource(rpc, uri)
    uris = sessions.list_subscribed_uris(rpc.session)
    if uri not in uris and len(uris) >= MOST:
        raise Fault(PARAMS, f"A session can subscribe to {MOST} resources.")
    others = [one for one in uris if one != uri]
    sessions.set_subscribed(rpc.session, [*others, uri])
    return {}


def unsubscribe(rpc: RpcRequest) -> dict[str, JSON]:
    uri = rpc.text("uri")
    if rpc.session:
        uris = sessions.list_subscribed_uris(rpc.session)
        sessions.set_subscribed(rpc.session, [one for one in uris if one != uri])
    return {}


def find_resource_versions(rpc: RpcRequest, uris: list[str]) -> dict[str, JSON]:
    """What each of these resources has at the moment that a change would change; those that exist for this person."""
    ids: dict[str, JSON] = {}
    file_ids = []
    other_uris = []
    for uri in uris:
        if not is_muster_uri(uri):
            other_uris.append(uri)
            continue
        kind, id_text = uri.removeprefix(SCHEME).split("/")[:2]
        id = resources.parse_resource_id(id_text)
        if id is None:
            continue
        ids[uri] = id
        if kind == "files":
            file_ids.append(id)
    runs = resources.runs(rpc).filter(pk__in=list(ids.values()))
    numbers: dict[JSON, JSON] = dict(runs.values_list("pk", "last_event"))
    # A file never changes.
    if file_ids:
        files = resources.files(rpc).filter(pk__in=file_ids)
        numbers |= dict.fromkeys(files.values_list("pk", flat=True), 0)
    versions = {uri: numbers[id] for uri, id in ids.items() if id in numbers}
    return versions | own_resources.find_source_versions(rpc, other_uris)


def states(rpc: RpcRequest, lists: Collection[str]) -> dict[str, JSON]:
    """What each of these lists has at the moment that a change would change."""
    offered = catalogue.state(rpc) if lists else {}
    state: dict[str, JSON] = {"tools": offered, "prompts": offered}
    if "resources" in lists:
        state["resources"] = [offered[catalogue.FUNCTION], resources.newest(rpc)]
    return {name: state[name] for name in lists}


def is_muster_uri(uri: str) -> bool:
    """Whether it has the form of the addresses of files and runs: `muster:…/…`."""
    if not uri.startswith(SCHEME):
        return False
    return "/" in uri.removeprefix(SCHEME)


# -- the stream -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """A stream of notifications. `uris` gives what it watches at the moment; `subscription` is the id of 2026-07-28."""

    rpc: RpcRequest
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
        now = find_resource_versions(self.rpc, uris) if uris else {}
        now |= states(self.rpc, self.lists)
        before = self.seen
        self.seen = now
        return [self.news(name) for name, one in now.items() if name in before and before[name] != one]

    def news(self, name: str) -> dict[str, JSON]:
        if name in LISTS:
            return self.about(f"notifications/{name}/list_changed", {})
        return self.about("notifications/resources/updated", {"uri": name})

    def channels(self) -> set[bytes]:
        """Where changes of what was last seen are announced."""
        channels = set(OFFERED)
        if self.rpc.session:
            channels.add(sessions.build_news_channel(self.rpc.session))
        for uri in self.seen:
            if uri.startswith(f"{SCHEME}runs/"):
                run_id = resources.parse_resource_id(uri.split("/")[3])
                channels.add(name_event_channel(run_id))
        return channels


class ChannelListener:
    """Waits for announcements on the channels of a stream."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.channels: set[bytes] = set()

    def listen_to(self, channels: set[bytes]) -> None:
        for one in channels - self.channels:
            LISTENER.subscribe(one, self.on_announcement, loop=self.loop)
        for one in self.channels - channels:
            LISTENER.unsubscribe(one, self.on_announcement)
        self.channels = channels

    def on_announcement(self, message: bytes | None) -> None:
        self.news.set()

    async def wait(self, seconds: float) -> bool:
        """Whether something was announced within so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), seconds)
        is_news = self.news.is_set()
        self.news.clear()
        return is_news


def of_session(rpc: RpcRequest) -> Watch:
    return Watch(rpc, lambda: sessions.list_subscribed_uris(rpc.session))


def listen(rpc: RpcRequest, headers: Any) -> Watch:
    """`subscriptions/listen` of 2026-07-28. Raises Fault."""
    subscription = rpc.object("notifications")
    wanted_uris = subscription.get("resourceSubscriptions") or []
    is_short_list = isinstance(wanted_uris, list) and len(wanted_uris) <= MOST
    if not is_short_list or not all(isinstance(one, str) for one in wanted_uris):
        raise Fault(PARAMS, f"“resourceSubscriptions” must be a list of at most {MOST} addresses.")
    uris = list(find_resource_versions(rpc, wanted_uris))
    lists = [name for name, field in LISTS.items() if subscription.get(field) is True]
    return Watch(rpc, lambda: uris, lists, subscription=rpc.id)


async def stream_watched_changes(watch: Watch) -> AsyncIterator[bytes]:
    """What was granted, then each change until the client leaves."""
    yield RETRY
    if watch.subscription is not None:
        granted: dict[str, JSON] = {}
        uris = watch.uris()
        if uris:
            granted["resourceSubscriptions"] = uris
        for name in watch.lists:
            granted[LISTS[name]] = True
        yield sse(watch.about("notifications/subscriptions/acknowledged", {"notifications": granted}))
    listener = ChannelListener()
    try:
        while True:
            for one in await in_thread(watch.changed):
                yield sse(one)
            listener.listen_to(watch.channels())
            if await listener.wait(QUIET_S):
                # One change is announced several times, so the look waits until it is over.
                await asyncio.sleep(PAUSE_S)
            else:
                yield HEARTBEAT
    finally:
        listener.listen_to(set())
