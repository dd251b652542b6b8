"""Budgets: the maximum cost of a model call is held before the call and settled when its cost is
known.

Each budget has one tally per period, and each run one hold in it. A hold is taken by a conditional
UPDATE of the tally, so that concurrent calls cannot spend the same money. Locks are taken in the
order hold, tally, by budget.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, DateTimeField, F, IntegerField, Q, QuerySet, Sum, UUIDField

from agents.models import Agent
from agents.models.provider import convert_to_dollars, units
from plumbing import clock
from plumbing.statements import Select
from registry.llm.bids import Bid
from runs.exceptions import RunEnded, RunWaits
from runs.models import Budget, Hold, Run, Tally
from runs.rules import reservations

from . import endings

FRESH_S = 1.0
AGAIN_S = 2.0  # a run that waits for others' holds checks again after this; a released hold wakes it earlier
STALE_S = 600  # age of holds of a dry run whose process died
BATCH = 500
ROUNDS = 3  # that a run tries again because a budget was deleted
WAKE = 16  # runs woken by one settled call


class Watch:
    """The budgets of one run in progress. Limits are read again after a second; the remaining
    amount is read each time.

    The claim of a run has seen whether any budget covers it: usually none does, and then none is
    read.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.budgets: list[Budget] = []
        self.holds: list[Hold] = []
        # Where the claim has seen that no budget covers the run, the empty list counts as read at that time.
        self.read_at = -math.inf
        if run.seen is not None and not run.seen.is_budgeted and run.root_id is None:
            self.read_at = run.seen.at

    def hold(self, make_bid: Callable[[], Bid]) -> int | None:
        """Hold the maximum that this call may use. Returns the longest affordable answer, None
        without a limit.

        Raises RunEnded(budget_exhausted), or RunWaits if there is room once other calls release
        their holds.
        """
        if not self.current():
            return None
        bid = make_bid()
        try:
            reserved = self.try_again(lambda budgets: reserve(self.run, budgets, bid))
        except Crowded:
            look_again_at = clock.near() + timedelta(seconds=AGAIN_S)
            raise RunWaits("budget", look_again_at)
        if reserved is None:
            self.holds = []
            return None
        self.holds, longest = reserved
        return longest

    def current(self) -> list[Budget]:
        age_s = time.monotonic() - self.read_at
        if age_s > FRESH_S:
            self.budgets = covering(self.run)
            self.read_at = time.monotonic()
        return self.budgets

    def require(self) -> None:
        """For work whose cost is known only at its end: counts the run. Raises
        RunEnded(budget_exhausted).
        """
        if self.current():
            self.try_again(lambda budgets: enter(self.run, budgets))

    def try_again(self, work: Callable[[list[Budget]], Any]) -> Any:
        """With the budgets as they are now, if one was deleted since they were read; None if none is left."""
        for _ in range(ROUNDS):
            try:
                return work(self.budgets)
            except DELETED:
                self.read_at = -math.inf
                if not self.current():
                    return None
        return work(self.budgets)

    def settle(self, tokens: int, cost: Decimal) -> None:
        """Replace the hold by what the call used, in the transaction that writes the answer."""
        if self.holds:
            settle_holds(self.holds, tokens, units(cost))
            self.holds = []

    def release(self) -> None:
        """The call was not made."""
        self.settle(0, Decimal(0))

    def charge(self, tokens: int, cost: Decimal) -> None:
        """Add a cost for which nothing was held."""
        for budget in self.current():
            with suppress(BudgetGone):
                spend(open_tally(budget, self.run), tokens, units(cost))


class Crowded(Exception):
    """There is room, but other calls hold it."""


class BudgetGone(Exception):
    """It was deleted after it was read."""


DELETED = (BudgetGone, Tally.DoesNotExist, IntegrityError)


