"""Teams of this person, and invitations that wait for an answer."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from agents import membership
from agents.models import AuditEvent, Invitation, Membership

from .base import page, signed_in


@signed_in
def team_list(request: HttpRequest) -> HttpResponse:
    invitations = Invitation.objects.visible_to(request.user).open().select_related("team", "invited_by")
    members = Membership.objects.filter(user_id=request.user.pk).select_related("team").order_by("team__name")
    return page(request, "teams.html", "Teams", invitations=invitations[:200], members=members[:200])


@require_POST
@signed_in(writes="")
def answer(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Accept or decline an invitation of one's own."""
    rows = Invitation.objects.visible_to(request.user).select_related("team", "user")
    if (invitation := rows.filter(pk=pk).first()) is None:
        raise Http404("There is no such invitation of yours.")
    if verb == "accept":
        invitation.accept()
        messages.success(request, f"You are a member of “{invitation.team}” now.")
    else:
        invitation.answer(Invitation.Status.DECLINED)
        messages.success(request, f"You declined the invitation to “{invitation.team}”.")
    AuditEvent.record(f"invitation.{invitation.status}", invitation, actor=request.user)
    return redirect("page:teams")


@require_POST
@signed_in(writes="")
def leave(request: HttpRequest, name: str) -> HttpResponse:
    """Leave a team; what was shared with it is taken back."""
    rows = Membership.objects.filter(user_id=request.user.pk, team__name=name[:64].replace("\0", ""))
    if (member := rows.select_related("team", "user").first()) is None:
        raise Http404("There is no such team that you are in.")
    membership.end(member)
    AuditEvent.record("team.left", member.team, actor=request.user)
    messages.success(request, f"You left “{member.team}”. What you shared with it is yours alone again.")
    return redirect("page:teams")
