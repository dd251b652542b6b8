"""Takes a run, works on it until it ends or waits, and records that. Plain synchronous code on a
worker thread.
"""

import logging
from contextlib import nullcontext

from django.db import IntegrityError, transaction
from django.db.models import UUIDField

from agents.exceptions import NewerFormat
from devices.tools import has_settled
from functions import interpreter, sandbox
from plumbing.database import DATABASE_GONE
from plumbing.statements import Select
from plumbing.stored_rows import RowGone
from plumbing.untrusted import parse_in_child
from runs.calls import inputs
from runs.chains import advance as chains
from runs.exceptions import LeaseLost, RunDone, RunEnded, RunWaits
from runs.loop.conversation import Conversation, check_alive
from runs.models import Run, ToolCallRecord
from runs.queue import budgets, endings
from runs.queue.claims import claim_run
from runs.queue.leases import KEEPER, Lease, hold_lease

from .crash_quarantine import SUSPECTS

log = logging.getLogger(__name__)
Status = Run.Status


def execute_run(run_id: str) -> None:
    """Take a run and work on it until it ends or waits. Nothing happens when another worker has it, or this one."""
    if KEEPER.is_at_work_on(run_id):
        return
    run = claim_run(run_id)
    if run:
        carry_out(run)


def carry_out(run: Run) -> None:
    """Work on a claimed run until it ends or waits."""
    id = str(run.pk)
    waits = False
    with hold_lease(Lease(run)) as lease, parse_in_child.count_user_reading(run.principal_id):
        interpreter.continue_interpreter(id, run.attempt)
        try:
            waits = work_and_settle(run, lease)
        except LeaseLost:
            log.info("Run %s was taken over by another worker", run.pk)
        except DATABASE_GONE as error:
            log.warning("Run %s continues once its lease has expired: %s", run.pk, error)
        finally:
            # Children kept for its calls end now, not at their time-out.
            sandbox.release(id)
            if not waits:
                interpreter.end_interpreter(id)


def work_and_settle(run: Run, lease: Lease) -> bool:
    """Whether it waits now."""
    try:
        work_on_run(run, lease)
    except RunWaits as wait:
        # Before another thread can continue it.
        interpreter.keep_interpreter(str(run.pk), run.attempt)
        rest(run, lease, wait)
        return True
    except RunEnded as end:
        error = {"code": end.code, "message": str(end)}
        endings.finish_run(run, end.status, lease=lease, reply=end.reply, error=error)
    except RunDone:
        pass
    except NewerFormat as error:
        log.warning("Run %s is left for a newer worker: %s", run.pk, error)
        endings.requeue_run(run, lease, needs=error.format)
    return False


def work_on_run(run: Run, lease: Lease) -> None:
    check_alive(run, lease)
    if run.crashes >= Run.TO_BLAME:
        raise RunEnded(Status.FAILED, "worker_lost", f"{run.crashes} workers died while they worked on this run")
    is_suspect = run.crashes >= Run.SUSPECT
    try:
        with SUSPECTS.alone(run, lease) if is_suspect else nullcontext():
            if run.chain_version_id:
                chains.advance(run, lease)
            else:
                Conversation(run, lease).hold()
    except (RunWaits, RunEnded, RunDone, LeaseLost, NewerFormat, *DATABASE_GONE):
        raise
    # Whatever fails in here, the run must end and say so.
    except Exception as error:
        if endings.has_lost_session(run):
            run.session = None
            raise RunEnded(Status.CANCELLED, **endings.SESSION_GONE)
        if isinstance(error, IntegrityError | RowGone):
            log.info("Run %s needs a row that was deleted: %s", run.pk, error)
            raise RunEnded(Status.FAILED, "deleted_meanwhile", "something that the run needs was deleted meanwhile")
        log.exception("Run %s failed unexpectedly", run.pk)
        raise RunEnded(
            Status.FAILED, "internal_error", "the run failed because of an internal error; see the server's log"
        )


def rest(run: Run, lease: Lease, wait: RunWaits) -> None:
    """Record the wait. What the run waits for may have come before that, when there was nothing to wake: then it is
    queued in the same transaction, which a worker that dies leaves whole or undone.

    Who decides, answers or ends a child locks the run's row, so after this they find it waiting. A device does not:
    its answers are looked for once more.
    """
    try:
        with transaction.atomic():
            endings.let_run_wait(run, lease, wait.waiting_for, wait.until)
            came = has_run_news(run) and endings.wake(run.pk)
    except LeaseLost:
        return
    if not came and has_run_news(run):
        endings.wake(run.pk)


def has_run_news(run: Run) -> bool:
    """Whether something that the run waits for has come."""
    if Run.objects.filter(pk=run.pk, cancel_requested_at__isnull=False).exists():
        return True
    if run.waiting_for == "budget":
        return budgets.has_room_again(run)
    for record in PENDING.all(run=run.pk):
        if record.waiting_for == "approval" and record.approval.status != "open":
            return True
        if record.waiting_for == "device" and has_settled(str(record.pk)):
            return True
        if record.waiting_for == "input" and inputs.is_closed(record):
            return True
        if record.waiting_for == "child" and Run.objects.filter(parent_call=record, status__in=Run.DONE).exists():
            return True
    if run.chain_version_id:
        return chains.has_chain_news(run)
    return False


PENDING = Select(
    lambda at: (
        ToolCallRecord.objects.filter(run_id=at.run, outcome="").exclude(waiting_for="").select_related("approval")
    ),
    run=UUIDField(),
)
