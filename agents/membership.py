"""Team membership: invite, accept, change a role, remove, leave."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Invalid
from agents.invitation_mail import send_invitation_mail
from agents.models import Invitation, Membership, Team, User
from agents.names import normal_name
from agents.sharing import take_back

# The most open invitations of a team.
MOST_OPEN = 200


def invite(team: Team, username: str, role: str, *, by: Any) -> Invitation:
    """Invite the user with this name.

    Raises Invalid for an unknown name, and Conflict for a member, an open invitation or too many of them.
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
            invitation = Invitation.objects.create(team=team, user=user, role=role, invited_by=by)
    except IntegrityError:
        raise Conflict(
            _("“%(username)s” already has an open invitation.") % {"username": username},
            code="invited_already",
            hint=_("Withdraw it first if its role should be another one."),
        )
    transaction.on_commit(lambda: send_invitation_mail(invitation))
    return invitation


def person_named(username: str) -> Any:
    """The active user with this whole name, in any spelling; never by a part of it or by e-mail. Raises Invalid."""
    user = User.objects.find(username)
    if user is None or not user.is_active:
        raise Invalid(
            _("There is no user called “%(username)s”.") % {"username": username},
            code="unknown_person",
            hint=_("Send the exact user name."),
        )
    return user


def set_roles(team: Team, roles: dict[str, str]) -> None:
    """Give the members these roles, by user name, and remove members that are left out.

    Raises Invalid for users who are not members, and if nobody would be an administrator.
    """
    members = {member.user.normal_name: member for member in team.memberships.select_related("user")}
    typed_names = {normal_name(name): name for name in roles}
    new_roles = {normal: roles[typed] for normal, typed in typed_names.items()}
    strangers = sorted(typed_names[normal] for normal in new_roles.keys() - members.keys())
    if strangers:
        hint = _("Invite people at /api/v1/teams/%(team)s/invitations/; they become members once they accept.")
        raise Invalid(
            _("%(strangers)s: not a member of this team.") % {"strangers": ", ".join(strangers)},
            code="not_a_member",
            hint=hint % {"team": team.name},
        )
    if Membership.Role.ADMINISTRATOR not in new_roles.values():
        raise Invalid(_("A team needs an administrator."), code="no_administrator")
    with keep_administrator(team):
        for normal, member in members.items():
            if normal not in new_roles:
                end_membership(member)
            elif member.role != new_roles[normal]:
                change_role(member, new_roles[normal])


def change_role(member: Membership, role: str) -> None:
    """Save the new role, and withdraw what it no longer allows: open invitations and shared rows."""
    member.role = role
    member.save(update_fields=["role"])
    if role != Membership.Role.ADMINISTRATOR:
        withdraw_invitations(member)
    if role not in Membership.SHARERS:
        take_back(member.user, member.team)


def leave(member: Membership) -> None:
    """The user leaves the team. Raises Conflict (`no_administrator`) for its last administrator."""
    with keep_administrator(member.team):
        end_membership(member)


@contextmanager
def keep_administrator(team: Team) -> Iterator[None]:
    """A transaction for changes of members, undone if the team would have no administrator.

    Raises Conflict (`no_administrator`).
    """
    with transaction.atomic():
        # Locks the team: if two administrators leave at once, the second one waits for the first.
        list(Team.objects.select_for_update().filter(pk=team.pk))
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
    """Withdraw the open invitations that this member sent: the member is no longer an administrator."""
    sent = member.team.invitations.open().filter(invited_by=member.user)
    sent.update(status=Invitation.Status.WITHDRAWN)
