"""Runs of chains as rows: created new, as a child, or as a retry from the failed step."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from agents.exceptions import Conflict, Invalid
from agents.graph import find_needs
from agents.http.room import WHOLE, check_room
from agents.http.sizes import measure
from agents.models import Chain, ChainVersion
from agents.spec import ChainSpec
from plumbing import clock, tracing
from plumbing.statements import insert_each
from runs.events import record as events
from runs.exceptions import LeaseLost, SessionBusy
from runs.models import Run, RunEvent, Session, StepRun, ToolCallRecord
from runs.queue import endings, fair_queue, wakeups

from . import authors, checks, options
from .parts import parse_run_ids

KEPT = (StepRun.Status.SUCCEEDED, StepRun.Status.SKIPPED)
# Of the row of an ended step, for a retry of its run.
COPIED_COLUMNS = (
    "key", "item", "status", "child_id", "call_id", "total", "done", "failed", "pinned", "attempt", "repeat", "input",
    "output", "error", "started_at", "finished_at",
)  # fmt: skip


def prepare_chain_run(
    *,
    user: Any,
    version: ChainVersion,
    input: Any,
    trigger: str = Run.Trigger.MANUAL,
    timeout: float | None = None,
    **fields: Any,
) -> Run:
    """A run of a chain, checked and not stored. Raises BrokenInput if the input does not match the
    chain's schema, Conflict if the person's runs hold as much as they may.
    """
    spec = version.read_spec()
    checks.check_input(spec, input)
    check_room(user.pk, input, is_visitors=fields.get("embed") is not None)
    run = Run(
        principal=user,
        chain_version=version,
        session=new_session(user, spec, fields) if spec.session == "run" else None,
        trigger=trigger,
        input=input if input is not None else {},
        deadline=checks.deadline(spec, timeout, parent=fields.get("parent")),
        trace_parent=tracing.PARENT.get(),
        last_event=1,
        **fields,
    )
    fair_queue.classify(run, parent=fields.get("parent"), is_batch=options.is_batch(run))
    return run


def new_session(user: Any, spec: ChainSpec, fields: dict[str, Any]) -> Session:
    """One session in which all steps of the run talk."""
    parent = fields.get("parent")
    depth = fields.get("depth", 0)
    return Session(
        owner=user,
        title=spec.name,
        depth=depth,
        parent_id=parent.session_id if parent else None,
        has_untrusted=fields.get("has_untrusted", False),
        variables={"agent_depth": depth},
    )


@transaction.atomic
def insert_chain_runs(runs: list[Run], *, pinned: Sequence[StepRun] = ()) -> None:
    """Store prepared runs with their first event, and queue them; `pinned` are ended steps of the only one."""
    sessions = [run.session for run in runs if run.session is not None and run.session._state.adding]
    if sessions:
        insert_each(sessions)
    for run in runs:
        fair_queue.line_up(run)
    insert_each(runs)
    insert_each([build_chain_queued(run) for run in runs])
    if pinned:
        StepRun.objects.bulk_create(pinned)
        entries = [("step.finished", told_of_pin(row)) for row in pinned]
        events.record_many(pinned[0].run, entries)
    wakeups.enqueue_all(runs)


def build_chain_queued(run: Run) -> RunEvent:
    event_data = {"trigger": run.trigger, "chain": run.chain_version.read_spec().name}
    return RunEvent(run=run, seq=1, type="run.queued", at=run.created_at, data=event_data)


def told_of_pin(row: StepRun) -> dict[str, Any]:
    return {"step": str(row.pk), "key": row.key, "item": row.item, "status": row.status, "error": None, "pinned": True}


def create_chain_run(**order: Any) -> Run:
    """A queued run, as created by `prepare_chain_run`."""
    run = prepare_chain_run(**order)
    insert_chain_runs([run])
    return run


def create_child(
    parent: Run, version: ChainVersion, input: Any, *, timeout_s: float | None, call: ToolCallRecord | None = None
) -> Run:
    """The run of a chain that a chain or an agent starts; a chain links it to its step in the same
    transaction.
    """
    authors.check_callee_shared(parent, version.chain)
    child = create_chain_run(
        user=parent.principal,
        version=version,
        input=input,
        trigger=Run.Trigger.CHAIN,
        timeout=timeout_s,
        parent=parent,
        root_id=parent.root_pk,
        parent_call=call,
        depth=parent.depth,
        has_untrusted=parent.has_untrusted,
        embed=parent.embed,
        metadata=parent.metadata,
    )
    tell_parent(parent, {"run": str(child.pk), "chain": version.read_spec().name})
    return child


def tell_parent(parent: Run, data: dict[str, Any]) -> None:
    """In the transaction that starts its child. Raises LeaseLost where the parent has ended: a worker
    that was stopped for long starts nothing more for it.
    """
    entry = ("child.started", data)
    if events.record_events_and_change(parent, [entry], where={"status": Run.LIVE}) is None:
        raise LeaseLost(str(parent.pk))


def retry_chain(run: Run, *, user: Any, step: str | None = None, input: Any = None, **fields: Any) -> Run:
    """A new run that continues from the failed step (or the named one); successful steps keep their
    output.

    `input` replaces that step's mapped input, `fields` are columns of the new run. Raises Conflict
    if the run is live or succeeded.
    """
    checks.check_ended(run)
    chain = Chain.objects.usable_by(user).filter(pk=run.chain_version.chain_id).first()
    if chain is None or not chain.enabled:
        raise Conflict(
            "You can no longer use the chain of this run, or it is switched off.",
            code="target_not_visible",
            hint="Ask its owner to share it with you again or to switch it on, or start another chain.",
        )
    spec = run.chain_version.read_spec()
    check_room(user.pk, run.input, input, is_visitors=run.embed is not None)
    begin = starting_points(run, spec, step)
    redone = begin | downstream(spec, begin)
    again = Run(
        principal=user,
        chain_version=run.chain_version,
        trigger=Run.Trigger.MANUAL,
        session=run.session,
        input=run.input,
        options=run.options,
        deadline=checks.deadline(spec),
        metadata={**run.metadata, "retry_of": str(run.pk), **find_replaced_runs(run, redone)},
        has_untrusted=run.has_untrusted,
        embed=run.embed,
        last_event=1,
        **fields,
    )
    fair_queue.classify(again, is_batch=options.is_batch(again))
    with transaction.atomic():
        require_free(run.session)
        copied = copy_steps(run, again, spec, begin, input)
        again.stored = sum(measure([row.input, row.output], WHOLE) for row in copied)
        insert_chain_runs([again])
        StepRun.objects.bulk_create(copied)
    return again


def find_replaced_runs(run: Run, redone: set[str]) -> dict[str, Any]:
    """In one session for the whole run, hide the messages of the steps that are repeated."""
    if run.session_id is None:
        return {}
    of_steps = Run.objects.filter(parent=run, session=run.session_id, policy__step__in=sorted(redone))
    replaced = parse_run_ids(run.metadata.get("instead_of"))
    replaced += of_steps.values_list("pk", flat=True)
    return {"instead_of": [str(pk) for pk in replaced]}


def require_free(session: Session | None) -> None:
    """Lock the session until the transaction ends. Raises SessionBusy."""
    if session is None:
        return
    Session.objects.select_for_update(of=("self",)).get(pk=session.pk)
    if busy := endings.session_is_busy(session):
        raise SessionBusy(hint="Wait for it, or cancel it.", details=[{"run": str(busy.pk)}])


def starting_points(run: Run, spec: ChainSpec, step: str | None) -> set[str]:
    if step is not None:
        if step not in {each.key for each in spec.steps}:
            raise Invalid(f"This chain has no step “{step}”.", code="unknown_step")
        return {step}
    unfinished = StepRun.objects.filter(run=run, item=-1).exclude(status__in=KEPT)
    keys = set(unfinished.values_list("key", flat=True))
    if not keys and run.status == Run.Status.SUCCEEDED:
        raise Conflict("This run succeeded; there is nothing to retry.", hint="Name a step, or start the chain again.")
    return keys


def copy_steps(run: Run, again: Run, spec: ChainSpec, begin: set[str], input: Any) -> list[StepRun]:
    """New rows of ended steps that do not depend on a starting point; for a for_each also the items
    that succeeded.
    """
    redone = begin | downstream(spec, begin)
    rows = list(StepRun.objects.filter(run=run))
    kept = [copy_step_row(row, again) for row in rows if row.key not in redone and row.status in KEPT]
    if input is None:
        for key in begin:
            of_step = [row for row in rows if row.key == key]
            kept += half_done(run, again, of_step)
    elif len(begin) == 1:
        [key] = begin
        kept.append(StepRun(run=again, key=key, input=input))
    else:
        raise Invalid(
            "An edited input needs exactly one step.",
            hint="Name the step.",
            details=[{"step": key} for key in sorted(begin)],
        )
    return kept


def half_done(run: Run, again: Run, rows: list[StepRun]) -> list[StepRun]:
    """A partly finished for_each: failed items again, successful ones as they are."""
    main = next((row for row in rows if row.item < 0 and row.total), None)
    items = [row for row in rows if row.item >= 0]
    if main is None or len(items) != main.total:
        return []
    succeeded, open_items = [], []
    for row in items:
        if row.status in KEPT:
            succeeded.append(copy_step_row(row, again))
        else:
            open_items.append(StepRun(run=again, key=row.key, item=row.item))
    fresh = StepRun(
        run=again,
        key=main.key,
        status=StepRun.Status.RUNNING,
        input=main.input,
        total=main.total,
        done=len(succeeded),
        started_at=clock.near(),
        attempt=1,
    )
    return [fresh, *succeeded, *open_items]


def copy_step_row(row: StepRun, again: Run) -> StepRun:
    columns = {name: getattr(row, name) for name in COPIED_COLUMNS}
    return StepRun(run=again, **columns)


def downstream(spec: ChainSpec, begin: set[str]) -> set[str]:
    """All steps that depend on these, including fallbacks that replace them."""
    from_needs = needs_map(spec)
    keys: set[str] = set()
    waiting = list(begin)
    while waiting:
        key = waiting.pop()
        for follower in from_needs.get(key, ()):
            if follower not in keys:
                keys.add(follower)
                waiting.append(follower)
    return keys


def needs_map(spec: ChainSpec) -> dict[str, list[str]]:
    followers: dict[str, list[str]] = {}
    for key, needs in find_needs(spec).items():
        for need in needs:
            followers.setdefault(need, []).append(key)
    for step in spec.steps:
        if step.on_error == "fallback":
            followers.setdefault(step.key, []).append(step.fallback)
    return followers
