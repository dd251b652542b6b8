"""The audit log: who did what to what, from where. Rows are only ever added."""

from functools import partial
from typing import Any, Self

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q

from plumbing.broker import broadcast


def change_channel(kind: str) -> bytes:
    """The channel on which a change of a row of this kind is announced."""
    return broadcast.name_channel("changed", kind)


class AuditQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """This user's actions, and changes to this user's rows; everything for a superuser."""
        if user.is_superuser:
            return self
        return self.filter(Q(actor_id=user.pk) | Q(owner_id=user.pk))


class AuditEvent(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_name = models.CharField(max_length=150, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    subject_kind = models.CharField(max_length=64)
    subject_id = models.CharField(max_length=64, blank=True)
    subject_name = models.CharField(max_length=200, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    details = models.JSONField(default=dict, blank=True)
    source = models.CharField(max_length=64, blank=True, help_text="The client's address, or the command.")

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        actor = self.actor_name or "system"
        return f"{actor} {self.action} {self.subject_kind} {self.subject_name}"

    @classmethod
    def record(
        cls, action: str, subject: models.Model, *, actor: Any = None, source: str = "", **details: Any
    ) -> "AuditEvent":
        """Add one line, and announce the change. `subject` is the changed row; details must not contain a secret."""
        kind = subject._meta.model_name or ""
        transaction.on_commit(partial(broadcast.publish_message, change_channel(kind), b""))
        # The site itself, which sets up its rows, has no account.
        person = actor if getattr(actor, "pk", None) else None
        person_name = person.get_username() if person else ""
        owner_id = getattr(subject, "owner_id", None) or getattr(subject, "user_id", None)
        return cls.objects.create(
            action=action,
            actor=person,
            actor_name=person_name,
            subject_kind=kind,
            subject_id=str(subject.pk),
            subject_name=str(subject)[:200],
            owner_id=owner_id,
            details=details,
            source=source,
        )
