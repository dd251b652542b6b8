"""A shared conversation, for everybody who has its link. It shows text and starts nothing."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from agents.http.pagination import read_page
from runs.models import Message, SharedLink

from ..base import pretty

SHOWN = 400
SAID = (Message.Role.USER, Message.Role.ASSISTANT)


@require_safe
def render_shared_session(request: HttpRequest, token: str) -> HttpResponse:
    """The conversation as its owner shared it, up to the message that was the last then."""
    link = SharedLink.objects.opened_by(token)
    if link is None:
        words = _("There is no such conversation, or it is no longer shared.")
        return render(request, "muster/gone.html", {"words": words}, status=404)
    rows = link.session.messages.filter(role__in=SAID, seq__lte=link.last_seq).order_by("-seq")
    newest, is_cut = read_page(rows, SHOWN)
    session_messages = newest[::-1]
    for message in session_messages:
        message.calls = []
        if link.shows_tools:
            message.calls = [describe_call(call) for call in message.tool_calls]
    context = {"title": link.session.title, "session_messages": session_messages, "is_cut": is_cut}
    answer = render(request, "muster/shared.html", context)
    # Who has the link may read it; search engines and linked sites get neither the page nor the link.
    answer["X-Robots-Tag"] = "noindex, nofollow"
    answer["Referrer-Policy"] = "no-referrer"
    return answer


def describe_call(call: dict[str, Any]) -> dict[str, str]:
    return {"name": call.get("name", ""), "arguments": pretty(call.get("arguments", {}))}
