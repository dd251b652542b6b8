"""Signed links to one approval for one person. A link opens a page; it decides nothing."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core import signing

SALT = "muster.approval"
GOOD_S = 86_400


@dataclass(frozen=True, slots=True)
class Link:
    approval: UUID
    person: int


def sign_approval_link(approval_id: UUID, person_id: Any) -> str:
    """An address that only this person can use, for a day."""
    token = signing.dumps([approval_id.hex, person_id], salt=SALT)
    return f"{settings.PUBLIC_URL}/approvals/link/{token}/"


def read_approval_link(token: str) -> Link:
    """Raises signing.SignatureExpired, signing.BadSignature."""
    approval, person = signing.loads(token, salt=SALT, max_age=GOOD_S)
    return Link(UUID(approval), int(person))
