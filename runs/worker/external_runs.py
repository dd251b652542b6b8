"""Runs executed outside: prepared here, claimed by an external executor, kept alive by its
heartbeats.

The executor gets a claim token, of which only a hash is stored. If it falls silent it loses the
claim, and another executor can take over.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField

from agents import schema
from agents.exceptions import Conflict, Invalid
from agents.http.credential_checks import CredentialCheck
from agents.models import SiteHold
from plumbing import clock
from plumbing.statements import Select
from runs.calls import model_messages
from runs.events import record as events
from runs.exceptions import LeaseLost, RunEnded, RunFinished
from runs.intake import checks, options
from runs.models import Run, ToolCallRecord
from runs.queue import budgets, endings

# Shortest, default, longest.
LEASE_S = (5, 60, 3600)
# Seconds after which a prepared run without a time limit ends.
WAITS_S = 7 * 86400
Status = Run.Status
# Of claims, as mk_ of API keys.
PREFIX = "mc_"


class ClaimLost(Conflict):
    """This claim does not hold the run: it never did, or it was silent too long and was replaced."""

    code = "claim_lost"


class NotClaimable(Conflict):
    """This run cannot be claimed now."""

    code = "not_claimable"


@dataclass(frozen=True, slots=True)
class Claim:
    """The token that the executor sends with each heartbeat; shown once."""

    run: Run
    token: str


@dataclass(frozen=True, slots=True)
class Holder:
    """What holds of the run's row as long as this claim has it."""

    run: Run
    token: str

    def conditions(self) -> dict[str, Any]:
        return {"lease_owner": hash_claim_token(self.token), "attempt": self.run.attempt, "status": Status.RUNNING}


def set_deadline(run: Run, seconds: float | None = None) -> None:
    """An external executor may start at any time: the agent's own time limit does not apply to the
    wait.
    """
    limit_s = seconds or WAITS_S
    run.deadline = run.created_at + timedelta(seconds=limit_s)
    run.save(update_fields=["deadline"])


def claim_external_run(run: Run, *, executor: str, lease_s: float | None = None, standing: CredentialCheck) -> Claim:
    """Take a prepared run. Of two claims one wins (a conditional update decides). The claim is good as long as the
    key or the login of `standing`. Raises NotClaimable, RunFinished.
    """
    if run.trigger != Run.Trigger.EXTERNAL:
        raise NotClaimable(
            f"Run {run.pk} is executed by Muster itself.",
            hint='Only runs prepared with trigger "external" can be claimed.',
        )
    hold = SiteHold.current()
    if hold:
        raise NotClaimable(f"The site is on hold: {hold}.", hint="An administrator resumes it with `manage.py resume`.")
    release_if_vanished(run, clock.now())
    if run.status == Status.QUEUED:
        end_if_refused(run)
    if run.is_done:
        raise RunFinished(f"Run {run.pk} has ended.", hint="GET it to see how.")
    return take_external_run(run, executor=executor, lease_s=lease_s, standing=standing)


def end_if_refused(run: Run, *, spends: bool = True) -> None:
    """End the run if its person may no longer use the agent, or a budget is used up. The executor
    reports its usage only at the end, so budgets are checked at its start, and with each heartbeat
    and call.
    """
    try:
        checks.require_shared(run, run.agent)
        if spends:
            budgets.Watch(run).require()
    except RunEnded as end:
        endings.finish_run(run, end.status, error={"code": end.code, "message": str(end)})


@transaction.atomic
def take_external_run(run: Run, *, executor: str, lease_s: float | None, standing: CredentialCheck) -> Claim:
    secret = secrets.token_urlsafe(24)
    token = f"{PREFIX}{run.pk.hex}.{standing.name}.{secret}"
    now = clock.now()
    lease_expires_at = now + timedelta(seconds=choose_lease_length(lease_s))
    attempt = run.attempt + 1
    type = "run.started" if attempt == 1 else "run.recovered"
    won = events.change_run(
        run,
        Status.RUNNING,
        [(type, {"attempt": attempt, "executor": executor})],
        where={"status": Status.QUEUED, "after": None, "attempt": run.attempt},
        claimed_from=Status.QUEUED,
        lease_owner=hash_claim_token(token),
        lease_expires_at=lease_expires_at,
        attempt=attempt,
        started_at=run.started_at or now,
        metadata={**run.metadata, "executor": executor},
    )
    if won is None:
        raise NotClaimable(f"Run {run.pk} is already claimed.", hint="It becomes available when its claim expires.")
    return Claim(run, token)


def heartbeat(
    run: Run, token: str, *, lease_s: float | None = None, note: str = "", fraction: float | None = None
) -> Run:
    """Keep the claim alive; `run.cancel_requested_at` asks the executor to stop. Raises ClaimLost,
    RunFinished.
    """
    if query_held_run(run, token).exists():
        end_if_refused(run)
    return prolong(run, token, lease_s=lease_s, note=note, fraction=fraction)


