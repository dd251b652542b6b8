"""API keys: a prefix to find the row, a sha256 to check the secret, and scopes that limit it."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from agents import roles
from agents.exceptions import Forbidden
from plumbing.statements import Select
from plumbing.stored_rows import StoredRow

RESOURCES = (
    "agents", "functions", "tools", "chains", "runs", "messages", "sessions", "schedules", "devices", "records",
    "connections", "providers", "budgets", "teams", "secrets", "audit", "triggers", "webhooks", "workers", "keys",
    "memory", "skills", "collections", "prompts", "account", "people",
)  # fmt: skip
DECIDE = "approvals:decide"
SCOPES = frozenset(
    {f"{resource}:{verb}" for resource in RESOURCES for verb in ("read", "write")}
    | {"approvals:read", DECIDE, "functions:execute"}
)
# Every scope except DECIDE, which must be given explicitly.
EVERYTHING = "*"


class KeyQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(user_id=user.pk)


class ApiKey(StoredRow):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True, help_text="What this key is for.")
    prefix = models.CharField(max_length=12, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(
        default=list,
        help_text='For example ["messages:write", "runs:read"]; ["*"] is everything except approvals:decide.',
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    made_by = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="made",
        help_text="The key that asked for this one: it is revoked with it.",
    )  # fmt: skip
    authorization = models.UUIDField(
        null=True, blank=True, unique=True, editable=False,
        help_text="Of a key that stands for a client with OAuth: what its tokens have in common.",
    )  # fmt: skip
    created_at = models.DateTimeField(auto_now_add=True)

    objects = KeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name or 'key'} ({self.prefix}…)"

    @classmethod
    @transaction.atomic
    def make(
        cls,
        user: Any,
        scopes: list[str],
        *,
        name: str = "",
        expires_at: datetime | None = None,
        made_by: "ApiKey | None" = None,
    ) -> tuple["ApiKey", str]:
        """A new key and its secret, which is shown once and stored only as a hash. Raises Forbidden if `made_by` was
        revoked.
        """
        if made_by is not None:
            made_by.hold()
        prefix = "mk_" + secrets.token_hex(4)
        secret = secrets.token_urlsafe(32)
        key = cls.objects.create(
            user=user, name=name, prefix=prefix, digest=hash_secret(secret), scopes=scopes, expires_at=expires_at,
            made_by=made_by,
        )  # fmt: skip
        return key, f"{prefix}.{secret}"

    @classmethod
    def find(cls, presented: str) -> "ApiKey | None":
        """The live key for a presented token, or None. The comparison takes constant time."""
        prefix, _, secret = presented.partition(".")
        key = LIVE_KEY.first(prefix=prefix)
        if key is None or not hmac.compare_digest(key.digest, hash_secret(secret)):
            return None
        if not key.user.is_active or (key.expires_at and key.expires_at <= timezone.now()):
            return None
        key.user.site_rank = key.rank
        return key

    def allows(self, scope: str) -> bool:
        if scope in self.scopes:
            return True
        # Only a key that names this scope decides approvals.
        if scope == DECIDE:
            return False
        resource, _colon, _verb = scope.partition(":")
        return EVERYTHING in self.scopes or f"{resource}:*" in self.scopes

    def is_live(self) -> bool:
        if self.revoked_at is not None:
            return False
        return self.expires_at is None or self.expires_at > timezone.now()

    def mark_used(self) -> None:
        """Written at most once a minute; a write per request would cost more than the request."""
        now = timezone.now()
        if self.last_used_at is None or now - self.last_used_at > timedelta(minutes=1):
            ApiKey.objects.filter(pk=self.pk).update(last_used_at=now)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        """The keys that it made end with it."""
        self.revoke()
        return super().delete(*args, **kwargs)

    def hold(self) -> None:
        """Keep its row until the transaction ends: `revoke` waits, and then finds the keys that it made meanwhile.
        Raises Forbidden.
        """
        if not ApiKey.objects.filter(pk=self.pk, revoked_at=None).update(last_used_at=timezone.now()):
            raise Forbidden(_("This API key is unknown, expired or revoked."), hint=_("Use another key."))

    def revoke(self) -> None:
        """This key and every key that it made, and that those made."""
        now = timezone.now()
        if self.revoked_at is None:
            self.revoked_at = now
        generation = [self.pk]
        while generation:
            ApiKey.objects.filter(pk__in=generation, revoked_at=None).update(revoked_at=now)
            generation = list(ApiKey.objects.filter(made_by__in=generation).values_list("pk", flat=True))


LIVE_KEY = Select(
    lambda at: (
        ApiKey.objects.select_related("user")
        .annotate(rank=Subquery(roles.ranks(OuterRef("user_id"))))  # read with the key: no query of its own
        .filter(prefix=at.prefix, revoked_at=None)
        .order_by()
    ),
    prefix=models.CharField(),
)


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def unknown_scopes(scopes: list[str]) -> list[str]:
    choices = SCOPES | {EVERYTHING} | {f"{resource}:*" for resource in RESOURCES}
    return [scope for scope in scopes if scope not in choices]
