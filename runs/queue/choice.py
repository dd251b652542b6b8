"""Which run or step a worker takes next. See docs/howto/queue.md and ADR 0006.

A row that waits for a worker has a `place`. The order is: priority, place, id. Places share the
workers fairly between people (start-time fair queueing): the next row of a person who has rows in
the queue comes one place behind the last of them, the first row of a person one place behind the
front. People who use agents of one team take larger steps, so that the team as a whole has the
share of a person.
"""

from collections import Counter
from enum import Enum
from typing import Any

from django.db import models, transaction
from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce

from agents.models import Membership, SiteHold
from agents.spec import FORMAT
from plumbing import clock
from plumbing.computed import Computed
from plumbing.statements import Bound, Select, Update, update_each
from runs.models import Run, StepRun
from runs.models.run import CLAIM, taken

DEFAULT_POOL = "default"
PRIORITIES: dict[str, int] = {
    Run.Trigger.EVENT: Run.Priority.TRIGGER,
    Run.Trigger.SCHEDULE: Run.Priority.SCHEDULE,
    Run.Trigger.MEMORY: Run.Priority.BATCH,
}
# While rows wait, some turns of a worker pass over the higher priorities, so that the others never starve:
# of 16 turns, one takes nothing above a batch, one nothing above a schedule, two nothing above a trigger.
FLOORS = {3: 1, 7: 2, 11: 1, 15: 3}


def floor(turn: int) -> int:
    """The highest priority that this turn takes; 0 is a person's."""
    return FLOORS.get(turn % 16, 0)


# -- joining the queue ------------------------------------------------------------------------------------------------


def classify(run: Run, *, parent: Run | None = None, is_batch: bool = False) -> None:
    """Set the pool and the priority of a new run, and the format that its worker must read. A child
    has the priority of its root, and its pool unless its agent or chain names another.
    """
    target = run.chain_version.chain if run.chain_version_id else run.agent
    version = run.chain_version or run.version
    run.needs = version.format if version is not None else 0
    own = target.pool if target is not None else ""
    run.pool = own or (parent.pool if parent else DEFAULT_POOL)
    if is_batch:
        run.priority = Run.Priority.BATCH
    else:
        run.priority = parent.priority if parent else PRIORITIES.get(run.trigger, Run.Priority.PERSON)


def line_up(run: Run) -> None:
    """Give a run that is about to be stored its place, unless it follows another or is executed
    outside.
    """
    stands = run.after_id is None and run.trigger != Run.Trigger.EXTERNAL
    run.place = place_of(run) if stands else None  # type: ignore[assignment]


def line_up_again(runs: list[Run]) -> None:
    """Give stored runs that have lost their place a new one, from the front on: they have had their
    turn. Their people share the places fairly. Must be called in a transaction that locked the rows.
    """
    fronts: dict[tuple[str, int], int] = {}
    counts: Counter[tuple[str, int, Any]] = Counter()
    for run in sorted(runs, key=lambda run: run.pk):  # the oldest first
        queue = run.pool, run.priority
        if queue not in fronts:
            fronts[queue] = front_of(*queue)
        run.place = fronts[queue] + counts[*queue, run.principal_id]
        counts[*queue, run.principal_id] += 1
    update_each(runs, ("place",))


def front_of(pool: str, priority: int) -> int:
    first = FRONT.first(pool=pool, priority=priority)
    return first[0] if first else 0


def place_of(run: Run) -> Bound:
    """The end of its person's rows, computed by the statement that stores it."""
    key = {"pool": run.pool, "priority": run.priority, "principal": run.principal_id}
    team = run.agent.team_id if Run.agent.is_cached(run) and run.agent else None  # no query for it
    return TEAM_PLACE.of(**key, team=team) if team else PLACE.of(**key)


def step_place(run: Run) -> Bound:
    """The same for a step of this run, among steps."""
    return STEP_PLACE.of(pool=run.pool, priority=run.priority, principal=run.principal_id)


def queued(rows: Any, at: Any) -> Any:
    return rows.filter(place__isnull=False, pool=at.pool, priority=at.priority).order_by()


def behind(rows: Any, at: Any, step: Any) -> Coalesce:
    """The place of the next row of this person."""
    last = queued(rows, at).filter(principal=at.principal).order_by("-place").values("place")[:1]
    front = queued(rows, at).order_by("place").values("place")[:1]
    kind = models.BigIntegerField()
    return Coalesce(
        Subquery(last, output_field=kind) + step, Subquery(front, output_field=kind) + 1, Value(0), output_field=kind
    )


def mates(at: Any) -> Any:
    """How many people of the team have rows in the queue, this person included."""
    theirs = queued(Run.objects, at).filter(principal=OuterRef("user_id"))
    others = Membership.objects.filter(Exists(theirs), team_id=at.team).exclude(user_id=at.principal)
    number = others.order_by().values("team_id").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(number), Value(0), output_field=models.BigIntegerField()) + 1


