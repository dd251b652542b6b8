"""A text column that is encrypted at rest (Fernet; keys from settings.FIELD_KEYS, newest first), and dates in range."""

import base64
import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC)
OUT_OF_RANGE = "The date must be between the years 1970 and 2999."


def is_usual(moment: datetime) -> bool:
    """Dates that every time zone can represent: calculations with the first and last days of the
    calendar overflow.
    """
    return EARLIEST <= moment <= LATEST


def check_moment(moment: datetime) -> None:
    if not is_usual(moment):
        raise ValidationError(OUT_OF_RANGE, code="out_of_range")


@lru_cache(maxsize=4)
def cipher(keys: tuple[str, ...]) -> MultiFernet:
    fernets = []
    for key in keys:
        # Fernet takes 32 bytes in base64; a key in the settings may be any text.
        digest = hashlib.sha256(key.encode()).digest()
        fernets.append(Fernet(base64.urlsafe_b64encode(digest)))
    return MultiFernet(fernets)


def encrypt(text: str) -> str:
    fernet = cipher(tuple(settings.FIELD_KEYS))
    return fernet.encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    try:
        return cipher(tuple(settings.FIELD_KEYS)).decrypt(token.encode()).decode()
    except InvalidToken:
        raise ImproperlyConfigured(
            "A secret cannot be decrypted: MUSTER_FIELD_KEYS does not contain the key it was encrypted with."
        )


def rotate(token: str) -> str:
    """The same secret encrypted with the newest key."""
    fernet = cipher(tuple(settings.FIELD_KEYS))
    return fernet.rotate(token.encode()).decode()


class EncryptedTextField(models.TextField):
    """Plain text in Python, a Fernet token in the database; empty stays empty. Not searchable."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if not value:
            return value
        return decrypt(value)

    def get_prep_value(self, value: str | None) -> str | None:
        if not value:
            return value
        return encrypt(value)
