"""What must hold once everything has come to rest. Each check names what it found."""

from collections import Counter
from collections.abc import Iterator

from django.db import IntegrityError, connection
from django.db.models import Sum

from runs.models import Approval, Hold, Message, Run, RunEvent, StepRun, Tally, ToolCallRecord

from .cast import EFFECTS, Cast

ONCE = {name for name, effect in EFFECTS.items() if effect == "write"}


def violations(cast: Cast) -> Iterator[str]:
    yield from cast.world.problems
    for run in Run.objects.order_by("id"):
        yield from of_run(cast, run)
    yield from of_effects(cast)
    yield from of_budgets()
    if lost := cast.accepted - set(Run.objects.values_list("pk", flat=True)):
        yield f"lost: {len(lost)} accepted runs"
    if open_steps := StepRun.objects.filter(finished_at=None).count():
        yield f"stuck: {open_steps} open steps"
    if Approval.objects.open().exists():
        yield "stuck: open approvals"
    yield from of_references()


def of_references() -> Iterator[str]:
    """A seed is never committed, so SQLite does not check its deferred foreign keys by itself."""
    try:
        connection.check_constraints()
    except IntegrityError as error:
        yield f"reference: {error}"


def of_run(cast: Cast, run: Run) -> Iterator[str]:
    name = cast.world.name_of(run.pk)
    if not run.is_done:
        yield f"stuck: {name} is {run.status} {run.waiting_for}"
        return
    if run.error and run.error.get("code") == "internal_error":
        yield f"{name} failed with an internal error"
    events = list(RunEvent.objects.filter(run=run).order_by("id").values_list("seq", "type"))
    if sorted(seq for seq, _ in events) != list(range(1, run.last_event + 1)):
        yield f"events of {name} have gaps or doubles: {events} of {run.last_event}"
    types = [type for _, type in sorted(events)]
    if types.count("run.finished") != 1 or types[-1] != "run.finished":
        yield f"{name} does not end once, with its last event: {types}"
    told = RunEvent.objects.filter(run=run, type="tool.finished").values_list("data", flat=True)
    if any(number > 1 for number in Counter(data["id"] for data in told).values()):
        yield f"{name} tells of a result twice: {types}"
    if ToolCallRecord.objects.filter(run=run, outcome="").exists():
        yield f"{name} has ended and has open calls"
    if Message.objects.filter(run=run, role="assistant").count() > 1:
        yield f"{name} answers twice"


def of_effects(cast: Cast) -> Iterator[str]:
    """The ledger and the rows."""
    for token, effects in cast.effects.items():
        if len(effects) > 1 and effects[0][0] in ONCE:
            yield f"doubled: {effects[0][0]} {token} happened {len(effects)} times"
    done = {call for effects in cast.effects.values() for _, call in effects}
    for record in ToolCallRecord.objects.filter(kind="function"):
        what = f"{record.name} {record.arguments.get('token')} is {record.outcome}"
        if record.outcome == "ok" and str(record.pk) not in done:
            yield f"{what} and never happened"
        if record.outcome == "denied" and str(record.pk) in done:
            yield f"{what} and happened"
    recorded = {str(key) for key in ToolCallRecord.objects.values_list("pk", flat=True)}
    for call in done - recorded:
        yield f"a call has no row: {call}"


def of_budgets() -> Iterator[str]:
    if Hold.objects.filter(is_active=True).exists() or Tally.objects.exclude(held_tokens=0).exists():
        yield "budget: held by nobody"
    for tally in Tally.objects.select_related("budget"):
        used = Run.objects.aggregate(sum=Sum("input_tokens") + Sum("output_tokens"))["sum"] or 0
        if tally.tokens != used:
            yield f"budget: {tally.tokens} tokens are counted, {used} were used"
        if tally.budget.max_tokens is not None and tally.tokens > tally.budget.max_tokens:
            yield f"budget: {tally.tokens} of {tally.budget.max_tokens} tokens"
