"""Requests that were sent with an `Idempotency-Key`, and what was answered."""

from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from agents.fields import EncryptedTextField

KEPT = timedelta(days=1)


class IdempotentRequestQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(user_id=user.pk)

    def old(self) -> Self:
        return self.filter(created_at__lt=timezone.now() - KEPT)

    def claim(self, user: Any, key: str, request_hash: str) -> tuple[Any, bool]:
        """The request of this key, and whether it is new: then its caller carries it out."""
        self.filter(user=user, key=key).old().delete()
        return self.get_or_create(user=user, key=key, defaults={"request_hash": request_hash})


class IdempotentRequest(models.Model):
    """`status` is null while the request is at work, and stays null if nobody knows whether it took effect.

    `content` is null if the answer is not kept: it contained a secret, or it was too large.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, db_index=False, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    content = EncryptedTextField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = IdempotentRequestQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotent_request_once")]

    def __str__(self) -> str:
        return self.key
