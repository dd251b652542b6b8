"""A person's decision on one tool call: approve, deny or edit."""

from typing import Any, Self

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from uuid_utils.compat import uuid7

from agents.models import Membership, Team, ToolGrant
from plumbing import clock
from plumbing.stored_rows import StoredRow

from .call import StepRun, ToolCallRecord
from .run import Run


class ApprovalQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """Approvals of the user's own runs, and those that they may decide."""
        is_own_run = Q(run__principal_id=user.pk)
        return self.filter(is_own_run | may_decide(user))

    def decidable_by(self, user: Any) -> Self:
        return self.filter(may_decide(user))

    def open(self) -> Self:
        return self.filter(status=Approval.Status.OPEN)

    def undecidable(self) -> Self:
        """Open ones that nobody is left to decide."""
        # The person of the run is always there to decide, unless they must not.
        asked_of_others = self.open().exclude(decides=ToolGrant.Decider.STARTER, not_starter=False)
        with_decider = Approval.objects.filter(has_decider(), pk=OuterRef("pk"))
        return asked_of_others.filter(~Exists(with_decider))


def may_decide(user: Any) -> Q:
    """The condition that this user may decide an approval now.

    The grant of the call says who decides; who is in the team is checked now, not when the call was made.
    """
    Decider = ToolGrant.Decider
    is_own_run = Q(run__principal_id=user.pk)
    in_team = Membership.objects.filter(user_id=user.pk, team_id=OuterRef("decider_team_id"))
    is_starter = Q(decides=Decider.STARTER) & is_own_run
    is_owner = Q(decides=Decider.OWNER, decider_id=user.pk)
    # Viewers of a team only look.
    is_acting_member = Exists(in_team.filter(role__in=Membership.USERS))
    is_member = Q(decides=Decider.TEAM) & Q(is_acting_member)
    has_named_role = Exists(in_team.filter(role=OuterRef("decider_role")))
    has_role = Q(decides=Decider.ROLE) & Q(has_named_role)
    is_named = is_owner | is_member | has_role
    may_see = is_own_run | still_shared()
    is_excluded = Q(not_starter=True) & is_own_run
    return (is_starter | (is_named & may_see)) & ~is_excluded


def has_decider() -> Q:
    """Somebody may decide it: `may_decide`, asked of everybody at once."""
    Decider = ToolGrant.Decider
    starter = OuterRef("run__principal_id")
    members = Membership.objects.filter(team_id=OuterRef("decider_team_id"), user__is_active=True)
    is_own_agent = Q(decides=Decider.OWNER, decider=F("run__principal"))
    is_starter_chosen = is_chosen(members.filter(user_id=starter))
    by_starter = Q(decides=Decider.STARTER) | is_own_agent | is_starter_chosen
    by_owner = Q(decides=Decider.OWNER, decider__is_active=True) & ~Q(decider=F("run__principal"))
    is_mate_chosen = is_chosen(members.exclude(user_id=starter))
    by_mate = by_owner | is_mate_chosen
    return (by_starter & Q(not_starter=False)) | (by_mate & still_shared())


def is_chosen(members: models.QuerySet) -> Q:
    """One of these members of the team is among those who decide by their role."""
    acting_members = Exists(members.filter(role__in=Membership.USERS))
    role_holders = Exists(members.filter(role=OuterRef("decider_role")))
    is_member = Q(decides=ToolGrant.Decider.TEAM) & Q(acting_members)
    has_role = Q(decides=ToolGrant.Decider.ROLE) & Q(role_holders)
    return is_member | has_role


def still_shared() -> Q:
    """The agent or chain is still shared with the team, and the run's person is in it, or its owner. Others see and
    decide a person's calls only so long.
    """
    is_shared_agent = Q(run__agent__team=F("decider_team"))
    is_shared_chain = Q(run__chain_version__chain__team=F("decider_team"))
    members = Membership.objects.filter(user_id=OuterRef("run__principal_id"), team_id=OuterRef("decider_team_id"))
    is_by_owner = Q(decider=F("run__principal"))
    is_by_member = Q(Exists(members))
    return (is_shared_agent | is_shared_chain) & (is_by_owner | is_by_member)


class Approval(StoredRow):
    class Status(models.TextChoices):
        OPEN = "open"
        APPROVED = "approved"
        DENIED = "denied"
        EXPIRED = "expired"
        VOID = "void", "its call ended first"

    class Default(models.TextChoices):
        DENY = "deny"
        APPROVE = "approve"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    call = models.OneToOneField(
        ToolCallRecord, on_delete=models.CASCADE, null=True, blank=True, related_name="approval"
    )
    step = models.OneToOneField(
        StepRun, on_delete=models.CASCADE, null=True, blank=True, related_name="approval_before"
    )
    tool = models.CharField(max_length=64)
    effect = models.CharField(max_length=12, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    findings = models.JSONField(
        default=list, blank=True, help_text='The origin of each argument: {"path", "value", "source", "origin"}.'
    )
    decides = models.CharField(max_length=7, choices=ToolGrant.Decider.choices, default=ToolGrant.Decider.STARTER)
    decider = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decider_team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    decider_role = models.CharField(max_length=64, blank=True)
    not_starter = models.BooleanField(default=False, help_text="The user whose run asks must not decide.")
    definition = models.JSONField(
        default=dict, blank=True, editable=False,
        help_text='What the question was about: {"hash", "effect", "version"} (runs/calls/bindings.py).',
    )  # fmt: skip
    arguments = models.JSONField(default=dict)
    edited_arguments = models.JSONField(null=True, blank=True)
    expires_at = models.DateTimeField()
    default = models.CharField(max_length=7, choices=Default.choices, default=Default.DENY)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.OPEN)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=500, blank=True)
    noticed_at = models.DateTimeField(null=True, editable=False, help_text="When its notices were made.")
    created_at = models.DateTimeField(default=clock.near, editable=False)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            # Decided approvals stay for ever: the conditions keep them out.
            models.Index(fields=["expires_at"], condition=Q(decided_at=None), name="approval_open"),
            models.Index(fields=["created_at"], condition=Q(status="open", noticed_at=None), name="approval_unnoticed"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["open", "approved", "denied", "expired", "void"]), name="approval_status_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.status}"

    def deciders(self) -> models.QuerySet:
        """The people who may decide it now: `may_decide`, seen from the approval."""
        Decider = ToolGrant.Decider
        starter_id = self.run.principal_id
        members = Membership.objects.filter(team_id=self.decider_team_id)
        ids_by_decider = {
            Decider.STARTER: [starter_id],
            Decider.OWNER: [self.decider_id],
            Decider.TEAM: members.filter(role__in=Membership.USERS).values("user_id"),
            Decider.ROLE: members.filter(role=self.decider_role).values("user_id"),
        }
        ids = ids_by_decider[Decider(self.decides)]
        people = get_user_model().objects.filter(pk__in=ids, is_active=True)
        is_shared = Approval.objects.filter(still_shared(), pk=self.pk).exists()
        if not is_shared:
            people = people.filter(pk=starter_id)
        if self.not_starter:
            people = people.exclude(pk=starter_id)
        return people