@transaction.atomic
def reserve(run: Run, budgets: list[Budget], bid: Bid) -> tuple[list[Hold], int]:
    """Hold this bid in every budget, or in none. Raises RunEnded(budget_exhausted), Crowded."""
    holds = enter(run, budgets)
    rooms = [compute_budget_room(budget, hold.tally) for budget, hold in zip(budgets, holds, strict=True)]
    stake = reservations.stake(bid, rooms)
    if stake is None:
        raise RunEnded(Run.Status.FAILED, "budget_exhausted", shortage(budgets, holds, bid))
    for budget, hold, (tokens, cost) in zip(budgets, holds, stake.amounts, strict=True):
        if not take_budget(budget, hold, tokens, cost):
            raise Crowded
    return holds, stake.max_output


@transaction.atomic
def enter(run: Run, budgets: list[Budget]) -> list[Hold]:
    """The run's hold in each budget, empty; a new one counts the run. Raises
    RunEnded(budget_exhausted).
    """
    holds = []
    for budget in budgets:
        tally = open_tally(budget, run)
        holds.append(enter_one(run, budget, tally))
    return holds


def enter_one(run: Run, budget: Budget, tally: Tally) -> Hold:
    if run._state.adding:  # a dry run of the router is not counted as a run
        hold = Hold.objects.create(tally=tally)
    else:
        hold, is_new = Hold.objects.get_or_create(tally=tally, run=run)
        release_hold(hold)  # of an attempt whose worker died
        if is_new and not has_begun(run):
            count_run(budget, tally)
    tally.refresh_from_db()
    reason = overdrawn(budget, tally)
    if reason:
        raise RunEnded(Run.Status.FAILED, "budget_exhausted", reason)
    hold.tally = tally
    hold.attempt = run.attempt
    return hold


def has_begun(run: Run) -> bool:
    """The run started before its budget had a tally, which counted it then."""
    return bool(run.turns or run.input_tokens or run.output_tokens)


def count_run(budget: Budget, tally: Tally) -> None:
    rows = Tally.objects.filter(pk=tally.pk)
    if budget.max_runs is not None:
        rows = rows.filter(runs__lt=budget.max_runs)
    if not rows.update(runs=F("runs") + 1):
        reason = f"{budget}: {budget.max_runs} runs were started"
        raise RunEnded(Run.Status.FAILED, "budget_exhausted", reason)


def take_budget(budget: Budget, hold: Hold, tokens: int, cost: int) -> bool:
    """The statement that admits a call: it holds the amounts as long as spent and held amounts stay
    within the limit.
    """
    rows = Tally.objects.filter(pk=hold.tally.pk)
    if budget.max_tokens is not None:
        tokens_left = budget.max_tokens - tokens - F("held_tokens")
        rows = rows.filter(tokens__lte=tokens_left)
    if budget.max_cost is not None:
        cost_left = units(budget.max_cost) - cost - F("held_cost")
        rows = rows.filter(cost__lte=cost_left)
    is_taken = rows.update(held_tokens=F("held_tokens") + tokens, held_cost=F("held_cost") + cost)
    if not is_taken:
        return False
    hold.tokens = tokens
    hold.cost = cost
    hold.is_active = True
    hold.since = clock.near()
    hold.save(update_fields=["attempt", "tokens", "cost", "is_active", "since"])
    return True


def compute_budget_room(budget: Budget, tally: Tally) -> reservations.Room:
    """What is left of each of its limits; None where it has no such limit."""
    tokens = cost = None
    if budget.max_tokens is not None:
        tokens = budget.max_tokens - tally.tokens
    if budget.max_cost is not None:
        cost = units(budget.max_cost) - tally.cost
    return reservations.Room(tokens, cost)


@transaction.atomic
def settle_holds(holds: list[Hold], tokens: int, cost: int) -> None:
    for hold in holds:
        release_hold(hold)
        if tokens or cost:
            spend(hold.tally, tokens, cost)
        if hold.run_id is None:
            hold.delete()
    transaction.on_commit(wake_waiting)


