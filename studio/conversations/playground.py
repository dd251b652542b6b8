"""The playground: talk to an agent and watch its run."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import Conflict, NotFound
from agents.http import parsers
from agents.models import Agent
from runs.api.shares import SharedLinkSerializer
from runs.models import Session, SharedLink

from ..base import parse_small_number, read_uuid, render_shell_page, require_login
from ..display_names import find_display_names
from . import conversation
from .sessions import find_session

# Agents in the picker; others can be typed.
OFFERED = 200
# Agents on the cards of an empty chat.
CARDS = 9
# The newest conversations, whose agents come first.
RECENT = 60
SHOWN = 200


@require_login
def playground(request: HttpRequest) -> HttpResponse:
    """`?agent=` selects one, `?session=` continues a conversation, `?compare=1` shows two columns."""
    user = request.user
    offered = find_offered_agents(user)
    session = find_asked_session(request)
    agent_name = request.GET.get("agent", "")[:64]
    if not agent_name and session and session.agent:
        agent_name = session.agent.name
    # Who has one agent need not choose.
    if not agent_name and not session and len(offered) == 1:
        agent_name = offered[0].name
    find_words = request.GET.get("find", "")[:100]
    listed = conversation.history(user, session, find_words)
    history = [listed_session for listed_session in listed if listed_session.pinned or not listed_session.folder]
    before = parse_small_number(request.GET.get("before", ""))
    turns, earlier = conversation.find_turns(session, SHOWN, before or None) if session else ([], None)
    return render_shell_page(
        request,
        "playground.html",
        _("Chat"),
        agents=offered,
        cards=offered[:CARDS],
        agent=agent_name,
        chosen=find_chosen_agent(user, agent_name),
        may_type=len(offered) == OFFERED,
        session=session,
        turns=turns,
        earlier=earlier,
        stored=conversation.stored_events(user, turns),
        find=find_words,
        history=history,
        folders=conversation.folders(listed),
        display_names=find_display_names(user),
        may_share=settings.SHARED_LINKS,
        shared=shared_now(session),
        upload_bytes=settings.FILE_BYTES,
        compare=bool(request.GET.get("compare")),
    )


def find_offered_agents(user: Any) -> list[Agent]:
    """The agents that this person may use: those of the newest conversations first, then by name."""
    rows = Agent.objects.usable_by(user).published().order_by("name")
    offered = list(rows.only("name", "display_name", "icon", "description", "examples")[:OFFERED])
    sessions = Session.objects.visible_to(user).filter(agent__isnull=False).order_by("-pk")
    recent = list(sessions.values_list("agent_id", flat=True)[:RECENT])
    places = {pk: place for place, pk in reversed(list(enumerate(recent)))}
    return sorted(offered, key=lambda agent: places.get(agent.pk, RECENT))


def shared_now(session: Session | None) -> dict[str, Any] | None:
    """The read-only link of this conversation, as the API shows it."""
    if session is None or not settings.SHARED_LINKS:
        return None
    link = SharedLink.objects.filter(session=session).first()
    if link is None:
        return None
    return dict(SharedLinkSerializer(link).data)


def find_chosen_agent(user: Any, name: str) -> Agent | None:
    """The published agent that the name means; None if there is none."""
    try:
        agent: Agent = Agent.objects.published().named(user, name)
    except (NotFound, Conflict):
        return None
    return agent


def find_asked_session(request: HttpRequest) -> Session | None:
    pk = read_uuid(request.GET.get("session", ""))
    return find_session(request, pk) if pk else None


@require_POST
@require_login
def fork(request: HttpRequest) -> HttpResponse:
    """A new session with the messages before one: {"session", "seq"} → {"session"}, or instead of its number the
    "run" that it started.
    """
    which: dict[str, Any]
    try:
        body = parsers.parse_json_body(request.body)
        session_id = read_uuid(str(body["session"]))
        if "seq" in body:
            # A larger number is none that the database can hold.
            which = {"seq": min(int(body["seq"]), 2**31 - 1)}
        else:
            which = {"run": read_uuid(str(body["run"]))}
    except (ValueError, KeyError, TypeError, OverflowError):
        return JsonResponse({"error": {"message": "Send a JSON object with “session” and “seq” or “run”."}}, status=400)
    session = Session.objects.visible_to(request.user).filter(pk=session_id).first()
    first = session.messages.filter(**which).order_by("seq").first() if session else None
    if session is None or first is None:
        return JsonResponse({"error": {"message": "There is no such message in one of your sessions."}}, status=404)
    forked = session.fork(before=first.seq)
    return JsonResponse({"session": str(forked.pk)}, status=201)
