"""Teams, and what it means for a row to be somebody's."""

from types import SimpleNamespace
from typing import Any, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Case, IntegerField, Q, When

from agents.exceptions import Forbidden, NotFound
from plumbing.statements import Select

# Words that are paths of the API or verbs of the product; a row with such a name could not be addressed.
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
        "rollback",
        "route",
        "runs",
        "site",
        "standalone",
        "try",
        "validate",
        "versions",
    ]
)
SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$",
    "Use 1 to 64 lower-case letters, digits, - or _, starting and ending with a letter or digit.",
)


def check_name(value: str) -> None:
    """A slug that no path of the API uses."""
    SLUG(value)
    if value in RESERVED:
        raise ValidationError(f"“{value}” is a reserved word; choose another name.", code="reserved")


class Editable:
    """Whose row may be changed by whom; the set is the QuerySet's `editable_by`."""

    def may_edit(self, user: Any) -> bool:
        return type(self)._default_manager.editable_by(user).filter(pk=self.pk).exists()  # type: ignore[attr-defined]

    def require_edit(self, user: Any) -> None:
        if not self.may_edit(user):
            raise Forbidden(
                f"You may use {self._meta.verbose_name} “{self}”, but not change it.",  # type: ignore[attr-defined]
                hint="Make a copy under your own name, or ask its owner.",
            )


class TeamQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(pk__in=Membership.objects.filter(user_id=user.pk).values("team_id"))

    def nearest_first(self, user: Any) -> Self:
        return self.order_by("pk")  # a team's name is unique on the site

    def editable_by(self, user: Any) -> Self:
        """Teams this person administers."""
        if user.is_superuser:
            return self
        mine = Membership.objects.filter(user_id=user.pk, role=Membership.Role.ADMINISTRATOR)
        return self.filter(pk__in=mine.values("team_id"))


class Team(Editable, models.Model):
    name = models.CharField(max_length=64, unique=True, validators=[check_name])
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="teams")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    class Role(models.TextChoices):
        VIEWER = "viewer"
        OPERATOR = "operator"
        AUTHOR = "author"
        ADMINISTRATOR = "administrator"

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.AUTHOR)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team} ({self.role})"


class OwnedQuerySet(models.QuerySet):
    """Rows with `owner` and `team`; a row with neither belongs to the site and everyone may use it."""

    def visible_to(self, user: Any) -> Self:
        """What this person owns, shares through a team, or may use because it is the site's."""
        if not user.is_authenticated:
            return self.none()
        mine = Q(owner_id=user.pk) | Q(team_id__in=Membership.objects.filter(user_id=user.pk).values("team_id"))
        return self.filter(mine | Q(owner=None, team=None))

    def editable_by(self, user: Any) -> Self:
        """What this person may change: own rows, a team's rows as its author, the site's as a superuser."""
        roles = [Membership.Role.AUTHOR, Membership.Role.ADMINISTRATOR]
        teams = Membership.objects.filter(user_id=user.pk, role__in=roles).values("team_id")
        mine = Q(owner_id=user.pk) | Q(team_id__in=teams)
        return self.filter(mine | Q(owner=None, team=None)) if user.is_superuser else self.filter(mine)

    def nearest_first(self, user: Any) -> Self:
        """Own before team before site."""
        nearness = Case(
            When(owner_id=user.pk, then=0), When(team__isnull=False, then=1), default=2, output_field=IntegerField()
        )
        return self.order_by(nearness, "pk")

    def named(self, user: Any, name: str) -> Any:
        """The row this name means to this person (own → team → site). Raises NotFound."""
        may_be_one = user.is_authenticated and "\0" not in name  # PostgreSQL takes no NUL in a text
        if may_be_one and (row := self.statement_by_name().first(user=user.pk, name=name)):
            return row
        raise NotFound(f"There is no {self.model._meta.verbose_name} “{name}” that you can see.")

    def statement_by_name(self) -> Select:
        """Every message and most requests look a row up by its name: compiled once for each model and its joins."""
        if self.query.where or self.query.annotations or self._prefetch_related_lookups:  # type: ignore[attr-defined]
            return self.select_by_name()
        shape = (self.model, repr((self.query.select_related, self.query.deferred_loading)))
        if (kept := _by_name.get(shape)) is None:
            kept = _by_name[shape] = self.select_by_name()
        return kept

    def select_by_name(self) -> Select:
        def make(at: Any) -> models.QuerySet:
            person = SimpleNamespace(pk=at.user, is_authenticated=True)
            return self.visible_to(person).filter(name=at.name).nearest_first(person)[:1]

        return Select(make, user=models.IntegerField(), name=models.CharField())


_by_name: dict[tuple[type[models.Model], str], Select] = {}


class Owned(Editable, models.Model):
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

    class Meta:
        abstract = True


def one_name_per_owner(model: str) -> list[models.BaseConstraint]:
    """Names are unique per owner, and among the site's rows."""
    return [
        models.UniqueConstraint(fields=["owner", "name"], name=f"{model}_name_per_owner"),
        models.UniqueConstraint(fields=["name"], condition=Q(owner=None), name=f"{model}_name_of_site"),
    ]
