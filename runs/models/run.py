"""Run: one piece of work. Its rows are its whole state."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.conf import settings
from django.db import connections, models
from django.db.models import Case, F, Q, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from uuid_utils.compat import uuid7

from agents.http.room import SizeField
from agents.models import Agent, AgentVersion, ApiKey, ChainVersion, SiteHold
from plumbing import clock
from plumbing.statements import Bound, Question, Update, take_numbers

from .session import Session

# What a run's JSON shows of other rows.
RUN_JOINS = ("agent__owner", "version", "chain_version__chain")
# A run and all runs above it. UNION leaves out rows that were found before, so that a circle ends.
ABOVE = """
    WITH RECURSIVE above (id, parent_id) AS (
        SELECT id, parent_id FROM runs_run WHERE id = %s
        UNION SELECT runs_run.id, runs_run.parent_id FROM runs_run JOIN above ON runs_run.id = above.parent_id
    ) SELECT id FROM above
"""


# Where the metadata says that what the run held was deleted.
EMPTIED = "emptied"


class RunQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(principal_id=user.pk)

    def live(self) -> Self:
        """The two conditions say the same; an index of these runs is found by the second."""
        return self.filter(status__in=Run.LIVE, finished_at=None)

    def claimable(self) -> Self:
        """Queued, or in progress with a lease that has expired by the database's clock; none
        while the site is on hold."""
        is_queued = Q(status=Run.Status.QUEUED, after=None)
        is_abandoned = Q(status=Run.Status.RUNNING, lease_expires_at__lt=clock.Now())
        # Those of external executors are claimed through runs.worker.external_runs.
        ours = self.exclude(trigger=Run.Trigger.EXTERNAL)
        return ours.filter(SiteHold.absent(), is_queued | is_abandoned)

    def above(self, pk: uuid.UUID) -> Self:
        """This run and all that it is a part of."""
        with_uuid = Run._meta.pk.get_db_prep_value(pk, connections[self.db])
        ids = RawSQL(ABOVE, [with_uuid])  # noqa: S611 - a constant with one parameter
        return self.filter(pk__in=ids)

    def update(self, **values: Any) -> int:
        if "status" in values:
            raise TypeError("a run's status can only be changed by Run.change")
        return super().update(**values)


@dataclass(frozen=True, slots=True)
class Seen:
    """Values that the claim of a run has read besides its row. `at` is on the monotonic clock; see
    runs/queue/claims.py.
    """

    at: float
    is_heard: bool
    is_budgeted: bool
    is_followed: bool
    is_hooked: bool
    last_seq: int
    # Whether other runs, or steps, wait in its pool.
    more_runs: bool
    more_steps: bool
    provider_limit: int | None
    team: int | None
    team_limit: int | None


class Run(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        WAITING = "waiting"
        SUCCEEDED = "succeeded"
        PARTIAL = "partial"
        FAILED = "failed"
        CANCELLED = "cancelled"
        EXPIRED = "expired"

    class Trigger(models.TextChoices):
        MESSAGE = "message"
        DRAFT = "draft", "a try of a draft"
        SCHEDULE = "schedule"
        EVENT = "event"
        AGENT = "agent"
        CHAIN = "chain"
        DEVICE = "device"
        MANUAL = "manual"
        EXTERNAL = "external"
        MEMORY = "memory", "facts of a conversation that has rested"

    class Priority(models.IntegerChoices):
        """Who waits for the run; a child has the priority of its root."""

        PERSON = 0, "person"
        TRIGGER = 1, "trigger"
        SCHEDULE = 2, "schedule"
        BATCH = 3, "batch"

    LIVE = (Status.QUEUED, Status.RUNNING, Status.WAITING)
    DONE = (Status.SUCCEEDED, Status.PARTIAL, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
    # Workers that died with it before it completed a turn: after that it runs alone.
    SUSPECT = 3
    # Limit of workers that died while it ran alone.
    TO_BLAME = 6

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    principal = models.ForeignKey(settings.AUTH_USER_MODEL, db_index=False, on_delete=models.PROTECT, related_name="+")
    agent = models.ForeignKey(
        Agent, db_index=False, on_delete=models.PROTECT, null=True, blank=True, related_name="runs"
    )
    version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="runs")
    chain_version = models.ForeignKey(
        ChainVersion, db_index=False, on_delete=models.PROTECT, null=True, blank=True, related_name="runs"
    )
    session = models.ForeignKey(
        Session, db_index=False, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs"
    )
    parent = models.ForeignKey(
        "self", db_index=False, on_delete=models.SET_NULL, null=True, blank=True, related_name="children"
    )
    root = models.ForeignKey("self", db_index=False, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    after = models.ForeignKey(
        "self", db_index=False, on_delete=models.SET_NULL, null=True, blank=True, related_name="followers",
        help_text="The run of the same session that must end first.",
    )  # fmt: skip
    parent_call = models.OneToOneField(
        "ToolCallRecord", on_delete=models.SET_NULL, null=True, blank=True, related_name="child_run"
    )
    depth = models.PositiveSmallIntegerField(default=0)
    trigger = models.CharField(max_length=8, choices=Trigger.choices, default=Trigger.MESSAGE)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.QUEUED)
    waiting_for = models.CharField(
        max_length=8, blank=True, help_text="approval, device, child, timer, input or budget."
    )
    wake_at = models.DateTimeField(null=True, blank=True)
    key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    embed = models.UUIDField(
        null=True, editable=False, help_text="It serves a visitor of this embed; kept when the embed is deleted."
    )
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)
    request_hash = models.CharField(max_length=64, blank=True)
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(
        default=0, help_text="Counts claims; a write with an older number is refused."
    )
    claimed_from = models.CharField(max_length=9, blank=True, editable=False)
    crashes = models.PositiveSmallIntegerField(default=0, help_text="Workers that died while they held it.")
    deadline = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_reason = models.CharField(max_length=200, blank=True)
    size = SizeField(
        of=("input", "metadata", "policy"), least=1000, null=True, editable=False,
        help_text="Of what it was started with, if that is large.",
    )  # fmt: skip
    stored = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="About how many bytes its events, calls, steps and results take."
    )
    input = models.JSONField(null=True, blank=True)
    policy = models.JSONField(default=dict, blank=True, help_text="Step tool policy: allowed, blocked, max_turns.")
    options = models.JSONField(
        default=dict, blank=True, help_text='What the message asked for beside the definition: {"asked", "merged"}.'
    )
    output = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True, help_text='{"code", "message"}')
    turns = models.PositiveIntegerField(default=0)
    last_event = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=8, default=0)
    processed = models.PositiveIntegerField(default=0)
    created = models.PositiveIntegerField(default=0)
    updated = models.PositiveIntegerField(default=0)
    has_untrusted = models.BooleanField(default=False)
    metadata = models.JSONField(default=dict, blank=True)
    trace_parent = models.CharField(
        max_length=55, blank=True, editable=False, help_text="Header traceparent of the request that started it."
    )
    created_at = models.DateTimeField(default=clock.near)
    queued_at = models.DateTimeField(default=clock.near)
    pool = models.CharField(max_length=32, default="default", help_text="Workers that serve this pool take it.")
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.PERSON)
    place = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="Its place in the queue (runs/queue/fair_queue.py)."
    )
    needs = models.PositiveSmallIntegerField(
        default=0, editable=False, help_text="Workers that know an older format of definitions leave it."
    )
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="It waits for a person or a device, and its deadline was extended to at most this time.",
    )

    raw_bytes = 0  # not a column: requests to models that were stored since the last event
    seen: Seen | None = None  # not a column: only a worker that has claimed the run knows it

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="run_idempotency",
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=[
                        "queued",
                        "running",
                        "waiting",
                        "succeeded",
                        "partial",
                        "failed",
                        "cancelled",
                        "expired",
                    ]
                ),
                name="run_status_known",
            ),
        ]
        indexes = [
            models.Index(fields=["principal", "-id"]),
            models.Index(fields=["session", "-id"]),
            models.Index(fields=["agent", "-id"]),
            models.Index(
                fields=["finished_at", "id"], condition=Q(parent=None, finished_at__isnull=False), name="run_ended"
            ),
            # Conditions without a value: only then is an index used by prepared statements, and by SQLite.
            # What recovery looks for, each few rows among all:
            models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="run_wake"),
            models.Index(fields=["lease_expires_at"], condition=Q(lease_expires_at__isnull=False), name="run_lease"),
            models.Index(fields=["deadline"], condition=Q(finished_at=None), name="run_deadline"),
            models.Index(
                fields=["status"], condition=Q(place=None, after=None, finished_at=None), name="run_without_place"
            ),
            # References that few runs have: most runs need no entry.
            models.Index(fields=["after"], condition=Q(after__isnull=False), name="run_follower"),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="run_child"),
            models.Index(fields=["root"], condition=Q(root__isnull=False), name="run_of_root"),
            models.Index(fields=["chain_version"], condition=Q(chain_version__isnull=False), name="run_of_version"),
            models.Index(fields=["principal"], condition=Q(finished_at=None), name="run_live"),
            # Which is next, and whose are waiting:
            models.Index(
                fields=["pool", "priority", "place", "id"], condition=Q(place__isnull=False), name="run_choice"
            ),
            models.Index(
                fields=["principal", "pool", "priority", "place"], condition=Q(place__isnull=False), name="run_share"
            ),
            models.Index(fields=["agent"], condition=Q(lease_expires_at__isnull=False), name="run_at_work"),
            # The same of one agent or chain, while another is at its limit (runs/queue/limits.py):
            models.Index(
                fields=["pool", "agent", "priority", "place", "id"],
                condition=Q(agent__isnull=False, place__isnull=False),
                name="run_of_agent",
            ),
            models.Index(
                fields=["pool", "chain_version", "priority", "place", "id"],
                condition=Q(chain_version__isnull=False, place__isnull=False),
                name="run_of_chain",
            ),
            models.Index(
                fields=["pool", "priority", "place", "id"],
                condition=Q(agent=None, chain_version=None, place__isnull=False),
                name="run_without_owner",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.id} ({self.status})"

    @property
    def priority_word(self) -> str:
        """In English, as the API gives it."""
        return str(self.Priority(self.priority).label)

    def change(
        self,
        status: str,
        *,
        where: dict[str, Any] | None = None,
        numbers: int = 0,
        grown: int = 0,
        asking: Sequence[Question] = (),
        **values: Any,
    ) -> list[bool] | None:
        """The one place where a run's status changes, except for the claim of a worker (TAKE,
        below).

        One conditional statement: `where` must hold, by default that the run has not ended;
        `values` are set together with the status, and `numbers` event numbers are reserved
        (`record.change_run` writes those events, with which the run has `grown`). Returns the answers
        of the queries in it, or None if nothing was changed.
        """
        conditions = where or {"status": Run.LIVE}
        values = {"status": status, "place": None, **values}  # a queued run gets one from its caller
        set_values = {**values, "stored": add_stored(grown)} if grown else values
        row = take_numbers(Run, self.pk, "last_event", numbers, where=conditions, values=set_values, asking=asking)
        if row is None:
            return None
        self.last_event, *answers = map(int, row)
        for name, value in values.items():
            setattr(self, name, value)
        return list(map(bool, answers))

    @property
    def took_s(self) -> float | None:
        """From when it was accepted until it ended."""
        if self.finished_at is None:
            return None
        return (self.finished_at - self.created_at).total_seconds()

    @property
    def is_done(self) -> bool:
        return self.status in Run.DONE

    @property
    def root_pk(self) -> uuid.UUID:
        return self.root_id or self.pk


def add_stored(size: int) -> Bound:
    """The column `stored` of a run that has grown by so many bytes."""
    return Bound('"stored" + %s', (size,))


def build_claim_columns(at: Any) -> dict[str, Any]:
    """What a claim writes, for a statement with the slots CLAIM."""
    # A run that is claimed while it is in progress has lost its worker. The count stops at SUSPECT: what comes after
    # that is counted while it runs alone (runs/worker/crash_quarantine.py).
    has_lost_worker = When(status=Run.Status.RUNNING, crashes__lt=Run.SUSPECT, then=F("crashes") + 1)
    crashes = Case(has_lost_worker, default=F("crashes"), output_field=models.IntegerField())
    return {
        "claimed_from": F("status"),
        "crashes": crashes,
        "status": Run.Status.RUNNING,
        "waiting_for": "",
        "wake_at": None,
        "place": None,
        "lease_owner": at.worker,
        "lease_expires_at": clock.Now(at.lease_s),
        "attempt": F("attempt") + 1,
        "last_event": F("last_event") + at.numbers,
        "started_at": Coalesce("started_at", clock.Now()),
    }


CLAIM: dict[str, models.Field] = {
    "worker": models.CharField(),
    "lease_s": models.FloatField(),
    "numbers": models.IntegerField(),
}
TAKE = Update(
    lambda at: (Run.objects.filter(pk=at.run).claimable(), build_claim_columns(at)), run=models.UUIDField(), **CLAIM
)


class RunValue(models.Model):
    """One entry of a run's key-value store, shared by its functions."""

    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="values")
    key = models.CharField(max_length=200)
    value = models.JSONField(null=True)
    untrusted = models.BooleanField(default=False)
    size = models.PositiveIntegerField(default=0, help_text="Bytes of the value as JSON.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="run_value_once")]

    def __str__(self) -> str:
        return self.key
