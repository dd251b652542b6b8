"""Teams, owners and visibility of rows."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Self, TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Case, IntegerField, Q, When
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Forbidden, NotFound
from agents.names import normal_name
from plumbing.statements import Select
from plumbing.stored_rows import StoredRow

# Paths of the API and reserved words; a row with such a name could not be addressed.
RESERVED = frozenset(
    [
        "admin",
        "all",
        "any",
        "api",
        "complete",
        "delegate",
        "diff",
        "execute",
        "me",
        "messages",
        "new",
        "none",
        "publish",
        "read_skill",
        "rollback",
        "route",
        "runs",
        "search",
        "search_tools",
        "site",
        "standalone",
        "stubs",
        "try",
        "validate",
        "versions",
    ]
)
POOL = RegexValidator(
    r"^[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?\Z",
    "Use 1 to 32 lower-case letters, digits, - or _, starting and ending with a letter or digit.",
)
SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$",
    "Use 1 to 64 lower-case letters, digits, - or _, starting and ending with a letter or digit.",
)


def check_name(value: str) -> None:
    """A slug that is not a path of the API."""
    SLUG(value)
    if value in RESERVED:
        raise ValidationError(f"“{value}” is a reserved word; choose another name.", code="reserved")


def kind_name(row: Any) -> str:
    """What a row or a model is called, in the person's language."""
    return row._meta.verbose_name_raw


class Editable:
    """Who may change a row; `editable_by` is the QuerySet's version."""

    def may_edit(self, user: Any) -> bool:
        return type(self)._default_manager.editable_by(user).filter(pk=self.pk).exists()  # type: ignore[attr-defined]

    def require_edit(self, user: Any) -> None:
        if not self.may_edit(user):
            raise Forbidden(
                _("You can see %(kind)s “%(name)s”, but not change it.") % {"kind": kind_name(self), "name": self},  # type: ignore[attr-defined]
                hint=_("Make a copy under your own name, or ask its owner."),
            )


class TeamQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        memberships = Membership.objects.filter(user_id=user.pk)
        return self.filter(pk__in=memberships.values("team_id"))

    def nearest_first(self, user: Any) -> Self:
        # A team's name is unique on the site.
        return self.order_by("pk")

    def editable_by(self, user: Any) -> Self:
        """Teams that this user administers."""
        if user.is_superuser:
            return self
        mine = Membership.objects.filter(user_id=user.pk, role=Membership.Role.ADMINISTRATOR)
        return self.filter(pk__in=mine.values("team_id"))


LIMIT = [MinValueValidator(1), MaxValueValidator(1_000_000)]


def pool_label() -> models.CharField:
    """The column `pool` of what can be started."""
    return models.CharField(
        max_length=32, blank=True, validators=[POOL],
        help_text="Only workers that serve this pool take its runs (MUSTER_WORKER_POOLS); empty: the pool of the "
            "parent run, or “default”.",
    )  # fmt: skip


def make_cap(rows: str) -> models.PositiveIntegerField:
    """The column `max_running`: how many runs may be in work at the same time, over all workers."""
    help_text = f"How many runs of {rows} may be in work at the same time; empty: any number."
    return models.PositiveIntegerField(null=True, blank=True, validators=LIMIT, help_text=help_text)


def is_capped(name: str) -> models.Index:
    """Every choice of a run asks for the rows with a limit; usually there are none."""
    return models.Index(fields=["max_running"], condition=Q(max_running__isnull=False), name=name)


class Team(Editable, StoredRow):
    name = models.CharField(max_length=64, unique=True, validators=[check_name])
    max_running = make_cap("its agents and chains")
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="teams")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        indexes = [is_capped("team_capped")]

    def __str__(self) -> str:
        return self.name


class Membership(StoredRow):
    class Role(models.TextChoices):
        VIEWER = "viewer"
        OPERATOR = "operator"
        AUTHOR = "author"
        ADMINISTRATOR = "administrator"

    # May use what the team shares.
    USERS = (Role.OPERATOR, Role.AUTHOR, Role.ADMINISTRATOR)
    # May share rows of their own.
    SHARERS = (Role.AUTHOR, Role.ADMINISTRATOR)

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.AUTHOR)

    class Meta:
        # Members stand in the order in which they joined.
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team} ({self.role})"

    @classmethod
    def of(cls, user: Any, team_id: int | None) -> "Membership | None":
        if not team_id:
            return None
        return cls.objects.filter(user_id=user.pk, team_id=team_id).first()


