"""How a run stops working: it ends, waits, is cancelled or wakes. Every ending goes through here."""

from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from django.db import IntegrityError, transaction
from django.db.models import F, UUIDField

from devices import calls as device_calls
from plumbing import clock
from plumbing.statements import Select
from runs.events import record as events
from runs.exceptions import LeaseLost, RunFinished, SessionBusy
from runs.models import Approval, InputRequest, Message, Run, Session, StepRun, ToolCallRecord
from runs.models.figures import totals
from runs.models.session import FINISH

from . import emptying, fair_queue, pauses, timers, wakeups
from .leases import Lease, tell_cancelled
from .locks import lock_above

Status = Run.Status
SESSION_GONE = {"code": "cancelled", "message": "its session was deleted"}
ROUNDS = 5  # that a session's deletion waits for messages that arrive at the same time


class Claimed(Protocol):
    """A worker's lease, or the claim of an outside executor."""

    def conditions(self) -> dict[str, Any]: ...


@transaction.atomic(savepoint=False)
def finish_run(
    run: Run,
    status: str,
    *,
    lease: Claimed | None = None,
    reply: str | None = None,
    cut: str = "",
    output: Any = None,
    error: dict[str, Any] | None = None,
    tool_calls: list[dict[str, Any]] | None = None,
    entries: list[events.Entry] | None = None,
) -> bool:
    """End a run once. With a lease, raises LeaseLost if another worker took over.

    `entries` are events that come before its end. `cut`: why the reply ended too early (`length`, `content_filter`).
    False if the run had ended already.
    """
    is_well = status in (Status.SUCCEEDED, Status.PARTIAL)
    lock_above(run, ends_below=not is_well)
    values = as_ended(run, status, output, error)
    values_before = {name: getattr(run, name) for name in values}
    set_columns(run, values)
    end = ("run.finished", summarize_run(run, reply, cut))
    where: dict[str, Any] = lease.conditions() if lease else {"status": Run.LIVE}
    if reply is not None and run.session_id:
        where["session"] = run.session_id  # there is no place for a reply once the conversation was deleted
    questions = [device_calls.WORKED_FOR.any(run=run.pk)]
    answers = events.change_run(run, **values, entries=[*(entries or []), end], where=where, asking=questions)
    if answers is None:
        set_columns(run, values_before)
        if reply is not None and has_lost_session(run):
            run.session = None
            return finish_run(run, Status.CANCELLED, lease=lease, error=SESSION_GONE)
        if lease:
            raise LeaseLost(str(run.pk))
        return False
    pauses.resume_deadlines(run)
    message = None
    if reply is not None and run.session is not None:
        message = add_reply(run, reply, tool_calls or [], cut)
    if not is_well:
        reason = (error or {}).get("code", status)
        close_open_work(run, reason=reason)
        if run.chain_version_id:  # steps still in progress
            transaction.on_commit(lambda: tell_cancelled(run.pk))
    add_counts_to_parent(run)
    release_followers(run, message)
    has_used_devices = answers[0]
    if has_used_devices or not is_well:
        transaction.on_commit(lambda: tell_devices(run, reply))
    return True


