"""Sessions of the earlier versions, without a table: the id is signed and says what `initialize` agreed on.

What changes in a session is in the cache as long as its id is valid: its end, the level of log
messages, subscriptions. Event ids and the state of a question are signed like the session's id.
"""

import secrets
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from django.core import signing
from django.core.cache import cache

from plumbing.broker import broadcast

from .protocol import APPS, Fault, RpcRequest

JSON = Any
SESSION, STATE, EVENT = "mcp.session", "mcp.state", "mcp.event"
KEPT = ("elicitation", "tasks", "sampling", "roots", "extensions")
LIFETIME_S = 7 * 24 * 3600
# How long a question can be answered with its state.
ANSWER_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    version: str
    capabilities: dict[str, JSON]
    client: str
    # The level from which on the client wants log messages; empty for none.
    log_level: str = ""

    @property
    def digest(self) -> str:
        return sha256(self.id.encode()).hexdigest()[:32]


def create_mcp_session(user: Any, version: str, capabilities: dict[str, JSON], client: str) -> Session:
    """A new session. Only the capabilities that the server uses are kept."""
    kept = {name: capabilities[name] for name in KEPT if isinstance(capabilities.get(name), dict)}
    # The id holds them, so it must not grow with what a client makes up.
    extensions = kept.get("extensions")
    if extensions is not None:
        kept["extensions"] = {APPS: extensions[APPS]} if APPS in extensions else {}
    # The random part makes the ids of equal sessions differ.
    facts = {"u": user.pk, "v": version, "c": kept, "n": client[:100], "r": secrets.token_hex(8)}
    id = signing.dumps(facts, salt=SESSION, compress=True)
    return Session(id, version, kept, client)


def load_mcp_session(user: Any, id: str) -> Session:
    """The session with this id, if it is the user's. Raises Fault (HTTP status 404)."""
    gone = Fault(-32001, "Session not found", status=404)
    # To unpack a longer text would cost more than a session is worth.
    if len(id) > 4000:
        raise gone
    try:
        facts = signing.loads(id, salt=SESSION, max_age=LIFETIME_S)
    except signing.BadSignature:
        raise gone
    session = Session(id, facts["v"], facts["c"], facts["n"])
    ended_key = f"mcp.ended.{session.digest}"
    level_key = f"mcp.level.{session.digest}"
    cached = cache.get_many([ended_key, level_key])
    # A session of somebody else must look like one that does not exist.
    if facts["u"] != user.pk or ended_key in cached:
        raise gone
    return replace(session, log_level=cached.get(level_key, ""))


def close_mcp_session(session: Session) -> None:
    """The id stays valid by its signature, so its end is kept as long."""
    cache.set(f"mcp.ended.{session.digest}", True, LIFETIME_S)


def set_log_level(digest: str, level: str) -> None:
    """From the next request of the session on."""
    cache.set(f"mcp.level.{digest}", level, LIFETIME_S)


def list_subscribed_uris(digest: str) -> list[str]:
    """The addresses of the resources that this session has subscribed to."""
    return list(cache.get(f"mcp.watched.{digest}") or ())


def set_subscribed(digest: str, uris: list[str]) -> None:
    cache.set(f"mcp.watched.{digest}", uris, LIFETIME_S)
    broadcast.publish_message(build_news_channel(digest), b"")


def build_news_channel(digest: str) -> bytes:
    """The channel on which a change of a session's subscriptions is announced."""
    return broadcast.name_channel("mcp", digest)


def seal_client_facts(rpc: RpcRequest, salt: str, facts: dict[str, JSON]) -> str:
    """Facts that travel through the client, for this user alone."""
    owned_facts = {**facts, "u": rpc.user.pk}
    return signing.dumps(owned_facts, salt=salt, compress=True)


def open_sealed_facts(rpc: RpcRequest, salt: str, text: JSON, max_age: int = LIFETIME_S) -> dict[str, JSON] | None:
    """None if the text was changed, is too old, or was made for another user."""
    try:
        facts = signing.loads(text, salt=salt, max_age=max_age)
    except (signing.BadSignature, TypeError, AttributeError, ValueError):
        return None
    return facts if facts.get("u") == rpc.user.pk else None
