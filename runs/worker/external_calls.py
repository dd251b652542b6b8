"""What an outside program may do with a run that it has claimed: call the run's tools, leave files.

The calls go through the same executor as those of a worker: policy, approvals, recording, provenance. A
call that waits (for a person, a device, a child run) is continued when the program asks for it.
"""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction

from agents import storage
from agents.exceptions import Conflict, IdempotencyMismatch, NotFound
from agents.http.credential_checks import CredentialCheck
from agents.models import SiteHold, StoredFile
from agents.tools import ToolSpec
from plumbing import clock
from registry import factory
from registry.exceptions import CannotBuild
from runs.calls import hooks, resumption
from runs.calls.artifacts import LIMIT as MOST_FILES
from runs.calls.artifacts import describe_artifact
from runs.calls.executor import ToolCallExecutor
from runs.chains.calls import Request
from runs.chains.fanout import is_answered
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Artifact, Run, ToolCallRecord
from runs.queue.leases import Lease

from .external_runs import PREFIX, build_claim_lost, end_if_refused, hash_claim_token

# How often a call in progress reads whether its run was cancelled.
LOOK_S = 1.0
# Of one run.
MOST_CALLS = 1000
# After a call's own limit; then the process that made it is taken for dead.
GRACE_S = 10.0
# The tool, and "allow" or "ask".
Offered = tuple[ToolSpec, str]


def find_claimed_run(token: str) -> Run | None:
    """The run that this claim holds now; None if it holds none, or if the key or the login that it was made with is not
    valid.
    """
    id, _, rest = token.partition(".")
    credential, _, secret = rest.partition(".")
    try:
        pk = UUID(id.removeprefix(PREFIX))
    except ValueError:
        return None
    if not secret:
        return None
    live = {"status": Run.Status.RUNNING, "trigger": Run.Trigger.EXTERNAL, "lease_expires_at__gt": clock.Now()}
    rows = Run.objects.filter(
        SiteHold.absent(), pk=pk, lease_owner=hash_claim_token(token), principal__is_active=True, **live
    )
    run = rows.select_related("principal", "agent__provider", "version", "session").first()
    if run is None:
        return None
    if not CredentialCheck.named(credential, run.principal_id).is_good():
        return None
    end_if_refused(run, spends=False)
    if run.is_done:
        return None
    return run


class ClaimLease(Lease):
    """The claim, as an executor knows a lease. Cancellation is read from the row."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.looked = monotonic()

    def is_cancelled(self) -> bool:
        if not super().is_cancelled() and monotonic() - self.looked >= LOOK_S:
            self.looked = monotonic()
            names = ("cancel_requested_at", "attempt", "lease_owner", "status")
            self.check(Run.objects.values(*names).get(pk=self.run_id))
        return super().is_cancelled()


def open_executor(run: Run) -> ToolCallExecutor:
    """The run's tools, with the grants and the policy as they are now. Raises Conflict."""
    lease = ClaimLease(run)
    # Another run of the session may have read untrusted content since this one was claimed.
    if run.session is not None and run.session.has_untrusted and not run.has_untrusted:
        run.has_untrusted = True
        lease.write(has_untrusted=True)
    assert run.agent is not None
    # The live agent of the published version is shared; any other version is named.
    version = None if run.version_id == run.agent.published_id else run.version
    try:
        live = factory.live_agent(run.agent, version)
    except CannotBuild as error:
        raise Conflict(str(error), code=error.code, hint=error.hint or "Its author has to change the agent.")
    hooked = hooks.load_hooks(run, agent=live.spec.name, is_cancelled=lease.is_cancelled)
    executor = ToolCallExecutor(run, lease, live.tools, agent=live.spec.name, hooked=hooked)
    executor.read_grants()
    return executor


def tools(run: Run) -> list[Offered]:
    """The tools that the program may call, in the order of the grants."""
    executor = open_executor(run)
    offered: list[Offered] = []
    for name in executor.offered():
        tool = executor.tools[name]
        mode = executor.judge(tool, name).mode
        offered.append((tool, mode))
    return offered


def query_program_calls(run: Run) -> Any:
    return ToolCallRecord.objects.filter(run=run, parent_call=None).order_by("id")


# -- calling -------------------------------------------------------------------------------------


def make_program_call(run: Run, *, id: str, tool: str, arguments: dict[str, Any]) -> ToolCallRecord:
    """Make one call, or find the call that the program made under this id. Raises ClaimLost,
    RunFinished, Conflict, IdempotencyMismatch.
    """
    end_if_refused(run)
    executor = open_executor(run)
    try:
        [request] = hooks.check_calls_by_hooks(executor, [Request(id, tool, arguments)])
        record, is_new = record_program_call(executor, request)
        if is_new:
            executor.perform([record])
    except LeaseLost:
        raise build_claim_lost(run)
    if is_new:
        return record
    return proceed(run, record, executor)


