"""The four roles of the site: Django groups, whose model permissions count in the admin and whose
rank counts everywhere else (REST, sockets, pages, and runs that start without a person).

Viewers read, operators keep things running, authors create, administrators do everything that no
superuser is needed for. docs/security.md shows the table.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.utils.translation import gettext_noop as _

from .exceptions import Forbidden

AUTHORED = (
    "agent", "storedfunction", "functiontest", "chain", "chainstep", "tool", "toolgrant", "secret", "provider",
    "team", "membership", "invitation", "embed", "skill",
)  # fmt: skip
OPERATED = (
    "run", "session", "approval", "schedule", "trigger", "webhook", "device", "connection", "budget", "apikey",
    "record", "memory", "collection", "document",
)  # fmt: skip

ROLES = ("viewer", "operator", "author", "administrator")
VIEWER, OPERATOR, AUTHOR, ADMINISTRATOR = range(len(ROLES))
# What each resource of the API takes to change it. A resource that is not listed takes an author.
WRITTEN_BY_OPERATORS = frozenset(
    ["messages", "runs", "sessions", "approvals", "schedules", "triggers", "webhooks", "devices", "connections",
     "budgets", "collections", "keys", "memory", "prompts", "records", "workers"]
)  # fmt: skip
# Accounts of other people: even reading them takes an administrator.
ADMINISTERED = frozenset(["people"])
# What is a person's own: settings, browsers that get notices.
WRITTEN_BY_ALL = frozenset(["account"])
USES = frozenset(["functions:execute", "approvals:decide"])
# What every operator may do.
ACT = "runs:write"


# -- what a person's role allows


def allows(user: Any, scope: str) -> bool:
    """Whether this person's role on the site covers a scope such as `agents:write`. A deactivated account only reads,
    as far as anything lets it in.
    """
    needed = needed_rank(scope)
    if needed == VIEWER:
        return True
    return user.is_active and find_rank(user) >= needed


def needed_rank(scope: str) -> int:
    """The lowest role that may do what the scope names."""
    resource, _, verb = scope.partition(":")
    if resource in ADMINISTERED:
        return ADMINISTRATOR
    if verb == "read" or resource in WRITTEN_BY_ALL:
        return VIEWER
    if resource in WRITTEN_BY_OPERATORS or scope in USES:
        return OPERATOR
    return AUTHOR


def require(user: Any, scope: str) -> None:
    """Raises Forbidden (`role_forbids`)."""
    if allows(user, scope):
        return
    message = _("Your role on this site is “%(role)s”, which does not allow %(scope)s.")
    needed_role = ROLES[needed_rank(scope)]
    raise Forbidden(
        message % {"role": find_role(user), "scope": scope},
        code="role_forbids",
        hint=_("Ask an administrator of the site for the role “%(role)s”.") % {"role": needed_role},
    )


def find_role(user: Any) -> str:
    return ROLES[find_rank(user)]


def find_rank(user: Any) -> int:
    """The highest role of this person; without one, that of `MUSTER_DEFAULT_ROLE`. Read once for
    each user object.
    """
    if user.is_superuser:
        return ADMINISTRATOR
    if not hasattr(user, "site_rank"):
        user.site_rank = ranks(user.pk).first()
    if user.site_rank is None:
        return ROLES.index(settings.DEFAULT_ROLE)
    return user.site_rank


def ranks(user: Any) -> QuerySet:
    """The rank of a user (an id, or a reference of an outer query), as a query of at most one row."""
    group_members = get_user_model().groups.through._default_manager
    memberships = group_members.filter(user_id=user, group__name__in=ROLES)
    ranks_by_name = [When(group__name=name, then=Value(place)) for place, name in enumerate(ROLES)]
    rank = Case(*ranks_by_name, output_field=IntegerField())
    # The highest of several roles counts.
    return memberships.order_by(rank.desc()).values_list(rank, flat=True)[:1]


# -- the groups

# Apps whose rows only superusers change.
SITE = ("auth", "admin", "contenttypes", "sessions", "oauth2_provider")


def make_roles() -> None:
    """Viewers read, operators keep things running, authors create, administrators do everything.
    Safe to run again.
    """
    viewer: list[Permission] = []
    operator: list[Permission] = []
    author: list[Permission] = []
    administrator: list[Permission] = []
    for permission in Permission.objects.select_related("content_type"):
        if is_way_up(permission):
            continue
        model = permission.content_type.model
        administrator.append(permission)
        if permission.codename.startswith("view_"):
            viewer.append(permission)
        if model in OPERATED:
            operator.append(permission)
        if model in AUTHORED and is_plain(permission):
            author.append(permission)
    # Each role may also do what the one below it may.
    give_permissions("viewer", viewer)
    give_permissions("operator", viewer + operator)
    give_permissions("author", viewer + operator + author)
    give_permissions("administrator", administrator)


def give_permissions(role: str, permissions: list[Permission]) -> None:
    """What an administrator added to a group stays, unless it would make its members superusers."""
    group, _ = Group.objects.get_or_create(name=role)
    present = set(group.permissions.all())
    group.permissions.add(*(set(permissions) - present))
    group.permissions.remove(*(permission for permission in present if is_way_up(permission)))


def is_plain(permission: Permission) -> bool:
    """Add, change, delete, view; special permissions (raising limits, unsafe code) are given by an
    administrator.
    """
    return permission.codename.split("_")[0] in ("add", "change", "delete", "view")


def is_way_up(permission: Permission) -> bool:
    """Whether it would make a role a superuser: changing people or permissions, or having Celery run any task."""
    kind = permission.content_type
    return kind.app_label in SITE or kind.model.startswith("periodictask")
