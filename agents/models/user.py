"""User: an account that signs in, owns rows and starts runs."""

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as DjangoUserManager
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_noop as _

from agents import roles
from agents.names import find_look, normal_name
from plumbing.stored_rows import StoredRow

# One of the 150 letters of a user name may become several.
NORMAL_LENGTH = 450


class NormalNameField(models.CharField):
    """The normal form of the user name, also of accounts that are stored many at once (`bulk_create`)."""

    form = staticmethod(normal_name)

    def pre_save(self, row: models.Model, add: bool) -> Any:
        value = self.form(row.username)  # type: ignore[attr-defined]
        setattr(row, self.attname, value)
        return value


class LookField(NormalNameField):
    """What the user name looks like: no two accounts look the same."""

    form = staticmethod(find_look)


class UserManager(DjangoUserManager):
    def get_by_natural_key(self, username: str | None) -> Any:
        """Sign-in finds an account by any spelling of its name."""
        return self.get(normal_name=normal_name(username or ""))

    def find(self, username: str) -> Any:
        """The account of this name in any spelling, or None."""
        return self.filter(normal_name=normal_name(username)).first()


class User(StoredRow, AbstractUser):
    """A model of our own, although it hardly differs from Django's: once migrations are kept, Django's user model
    cannot be replaced any more.
    """

    normal_name = NormalNameField(
        max_length=NORMAL_LENGTH,
        unique=True,
        blank=True,
        editable=False,
    )
    look = LookField(max_length=NORMAL_LENGTH, unique=True, blank=True, editable=False)

    objects = UserManager()

    @property
    def site_role(self) -> str:
        """viewer, operator, author or administrator."""
        return roles.find_role(self)

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"

    def clean(self) -> None:
        """Raises ValidationError for a name that another account has in another spelling, or that looks like it."""
        super().clean()
        # A form with an invalid name has none.
        self.normal_name = normal_name(self.username or "")
        self.look = find_look(self.username or "")
        alike = Q(normal_name=self.normal_name) | Q(look=self.look)
        if User.objects.filter(alike).exclude(pk=self.pk).exists():
            message = _("A user with that name, or one that reads the same, already exists.")
            raise ValidationError({"username": ValidationError(message, code="unique")})

    def save(self, *args: Any, **options: Any) -> None:
        self.normal_name, self.look = normal_name(self.username), find_look(self.username)
        fields = options.get("update_fields")
        if fields is not None and "username" in fields:
            options["update_fields"] = {*fields, "normal_name", "look"}
        super().save(*args, **options)