@transaction.atomic
def record_program_call(executor: ToolCallExecutor, request: Any) -> tuple[ToolCallRecord, bool]:
    """The recorded call, and whether it is new. The run's row is locked: of two requests one records."""
    run = executor.run
    executor.tell()
    earlier = query_program_calls(run).filter(model_call_id=request.id).first()
    if earlier is not None:
        # A hook may have replaced the arguments: compare those that the program sent.
        arguments = earlier.details.get("asked", earlier.arguments)
        if earlier.name != request.name or arguments != request.arguments:
            raise IdempotencyMismatch(
                "A call with this id was made with another tool or other arguments.",
                hint="Use a new id for another call.",
            )
        return earlier, False
    number = query_program_calls(run).count()
    if number >= MOST_CALLS:
        raise Conflict(
            f"A run can make at most {MOST_CALLS} calls.",
            code="too_many_calls",
            hint="Finish the run with what there is.",
        )
    [record], entries = executor.record([request], number + 1)
    executor.tell(*entries)
    extend(run, executor.tools.get(request.name))
    return record, True


def extend(run: Run, tool: ToolSpec | None) -> None:
    """A call is a sign of life; the claim lasts at least as long as the call may take."""
    until = clock.Now(compute_call_limit(tool))
    rows = Run.objects.filter(pk=run.pk, lease_owner=run.lease_owner, lease_expires_at__lt=until)
    rows.update(lease_expires_at=until)


def compute_call_limit(tool: ToolSpec | None) -> float:
    """Seconds after which a call is over. A tool that is no longer granted has no limit of its own."""
    own_s = tool.deadline_s if tool else 0
    return own_s + GRACE_S


def find_program_call(run: Run, id: UUID) -> ToolCallRecord:
    """One of the run's calls, continued if what it waits for has come. Raises NotFound, ClaimLost."""
    record = query_program_calls(run).filter(pk=id).first()
    if record is None:
        raise NotFound("This run has made no such call.")
    if record.outcome:
        return record
    return proceed(run, record, open_executor(run))


def proceed(run: Run, record: ToolCallRecord, executor: ToolCallExecutor) -> ToolCallRecord:
    """Continue an open call once: of several requests, one does it and the others see it in progress."""
    if record.outcome:
        return record
    try:
        mine = take_program_call(executor, record.pk)
        if mine is not None:
            executor.perform([mine])
            return mine
    except LeaseLost:
        raise build_claim_lost(run)
    record.refresh_from_db()
    return record


@transaction.atomic
def take_program_call(executor: ToolCallExecutor, id: UUID) -> ToolCallRecord | None:
    """The call, if it can go on now and no other request has taken it."""
    executor.tell()
    record = query_program_calls(executor.run).get(pk=id)
    if record.outcome:
        return None
    if record.waiting_for:
        can_continue = is_answered(record)
    else:
        can_continue = is_abandoned(record, executor.tools.get(record.name), clock.now())
    if not can_continue:
        return None
    resumption.resume_call(executor, record)
    if record.outcome:
        return None
    record.waiting_for = ""
    record.started_at = clock.now()
    record.save(update_fields=["waiting_for", "started_at"])
    return record


def is_abandoned(record: ToolCallRecord, tool: ToolSpec | None, now: datetime) -> bool:
    """Whether the process that made this call must have died."""
    if record.started_at is None:
        return True
    return record.started_at + timedelta(seconds=compute_call_limit(tool)) < now


# -- files ---------------------------------------------------------------------------------------


def add_program_file(run: Run, *, name: str, content: bytes, declared: str = "") -> Artifact:
    """A file that the program made for this run, with its event. What an outside program writes is
    untrusted. Raises TooLarge, Conflict, ClaimLost.
    """
    if Artifact.objects.filter(run=run).count() >= MOST_FILES:
        raise Conflict(
            f"A run can make at most {MOST_FILES} files.",
            code="too_many_artifacts",
            hint="Put several into an archive.",
        )
    source = StoredFile.Source.RUN
    file = storage.store_bytes(run.principal_id, name, content, declared=declared, untrusted=True, source=source)
    with transaction.atomic():
        entry = ("artifact.created", {**describe_artifact(file), "untrusted": True, "call": None})
        if events.record_events_and_change(run, [entry], where=ClaimLease(run).conditions()) is None:
            raise build_claim_lost(run)
        storage.insert_file_row(file)
        return Artifact.objects.create(run=run, file=file)