KEY: dict[str, models.Field] = {
    "pool": models.CharField(),
    "priority": models.PositiveSmallIntegerField(),
    "principal": models.BigIntegerField(),
}
PLACE = Computed(Run, lambda at: behind(Run.objects, at, Value(1)), **KEY)
FRONT = Select(
    lambda at: queued(Run.objects, at).order_by("place").values_list("place")[:1],
    pool=KEY["pool"],
    priority=KEY["priority"],
)
TEAM_PLACE = Computed(Run, lambda at: behind(Run.objects, at, mates(at)), **KEY, team=models.BigIntegerField())
STEP_PLACE = Computed(StepRun, lambda at: behind(StepRun.objects, at, Value(1)), **KEY)


# -- being chosen -----------------------------------------------------------------------------------------------------


def in_order(rows: Any) -> Any:
    return rows.order_by("priority", "place", "id")


def best(rows: Any) -> Any:
    """Rows that another worker is taking at this moment are passed over (SQLite's writers take turns)."""
    return in_order(rows).select_for_update(skip_locked=True, no_key=True).values("pk")[:1]


class Takes(Enum):
    """Which runs a process takes. A suspect is a run during which a process died: the next one may die of it too, so a
    process with a port takes none.
    """

    ALL = "all"
    UNSUSPECTED = "unsuspected"
    SUSPECTS = "suspects"

    def of(self, rows: Any) -> Any:
        """The claim of a run whose process died counts its death; until then the run's status tells."""
        lost = Q(chain_version__isnull=False) & Exists(lost_steps(OuterRef("pk")))
        if self is Takes.UNSUSPECTED:
            return rows.filter(~lost, status=Run.Status.QUEUED, crashes=0)
        if self is Takes.SUSPECTS:
            return rows.filter(lost | Q(status=Run.Status.RUNNING) | Q(crashes__gt=0))
        return rows

    def of_steps(self, rows: Any) -> Any:
        """The steps of suspected chains are suspected with them."""
        lost = Exists(lost_steps(OuterRef("run")))
        if self is Takes.UNSUSPECTED:
            return rows.filter(~lost)
        if self is Takes.SUSPECTS:
            return rows.filter(lost)
        return rows


def lost_steps(run: Any) -> Any:
    """The steps and items of a chain during which a process died, until they are taken up again."""
    lost = StepRun.objects.filter(run=run, status=StepRun.Status.RUNNING, lease_expires_at__lt=clock.Now())
    return lost.exclude(lease_owner="").order_by()


def ready(at: Any, takes: Takes) -> Any:
    """What a worker of this format may take, of these priorities; its limits are checked afterwards."""
    rows = Run.objects.filter(place__isnull=False, pool=at.pool, priority__gte=at.floor, needs__lte=FORMAT)
    return takes.of(rows.claimable())


def choose(takes: Takes) -> Update:
    return Update(lambda at: (Run.objects.filter(pk=best(ready(at, takes))), taken(at)), **QUEUE, **CLAIM)


QUEUE: dict[str, models.Field] = {"pool": models.CharField(), "floor": models.PositiveSmallIntegerField()}
CHOOSE = {takes: choose(takes) for takes in Takes}


def readable_steps(**conditions: Any) -> Any:
    """Not those of a chain that a newer Muster published."""
    return StepRun.objects.filter(Exists(Run.objects.filter(pk=OuterRef("run"), needs__lte=FORMAT)), **conditions)


def ready_steps(at: Any, takes: Takes) -> Any:
    return takes.of_steps(readable_steps(place__isnull=False, pool=at.pool).filter(SiteHold.absent()))


def choose_step(takes: Takes) -> Update:
    """A step that waits for several workers goes to the back after each of them."""
    behind = Case(When(slots__gt=1, then=F("place") + 1), default=None, output_field=models.BigIntegerField())
    changed = {"slots": F("slots") - 1, "place": behind}
    return Update(
        lambda at: (StepRun.objects.filter(pk=best(ready_steps(at, takes))), changed), pool=models.CharField()
    )


CHOOSE_STEP = {takes: choose_step(takes) for takes in Takes}


@transaction.atomic
def take_step(pool: str, takes: Takes = Takes.ALL) -> str | None:
    """The id of the next step with work in this pool, as text; one of its slots is taken."""
    return next((str(key) for key in CHOOSE_STEP[takes].keys(pool=pool)), None)


def waiting_pools(pools: list[str]) -> set[str]:
    """The pools of these in which runs or steps wait."""
    return {pool for pool in pools if A_RUN.first(pool=pool) or A_STEP.first(pool=pool)}


def has_suspects(pools: list[str]) -> bool:
    """Whether suspects wait in one of these pools for a process without a port."""
    return any(A_SUSPECT.first(pool=pool, floor=0) or A_SUSPECTED_STEP.first(pool=pool) for pool in pools)


A_SUSPECTED_STEP = Select(
    lambda at: ready_steps(at, Takes.SUSPECTS).order_by().values_list("pk")[:1], pool=models.CharField()
)
A_SUSPECT = Select(lambda at: ready(at, Takes.SUSPECTS).order_by().values_list("pk")[:1], **QUEUE)
A_RUN = Select(
    lambda at: (
        Run.objects.filter(place__isnull=False, pool=at.pool, needs__lte=FORMAT).order_by().values_list("pk")[:1]
    ),
    pool=models.CharField(),
)
A_STEP = Select(
    lambda at: readable_steps(place__isnull=False, pool=at.pool).order_by().values_list("pk")[:1],
    pool=models.CharField(),
)