def release_hold(hold: Hold) -> bool:
    """Release a hold, once: another worker may have done so, or hold something new in a later
    attempt.
    """
    if not hold.is_active:
        return False
    mine = Hold.objects.filter(pk=hold.pk, attempt=hold.attempt, is_active=True, since=hold.since)
    if not mine.update(is_active=False):
        return False
    hold.is_active = False
    held = Tally.objects.filter(pk=hold.tally_id)
    held.update(held_tokens=F("held_tokens") - hold.tokens, held_cost=F("held_cost") - hold.cost)
    return True


def spend(tally: Tally, tokens: int, cost: int) -> None:
    rows = Tally.objects.filter(pk=tally.pk)
    rows.update(tokens=F("tokens") + tokens, cost=F("cost") + cost)


def wake_waiting() -> None:
    """Runs that wait for others' holds. Those that still find no room wait again."""
    waiting = Run.objects.filter(status=Run.Status.WAITING, waiting_for="budget").order_by("id")
    for run_id in waiting.values_list("pk", flat=True)[:WAKE]:
        endings.wake(run_id, waiting_for="budget")


def has_room_again(run: Run) -> bool:
    """No hold remains in the budgets that this run waits for: nothing would wake it."""
    tallies = []
    for budget in covering(run):
        with suppress(BudgetGone):
            tallies.append(open_tally(budget, run).pk)
    return not Hold.objects.filter(tally__in=tallies, is_active=True).exists()


def release_stale(now: datetime) -> int:
    """Holds of calls that no process is making any more."""
    since = now - timedelta(seconds=STALE_S)
    released = [release_stale_hold(hold) for hold in STALE.all(since=since)]
    return sum(released)


def stale(at: Any) -> Any:
    at_work = Q(run__status=Run.Status.RUNNING, run__attempt=F("attempt"))
    dry_run = Q(run=None, since__gt=at.since)
    held = Hold.objects.filter(is_active=True)
    return held.exclude(at_work).exclude(dry_run)[:BATCH]


STALE = Select(stale, since=DateTimeField())


@transaction.atomic
def release_stale_hold(hold: Hold) -> bool:
    return release_hold(hold)


def covering(run: Run) -> list[Budget]:
    """Budgets of the principal, the agent, its team, and of everyone; in a child run also what its root may use."""
    about = {"user": run.principal_id, "root": run.root_pk, "embed": run.embed}
    budgets = COVERING.all(**about, agent=run.agent_id)
    if run._state.adding:  # a dry run of the router
        return [budget for budget in budgets if budget.period != Budget.Period.RUN]
    if run.root_id is None:
        return budgets
    root_agent = Run.objects.filter(pk=run.root_id).values_list("agent_id", flat=True).first()
    known_ids = {budget.pk for budget in budgets}
    for budget in COVERING.all(**about, agent=root_agent):
        if budget.period == Budget.Period.RUN and budget.pk not in known_ids:
            budgets.append(budget)
    return sorted(budgets, key=lambda budget: budget.pk)


def of_work(user: Any, agent: Any, root: Any, embed: Any, *, shared: Any) -> QuerySet:
    """Enabled budgets of what this user does with this agent; `shared` is the agent as a query within it names it.

    A team's budget limits runs of the agents that are shared with this team, and nothing else of its members.

    One that names several (a user and an agent, say) limits only what is both.
    """
    of_agent = Q(agent=None) | Q(agent_id=agent)  # a run without an agent compares with NULL, which never matches
    sharing_teams = Agent.objects.filter(pk=shared, team__isnull=False).values("team_id")
    of_team = Q(team=None) | Q(team_id__in=sharing_teams)
    rows = Budget.objects.filter(
        Q(run=None) | Q(run_id=root),
        Q(embed=None) | Q(embed_id=embed),
        Q(user=None) | Q(user_id=user),
        of_agent,
        of_team,
        enabled=True,
    )
    return rows.order_by("pk")  # the order of locking


COVERING = Select(
    lambda at: of_work(at.user, at.agent, at.root, at.embed, shared=at.agent),
    user=IntegerField(), agent=IntegerField(), root=UUIDField(), embed=UUIDField(),
)  # fmt: skip


