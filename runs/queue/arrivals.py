"""A run that can begin in the process that stores it is stored claimed: it joins no queue, nobody is woken for it, and
no other process looks for it. Every other run is queued. See ADR 0116.

    with arrivals.reserve(run) as start, transaction.atomic():
        …
        is_claimed = start.claim(run)  # or else its place in the queue
        insert(run)
        …
        start.begin_on_commit(run, …)  # or else a wake-up
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import F, Q

from agents.models import Agent, SiteHold
from agents.spec import FORMAT
from plumbing import clock
from plumbing.computed import Computed
from plumbing.statements import Select
from runs.events import outbox
from runs.models import Message, Run
from runs.models.run import Seen

from . import choice, claims
from .leases import KEEPER, Lease, worker_name

LOOKED_AT = 64  # runs of the queue, the first ones
NO_EMBED = UUID(int=0)  # a placeholder of a statement cannot be NULL, and no embed has this id


class Room(Protocol):
    """The run pool of a process."""

    def reserve(self, pool: str) -> bool:
        """Keep room for a run of this pool that would begin now. False if there is none, or if it takes no more."""

    def give_back(self) -> None:
        """The room is not needed."""

    def begin(self, run: Run, lease: Lease) -> None:
        """Carry out this claimed run in the room that was kept."""

    def take_next(self, pool: str, floor: int) -> None:
        """Use the room that was kept for the next run of the queue; `floor` as in `claims.claim_next`."""


class Here:
    """This process."""

    room: Room | None = None
    turn = 0  # of those while others wait, as in the queue


class Around(NamedTuple):
    """What is around a run that arrives."""

    is_held: bool  # the site
    agent_limit: int | None
    provider_limit: int | None
    team: int | None
    team_limit: int | None
    is_heard: bool
    is_budgeted: bool
    is_hooked: bool
    more_runs: bool
    more_steps: bool

    def is_free(self) -> bool:
        """Nothing forbids that the run begins. The runs in work are only counted in the queue."""
        limits = (self.agent_limit, self.provider_limit, self.team_limit)
        return not (self.is_held or self.more_steps) and limits == (None, None, None)


class Start:
    """The room for one run, until it begins there or the room is given back."""

    def __init__(self, room: Room | None) -> None:
        self.room = room
        self.lease: Lease | None = None
        self.will_be_used = self.is_used = False

    def claim(self, run: Run) -> bool:
        """Make this run, which is about to be stored, one that this process has claimed. False if it must be queued.

        Must be called in the transaction that stores it, once it is known whether it follows another run.
        """
        if self.room is None or run.after_id is not None:
            return False
        around = look_around(run)
        if around is None or not around.is_free():
            return False
        if around.more_runs and (is_preceded(run) or self.is_turn_of_others(run)):
            return False
        run.seen = seen(run, around)
        run.claimed_from, run.status, run.place = Run.Status.QUEUED, Run.Status.RUNNING, None
        run.attempt, run.last_event, run.started_at = 1, run.last_event + 1, clock.near()
        run.lease_owner = worker_name()
        run.lease_expires_at = LEASE_END.of(lease_s=settings.LEASE_S)  # type: ignore[assignment]
        return True

    def is_turn_of_others(self, run: Run) -> bool:
        """While others wait, some starts are left to those that stand lower; this one is queued behind them."""
        assert self.room is not None
        Here.turn += 1
        floor = choice.floor(Here.turn)
        if floor <= run.priority:
            return False
        self.use_on_commit(partial(self.room.take_next, run.pool, floor))
        return True

    def begin_on_commit(self, run: Run, message: Message) -> None:
        """The lease is known here before anybody can read the row: a cancellation after the commit is heard."""
        assert self.room is not None and run.seen is not None and run.session is not None
        run.seen = replace(run.seen, last_seq=run.session.last_seq, own=(message,))
        if run.seen.is_heard:
            outbox.put(run, [("run.started", {"attempt": run.attempt})])
        run.lease_expires_at = None  # it was computed by the database, and is renewed there
        self.lease = Lease(run)
        KEEPER.add(self.lease)
        self.use_on_commit(partial(self.room.begin, twin(run), self.lease))

    def use_on_commit(self, work: Any) -> None:
        def use() -> None:
            self.is_used = True
            work()

        self.will_be_used = True
        transaction.on_commit(use)

    def give_back(self) -> None:
        if self.room is None:
            return
        self.room.give_back()
        if self.lease is not None:
            KEEPER.remove(self.lease)


@contextmanager
def reserve(run: Run) -> Iterator[Start]:
    """The room for this run, if there is any. In a transaction of the caller, nobody knows when it will commit."""
    may_begin = run.agent_id is not None and run.trigger != Run.Trigger.EXTERNAL and run.needs <= FORMAT
    room = Here.room if may_begin and not is_in_transaction() else None
    has_room = room is not None and room.reserve(run.pool)
    start = Start(room if has_room else None)
    try:
        yield start
    except BaseException:
        if not start.is_used:  # otherwise it was committed, and what failed came after that
            start.give_back()
        raise
    if not start.will_be_used:
        start.give_back()


def is_in_transaction() -> bool:
    return connection.in_atomic_block


def look_around(run: Run) -> Around | None:
    row = AROUND.first(
        run=run.pk, agent=run.agent_id, principal=run.principal_id, embed=run.embed or NO_EMBED,
        pool=run.pool,
    )  # fmt: skip
    return Around(*row) if row else None


def seen(run: Run, around: Around) -> Seen:
    """What the claim of a worker would have seen. Its message is the last of its session, and nothing follows it."""
    has_budget = bool(run.options.get("asked", {}).get("budget"))  # one of its own, stored with it
    return Seen(
        at=time.monotonic(),
        is_heard=around.is_heard,
        is_budgeted=around.is_budgeted or has_budget,
        is_followed=False,
        is_hooked=around.is_hooked,
        last_seq=0,  # known when the message is stored
        more_runs=around.more_runs,
        more_steps=around.more_steps,
        provider_limit=around.provider_limit,
        team=around.team,
        team_limit=around.team_limit,
    )


def twin(run: Run) -> Run:
    """The same row for the thread that works on it: the one that stored it still answers its caller."""
    other = Run.__new__(Run)
    other.__dict__.update(run.__dict__)
    other._state = copy(run._state)
    other._state.fields_cache = {**run._state.fields_cache}
    return other


def is_preceded(run: Run) -> bool:
    """Whether a run of the same or a higher priority waits that a worker would take first; suspects wait for another
    process.

    Where there is room, a run that a limit may hold back waits for that limit, or is being taken: however many those
    are, a few rows are read.
    """
    rows = FIRST.all(pool=run.pool, priority=run.priority)
    agents = {agent for agent, status, crashes in rows if status == Run.Status.QUEUED and not crashes}
    if None in agents:  # a chain's, or one whose agent is not chosen yet
        return True
    limits = {"max_running": None, "provider__max_running": None, "team__max_running": None}
    return bool(agents) and Agent.objects.filter(pk__in=agents, **limits).exists()


# Without joins: PostgreSQL would read the whole queue for them.
FIRST = Select(
    lambda at: choice.in_order(
        Run.objects.filter(place__isnull=False, pool=at.pool, priority__lte=at.priority, needs__lte=FORMAT)
    ).values_list("agent_id", "status", "crashes")[:LOOKED_AT],
    pool=models.CharField(),
    priority=models.PositiveSmallIntegerField(),
)
AROUND = Select(
    lambda at: (
        Agent.objects.filter(pk=at.agent)
        .annotate(
            is_held=~Q(SiteHold.absent()),
            provider_limit=F("provider__max_running"),
            team_limit=F("team__max_running"),
            **claims.surroundings(at.principal, at.agent, at.run, at.embed, at.pool, shared=at.agent),
        )
        .order_by()
        .values_list("is_held", "max_running", "provider_limit", "team", "team_limit", *claims.SURROUNDINGS)
    ),
    run=models.UUIDField(),
    agent=models.BigIntegerField(),
    principal=models.BigIntegerField(),
    embed=models.UUIDField(),
    pool=models.CharField(),
)
LEASE_END = Computed(Run, lambda at: clock.Now(at.lease_s), lease_s=models.FloatField())
