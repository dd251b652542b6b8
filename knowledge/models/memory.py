"""What is remembered: one row for each memory, and every version of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents.models import Agent, Membership, Team
from agents.models.team import others_among
from plumbing import clock
from plumbing.stored_rows import StoredRow

# Characters.
TEXT, SUBJECT = 2000, 200


class MemoryQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """The person's own, and those of the teams they are in."""
        if not user.is_authenticated:
            return self.none()
        is_own = Q(owner_id=user.pk)
        is_of_team = Q(scope=Memory.Scope.TEAM, team_id__in=build_member_teams_query(user.pk))
        return self.filter(is_own | is_of_team)

    def editable_by(self, user: Any) -> Self:
        """The owner, and the administrators of its team."""
        teams = build_member_teams_query(user.pk, [Membership.Role.ADMINISTRATOR])
        is_own = Q(owner_id=user.pk)
        is_of_team = Q(scope=Memory.Scope.TEAM, team_id__in=teams)
        return self.filter(is_own | is_of_team)

    def active(self, now: datetime | None = None) -> Self:
        """Approved, and valid at this time."""
        now = now or timezone.now()
        has_begun = Q(valid_from=None) | Q(valid_from__lte=now)
        is_not_over = Q(valid_until=None) | Q(valid_until__gt=now)
        return self.filter(has_begun, is_not_over, status=Memory.Status.ACTIVE)

    def suggested(self) -> Self:
        return self.filter(status=Memory.Status.SUGGESTED)

    def for_run(self, user_id: Any, agent_id: Any, *, authors: Sequence[Any]) -> Self:
        """What an agent may know when it works for this person. `authors` are the owners (None: the site) of the agent,
        first, and of the agents and chains above it, which get its answer.

        A memory of an agent belongs to the owner of the agent; everyone who may use the agent gets it. Where an author
        is somebody else, nothing is known that is for the person's own agents: that author chose where the answer goes.
        """
        scopes = Memory.Scope
        others = others_among(authors, user_id)
        condition = Q(scope=scopes.AGENT, agent_id=agent_id)
        # Every author must be in the team, too.
        of_team = Q(scope=scopes.TEAM, team_id__in=build_member_teams_query(user_id))
        for author_id in others:
            of_team &= Q(team_id__in=build_member_teams_query(author_id))
        if may_use_own_notes(authors, user_id):
            condition |= Q(scope=scopes.PERSON_AGENT, owner_id=user_id, agent_id=agent_id)
        if not others:
            condition |= Q(scope=scopes.PERSON, owner_id=user_id)
        return self.filter(condition | of_team)


def may_use_own_notes(authors: Sequence[Any], user_id: Any) -> bool:
    """Whether an agent knows what it alone noted of this person: only its own author may get to know it."""
    return others_among(authors, user_id) <= {authors[0]}


def build_member_teams_query(user_id: Any, roles: Any = Membership.Role.values) -> models.QuerySet:
    memberships = Membership.objects.filter(user_id=user_id, role__in=roles)
    return memberships.values("team_id")


class Content(StoredRow):
    """The columns that a memory and its versions have in common."""

    class Kind(models.TextChoices):
        FACT = "fact"
        PREFERENCE = "preference", "preference (in every prompt while there is room)"
        EVENT = "event"

    text = models.TextField(max_length=TEXT)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.FACT)
    subject = models.CharField(max_length=SUBJECT, blank=True, help_text="The person or thing that it is about.")
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True, help_text="Empty: for ever.")
    untrusted = models.BooleanField(
        default=False, editable=False, help_text="It comes from text written by others. No edit removes this mark."
    )
    run_id = models.UUIDField(null=True, editable=False, help_text="The run that wrote it.")
    call_id = models.UUIDField(null=True, editable=False, help_text="The tool call that wrote it.")

    CONTENT = ("text", "kind", "subject", "valid_from", "valid_until")

    class Meta:
        abstract = True

    def content(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.CONTENT}


class Memory(Content):
    """Something that agents are to know later. It belongs to `owner`, who is the person it is about, the owner of the
    agent, or the one who wrote it for a team.

    `run_id` and `call_id` are its source. `replaces` is the memory whose next version this suggestion is to be.
    """

    class Scope(models.TextChoices):
        PERSON = "person", "the person, with every agent"
        PERSON_AGENT = "person_agent", "the person, with one agent"
        AGENT = "agent", "an agent, for everyone who uses it"
        TEAM = "team", "a team"

    class Status(models.TextChoices):
        ACTIVE = "active"
        SUGGESTED = "suggested"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memories")
    scope = models.CharField(max_length=12, choices=Scope.choices, default=Scope.PERSON)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="memories")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, blank=True, related_name="memories")
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    version = models.PositiveIntegerField(default=1, editable=False)
    replaces = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="suggestions", editable=False
    )
    words = models.TextField(blank=True, editable=False, help_text="Its word stems between spaces, for the search.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = MemoryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "memories"
        indexes = [
            models.Index(fields=["owner", "status", "-id"], name="memory_of_owner"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(scope="person", agent=None, team=None)
                | Q(scope__in=["person_agent", "agent"], agent__isnull=False, team=None)
                | Q(scope="team", agent=None, team__isnull=False),
                name="memory_belongs_to_its_scope",
            )
        ]

    def __str__(self) -> str:
        """Without the text: the audit log outlives the memory."""
        return f"{self.kind} {str(self.pk)[-8:]}"

    @property
    def is_suggested(self) -> bool:
        return self.status == self.Status.SUGGESTED

    @property
    def is_over(self) -> bool:
        if self.valid_until is None:
            return False
        return self.valid_until <= timezone.now()

    def may_edit(self, user: Any) -> bool:
        if self.owner_id == user.pk:
            return True
        editable = Memory.objects.editable_by(user).filter(pk=self.pk)
        return editable.exists()


class MemoryVersion(Content):
    """The content of a memory at one time, and who wrote it. Rows are only ever added."""

    class Action(models.TextChoices):
        CREATED = "created"
        CHANGED = "changed"
        APPROVED = "approved"
        FORGOTTEN = "forgotten"
        ROLLED_BACK = "rolled_back", "rolled back"

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    action = models.CharField(max_length=11, choices=Action.choices)
    author = models.CharField(max_length=150)
    is_agent = models.BooleanField(default=False)
    root_id = models.UUIDField(null=True, editable=False, help_text="The first run of the tree that wrote it.")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-number"]
        indexes = [
            models.Index(fields=["call_id"], condition=Q(call_id__isnull=False), name="memory_version_of_call"),
            models.Index(fields=["root_id"], condition=Q(root_id__isnull=False), name="memory_version_of_root"),
        ]
        constraints = [models.UniqueConstraint(fields=["memory", "number"], name="memory_version_number")]

    def __str__(self) -> str:
        return f"{self.memory} v{self.number}"

    @property
    def action_word(self) -> str:
        """In English, to be translated where it is shown."""
        return self.Action(self.action).label.lower()


class MemoryWrite(models.Model):
    """That an agent changed a memory of this person. It counts for the limit of a day, also after the memory was
    rejected or deleted, and says nothing of its content.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    untrusted = models.BooleanField(default=False)
    at = models.DateTimeField(default=clock.near)

    class Meta:
        indexes = [models.Index(fields=["owner", "at"], name="memory_write_of_owner")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M}"
