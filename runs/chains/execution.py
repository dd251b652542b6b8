"""A worker's part of a chain: one tool call, or a slice of a for_each."""

import logging
from typing import Any

from django.conf import settings
from django.db.models import UUIDField

from agents.exceptions import NewerFormat
from agents.models import SiteHold
from plumbing.statements import Select
from runs.exceptions import LeaseLost, RunEnded
from runs.intake import checks
from runs.models import Run, StepRun
from runs.queue import endings
from runs.queue.leases import StepLease, hold_lease, worker_name

from . import calls, scopes, slices, steps
from .steps import StepFailed

log = logging.getLogger(__name__)


def execute_step(step_run_id: str) -> None:
    """A worker's part of a chain: one tool call, or a slice of a for_each."""
    try:
        work_on_step(step_run_id)
    except LeaseLost:
        log.info("The run of step %s has ended", step_run_id)
    except NewerFormat as error:
        # What it has claimed is found again after its lease.
        log.warning("Step %s is left for a newer worker: %s", step_run_id, error)
        row = StepRun.objects.filter(pk=step_run_id).values("run")
        Run.objects.filter(pk__in=row, needs__lt=error.format).update(needs=error.format)


def query_taken_step(at: Any) -> Any:
    rows = StepRun.objects.select_related("run__chain_version__chain", "run__principal", "call")
    return rows.filter(SiteHold.absent(), pk=at.step).order_by()


TAKEN = Select(query_taken_step, step=UUIDField())


def work_on_step(step_run_id: str) -> None:
    row = TAKEN.first(step=step_run_id)
    if row is None:
        return
    run = row.run
    if run.is_done or run.cancel_requested_at:
        return
    try:
        checks.require_shared(run, run.chain_version.chain)
    except RunEnded:
        # The run itself ends with this error.
        endings.wake(run.pk)
        return
    spec = run.chain_version.read_spec()
    step = next(step for step in spec.steps if step.key == row.key)
    if row.total:
        scope = scopes.read_chain_scope(run, spec)
        slices.work_on_slice(run, spec, step, row, scope)
        return
    if step.approval and steps.get_row_approval(row) is None:
        # It was sent in an earlier round; the approval of this one is checked first.
        return
    with hold_lease(StepLease(run, [row.pk], owner=worker_name())) as lease:
        try:
            scope = scopes.read_chain_scope(run, spec)
            input = steps.map_step_input(step, row, scope)
            tool = calls.find_step_tool(run, spec, step)
            calls.call_tool(
                run, spec, step, row, lease, input, tool=tool, owner=worker_name(), lease_s=settings.LEASE_S
            )
        except StepFailed as failure:
            steps.settle_step(run, step, row, error=failure.as_json())
    endings.wake(run.pk)
