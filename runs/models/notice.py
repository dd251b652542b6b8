"""Notices to the people whose answer a run waits for, and the browsers that receive them."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.fields import EncryptedTextField
from plumbing.stored_rows import StoredRow

from .approval import Approval
from .input import InputRequest


class PushSubscriptionQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)


class PushSubscription(StoredRow):
    """A browser that shows notices of its person: the address of its push service, and its keys (base64url)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    endpoint = EncryptedTextField(help_text="Address of the push service for this browser; it is a secret.")
    digest = models.CharField(max_length=64, unique=True, editable=False, help_text="SHA-256 of the endpoint.")
    p256dh = models.CharField(max_length=120)
    auth = EncryptedTextField()
    browser = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PushSubscriptionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.browser or f"browser {self.pk}"


class NoticeQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(person_id=user.pk)


class Notice(models.Model):
    """One message to one person over one channel, about one approval or question.

    It is sent once, and again only if its sender dies before it has stored that it was sent.
    """

    class Channel(models.TextChoices):
        EMAIL = "email", "E-mail"
        PUSH = "push", "Browser"
        TEAMS = "teams", "Microsoft Teams"

    class State(models.TextChoices):
        PENDING = "pending"
        SENDING = "sending", "being sent; due again at next_attempt_at if the sender died"
        SENT = "sent"
        DROPPED = "dropped", "not needed any more"
        DEAD = "dead", "given up"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, null=True, related_name="notices")
    question = models.ForeignKey(InputRequest, on_delete=models.CASCADE, null=True, related_name="notices")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    channel = models.CharField(max_length=5, choices=Channel.choices)
    address = models.CharField(max_length=36, blank=True, help_text="The id of the subscription, for a browser.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField()
    last_error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            # Notices that were sent stay for a while: the conditions keep them out of the indexes.
            models.Index(fields=["next_attempt_at"], condition=Q(state="pending"), name="notice_due"),
            models.Index(fields=["next_attempt_at"], condition=Q(state="sending"), name="notice_sending"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(approval=None, question__isnull=False) | Q(approval__isnull=False, question=None),
                name="notice_has_one_subject",
            ),
            # Two workers that plan the same notice write it once.
            models.UniqueConstraint(
                fields=["approval", "person", "channel", "address"],
                condition=Q(approval__isnull=False),
                name="notice_of_approval_once",
            ),
            models.UniqueConstraint(
                fields=["question", "person", "channel", "address"],
                condition=Q(question__isnull=False),
                name="notice_of_question_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.person}: {self.state}"

    @property
    def subject(self) -> Approval | InputRequest:
        return self.approval or self.question
