"""Sign-in by name and password, for the pages and the admin, with a limit on attempts per minute."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.utils.translation import gettext as _

from agents.exceptions import Unavailable
from agents.names import normal_name

from .hashing import password_turn
from .throttles import count_in_windows, find_client

# factors of settings.LOGIN_TRIES: many users share an address, one name is tried from many addresses
PER_ADDRESS, PER_NAME = 6, 20


class Limited:
    """Counts before it checks the password: a guess beyond the limit reveals nothing even if it is
    right.
    """

    request: Any

    def clean(self) -> dict[str, Any]:
        self.count_try(str(self.data.get("username", "")))  # type: ignore[attr-defined]
        with wait_for_turn():
            return super().clean()  # type: ignore[misc]

    def count_try(self, username: str) -> None:
        if self.is_tried_too_often(username):
            raise forms.ValidationError(_("Too many attempts. Wait a minute, then try again."), code="throttled")

    def is_tried_too_often(self, username: str) -> bool:
        if not settings.LOGIN_TRIES:
            return False
        client = find_client(self.request)
        # Sign-in takes any spelling of a name, so all of them are counted as one.
        name = sha256(normal_name(username[:200]).encode("utf-8", "replace")).hexdigest()[:16]
        limits = {f"login:{client}:{name}": 1, f"login:{client}": PER_ADDRESS, f"login::{name}": PER_NAME}
        seen = count_in_windows(list(limits))
        return any(tries > times * settings.LOGIN_TRIES for tries, times in zip(seen, limits.values(), strict=True))


class LoginForm(Limited, AuthenticationForm):
    """Of the pages and the admin."""


class PasswordForm(Limited, PasswordChangeForm):
    """A new password for the person who is signed in. The old one is asked for, and guessing it counts
    as signing in does.
    """

    def __init__(self, request: Any, data: Any = None) -> None:
        self.request = request
        super().__init__(request.user, data)
        self.fields["old_password"].widget.attrs.pop("autofocus", None)  # it is one form of several on its page

    def clean(self) -> dict[str, Any]:
        return PasswordChangeForm.clean(self)

    def clean_old_password(self) -> str:
        self.count_try(self.user.get_username())
        with wait_for_turn():
            return super().clean_old_password()


@contextmanager
def wait_for_turn() -> Iterator[None]:
    """A form says in words that too many people sign in at the moment."""
    try:
        with password_turn():
            yield
    except Unavailable:
        raise forms.ValidationError(_("Too many attempts. Wait a minute, then try again."), code="throttled")
