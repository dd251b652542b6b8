"""Sign-in by name and password, for the pages and the admin, with a limit on attempts per minute."""

from hashlib import sha256
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from unfold.forms import AuthenticationForm as UnfoldAuthenticationForm

from .throttles import address_of, count

# factors of settings.LOGIN_TRIES: many users share an address, one name is tried from many addresses
PER_ADDRESS, PER_NAME = 6, 20


class Limited:
    """Counts before it checks the password: a guess beyond the limit reveals nothing even if it is
    right.
    """

    request: Any

    def clean(self) -> dict[str, Any]:
        if self.is_tried_too_often():
            raise forms.ValidationError("Too many attempts. Wait a minute, then try again.", code="throttled")
        return super().clean()  # type: ignore[misc]

    def is_tried_too_often(self) -> bool:
        if not settings.LOGIN_TRIES:
            return False
        address = address_of(self.request)
        typed = str(self.data.get("username", ""))[:200]  # type: ignore[attr-defined]
        name = sha256(typed.encode()).hexdigest()[:16]
        limits = {f"login:{address}:{name}": 1, f"login:{address}": PER_ADDRESS, f"login::{name}": PER_NAME}
        seen = count(list(limits))
        return any(tries > times * settings.LOGIN_TRIES for tries, times in zip(seen, limits.values(), strict=True))


class LoginForm(Limited, AuthenticationForm):
    """For the pages."""


class AdminLoginForm(Limited, UnfoldAuthenticationForm):
    """For the admin."""
