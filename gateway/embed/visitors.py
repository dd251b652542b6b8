"""Who a visitor is: a stranger with a signed token for one conversation of one embed. Visitors have no account."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.db.models import CharField
from rest_framework.authentication import get_authorization_header
from uuid_utils.compat import uuid7

from agents import roles
from agents.exceptions import Forbidden, NotFound, RateLimited
from agents.http.authentication import NotRecognised
from agents.http.credential_checks import CredentialCheck
from agents.http.throttles import count_in_windows, find_client, until_next
from plumbing.statements import Select
from runs.models import Embed, Message, Run, Session

# How long a conversation can be continued.
TOKEN_S = 30 * 24 * 3600
# Requests of every kind in a minute from one address.
REQUESTS = 600
FAILED = (Run.Status.FAILED, Run.Status.EXPIRED)
# One address may send as many messages as so many visitors.
NEIGHBOURS = 5

TO_SHOW = (
    "key", "origins", "title", "greeting", "suggestions", "colour", "max_characters", "agent__name",
    "owner__is_superuser", "owner__is_active",
)  # fmt: skip
# Anybody may ask for them, so their SQL is built once: building it costs most of such a request.
USED_EMBED = Select(lambda at: Embed.objects.open().filter(key=at.key).order_by()[:1], key=CharField())
SHOWN_EMBED = Select(
    lambda at: (
        Embed.objects.open()
        .filter(key=at.key)
        .select_related(None)
        .select_related("owner", "agent")
        .only(*TO_SHOW)
        .order_by()[:1]
    ),
    key=CharField(),
)


def load_open_embed(key: str, *, to_show: bool = False) -> Embed:
    """The embed with this key, if visitors may use it now; `to_show`: only what a page shows of it. Raises NotFound,
    without saying why.
    """
    embed = open_embed(key, to_show=to_show)
    if embed is None:
        raise NotFound("There is no such chat, or it is switched off.", code="no_embed")
    return embed


def open_embed(key: str, *, to_show: bool = False) -> Embed | None:
    """Whole rows of the agent, its version and its provider cost a stranger's look twice as much."""
    select = SHOWN_EMBED if to_show else USED_EMBED
    embed = select.first(key=key)
    # An owner who may not act any more cannot pay for visitors either.
    if embed is None or not roles.allows(embed.owner, roles.ACT):
        return None
    return embed


# -- origins --------------------------------------------------------------------------------------------------------


def check_origin(request: Any, embed: Embed) -> None:
    """Programs send no origin and need none: the key is public. A browser sends its page's. Raises Forbidden."""
    origin = request.headers.get("Origin")
    if origin is None or is_own_origin(request, origin) or origin in embed.origins:
        return
    raise Forbidden(
        f"Pages of {origin[:200]} may not show this chat.",
        code="origin_refused",
        hint="Its owner can add the origin to its list.",
    )


def is_own_origin(request: Any, origin: str) -> bool:
    """Whether it is this site's, under the address of the request or its public one."""
    request_origin = f"{request.scheme}://{request.get_host()}"
    public = urlsplit(settings.PUBLIC_URL)
    return origin in (request_origin, f"{public.scheme}://{public.netloc}")


# -- tokens ---------------------------------------------------------------------------------------------------------


def build_token_salt(embed: Embed) -> str:
    """With another key, or for another embed, no token is valid."""
    return f"embed:{embed.pk}:{embed.key}"


def new_token(embed: Embed) -> str:
    """For a conversation that is stored with its first message."""
    session = str(uuid7())
    return signing.dumps(session, salt=build_token_salt(embed))


def session_id(request: Any, embed: Embed) -> UUID:
    """The conversation that the token in the header is for. Raises NotRecognised."""
    words = get_authorization_header(request).decode("latin-1").split()
    token = words[1] if len(words) == 2 else ""
    try:
        return UUID(signing.loads(token, salt=build_token_salt(embed), max_age=TOKEN_S))
    except signing.BadSignature:
        raise NotRecognised("This conversation has expired: start another one.", hint="")


def open_visitor_session(embed: Embed, id: UUID) -> Session:
    """The row of the conversation, made if it is new. Two messages at once find the same one."""
    fields = {
        "owner": embed.owner,
        "agent": embed.agent,
        "title": "A visitor",
        "has_untrusted": True,
        "metadata": {"embed": str(embed.pk)},
        "variables": {"agent_depth": 0},
    }
    session, _ = Session.objects.get_or_create(pk=id, owner=embed.owner, defaults=fields)
    return session


def load_visitor_run(embed: Embed, session: UUID, id: UUID) -> Run:
    """A run of this conversation. Raises NotFound."""
    rows = Run.objects.select_related("agent", "session", "version")
    rows = rows.filter(embed=embed.pk, session=session, parent=None)
    run = rows.filter(pk=id, principal=embed.owner_id).first()
    if run is None:
        raise NotFound("There is no such message in this conversation.")
    return run


def failed_run(embed: Embed, session: UUID, key: str, text: str) -> Run | None:
    """The last run of the conversation, if it was to answer this message and failed."""
    runs = Run.objects.filter(embed=embed.pk, principal=embed.owner_id, session=session, parent=None)
    last = runs.select_related("session", "agent", "version").order_by("-id").first()
    if last is None or last.status not in FAILED:
        return None
    # A run that was repeated has the key with another run's id behind it.
    first_key, _, _ = (last.idempotency_key or "").partition("#")
    if first_key != key:
        return None
    message = last.messages.filter(role=Message.Role.USER).order_by("seq").first()
    if message is None or message.words != text:
        return None
    return last


@dataclass(frozen=True, slots=True)
class VisitorStanding(CredentialCheck):
    """A stream of a visitor lasts while the embed is open under its key."""

    embed_key: str = ""

    def is_good(self) -> bool:
        return open_embed(self.embed_key) is not None


# -- limits ---------------------------------------------------------------------------------------------------------


def count_request(request: Any) -> None:
    """Raises RateLimited."""
    refuse_beyond(f"visitor:{find_client(request)}", REQUESTS)


def count_message(request: Any, embed: Embed, session: UUID) -> None:
    """Of the visitor, then of the address, then of all: what is refused does not use up what others may send.

    Raises RateLimited.
    """
    name = f"embed:{embed.pk}"
    refuse_beyond(f"{name}:{session}", embed.per_visitor)
    refuse_beyond(f"{name}:{find_client(request)}", embed.per_visitor * NEIGHBOURS)
    refuse_beyond(name, embed.per_minute)


def refuse_beyond(name: str, limit: int) -> None:
    """Count one more use of this name in this minute. Raises RateLimited above the limit."""
    [count] = count_in_windows([name])
    if count <= limit:
        return
    seconds = int(until_next()) + 1
    raise RateLimited(
        "There are too many messages at the moment. Please try again in a minute.",
        code="rate_limited",
        hint="Wait for the seconds in Retry-After.",
        headers={"Retry-After": str(seconds)},
    )
