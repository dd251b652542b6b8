"""Invitation: a team invites a user to join. Only that user can accept it."""

from typing import Any, Self

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from plumbing.stored_rows import StoredRow

from .team import Membership, Team


class InvitationQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """The user's own invitations."""
        return self.filter(user_id=user.pk)

    def open(self) -> Self:
        return self.filter(status=Invitation.Status.OPEN)


class Invitation(StoredRow):
    class Status(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=16, choices=Membership.Role.choices, default=Membership.Role.AUTHOR)
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.OPEN)
    created_at = models.DateTimeField(auto_now_add=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "user"], condition=models.Q(status="open"), name="invitation_open_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} to {self.team} as {self.role}"

    @transaction.atomic
    def accept(self) -> Membership:
        """Make the invited user a member. Raises Conflict if it was answered or withdrawn before, or if the account
        that invited was deactivated.
        """
        if not self.invited_by.is_active:
            raise closed_conflict()
        self.answer(self.Status.ACCEPTED)
        return Membership.objects.get_or_create(team=self.team, user=self.user, defaults={"role": self.role})[0]

    def answer(self, status: str) -> None:
        now = timezone.now()
        if not Invitation.objects.filter(pk=self.pk).open().update(status=status, answered_at=now):
            raise closed_conflict()
        self.status, self.answered_at = status, now


def closed_conflict() -> Conflict:
    return Conflict(_("This invitation is no longer open."), code="invitation_closed", hint=_("Ask for another."))
