"""The pages of sessions: a list with search, and one conversation."""

from uuid import UUID

from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.http.filters import filter_by_words
from agents.http.pagination import read_page
from runs.models import Message, Session

from ..base import keyset, render_shell_page, require_login
from . import message_files

# Messages on one page.
SHOWN = 400


@require_login
def session_list(request: HttpRequest) -> HttpResponse:
    """Newest first. The search covers titles and agents."""
    rows = Session.objects.visible_to(request.user).select_related("agent")
    search = request.GET.get("search", "")
    rows = filter_by_words(rows, search, "title", "agent__name")
    sessions, older = keyset(request, rows)
    by_session = Message.objects.filter(session__in=sessions).order_by().values_list("session")
    counts = dict(by_session.annotate(Count("pk")))
    for session in sessions:
        session.message_count = counts.get(session.pk, 0)
    return render_shell_page(
        request,
        "sessions.html",
        _("All conversations"),
        sessions=sessions,
        older=older,
        search=" ".join(search.split()),
    )


@require_login
def session_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    session = find_session(request, pk)
    newest, is_cut = read_page(session.messages.select_related("run").order_by("-seq"), SHOWN)
    session_messages = newest[::-1]
    message_files.place_artifacts(session_messages)
    message_files.place_attachments(session_messages, request.user.pk)
    title = session.title or _("Session")
    context = {"session": session, "session_messages": session_messages, "is_cut": is_cut}
    return render_shell_page(request, "session.html", title, **context)


def find_session(request: HttpRequest, pk: UUID) -> Session:
    session = Session.objects.visible_to(request.user).select_related("agent").filter(pk=pk).first()
    if session is None:
        raise Http404("There is no such session that you can see.")
    return session


@require_POST
@require_login
def close_shown_session(request: HttpRequest, pk: UUID) -> HttpResponse:
    session = find_session(request, pk)
    session.status = Session.Status.CLOSED
    session.save(update_fields=["status", "updated_at"])
    return redirect("page:session", pk=pk)
