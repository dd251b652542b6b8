"""The pages of teams: create one, its members and invitations, and invitations of one's own."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.http import require_POST
from rest_framework.exceptions import ValidationError

from agents import membership
from agents.exceptions import MusterError, NotFound
from agents.http.viewsets import refusals
from agents.models import AuditEvent, Invitation, Membership, Team
from agents.names import normal_name
from agents.serializers.people import TeamSerializer

from ..base import add_refusal_message, render_shell_page, require_login

ROLES_IN_TEAM = [
    ("viewer", later("Viewer"), later("Sees what is shared.")),
    ("operator", later("Operator"), later("Also uses it: talks to agents, starts chains, calls functions.")),
    ("author", later("Author"), later("Also shares agents, functions and other rows of their own.")),
    ("administrator", later("Administrator"), later("Also invites and removes people, and sets roles and budgets.")),
]
# members, invitations and teams that a page shows.
MOST = 200


@require_login(writes="teams:write")
def team_list(request: HttpRequest) -> HttpResponse:
    """One's teams and open invitations. POST creates a team."""
    if request.method == "POST":
        return create_posted_team(request)
    invitations = Invitation.objects.visible_to(request.user).open().select_related("team", "invited_by")
    members = Membership.objects.filter(user_id=request.user.pk).select_related("team").order_by("team__name")
    return render_shell_page(request, "teams.html", _("Teams"), invitations=invitations[:MOST], members=members[:MOST])


def create_posted_team(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    serializer = TeamSerializer(data={"name": name}, context={"request": request})
    try:
        serializer.is_valid(raise_exception=True)
        with refusals("team", request.user):
            team = serializer.save()
            AuditEvent.record("team.created", team, actor=request.user)
    except ValidationError:
        sentences = [str(sentence) for problems in serializer.errors.values() for sentence in problems]
        messages.error(request, " ".join(sentences))
        return redirect("page:teams")
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:teams")
    messages.success(request, _("The team “%(team)s” is created. Invite people by their user name.") % {"team": team})
    return redirect("page:team", team.name)


@require_login
def team_page(request: HttpRequest, name: str) -> HttpResponse:
    team = seen_team(request, name)
    members = team.memberships.select_related("user")
    invitations = team.invitations.open().select_related("user", "invited_by")
    return render_shell_page(
        request,
        "team.html",
        team.name,
        team=team,
        roles=Membership.Role.choices,
        explained_roles=ROLES_IN_TEAM,
        administers=team.may_edit(request.user),
        members=members[:MOST],
        invitations=invitations[:MOST],
    )


@require_POST
@require_login(writes="teams:write")
def invite(request: HttpRequest, name: str) -> HttpResponse:
    team = find_administered(request, name)
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        raise NotFound(_("There is no role “%(role)s”.") % {"role": role[:40]})
    username = request.POST.get("username", "").strip()[:150]
    invitation = membership.invite(team, username, role, by=request.user)
    who = invitation.user.get_username()
    AuditEvent.record("team.invited", team, actor=request.user, user=who, role=role)
    messages.success(request, _("“%(who)s” is invited and finds the invitation on the page Teams.") % {"who": who})
    return redirect("page:team", team.name)


@require_POST
@require_login(writes="teams:write")
def withdraw_invitation(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    team = find_administered(request, name)
    invitation = team.invitations.open().filter(pk=pk).select_related("user").first()
    if invitation is None:
        raise Http404("This team has no such open invitation.")
    invitation.answer(Invitation.Status.WITHDRAWN)
    who = invitation.user.get_username()
    AuditEvent.record("team.invitation_withdrawn", team, actor=request.user, user=who)
    messages.success(request, _("The invitation of “%(who)s” is withdrawn.") % {"who": who})
    return redirect("page:team", team.name)


@require_POST
@require_login(writes="teams:write")
def set_role(request: HttpRequest, name: str) -> HttpResponse:
    """Give one member another role, or remove them with the role “remove”."""
    team = find_administered(request, name)
    typed_name = normal_name(request.POST.get("username", ""))
    role = request.POST.get("role", "")
    members = {member.user.normal_name: member for member in team.memberships.select_related("user")}
    if typed_name not in members or role not in [*Membership.Role.values, "remove"]:
        raise NotFound(_("This team has no such member, or there is no such role."))
    who = members[typed_name].user.get_username()
    roles = {member.user.get_username(): member.role for member in members.values()}
    if role == "remove":
        del roles[who]
        message = _("“%(who)s” is removed.") % {"who": who}
    else:
        roles[who] = role
        message = _("“%(who)s” is %(role)s now.") % {"who": who, "role": role}
    membership.set_roles(team, roles)
    AuditEvent.record("team.changed", team, actor=request.user, fields=["members"], user=who, role=role)
    messages.success(request, message)
    return redirect("page:team", team.name)


def seen_team(request: HttpRequest, name: str) -> Any:
    team = Team.objects.visible_to(request.user).filter(name=name[:64].replace("\0", "")).first()
    if team is None:
        raise Http404("There is no such team that you are in.")
    return team


def find_administered(request: HttpRequest, name: str) -> Any:
    team = seen_team(request, name)
    team.require_edit(request.user)
    return team


@require_POST
@require_login(writes="")
def answer_invitation(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Accept or decline an invitation of one's own."""
    rows = Invitation.objects.visible_to(request.user).select_related("team", "user")
    invitation = rows.filter(pk=pk).first()
    if invitation is None:
        raise Http404("There is no such invitation of yours.")
    if verb == "accept":
        invitation.accept()
        messages.success(request, _("You are a member of “%(team)s” now.") % {"team": invitation.team})
    else:
        invitation.answer(Invitation.Status.DECLINED)
        messages.success(request, _("You declined the invitation to “%(team)s”.") % {"team": invitation.team})
    AuditEvent.record(f"invitation.{invitation.status}", invitation, actor=request.user)
    return redirect("page:teams")


@require_POST
@require_login(writes="")
def leave_team(request: HttpRequest, name: str) -> HttpResponse:
    """Leave a team; what was shared with it is taken back."""
    team_name = name[:64].replace("\0", "")
    rows = Membership.objects.filter(user_id=request.user.pk, team__name=team_name)
    member = rows.select_related("team", "user").first()
    if member is None:
        raise Http404("There is no such team that you are in.")
    membership.leave(member)
    AuditEvent.record("team.left", member.team, actor=request.user)
    message = _("You left “%(team)s”. What you shared with it is yours alone again.")
    messages.success(request, message % {"team": member.team})
    return redirect("page:teams")
