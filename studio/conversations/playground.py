"""The playground: talk to an agent and watch its run."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import NotFound
from agents.http import parsers
from agents.models import Agent
from runs.api.shares import SharedLinkSerializer
from runs.models import Session, SharedLink

from ..base import may_author, page, read_number, read_uuid, signed_in
from . import conversation
from .sessions import find_session

OFFERED = 200  # names in the agent field's list; others can be typed
SHOWN = 200


@signed_in
def playground(request: HttpRequest) -> HttpResponse:
    """`?agent=` selects one, `?session=` continues a conversation, `?compare=1` shows two columns."""
    agents = Agent.objects.usable_by(request.user).published().select_related("published").order_by("name")
    offered = list(agents.only("name", "description", "published__number")[:OFFERED])
    session, find_words = find(request), request.GET.get("find", "")[:100]
    agent_name = request.GET.get("agent", "")[:64]
    name = agent_name or (session.agent.name if session and session.agent else "")
    if not name and not session and len(offered) == 1:
        name = offered[0].name
    listed = conversation.history(request.user, session, find_words)
    before = read_number(request.GET.get("before", ""))
    turns, earlier = conversation.find_turns(session, SHOWN, before or None) if session else ([], None)
    title = _("Playground") if may_author(request.user) else _("Chat")
    return page(
        request, "playground.html", title, agents=offered, agent=name, session=session, turns=turns, earlier=earlier,
        stored=conversation.stored_events(request.user, turns), find=find_words,
        history=[one for one in listed if one.pinned or not one.folder], folders=conversation.folders(listed),
        may_share=settings.SHARED_LINKS, shared=shared_now(session), upload_bytes=settings.FILE_BYTES,
        compare=bool(request.GET.get("compare")), examples=find_examples(request.user, name),
    )  # fmt: skip


def shared_now(session: Session | None) -> dict[str, Any] | None:
    """The read-only link of this conversation, as the API shows it."""
    link = SharedLink.objects.filter(session=session).first() if session and settings.SHARED_LINKS else None
    return dict(SharedLinkSerializer(link).data) if link else None


def find_examples(user: Any, name: str) -> list[str]:
    """Example messages of the agent with that name; empty if there is none."""
    try:
        return Agent.objects.published().named(user, name).examples[:3]
    except NotFound:
        return []


def find(request: HttpRequest) -> Session | None:
    pk = read_uuid(request.GET.get("session", ""))
    return find_session(request, pk) if pk else None


@require_POST
@signed_in
def fork(request: HttpRequest) -> HttpResponse:
    """A new session with the messages before one: {"session", "seq"} → {"session"}, or instead of its number the
    "run" that it started.
    """
    try:
        body = parsers.read(request.body)
        session_id = read_uuid(str(body["session"]))
        which = {"seq": min(int(body["seq"]), 2**31 - 1)} if "seq" in body else {"run": read_uuid(str(body["run"]))}
    except (ValueError, KeyError, TypeError, OverflowError):
        return JsonResponse({"error": {"message": "Send a JSON object with “session” and “seq” or “run”."}}, status=400)
    session = Session.objects.visible_to(request.user).filter(pk=session_id).first()
    first = session.messages.filter(**which).order_by("seq").first() if session else None
    if session is None or first is None:
        return JsonResponse({"error": {"message": "There is no such message in one of your sessions."}}, status=404)
    return JsonResponse({"session": str(session.fork(before=first.seq).pk)}, status=201)
