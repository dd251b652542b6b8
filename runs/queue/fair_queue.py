"""Which run or step a worker takes next. See docs/howto/queue.md and ADR 0006.

A row that waits for a worker has a `place`. The order is: priority, place, id. Places share the
workers fairly between people (start-time fair queueing): the next row of a person who has rows in
the queue comes one place behind the last of them, the first row of a person one place behind the
front. People who use agents of one team take larger steps, so that the team as a whole has the
share of a person.
"""

from collections import Counter
from typing import Any

from django.db import models, transaction
from django.db.models import Case, Count, Exists, F, OuterRef, Subquery, Value, When
from django.db.models.functions import Coalesce

from agents.models import Membership, SiteHold
from agents.spec import FORMAT
from plumbing.computed import Computed
from plumbing.statements import Bound, Select, Update, update_each
from runs.models import Run, StepRun
from runs.models.run import CLAIM, build_claim_columns

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
    inherited_pool = parent.pool if parent else DEFAULT_POOL
    own_pool = target.pool if target is not None else ""
    run.pool = own_pool or inherited_pool
    if is_batch:
        run.priority = Run.Priority.BATCH
    elif parent:
        run.priority = parent.priority
    else:
        run.priority = PRIORITIES.get(run.trigger, Run.Priority.PERSON)


def line_up(run: Run) -> None:
    """Give a run that is about to be stored its place, unless it follows another or is executed
    outside.
    """
    if run.after_id is not None or run.trigger == Run.Trigger.EXTERNAL:
        run.place = None
        return
    run.place = bind_place(run)  # type: ignore[assignment]


def line_up_again(runs: list[Run]) -> None:
    """Give stored runs that have lost their place a new one, from the front on: they have had their
    turn. Their people share the places fairly. Must be called in a transaction that locked the rows.
    """
    fronts: dict[tuple[str, int], int] = {}
    counts: Counter[tuple[str, int, Any]] = Counter()
    for run in sorted(runs, key=lambda run: run.pk):  # the oldest first
        queue = run.pool, run.priority
        if queue not in fronts:
            fronts[queue] = find_queue_front(*queue)
        run.place = fronts[queue] + counts[*queue, run.principal_id]
        counts[*queue, run.principal_id] += 1
    update_each(runs, ("place",))


def find_queue_front(pool: str, priority: int) -> int:
    first = FRONT.first(pool=pool, priority=priority)
    if first is None:
        return 0
    return first[0]


def bind_place(run: Run) -> Bound:
    """The end of its person's rows, computed by the statement that stores it."""
    key = {"pool": run.pool, "priority": run.priority, "principal": run.principal_id}
    is_agent_known = Run.agent.is_cached(run)  # no query for it
    if is_agent_known and run.agent and run.agent.team_id:
        return TEAM_PLACE.of(**key, team=run.agent.team_id)
    return PLACE.of(**key)


def step_place(run: Run) -> Bound:
    """The same for a step of this run, among steps."""
    return STEP_PLACE.of(pool=run.pool, priority=run.priority, principal=run.principal_id)


def query_queued(rows: Any, at: Any) -> Any:
    return rows.filter(place__isnull=False, pool=at.pool, priority=at.priority).order_by()


def build_next_place(rows: Any, at: Any, step: Any) -> Coalesce:
    """The place of the next row of this person."""
    last = query_queued(rows, at).filter(principal=at.principal).order_by("-place").values("place")[:1]
    front = query_queued(rows, at).order_by("place").values("place")[:1]
    kind = models.BigIntegerField()
    return Coalesce(
        Subquery(last, output_field=kind) + step, Subquery(front, output_field=kind) + 1, Value(0), output_field=kind
    )


def mates(at: Any) -> Any:
    """How many people of the team have rows in the queue, this person included."""
    theirs = query_queued(Run.objects, at).filter(principal=OuterRef("user_id"))
    others = Membership.objects.filter(Exists(theirs), team_id=at.team).exclude(user_id=at.principal)
    number = others.order_by().values("team_id").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(number), Value(0), output_field=models.BigIntegerField()) + 1


KEY: dict[str, models.Field] = {
    "pool": models.CharField(),
    "priority": models.PositiveSmallIntegerField(),
    "principal": models.BigIntegerField(),
}
PLACE = Computed(Run, lambda at: build_next_place(Run.objects, at, Value(1)), **KEY)
FRONT = Select(
    lambda at: query_queued(Run.objects, at).order_by("place").values_list("place")[:1],
    pool=KEY["pool"],
    priority=KEY["priority"],
)
TEAM_PLACE = Computed(
    Run, lambda at: build_next_place(Run.objects, at, mates(at)), **KEY, team=models.BigIntegerField()
)
STEP_PLACE = Computed(StepRun, lambda at: build_next_place(StepRun.objects, at, Value(1)), **KEY)


# -- being chosen -----------------------------------------------------------------------------------------------------


def order_queue(rows: Any) -> Any:
    return rows.order_by("priority", "place", "id")


def best(rows: Any) -> Any:
    """Rows that another worker is taking at this moment are passed over (SQLite's writers take turns)."""
    return order_queue(rows).select_for_update(skip_locked=True, no_key=True).values("pk")[:1]


def ready(at: Any) -> Any:
    """What a worker of this format may take, of these priorities; its limits are checked afterwards."""
    return Run.objects.filter(place__isnull=False, pool=at.pool, priority__gte=at.floor, needs__lte=FORMAT).claimable()


QUEUE: dict[str, models.Field] = {"pool": models.CharField(), "floor": models.PositiveSmallIntegerField()}
CHOOSE = Update(
    lambda at: (Run.objects.filter(pk=best(ready(at))), build_claim_columns(at)),
    **QUEUE,
    **CLAIM,
)


def readable_steps(**conditions: Any) -> Any:
    """Not those of a chain that a newer Muster published."""
    return StepRun.objects.filter(Exists(Run.objects.filter(pk=OuterRef("run"), needs__lte=FORMAT)), **conditions)


# A step that waits for several workers goes to the back after each of them.
CHOOSE_STEP = Update(
    lambda at: (
        StepRun.objects.filter(pk=best(readable_steps(place__isnull=False, pool=at.pool).filter(SiteHold.absent()))),
        {
            "slots": F("slots") - 1,
            "place": Case(When(slots__gt=1, then=F("place") + 1), default=None, output_field=models.BigIntegerField()),
        },
    ),
    pool=models.CharField(),
)


@transaction.atomic
def take_step(pool: str) -> str | None:
    """The id of the next step with work in this pool, as text; one of its slots is taken."""
    keys = CHOOSE_STEP.keys(pool=pool)
    return str(keys[0]) if keys else None


def waiting_pools(pools: list[str]) -> set[str]:
    """The pools of these in which runs or steps wait."""
    waiting = set()
    for pool in pools:
        if A_RUN.first(pool=pool) or A_STEP.first(pool=pool):
            waiting.add(pool)
    return waiting


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
