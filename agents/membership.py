"""Team membership: invite, accept, change a role, remove, leave."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Invalid
from agents.models import Invitation, Membership, Team, User
from agents.names import normal_name
from agents.sharing import take_back

# Open invitations per team.
MOST_OPEN = 200


def invite(team: Team, username: str, role: str, *, by: Any) -> Invitation:
    """Invite the user with exactly this name. Raises Invalid for an unknown name, Conflict for a
    member.
    """
    user = person_named(username)
    if Membership.of(user, team.pk):
        raise Conflict(
            _("“%(username)s” is already a member of “%(team)s”.") % {"username": username, "team": team},
            code="is_member",
            hint=_("Roles are changed in the list of members."),
        )
    if team.invitations.open().count() >= MOST_OPEN:
        raise Conflict(
            _("The team has %(number)s open invitations.") % {"number": MOST_OPEN},
            code="too_many",
            hint=_("Withdraw some first."),
        )
    try:
        with transaction.atomic():
            return Invitation.objects.create(team=team, user=user, role=role, invited_by=by)
    except IntegrityError:
        raise Conflict(
            _("“%(username)s” already has an open invitation.") % {"username": username},
            code="invited_already",
            hint=_("Withdraw it first if its role should be another one."),
        )


def person_named(username: str) -> Any:
    """Users are found by their whole name only, in any spelling, never by part of it or by e-mail."""
    user = User.objects.find(username)
    if user is None or not user.is_active:
        raise Invalid(
            _("There is no user called “%(username)s”.") % {"username": username},
            code="unknown_person",
            hint=_("Send the exact user name."),
        )
    return user


def set_roles(team: Team, roles: dict[str, str]) -> None:
    """Give members these roles and remove members that are left out. Raises Invalid for users who
    are not members.
    """
    members = {member.user.normal_name: member for member in team.memberships.select_related("user")}
    typed_names = {normal_name(name): name for name in roles}
    roles = {normal: roles[typed] for normal, typed in typed_names.items()}
    strangers = sorted(typed_names[normal] for normal in roles.keys() - members.keys())
    if strangers:
        hint = _("Invite people at /api/v1/teams/%(team)s/invitations/; they become members once they accept.")
        raise Invalid(
            _("%(strangers)s: not a member of this team.") % {"strangers": ", ".join(strangers)},
            code="not_a_member",
            hint=hint % {"team": team.name},
        )
    if Membership.Role.ADMINISTRATOR not in roles.values():
        raise Invalid(_("A team needs an administrator."), code="no_administrator")
    with keep_administrator(team):
        for name, member in members.items():
            if name not in roles:
                end_membership(member)
            elif member.role != roles[name]:
                change_role(member, roles[name])


def change_role(member: Membership, role: str) -> None:
    """A user who can no longer share has their shared rows unshared."""
    member.role = role
    member.save(update_fields=["role"])
    if role != Membership.Role.ADMINISTRATOR:
        withdraw_invitations(member)
    if role not in Membership.SHARERS:
        take_back(member.user, member.team)


def leave(member: Membership) -> None:
    """The user leaves the team, which keeps an administrator. Raises Conflict (`no_administrator`)."""
    with keep_administrator(member.team):
        end_membership(member)


@contextmanager
def keep_administrator(team: Team) -> Iterator[None]:
    """Changes of members, all or none: the last administrator can neither leave nor step down.
    Raises Conflict (`no_administrator`).
    """
    with transaction.atomic():
        list(Team.objects.select_for_update().filter(pk=team.pk))  # of two who leave at once, the second one waits
        yield
        if not team.memberships.filter(role=Membership.Role.ADMINISTRATOR).exists():
            raise Conflict(
                _("The team “%(team)s” needs an administrator.") % {"team": team},
                code="no_administrator",
                hint=_("Make another member its administrator first, or delete the team."),
            )


@transaction.atomic
def end_membership(member: Membership) -> None:
    """Remove the user from the team, and unshare what they shared with it."""
    take_back(member.user, member.team)
    withdraw_invitations(member)
    member.delete()


def withdraw_invitations(member: Membership) -> None:
    """The open invitations of a user who is no longer an administrator are withdrawn."""
    member.team.invitations.open().filter(invited_by=member.user).update(status=Invitation.Status.WITHDRAWN)