def open_tally(budget: Budget, run: Run) -> Tally:
    """The tally of this period. A new one starts with what the runs' rows say was used before. Raises BudgetGone."""
    key = build_tally_key(budget, run)
    tally = Tally.objects.filter(budget=budget, key=key).first()
    return tally or new_tally(budget, key, run)


@transaction.atomic
def new_tally(budget: Budget, key: str, run: Run) -> Tally:
    locked = Budget.objects.select_for_update(no_key=True).filter(pk=budget.pk)
    if not locked.exists():
        raise BudgetGone(str(budget))
    tally, _ = Tally.objects.get_or_create(budget=budget, key=key, defaults=used_before(budget, run))
    return tally


def build_tally_key(budget: Budget, run: Run, now: datetime | None = None) -> str:
    if budget.period == Budget.Period.RUN:
        return str(run.root_pk)
    start = find_period_start(budget.period, now or clock.near())
    return start.strftime(FORMATS[budget.period])


FORMATS: dict[str, str] = {Budget.Period.DAY: "%Y-%m-%d", Budget.Period.MONTH: "%Y-%m"}


def used_before(budget: Budget, run: Run) -> dict[str, int]:
    if budget.period == Budget.Period.RUN:
        runs: QuerySet[Run] = Run.objects.filter(Q(pk=run.root_pk) | Q(root_id=run.root_pk))
    else:
        start = find_period_start(budget.period, clock.near())
        runs = in_scope(budget).filter(created_at__gte=start)
    # A run that only waited so far is counted when it begins.
    begun = runs.filter(Q(turns__gt=0) | Q(input_tokens__gt=0) | Q(output_tokens__gt=0))
    tokens = Sum(F("input_tokens") + F("output_tokens"))
    sums = begun.aggregate(tokens=tokens, cost=Sum("cost"), runs=Count("pk"))
    cost = Decimal(sums["cost"] or 0)
    return {"tokens": sums["tokens"] or 0, "cost": units(cost), "runs": sums["runs"]}


def overdrawn(budget: Budget, tally: Tally) -> str:
    """Why this budget refuses, or "". Its limits may have been lowered since the run was counted."""
    if budget.max_tokens is not None and tally.tokens >= budget.max_tokens:
        return f"{budget}: {tally.tokens} of {budget.max_tokens} tokens are used"
    if budget.max_cost is not None and tally.cost >= units(budget.max_cost):
        return f"{budget}: {convert_to_dollars(tally.cost):f} of {budget.max_cost} US dollars are used"
    if budget.max_runs is not None and tally.runs > budget.max_runs:
        return f"{budget}: {budget.max_runs} runs were started"
    return ""


def shortage(budgets: list[Budget], holds: list[Hold], bid: Bid) -> str:
    """The first budget without room even for a short answer."""
    for budget, hold in zip(budgets, holds, strict=True):
        tally = hold.tally
        room = compute_budget_room(budget, tally)
        if reservations.stake(bid, [room]) is not None:
            continue
        only_tokens = reservations.Room(room.tokens, None)
        if room.tokens is not None and reservations.stake(bid, [only_tokens]) is None:
            return f"{budget}: {tally.tokens} of {budget.max_tokens} tokens are used, too many for another call"
        used = f"{convert_to_dollars(tally.cost):f} of {budget.max_cost} US dollars are used"
        return f"{budget}: {used}, too much for another call"
    return f"{budgets[0]}: too much is used for another call"


def in_scope(budget: Budget) -> QuerySet[Run]:
    runs = Run.objects.all()
    if budget.agent_id:
        runs = runs.filter(agent_id=budget.agent_id)
    if budget.user_id:
        runs = runs.filter(principal_id=budget.user_id)
    if budget.embed_id:
        runs = runs.filter(embed=budget.embed_id)
    if budget.team_id:
        runs = runs.filter(agent__team_id=budget.team_id)
    return runs


def find_period_start(period: str, now: datetime) -> datetime:
    """Midnight UTC of the day, or of the month's first."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == Budget.Period.MONTH:
        return day.replace(day=1)
    return day
