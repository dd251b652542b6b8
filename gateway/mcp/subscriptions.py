"""Subscriptions to resources. A client of an earlier version subscribes in its session and listens with GET; one of
2026-07-28 does both with `subscriptions/listen`.

What is subscribed to is looked at every few seconds, in one statement for all runs of a stream: runs change nowhere
near as often as that would miss, and an idle stream costs one look into the cache.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from connectors.mcp.messages import notification
from connectors.mcp.session import PREFIX
from gateway.sse import HEARTBEAT, sse
from plumbing.threads import in_thread

from . import own_resources, resources, sessions
from .content import SCHEME
from .protocol import PARAMS, REQUEST, Asked, Fault

JSON = Any
MOST = 100  # of one session or stream
LOOK_S = 2.0
QUIET_S = 15.0
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


def is_ours(uri: str) -> bool:
    return uri.startswith(SCHEME) and "/" in uri.removeprefix(SCHEME)


# -- the stream -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """A stream of notifications. `uris` gives what it watches at the moment; `subscription` is the id of 2026-07-28."""

    asked: Asked
    uris: Callable[[], list[str]]
    subscription: JSON = None
    seen: dict[str, JSON] = field(default_factory=dict)

    def about(self, method: str, params: dict[str, JSON]) -> dict[str, JSON]:
        if self.subscription is not None:
            params = {**params, "_meta": {SUBSCRIPTION: self.subscription}}
        return notification(method, params)

    def changed(self) -> list[str]:
        """The resources that changed since the last look; one that is new to the stream has not."""
        uris = self.uris()
        now = versions(self.asked, uris) if uris else {}
        before, self.seen = self.seen, now
        return [uri for uri, version in now.items() if uri in before and before[uri] != version]


def of_session(asked: Asked) -> Watch:
    return Watch(asked, lambda: sessions.subscribed(asked.session))


def listen(asked: Asked, headers: Any) -> Watch:
    """`subscriptions/listen` of 2026-07-28. Raises Fault."""
    wanted = asked.object("notifications").get("resourceSubscriptions") or []
    if not isinstance(wanted, list) or len(wanted) > MOST or not all(isinstance(one, str) for one in wanted):
        raise Fault(PARAMS, f"“resourceSubscriptions” must be a list of at most {MOST} addresses.")
    known = [*versions(asked, wanted)]
    return Watch(asked, lambda: known, subscription=asked.id)


async def stream_of(watch: Watch) -> AsyncIterator[bytes]:
    yield RETRY
    if watch.subscription is not None:
        granted = {"resourceSubscriptions": uris} if (uris := watch.uris()) else {}
        yield sse(watch.about("notifications/subscriptions/acknowledged", {"notifications": granted}))
    quiet = 0.0
    while True:
        changed = await in_thread(watch.changed)
        for uri in changed:
            yield sse(watch.about("notifications/resources/updated", {"uri": uri}))
        quiet = 0.0 if changed else quiet + LOOK_S
        if quiet >= QUIET_S:
            quiet = 0.0
            yield HEARTBEAT
        await asyncio.sleep(LOOK_S)