@transaction.atomic
def prolong(run: Run, token: str, *, lease_s: float | None, note: str, fraction: float | None) -> Run:
    lease_expires_at = clock.Now(choose_lease_length(lease_s))
    if not query_held_run(run, token).update(lease_expires_at=lease_expires_at):
        raise build_claim_lost(run)
    run.refresh_from_db()
    if note or fraction is not None:
        events.record_event(run, "run.progress", {"message": note, "fraction": fraction})
    return run


def submit_external_result(run: Run, token: str, *, status: str, output: Any = None, **result: Any) -> Run:
    """Submit the result. Raises ClaimLost, RunFinished, or Invalid if the output violates the
    agent's schema.
    """
    if not query_held_run(run, token).exists():
        raise build_claim_lost(run)
    if status == Status.SUCCEEDED:
        check_output(run, output)
    try:
        return end_external_run(run, token, status=status, output=output, **result)
    # Meanwhile: the same request twice at once, or its claim has just expired.
    except LeaseLost:
        raise build_claim_lost(run)


@transaction.atomic
def end_external_run(
    run: Run,
    token: str,
    *,
    status: str,
    reply: str | None = None,
    output: Any = None,
    error: dict[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
) -> Run:
    """Raises LeaseLost."""
    spent = usage or {}
    input_tokens = int(spent.get("input_tokens", 0))
    output_tokens = int(spent.get("output_tokens", 0))
    cost = Decimal(str(spent.get("cost", 0)))
    run.input_tokens += input_tokens
    run.output_tokens += output_tokens
    run.cost += cost
    if error is None and status == Status.CANCELLED:
        error = endings.cancelled_error(run)
    if error is None and status == Status.FAILED:
        error = {"code": "executor_failed", "message": "the executor gave no reason"}
    records = ToolCallRecord.objects.filter(run=run, parent_call=None).order_by("id")
    tool_calls = model_messages.remembered_calls(list(records))
    holder = Holder(run, token)
    endings.finish_run(run, status, lease=holder, reply=reply, output=output, error=error, tool_calls=tool_calls)
    endings.close_open_work(run, reason="finished")
    budgets.Watch(run).charge(input_tokens + output_tokens, cost)
    return run


def release_vanished(now: datetime) -> int:
    """Claims of silent executors: the run can be claimed again, or ends if it was cancelled or is
    past its deadline.
    """
    vanished = VANISHED.all(now=now)
    return sum(release_if_vanished(run, now) for run in vanished)


def query_vanished(at: Any) -> Any:
    late = Run.objects.filter(trigger=Run.Trigger.EXTERNAL, status=Status.RUNNING, lease_expires_at__lt=at.now)
    return late.order_by("lease_expires_at")[:500]


VANISHED = Select(query_vanished, now=DateTimeField())


@transaction.atomic
def release_if_vanished(run: Run, now: datetime) -> bool:
    if run.status != Status.RUNNING:
        return False
    if run.lease_expires_at is None or run.lease_expires_at >= now:
        return False
    # Its executor may send a heartbeat at this moment.
    same = {"status": Status.RUNNING, "lease_owner": run.lease_owner, "lease_expires_at": run.lease_expires_at}
    crashes = run.crashes + 1
    freed: dict[str, Any] = {"lease_owner": "", "lease_expires_at": None, "queued_at": now, "crashes": crashes}
    if run.change(Status.QUEUED, where=same, **freed) is None:
        return False
    if run.cancel_requested_at:
        endings.finish_run(run, Status.CANCELLED, error=endings.cancelled_error(run))
    elif run.deadline and run.deadline <= now:
        endings.finish_run(run, Status.EXPIRED, error={"code": "deadline", "message": "the run's deadline passed"})
    return True


def query_held_run(run: Run, token: str) -> Any:
    """The run's row while this claim holds it."""
    claim = hash_claim_token(token)
    return Run.objects.filter(pk=run.pk, trigger=Run.Trigger.EXTERNAL, status=Status.RUNNING, lease_owner=claim)


def build_claim_lost(run: Run) -> Conflict:
    run.refresh_from_db(fields=["status"])
    if run.is_done:
        return RunFinished(f"Run {run.pk} has ended.", hint="GET it to see how.")
    return ClaimLost(hint="Stop working on it; claim it again if it is still queued.")


def check_output(run: Run, output: Any) -> None:
    if not run.version:
        return
    spec = options.apply_options(run, run.version.read_spec())
    if not spec.output_schema:
        return
    problems = schema.validate(spec.output_schema, output)
    if problems:
        details = [{"field": f"output{one['path']}", "code": "schema", "message": one["message"]} for one in problems]
        raise Invalid("The output does not match the agent's output schema.", details=details)


def hash_claim_token(token: str) -> str:
    digest = hashlib.sha256(token.encode()).hexdigest()
    # Shortened to fit into the column.
    return f"ext:{digest[:56]}"


def choose_lease_length(seconds: float | None) -> float:
    shortest, usual, longest = LEASE_S
    length_s = seconds or usual
    return min(max(length_s, shortest), longest)