def set_columns(run: Run, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(run, name, value)


def add_counts_to_parent(run: Run) -> None:
    """Numbers of records that a child processed, created or changed count for what started it."""
    counts = read_run_counts(run)
    if run.parent_id and any(counts.values()):
        sums = {name: F(name) + number for name, number in counts.items()}
        Run.objects.filter(pk=run.parent_id).update(**sums)


def has_lost_session(run: Run) -> bool:
    """Whether the conversation that this run was read with has been deleted since."""
    if run.session_id is None:
        return False
    return Run.objects.filter(pk=run.pk, session=None).exists()


def add_reply(run: Run, reply: str, tool_calls: list[dict[str, Any]], finish: str) -> Message:
    """The reply as a message of the run's session."""
    assert run.session is not None
    content = [{"type": "text", "text": reply}]
    about: dict[str, Any] = {"tool_calls": tool_calls, "untrusted": run.has_untrusted}
    if finish:
        about["metadata"] = {FINISH: finish}
    return run.session.add_message(Message.Role.ASSISTANT, content, run=run, **about)


def as_ended(run: Run, status: str, output: Any, error: dict[str, Any] | None) -> dict[str, Any]:
    """The columns of an ended run, with its usage so far."""
    return {
        "status": status,
        "output": output,
        "error": error,
        "waiting_for": "",
        "wake_at": None,
        "finished_at": clock.near(),
        "lease_owner": "",
        "lease_expires_at": None,
        "turns": run.turns,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "cost": run.cost,
        **build_untrusted_column(run),
    }


def tell_devices(run: Run, reply: str | None) -> None:
    """Devices that worked for it are notified; what is still open there is stopped."""
    error = run.error or {}
    if run.status not in (Status.SUCCEEDED, Status.PARTIAL):
        device_calls.cancel_run(run.pk, error.get("code", run.status))
    text = reply or error.get("message", "")
    device_calls.complete_run(run.pk, run.status, read_run_counts(run), text)


def summarize_run(run: Run, reply: str | None, finish: str = "") -> dict[str, Any]:
    reply_data = None
    if reply is not None:
        reply_data = reply_json(reply, run.has_untrusted, finish)
    return {
        "status": run.status,
        "reply": reply_data,
        "output": run.output,
        "error": run.error,
        "session": str(run.session_id) if run.session_id else None,
        "usage": total_run_usage(run),
        "counts": read_run_counts(run),
        "turns": run.turns,
        "started_at": events.format_moment(run.started_at) if run.started_at else None,
        "finished_at": events.format_moment(run.finished_at) if run.finished_at else None,
    }


def reply_json(text: str, untrusted: bool = False, finish: str = "") -> dict[str, Any]:
    """`untrusted`: untrusted content was read before, so the answer may repeat its claims. `finish`: why it ended."""
    content = [{"type": "text", "text": text}]
    about = {"untrusted": untrusted, "finish": finish or "stop"}
    return {"role": "assistant", "content": content, "text": text, **about}


def total_run_usage(run: Run) -> dict[str, Any]:
    """Of a chain's run: what the runs below it have used."""
    return totals.total_usage(run).as_json()


def read_run_counts(run: Run) -> dict[str, int]:
    return {"processed": run.processed, "created": run.created, "updated": run.updated}


def close_open_work(run: Run, *, reason: str) -> None:
    """A failed or stopped run also ends its open calls, approvals and children."""
    now = clock.near()
    error = {"code": reason, "message": "the run ended first"}
    approvals = Approval.objects.filter(run=run, status=Approval.Status.OPEN)
    approvals.update(status=Approval.Status.VOID, decided_at=now)
    questions = InputRequest.objects.open().filter(run=run)
    questions.update(status=InputRequest.Status.VOID, answered_at=now)
    # Nobody knows whether a call was carried out that had begun. One that waited for its approval was not.
    open_calls = ToolCallRecord.objects.filter(run=run, outcome="")
    begun_calls = open_calls.filter(attempt__gt=0).exclude(waiting_for="approval")
    begun_calls.update(outcome=ToolCallRecord.Outcome.UNKNOWN, error=error, finished_at=now)
    open_calls.update(outcome=ToolCallRecord.Outcome.DENIED, error=error, finished_at=now)
    steps = StepRun.objects.filter(run=run, finished_at=None)
    steps.update(status=StepRun.Status.CANCELLED, finished_at=now, place=None, slots=0)
    for child in Run.objects.filter(parent=run).live():
        cancel_run(child, by=None, reason=f"its parent ended: {reason}")


FOLLOWERS = Select(
    lambda at: Run.objects.filter(after_id=at.run, status=Status.QUEUED, finished_at=None).only(
        "principal_id", "pool", "priority", "trigger", "queued_at"
    ),
    run=UUIDField(),
)


def release_followers(run: Run, reply: Message | None) -> None:
    """Wake the parent that waits for this child, and the next message of the session, whose row
    `reply` has locked.
    """
    if run.parent_id:
        wake(run.parent_id, waiting_for="child")
    if reply is not None and is_last_word(run, reply):
        return
    for follower in FOLLOWERS.all(run=run.pk):
        behind = Run.objects.filter(pk=follower.pk, after=run)
        if run.after_id:  # it ended before its turn: runs behind it now wait for the run it waited for
            behind.update(after=run.after_id)
        else:
            release_follower(follower, behind)


def release_follower(follower: Run, row: Any) -> None:
    """It is its turn: a worker may take it, or the outside program that it is for."""
    follower.after_id = None
    fair_queue.line_up(follower)
    now = clock.near()
    until = F("deadline") + (now - follower.queued_at)  # it stood behind another run, which is no work of its own
    queued = row.filter(status=Status.QUEUED, finished_at=None)  # not if it was cancelled in the meantime
    if queued.update(after=None, queued_at=now, place=follower.place, deadline=until):
        wakeups.enqueue(follower)


def is_last_word(run: Run, reply: Message) -> bool:
    """Whether a later message exists: none if the claim saw none and this is the very next number."""
    seen = run.seen
    if seen is None or seen.is_followed:
        return False
    return reply.seq == seen.last_seq + 1


def wake(run_id: Any, *, waiting_for: str | None = None) -> bool:
    """Queue a waiting run; False if it does not wait (for that). A chain waits for anything."""
    run = WAITING.first(run=run_id)
    if run is None:
        return False
    is_chain = run.chain_version_id is not None
    if waiting_for and run.waiting_for != waiting_for and not is_chain:
        return False
    queued: dict[str, Any] = {"wake_at": None, "queued_at": clock.near(), "place": fair_queue.bind_place(run)}
    if run.change(Status.QUEUED, where={"status": Status.WAITING}, **queued) is None:
        return False
    wakeups.enqueue(run)
    return True


WAITING = Select(lambda at: Run.objects.filter(pk=at.run, status=Status.WAITING).order_by(), run=UUIDField())


@transaction.atomic(savepoint=False)
def let_run_wait(run: Run, lease: Lease, waiting_for: str, until: datetime | None = None) -> None:
    """Release the worker. What the run waits for may have arrived: the caller checks after this, in the same
    transaction.
    """
    pauses.pause_deadlines(run)
    known_times = [moment for moment in (until, run.deadline) if moment]
    wake_at = min(known_times, default=None)
    until_text = events.format_moment(wake_at) if wake_at else None
    entry = ("run.waiting", {"waiting_for": waiting_for, "until": until_text})
    changed = events.change_run(
        run,
        Status.WAITING,
        [entry],
        where=lease.conditions(),
        waiting_for=waiting_for,
        wake_at=wake_at,
        lease_owner="",
        lease_expires_at=None,
        turns=run.turns,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cost=run.cost,
        **build_untrusted_column(run),
    )
    if changed is None:
        raise LeaseLost(str(run.pk))
    timers.expect(wake_at)


def requeue_run(run: Run, lease: Lease, **needs: Any) -> None:
    """Put a claimed run back for other workers: those of its pool, or that know a newer format (`needs`)."""
    place = fair_queue.bind_place(run)
    freed: dict[str, Any] = {"lease_owner": "", "lease_expires_at": None, "queued_at": clock.near(), **needs}
    if run.change(Status.QUEUED, where=lease.conditions(), **freed, place=place) is not None:
        wakeups.enqueue(run)


@transaction.atomic
def cancel_run(run: Run, *, by: Any, reason: str = "") -> Run:
    """Stop a run, its children and what they wait for. The worker is notified at once. Raises
    RunFinished.
    """
    lock_above(run, ends_below=True)
    live = Run.objects.filter(pk=run.pk, status__in=Run.LIVE)
    if not live.update(cancel_requested_at=clock.near(), cancel_reason=reason[:200]):
        raise RunFinished(f"Run {run.pk} has ended.", hint="GET it to see how.")
    run.refresh_from_db()
    who = by.get_username() if by else "system"
    events.record_event(run, "run.cancel_requested", {"by": who, "reason": reason})
    if run.status == Status.RUNNING:  # its worker ends it
        for child in Run.objects.filter(parent=run).live():
            cancel_run(child, by=by, reason=reason or "its parent was cancelled")
    else:
        finish_run(run, Status.CANCELLED, error=cancelled_error(run))
    transaction.on_commit(lambda: tell_cancelled(run.pk))
    return run


def cancelled_error(run: Run) -> dict[str, str]:
    return {"code": "cancelled", "message": run.cancel_reason or "The run was stopped."}


def clear(session: Session, *, by: Any, reason: str) -> Run | None:
    """Stop everything in progress in a session, queued runs first; returns the run whose worker
    must still release it. The session must not be locked yet: a run is locked before its session.
    """
    going_on = Run.objects.filter(session=session, cancel_requested_at=None).live()
    for run in going_on.order_by("-id"):
        with suppress(RunFinished):  # it ended by itself
            cancel_run(run, by=by, reason=reason)
    return session_is_busy(session)


def delete_session(session: Session, *, by: Any, reason: str) -> None:
    """Stop what is in progress in a session, then delete it and what its ended runs held; their rows are kept as
    history. Raises SessionBusy.

    Runs are locked before their session, as by a worker that writes a reply. Nothing can start in the session once its
    row is locked; what started before that is stopped in the next round.
    """
    rows = Session.objects.filter(pk=session.pk)
    runs = emptying.find_session_runs(session)
    for _ in range(ROUNDS):
        clear(session, by=by, reason=reason)
        with suppress(IntegrityError), transaction.atomic():
            live = Run.objects.filter(session=session).live()
            list(live.select_for_update(no_key=True).order_by("pk"))
            if not rows.select_for_update().exists():
                return  # somebody else has deleted it
            if live.filter(cancel_requested_at=None).exists():
                continue
            if not emptying.is_long(session):
                rows.delete()
                transaction.on_commit(lambda: emptying.empty_runs(runs))
                return
            rows.update(status=Session.Status.CLOSED)  # so that nothing begins in what is left
        emptying.delete_messages(session)
    raise SessionBusy(hint="Stop sending messages to it, then delete it.")


def session_is_busy(session: Session) -> Run | None:
    """The run in progress in this session, newest first; in a child session that is a child run. Of a
    chain that keeps one session it is the chain's run: its steps are part of it.
    """
    live = Run.objects.filter(session=session).live()
    return live.exclude(parent__session=session).order_by("-id").first()


def build_untrusted_column(run: Run) -> dict[str, Any]:
    """The mark as a column. It is only ever set: another worker may have set it since this row was
    read.
    """
    return {"has_untrusted": True} if run.has_untrusted else {}