def filter_open_rows(user: Any, roles: Iterable[str], prefix: str = "") -> Q:
    """Rows owned by this user, shared by a team in which they have one of these roles, or owned by
    the site.
    """
    teams = Membership.objects.filter(user_id=user.pk, role__in=roles).values("team_id")
    own = Q(**{f"{prefix}owner_id": user.pk})
    shared = Q(**{f"{prefix}team_id__in": teams})
    of_site = Q(**{f"{prefix}owner": None, f"{prefix}team": None})
    return own | shared | of_site


class OwnedQuerySet(models.QuerySet):
    """Rows with `owner` and `team`; a row with neither belongs to the site and everyone may use it.

    Who may do what with a row is decided here, for every kind; docs/security.md shows it as a
    table.
    """

    def visible_to(self, user: Any) -> Self:
        """See: the user's own rows, those shared by their teams, and the site's."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(filter_open_rows(user, Membership.Role.values))

    def usable_by(self, user: Any) -> Self:
        """Use: the same, except for a team's viewers. Rows that start runs as their owner can only
        be used by the owner.
        """
        if not user.is_authenticated:
            return self.none()
        model: Any = self.model
        return self.filter(filter_open_rows(user, model.USED_BY))

    def editable_by(self, user: Any) -> Self:
        """Change, share and delete: only the owner; for rows without an owner, superusers."""
        if not user.is_authenticated:
            return self.none()
        if user.is_superuser:
            return self.filter(Q(owner_id=user.pk) | Q(owner=None))
        return self.filter(owner_id=user.pk)

    def nearest_first(self, user: Any) -> Self:
        """Own before the site's before a team's, so that sharing never replaces a row of the site."""
        nearness = Case(
            When(owner_id=user.pk, then=0), When(team__isnull=False, then=2), default=1, output_field=IntegerField()
        )
        return self.order_by(nearness, "pk")

    def of_owner(self, owner: str) -> Self:
        """Rows of the person with this username, in any spelling; of the site if it is empty."""
        if "\0" in owner:  # PostgreSQL takes no NUL in a text
            return self.none()
        return self.filter(owner__normal_name=normal_name(owner)) if owner else self.filter(owner=None)

    def named(self, user: Any, name: str, owner: str | None = None) -> Any:
        """The visible row that this name means to this user (own → site → team), or the one of this owner
        (see `of_owner`). Raises NotFound, Conflict.
        """
        rows = self.rows_named("visible_to", user, name, owner)
        if not rows:
            raise NotFound(
                _("There is no %(kind)s “%(name)s” that you can see.") % {"kind": kind_name(self.model), "name": name}
            )
        return the_one(rows, user)

    def for_use(self, user: Any, name: str, owner: str | None = None) -> Any:
        """The same among the rows that this user may use. Raises Forbidden for one they may only
        see.
        """
        rows = self.rows_named("usable_by", user, name, owner)
        if rows:
            return the_one(rows, user)
        raise not_for_use(self.named(user, name, owner))

    def rows_named(self, right: str, user: Any, name: str, owner: str | None) -> list[Any]:
        if not user.is_authenticated or "\0" in name:
            return []
        if owner is not None:
            # At most one: names are unique per owner.
            return list(getattr(self, right)(user).of_owner(owner).filter(name=name))
        return list(self.statement_by_name(right).all(user=user.pk, name=name))

    def meant(self, user: Any, names: Iterable[str]) -> dict[str, Any]:
        """The same for several names at once: name → row, without unknown names. Raises Conflict."""
        rows: Any = self
        by_name: dict[str, list[Any]] = {}
        for row in rows.filter(name__in=names).nearest_first(user):
            by_name.setdefault(row.name, []).append(row)
        return {name: the_one(rows, user) for name, rows in by_name.items()}

    def statement_by_name(self, right: str) -> Select:
        """Every message and most requests look up a row by name: compiled once for each model and
        its joins.
        """
        query: Any = self.query
        # Conditions hold values, so such a query is compiled each time.
        if query.where or query.annotations or self._prefetch_related_lookups:  # type: ignore[attr-defined]
            return self.select_by_name(right)
        shape = (self.model, right, repr((query.select_related, query.deferred_loading)))
        statement = _by_name.get(shape)
        if statement is None:
            statement = self.select_by_name(right)
            _by_name[shape] = statement
        return statement

    def select_by_name(self, right: str) -> Select:
        def make(at: Any) -> models.QuerySet:
            person = SimpleNamespace(pk=at.user, is_authenticated=True)
            return getattr(self, right)(person).filter(name=at.name).nearest_first(person)[:2]

        return Select(make, user=models.IntegerField(), name=models.CharField())


def the_one(rows: list[Any], user: Any) -> Any:
    """The nearest of the rows with one name. Raises Conflict if two teams share one: neither may
    replace the other.
    """
    first = rows[0]
    if len(rows) > 1 and first.owner_id != user.pk and first.team_id is not None:
        raise Conflict(
            _("“%(first)s” is shared with you by two teams.") % {"first": first},
            code="ambiguous_name",
            hint=_(
                "In the REST API, add the owner to the address: ?owner=alice. Elsewhere ask one of the owners to "
                "rename theirs, make a copy of your own, or leave one of the teams."
            ),
        )
    return first


def not_for_use(row: Any) -> Forbidden:
    return Forbidden(
        _("You can see %(kind)s “%(row)s”, but not use it.") % {"kind": kind_name(row), "row": row},
        code="not_for_use",
        hint=_(
            "Viewers of a team can only look at what it shares. Schedules and triggers can only be "
            "started by their owner."
        ),
    )


_by_name: dict[tuple[type[models.Model], str, str], Select] = {}


def others_among(owner_ids: Iterable[int | None], user_id: int) -> set[int]:
    """Those among the owners of agents and chains (None: the site) who are not this person."""
    return {owner_id for owner_id in owner_ids if owner_id is not None and owner_id != user_id}


def is_open(owner_id: int | None, team_id: int | None, user_id: int, roles: Iterable[str] = Membership.USERS) -> bool:
    """`filter_open_rows` for one row: queries the database only for rows shared by a team."""
    if owner_id == user_id:
        return True
    if team_id is None:
        return owner_id is None
    return Membership.objects.filter(user_id=user_id, team_id=team_id, role__in=roles).exists()


Key = TypeVar("Key")


def find_closed_rows(places: Mapping[Key, tuple[int | None, int | None]], user_ids: Iterable[int]) -> set[Key]:
    """The rows, by their owners and teams, that one of these people may not use. Asks the database once for each person
    and each team that shares some.
    """
    people = list(user_ids)
    open_places = set()
    for owner_id, team_id in set(places.values()):
        if all(is_open(owner_id, team_id, user_id) for user_id in people):
            open_places.add((owner_id, team_id))
    return {key for key, place in places.items() if place not in open_places}


class Owned(Editable, StoredRow):
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+",
        help_text="Empty: the row belongs to the site and everyone may use it.",
    )  # fmt: skip
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, blank=True, related_name="+",
        help_text="Share with everyone in this team.",
    )  # fmt: skip
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    # Roles in its team that may use it; empty: only its owner.
    USED_BY: tuple[str, ...] = Membership.USERS

    class Meta:
        abstract = True

    def listed_as(self) -> dict[str, Any]:
        """The tools of the catalogue that represent this row, as a filter; {} for a kind that is
        not listed there.
        """
        return {}

    def is_personal(self) -> bool:
        """Whether the row stays with its person when what they own is handed over, such as a mailbox."""
        return False

    def prepare_for_new_owner(self) -> list[str]:
        """Change what must not act for a new owner unseen; returns the columns that changed."""
        return []

    def may_use(self, user: Any) -> bool:
        return is_open(self.owner_id, self.team_id, user.pk, self.USED_BY)

    def require_use(self, user: Any) -> None:
        if not self.may_use(user):
            raise not_for_use(self)


def one_name_per_owner(model: str) -> list[models.BaseConstraint]:
    """Names are unique per owner, among the site's rows, and among those a team shares."""
    return [
        models.UniqueConstraint(fields=["owner", "name"], name=f"{model}_name_per_owner"),
        models.UniqueConstraint(fields=["name"], condition=Q(owner=None), name=f"{model}_name_of_site"),
        models.UniqueConstraint(fields=["team", "name"], name=f"{model}_name_per_team"),
    ]
