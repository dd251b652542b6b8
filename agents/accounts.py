"""What administrators do with the accounts of people: create and change them, invite, deactivate, hand over."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ManyToOneRel, Q
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext_noop as _

from agents import roles
from agents.exceptions import Conflict, Forbidden, Invalid
from agents.models import ApiKey, Invitation, Membership, Team, Tool, User
from agents.models.team import Owned, kind_name
from agents.sharing import carry, may_share, shared_models
from plumbing.site_paths import reverse_without_prefix

ADMINISTRATOR = roles.ROLES[roles.ADMINISTRATOR]
# Columns that name the person to whom a row belongs.
OWNER_COLUMNS = ("owner", "user", "principal", "person")
# Rows that `list_belongings` names instead of counting them, or that only tell what happened.
NOT_COUNTED = (
    "membership",
    "invitation",
    "auditevent",
    "idempotentrequest",
    "preference",
    "logentry",
    "tool",
    "user_groups",
    "user_user_permissions",
)


def is_administrator(user: Any) -> bool:
    return user.is_active and roles.find_rank(user) >= roles.ADMINISTRATOR


# -- create and change


@transaction.atomic
def create_person(username: str, *, email: str = "", role: str, is_active: bool = True) -> User:
    """An account without a password, until its person opens an invitation. Raises Invalid, Conflict."""
    person = User(username=username, email=email, is_active=is_active)
    person.set_unusable_password()
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        if User.objects.find(username) is not None:
            raise Conflict(
                _("Another person is called “%(name)s” already.") % {"name": username},
                code="name_taken",
                hint=_("Choose another name."),
            )
        raise Invalid.of(error)
    person.save()
    write_role(person, role)
    return person


def change_person(person: Any, values: dict[str, Any], *, by: Any) -> list[tuple[str, dict[str, Any]]]:
    """Change `email`, `site_role` and `is_active`, those that are there and differ. All or nothing.

    Returns what happened for the audit log: [("changed", {"fields": ["role"], …})]. Raises Forbidden, Conflict.
    """
    events: list[tuple[str, dict[str, Any]]] = []
    with transaction.atomic():
        if values.get("email", person.email) != person.email:
            if person.pk != by.pk:
                require_rank(person, by)
            person.email = values["email"]
            person.save(update_fields=["email"])
            events.append(("changed", {"fields": ["email"]}))
        role = values.get("site_role", person.site_role)
        if role != person.site_role:
            set_role(person, role, by=by)
            events.append(("changed", {"fields": ["role"], "role": role}))
        is_active = values.get("is_active", person.is_active)
        if is_active and not person.is_active:
            reactivate(person, by=by)
            events.append(("reactivated", {}))
        if person.is_active and not is_active:
            deactivate(person, by=by)
            events.append(("deactivated", {}))
    return events


def set_role(person: Any, role: str, *, by: Any) -> None:
    """Give this person one of the four roles of the site. Raises Forbidden, Conflict."""
    require_rank(person, by)
    with keep_site_administrator():
        write_role(person, role)


def write_role(person: Any, role: str) -> None:
    """Exactly one of the four groups; other groups stay."""
    if not Group.objects.filter(name=role).exists():
        roles.make_roles()
    person.groups.remove(*person.groups.filter(name__in=roles.ROLES))
    person.groups.add(Group.objects.get(name=role))
    # It was read for this object.
    if hasattr(person, "site_rank"):
        del person.site_rank


def require_rank(person: Any, by: Any) -> None:
    """Nobody changes an account that may do more than their own, nor their own. Raises Forbidden, Conflict."""
    if person.pk == by.pk:
        raise Conflict(
            _("You cannot change the role or the state of your own account."),
            code="own_account",
            hint=_("Ask another administrator."),
        )
    if person.is_superuser and not by.is_superuser:
        raise Forbidden(
            _("“%(person)s” is a superuser, whose account only superusers change.") % {"person": person},
            code="superuser",
            hint=_("Ask a superuser of this site."),
        )


# -- invite


def may_be_invited(person: Any) -> bool:
    """Whether an invitation would give the account its first password: it never replaces one."""
    is_new = person.is_active and not person.has_usable_password() and person.last_login is None
    # An account that works with keys has things of its own, which a link would give to whoever opens it.
    return is_new and not ApiKey.objects.filter(user=person).exists()


def make_invitation(person: Any, *, by: Any = None) -> tuple[str, datetime]:
    """(address, end) of a page on which this person chooses a password; it works once. Raises Forbidden, Conflict."""
    if by is not None:
        require_rank(person, by)
    if not may_be_invited(person):
        raise Conflict(
            _("“%(person)s” can sign in already, or is deactivated.") % {"person": person},
            code="not_new",
            hint=_("A superuser can set a new password in the admin."),
        )
    # Ends the links that were made before.
    person.set_unusable_password()
    person.save(update_fields=["password"])
    uid = urlsafe_base64_encode(force_bytes(person.pk))
    token = default_token_generator.make_token(person)
    url = settings.PUBLIC_URL + reverse_without_prefix("page:join", uid, token)
    return url, timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)


# -- deactivate


def deactivate(person: Any, *, by: Any) -> None:
    """The person can no longer sign in, their keys end and their runs stop. Raises Forbidden, Conflict."""
    require_rank(person, by)
    with keep_site_administrator():
        # With the lock: two administrators of one team may be deactivated at the same time.
        refuse_lonely_teams(person)
        person.is_active = False
        person.save(update_fields=["is_active"])
        Invitation.objects.open().filter(user=person).update(status=Invitation.Status.WITHDRAWN)


def reactivate(person: Any, *, by: Any) -> None:
    require_rank(person, by)
    person.is_active = True
    person.save(update_fields=["is_active"])


@contextmanager
def keep_site_administrator() -> Iterator[None]:
    """A transaction for changes of accounts, undone if the site would have no administrator. Raises Conflict."""
    is_one = Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)
    with transaction.atomic():
        # Locks the group: if two administrators deactivate each other, the second one waits for the first.
        list(Group.objects.select_for_update().filter(name=ADMINISTRATOR))
        yield
        if not User.objects.filter(is_one, is_active=True).exists():
            raise Conflict(
                _("The site needs an administrator."),
                code="last_administrator",
                hint=_("Give another person the role “administrator” first."),
            )


def refuse_lonely_teams(person: Any) -> None:
    """Raises Conflict (`no_administrator`) if a team with other members would have no administrator."""
    teams = find_lonely_teams(person)
    if teams:
        names = ", ".join(str(team) for team in teams)
        raise Conflict(
            _("“%(person)s” is the last administrator of: %(teams)s.") % {"person": person, "teams": names},
            code="no_administrator",
            hint=_("Make another member its administrator, or hand over what this person owns to one."),
        )


def find_lonely_teams(person: Any) -> list[Team]:
    """Teams with other members whose only active administrator is this person."""
    administered = Team.objects.filter(memberships__user=person, memberships__role=Membership.Role.ADMINISTRATOR)
    teams = []
    for team in administered.order_by("name"):
        others = team.memberships.exclude(user=person).filter(user__is_active=True)
        if others.exists() and not others.filter(role=Membership.Role.ADMINISTRATOR).exists():
            teams.append(team)
    return teams


# -- what hangs on a person, and handing it over


def list_belongings(person: Any) -> dict[str, Any]:
    """{rows: [{kind, name, team, moves}], counts: {kind: number}, teams: [{team, role, is_last}]} of this person.

    `moves`: whether the row is handed over; a mailbox or a login stays with its person.
    """
    rows = []
    for row in iterate_rows(person):
        team = row.team.name if row.team else None
        rows.append({"kind": kind_name(row), "name": row.name, "team": team, "moves": not row.is_personal()})
    lonely_ids = {team.pk for team in find_lonely_teams(person)}
    teams = []
    for member in person.memberships.select_related("team").order_by("team__name"):
        teams.append({"team": member.team.name, "role": member.role, "is_last": member.team_id in lonely_ids})
    return {"rows": rows, "counts": count_other_rows(person), "teams": teams}


def iterate_rows(person: Any) -> Iterator[Any]:
    """All owned rows with a name, kind by kind. Tools follow the row that they belong to."""
    for model in shared_models():
        if model is not Tool:
            yield from model.objects.filter(owner=person).select_related("team").order_by("name")


def count_other_rows(person: Any) -> dict[str, int]:
    """How many rows of each other kind belong to this person; kinds without one are left out."""
    counts: dict[str, int] = {}
    for relation in User._meta.get_fields(include_hidden=True):
        if not isinstance(relation, ManyToOneRel) or relation.one_to_one:
            continue
        if relation.field.name not in OWNER_COLUMNS:
            continue
        model: Any = relation.related_model
        if issubclass(model, Owned) or model._meta.model_name in NOT_COUNTED:
            continue
        number = model._base_manager.filter(**{relation.field.name: person}).count()
        if number:
            counts[kind_name(model)] = number
    return dict(sorted(counts.items()))


@transaction.atomic
def hand_over(person: Any, receiver: Any, *, by: Any) -> dict[str, list[str]]:
    """Make the receiver the owner of what this person owns, and administrator of teams that would have none.

    Returns {kind: [names]}, with the teams as `team`. Schedules and triggers arrive switched off, because they act
    for their owner. Raises Forbidden, Invalid, and Conflict before anything has changed.
    """
    require_rank(person, by)
    if receiver.pk == person.pk:
        raise Invalid(_("Name another person than the one who hands over."), code="same_person")
    if receiver.pk == by.pk and not by.is_superuser:
        raise Forbidden(
            _("You cannot hand over to yourself what belongs to somebody else."),
            code="own_account",
            hint=_("Name the person who takes over, or ask a superuser."),
        )
    # Nor to somebody who may do more.
    if receiver.pk != by.pk:
        require_rank(receiver, by)
    rows = [row for row in iterate_rows(person) if not row.is_personal()]
    lonely_teams = find_lonely_teams(person)
    refuse_missing_teams(rows, lonely_teams, receiver)
    refuse_name_clashes(rows, receiver)
    moved: dict[str, list[str]] = {}
    for row in rows:
        row.owner = receiver
        changed_columns = row.prepare_for_new_owner()
        row.save(update_fields=["owner", "updated_at", *changed_columns])
        carry(row)
        moved.setdefault(kind_name(row), []).append(row.name)
    for team in lonely_teams:
        Membership.objects.filter(team=team, user=receiver).update(role=Membership.Role.ADMINISTRATOR)
        moved.setdefault("team", []).append(team.name)
    return moved


def refuse_missing_teams(rows: list[Any], lonely_teams: list[Team], receiver: Any) -> None:
    """What a team uses must stay shared with it: the receiver must be in the team, and may share there."""
    missing = set()
    for team in {row.team for row in rows if row.team}:
        if not may_share(receiver, team):
            missing.add(team.name)
    for team in lonely_teams:
        if Membership.of(receiver, team.pk) is None:
            missing.add(team.name)
    if missing:
        names = {"receiver": receiver, "teams": ", ".join(sorted(missing))}
        raise Conflict(
            _("“%(receiver)s” is no author or administrator of: %(teams)s.") % names,
            code="not_in_team",
            hint=_("Invite this person to the team as an author first, so that what is shared stays shared."),
        )


def refuse_name_clashes(rows: list[Any], receiver: Any) -> None:
    """Raises Conflict (`name_taken`) with every name that the receiver or the site has already: the receiver's own row
    would take the place of the site's.
    """
    clashes = []
    for row in rows:
        namesakes = type(row).objects.filter(Q(owner=receiver) | Q(owner=None), name=row.name)
        own_tools = row.listed_as()
        tools = Tool.objects.filter(**own_tools).values("name") if own_tools else Tool.objects.none().values("name")
        if namesakes.exists() or Tool.objects.filter(owner=receiver, name__in=tools).exists():
            clashes.append(f"{kind_name(row)} {row.name}")
    if clashes:
        names = {"receiver": receiver, "names": ", ".join(clashes[:20])}
        raise Conflict(
            _("“%(receiver)s” has rows with the same names: %(names)s.") % names,
            code="name_taken",
            hint=_("Let one of the two people rename theirs, then hand over."),
        )
