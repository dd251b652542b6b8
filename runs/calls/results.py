"""A tool's result: written in one transaction with the toolset's own record, its event, the run's counts and mark."""

import logging
from collections.abc import Callable
from dataclasses import replace

from django.db import DataError, IntegrityError, transaction
from django.db.models import F

from agents.http.parsers import MAX_DEPTH
from agents.schema import depth_of
from agents.tools import ToolResult
from plumbing.statements import write
from runs.events import record as events
from runs.models import Run, Session, ToolCallRecord

from .rows import answer, finished_data

log = logging.getLogger(__name__)
TOO_DEEP = {"code": "too_deep", "message": f"the result is nested deeper than {MAX_DEPTH} levels"}
SETTLED = ("outcome", "waiting_for", "finished_at", "wall_ms", "result", "error", "printed", "untrusted", "details")


def settle(run: Run, record: ToolCallRecord, result: ToolResult) -> None:
    """Write the result and tell of it; counts and the untrusted mark go to the run."""
    if depth_of(result.value, MAX_DEPTH) > MAX_DEPTH:
        result = replace(result, ok=False, value=None, error=TOO_DEEP)
    answer(record, result)
    try:
        write_result(run, record, result)
    except (DataError, IntegrityError):
        if result.keep is None:
            raise
        write_result(run, record, replace(result, keep=None))
        keep_alone(record, result.keep)
    note(run, record, result)


@transaction.atomic
def write_result(run: Run, record: ToolCallRecord, result: ToolResult) -> None:
    if result.keep is not None:
        result.keep()
    write(record, SETTLED)
    add_counts(run, result)
    mark = {"has_untrusted": True} if record.untrusted else {}
    events.record_with(run, [("tool.finished", finished_data(record))], values=mark)
    mark_session(run, record)


def mark_session(run: Run, record: ToolCallRecord) -> None:
    """The conversation remembers that strangers' text was read in it, for every message that follows."""
    if record.untrusted and run.session is not None and not run.session.has_untrusted:
        Session.objects.filter(pk=run.session_id).update(has_untrusted=True)
        run.session.has_untrusted = True


def add_counts(run: Run, result: ToolResult) -> None:
    if counts := counts_of(result):
        Run.objects.filter(pk=run.pk).update(**{name: F(name) + number for name, number in counts.items()})


def counts_of(result: ToolResult) -> dict[str, int]:
    """What a run counts of a result."""
    return {name: result.counts[name] for name in ("processed", "created", "updated") if result.counts.get(name)}


def note(run: Run, record: ToolCallRecord, result: ToolResult) -> None:
    """What was written into the run's row, for the run in hand."""
    run.has_untrusted = run.has_untrusted or record.untrusted
    for name, number in counts_of(result).items():
        setattr(run, name, getattr(run, name) + number)


def keep_alone(record: ToolCallRecord, keep: Callable[[], None]) -> None:
    """The toolset's own record without the result's: what it names may have been deleted meanwhile, and by itself it
    can do without. One that no row can hold is missed by nobody but its readers."""
    try:
        keep()
    except DataError:
        log.exception("The toolset's own record of %s %s could not be kept", record.name, record.pk)
