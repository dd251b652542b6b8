"""Decides a waiting call. The decision is written once, and the run continues at once."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists
from django.utils.translation import gettext_noop as _

from agents import schema
from agents.exceptions import Forbidden, Invalid
from agents.models import Agent, AuditEvent, Chain, Tool
from agents.spec import StepSpec
from functions.models import FunctionVersion
from plumbing import clock
from runs.events import record as events
from runs.exceptions import AlreadyDecided
from runs.intake.children import own_input
from runs.models import Approval, Run
from runs.queue import endings
from runs.queue.locks import lock_run

DECISIONS = {"approve": Approval.Status.APPROVED, "deny": Approval.Status.DENIED}


@transaction.atomic
def decide_approval(
    approval: Approval,
    decision: str,
    *,
    by: Any,
    arguments: dict[str, Any] | None = None,
    note: str = "",
    source: str = "",
) -> Approval:
    """Approve or deny, with edited arguments if given. Raises Invalid, AlreadyDecided, Forbidden.

    The grant says who may decide. Only the run's principal may edit arguments: the call uses their
    devices, accounts and money.
    """
    check_decider(approval, by)
    if arguments is not None and approval.run.principal_id != by.pk:
        raise Forbidden(
            _("Only the user whose run this is may change the arguments."),
            hint=_("Approve or deny it without changes."),
        )
    status = DECISIONS.get(decision)
    if status is None:
        raise Invalid(_("“%(decision)s” is not a decision.") % {"decision": decision}, hint=_("Send approve or deny."))
    check_edited(approval, arguments)
    lock_run(approval.run_id)
    now = clock.near()
    fields = {"status": status, "decided_by": by, "decided_at": now, "note": note[:500], "edited_arguments": arguments}
    alive = Run.objects.live().filter(pk=approval.run_id, cancel_requested_at=None)
    undecided = Approval.objects.open().filter(pk=approval.pk, expires_at__gt=now)
    # One statement decides which of two decisions counts, and that its run has not been stopped.
    is_decided = undecided.filter(Exists(alive)).update(**fields)
    approval.refresh_from_db()
    if not is_decided:
        raise AlreadyDecided(
            _("This approval is already %(status)s.") % {"status": why_closed(approval, now)},
            hint=_("The list of approvals says who decided, and when."),
        )
    call = str(approval.call_id) if approval.call_id else None
    event_data = {"id": str(approval.pk), "call": call, "status": status, "by": by.get_username(), "note": note}
    events.record_event(approval.run, "approval.decided", event_data)
    AuditEvent.record(f"approval.{decision}", approval, actor=by, source=source, run=str(approval.run_id), note=note)
    endings.wake(approval.run_id)  # also if it waits for something else as well: what is approved starts now
    return approval


def check_decider(approval: Approval, by: Any) -> None:
    if Approval.objects.decidable_by(by).filter(pk=approval.pk).exists():
        return
    if approval.not_starter and approval.run.principal_id == by.pk:
        raise Forbidden(_("The user whose run asks must not decide this."), hint=_("Ask a user who may."))
    raise Forbidden(_("You are not allowed to decide this."), hint=_("The list of approvals says who decides it."))


def why_closed(approval: Approval, now: datetime) -> str:
    if approval.status != Approval.Status.OPEN:
        return _(approval.status)
    if approval.expires_at <= now:
        return _(Approval.Status.EXPIRED)
    return _("void: its run was stopped")


def check_edited(approval: Approval, arguments: dict[str, Any] | None) -> None:
    """Edited arguments must match the schema of their target, like the model's own arguments."""
    if arguments is None:
        return
    rule, value = find_argument_rule(approval, arguments)
    if not rule:
        return
    details = []
    for problem in schema.validate(rule, value):
        details.append({"field": f"arguments{problem['path']}", "code": "schema", "message": problem["message"]})
    if details:
        raise Invalid(_("The edited arguments do not match the tool's schema."), details=details)


def find_argument_rule(approval: Approval, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """(the JSON Schema, the part of the arguments it applies to); no schema if the target was
    deleted.
    """
    run = approval.run
    run_version = run.chain_version or run.version
    if run_version is None:
        return None, arguments
    spec: Any = run_version.read_spec()
    step = None
    if approval.step:
        step = next((each for each in spec.steps if each.key == approval.step.key), None)
    approved_version = approval.definition.get("version")
    if approved_version:  # it runs, whatever is published by now
        versions = FunctionVersion.objects.filter(**approved_version)
        return versions.values_list("spec__input_schema", flat=True).first(), arguments
    if step is None:
        tools = Tool.objects.filter(pk__in=[grant.tool_id for grant in spec.grants], name=approval.tool)
        return tools.values_list("input_schema", flat=True).first(), arguments
    if step.for_each or step.target_kind == "router":
        return None, arguments  # the input of its items, or of the chosen agent, is checked when they start
    if step.target_kind == "tool":
        tools = Tool.objects.filter(pk=step.target_id)
        return tools.values_list("input_schema", flat=True).first(), arguments
    return rule_of_target(step, arguments)


def rule_of_target(step: StepSpec, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """The input schema of the agent or chain that a step starts, in the version that it will start."""
    is_agent = step.target_kind == "agent"
    target: Any = Agent if is_agent else Chain
    row = target.objects.filter(pk=step.target_id).select_related("published").first()
    if row is None:
        return None, arguments
    version = row.published
    if step.target_version:
        version = row.versions.filter(number=step.target_version).first()
    value = own_input(arguments) if is_agent else arguments
    if version is None:
        return None, value
    return version.read_spec().input_schema, value
