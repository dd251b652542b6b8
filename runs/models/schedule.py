"""Schedule: when to start runs. ScheduleOccurrence: one due time and its outcome."""

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule
from uuid_utils.compat import uuid7

from agents.fields import check_moment
from agents.models import Agent, Chain, SiteHold
from agents.models.options import between, option
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from plumbing import clock
from runs.rules.crontab_words import describe_crontab
from runs.rules.timing import Crontab, Interval, Once, Timing, TimingError, read_crontab, zone_named

from .run import Run

# Seconds of the units that django-celery-beat knows.
SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "microseconds": 1e-6}
# Of an interval.
SHORTEST_S = 1.0
LONGEST_S = 10 * 366 * 86400.0


class ScheduleQuerySet(OwnedQuerySet):
    def with_last_run(self) -> "ScheduleQuerySet":
        """Each row with `last_run_at`: when its last run was created."""
        started = ScheduleOccurrence.objects.filter(schedule=OuterRef("pk"), run__isnull=False)
        newest = started.order_by("-run__created_at").values("run__created_at")[:1]
        return self.annotate(last_run_at=Subquery(newest))

    def due(self, now: datetime) -> "ScheduleQuerySet":
        return self.filter(SiteHold.absent(), enabled=True, next_due_at__lte=now)


def build_optional_target(model: Any, related_name: str) -> Any:
    """A target or a timing: of each a row has exactly one."""
    # What a schedule starts cannot be deleted: nobody would notice that it starts nothing any more.
    return models.ForeignKey(model, on_delete=models.PROTECT, null=True, blank=True, related_name=related_name)


class Schedule(Owned):
    """The timing is exactly one row of django-celery-beat: a crontab, an interval or a clocked one."""

    class Missed(models.TextChoices):
        SKIP = "skip", "Skip missed starts"
        ONCE = "once", "Start once for all missed starts"
        ALL = "all", "Start each one missed within the window"

    class Overlap(models.TextChoices):
        SKIP = "skip", "Skip it"
        QUEUE = "queue", "Wait for the earlier run to end"
        CANCEL = "cancel", "Cancel the earlier run"
        ALLOW = "allow", "Start it in parallel"

    name = models.CharField(max_length=64, validators=[check_name])
    # fmt: off
    description = option(models.TextField(blank=True), "", rest={"max_length": 10_000})
    agent = option(build_optional_target(Agent, "schedules"), "")
    chain = option(build_optional_target(Chain, "schedules"), "")
    text = option(
        models.TextField(blank=True, help_text="The message to the agent."), "", kind="long",
        rest={"max_length": 100_000},
    )
    input = option(
        models.JSONField(null=True, blank=True, help_text="The input of the agent or chain."), "", kind="json"
    )
    options = option(models.JSONField(
        default=dict, blank=True, help_text="What its messages ask for beside the agent's definition."
    ), None, kind="json")
    crontab = option(build_optional_target(CrontabSchedule, "+"), "When")
    interval = option(build_optional_target(IntervalSchedule, "+"), "When")
    clocked = build_optional_target(ClockedSchedule, "+")
    timezone = option(
        models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin."), "When"
    )
    starts_at = option(models.DateTimeField(
        null=True, blank=True, validators=[check_moment], help_text="Start of the interval."
    ), "When")
    ends_at = option(models.DateTimeField(null=True, blank=True, validators=[check_moment]), "When")
    jitter_s = option(models.FloatField(
        default=0.0, validators=between(0, 3600),
        help_text="Each start is delayed by up to this many seconds, always the same for one due time.",
    ), "When")
    missed_policy = option(models.CharField(max_length=4, choices=Missed.choices, default=Missed.ONCE), "Missed")
    missed_window_s = option(
        models.FloatField(default=86400.0, validators=between(0)), "Missed", rest={"max_value": 366 * 86_400}
    )
    overlap_policy = option(models.CharField(max_length=6, choices=Overlap.choices, default=Overlap.SKIP), "Missed")
    wait_for_device = option(
        models.BooleanField(default=False, help_text="Start only while the device is online."), "Missed"
    )
    device = option(
        models.UUIDField(null=True, blank=True, help_text="Which device; empty: any of the owner's."), "Missed"
    )
    pause_after_failures = option(models.PositiveSmallIntegerField(
        default=5, help_text="The schedule pauses itself after this many failures in a row; 0: never."
    ), "Missed", rest={"min_value": 0, "max_value": 1000})
    notify_email = option(
        models.EmailField(blank=True, help_text="Notified when the schedule pauses itself."), "Missed"
    )
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Consecutive ones.")
    paused_reason = models.CharField(max_length=200, blank=True, editable=False)
    next_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_due_at = models.DateTimeField(null=True, blank=True, editable=False)

    # No agent or chain uses it: it starts runs as its owner.
    USED_BY = ()
    objects = ScheduleQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            *one_name_per_owner("schedule"),
            models.CheckConstraint(
                condition=Q(agent=None, chain__isnull=False) | Q(agent__isnull=False, chain=None),
                name="schedule_has_one_target",
            ),
        ]
        indexes = [models.Index(fields=["next_due_at"], condition=Q(enabled=True), name="schedule_due")]

    def __str__(self) -> str:
        return self.name

    def prepare_for_new_owner(self) -> list[str]:
        """It would start runs with the rights of somebody who has not looked at it."""
        self.enabled = False
        self.paused_reason = "It was handed over: look at it, then switch it on."
        self.notify_email = ""
        self.next_due_at = None
        return ["enabled", "paused_reason", "notify_email", "next_due_at"]

    def timing(self) -> Timing:
        """The beat row as pure data. Raises TimingError if it is invalid."""
        rows = [row for row in (self.crontab, self.interval, self.clocked) if row is not None]
        if len(rows) != 1:
            raise TimingError("A schedule needs exactly one of crontab, interval and clocked.")
        zone_named(self.timezone)
        if self.interval is not None:
            return self.every()
        if self.clocked is not None:
            return Once(self.clocked.clocked_time)
        return self.on_the_wall()

    def every(self) -> Interval:
        seconds = self.interval.every * SECONDS[self.interval.period]
        if seconds < SHORTEST_S:
            raise TimingError("An interval must be a second or longer.")
        if seconds > LONGEST_S:
            raise TimingError("An interval can be at most ten years.")
        # A schedule that is only being checked was not created yet.
        start = self.starts_at or self.created_at or clock.near()
        return Interval(seconds, start)

    def on_the_wall(self) -> Crontab:
        row = self.crontab
        zone = str(row.timezone)
        return read_crontab(row.minute, row.hour, row.day_of_month, row.month_of_year, row.day_of_week, zone)

    @property
    def target(self) -> Any:
        return self.agent or self.chain

    @property
    def line(self) -> str:
        """The crontab as a line of five fields; empty for other timings."""
        row = self.crontab
        if row is None:
            return ""
        return f"{row.minute} {row.hour} {row.day_of_month} {row.month_of_year} {row.day_of_week}"

    @property
    def timing_in_words(self) -> str:
        if self.crontab is not None:
            return describe_crontab(self.line)
        if self.interval is not None:
            return f"Every {self.interval.every} {self.interval.period}"
        if self.clocked is None:
            return ""
        at = self.clocked.clocked_time.astimezone(zone_named(self.timezone))
        return f"Once, at {at:%Y-%m-%d %H:%M} {self.timezone}"


class OccurrenceQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> "OccurrenceQuerySet":
        schedules = Schedule.objects.visible_to(user)
        return self.filter(schedule__in=schedules)


class ScheduleOccurrence(models.Model):
    """One due time. `outcome` and `reason` say whether a run was started, and why not."""

    class Outcome(models.TextChoices):
        DUE = "due", "claimed; about to start"
        WAITING_DEVICE = "waiting_device", "waits for the device"
        WAITING_OVERLAP = "waiting_overlap", "waits for the earlier run"
        STARTED = "started"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        SKIPPED = "skipped", "skipped: an earlier run was in progress"
        MISSED = "missed", "nothing was there to start it"
        REFUSED = "refused", "could not be started"
        CANCELLED = "cancelled"

    OPEN = (Outcome.DUE, Outcome.WAITING_DEVICE, Outcome.WAITING_OVERLAP, Outcome.STARTED)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    schedule = models.ForeignKey(Schedule, db_index=False, on_delete=models.CASCADE, related_name="occurrences")
    due_at = models.DateTimeField()
    start_at = models.DateTimeField(help_text="Due time and jitter.")
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.DUE)
    reason = models.CharField(max_length=300, blank=True)
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="occurrences")
    is_manual = models.BooleanField(default=False, help_text="Started manually (run-now).")
    count = models.PositiveIntegerField(default=1, help_text="Number of due times that this row represents.")
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    objects = OccurrenceQuerySet.as_manager()

    class Meta:
        ordering = ["-due_at", "-id"]
        # Two ticks that find the same due time write one row.
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="occurrence_once")]
        indexes = [
            # Of the occurrences that may still start, or whose run is in progress.
            models.Index(
                fields=["outcome", "start_at"],
                condition=Q(outcome__in=["due", "waiting_device", "waiting_overlap", "started"]),
                name="occurrence_open",
            )
        ]

    def __str__(self) -> str:
        due_at = f"{self.due_at:%Y-%m-%d %H:%M:%S}"
        return f"{self.schedule} {due_at} {self.outcome}"
