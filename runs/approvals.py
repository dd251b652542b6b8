"""A person decides on a call that waits. The decision is written once; the run goes on at once."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from agents import schema
from agents.exceptions import Forbidden, Invalid
from agents.models import AuditEvent, Tool

from . import endings, events
from .exceptions import AlreadyDecided
from .models import Approval

DECISIONS = {"approve": Approval.Status.APPROVED, "deny": Approval.Status.DENIED}


@transaction.atomic
def decide(
    approval: Approval,
    decision: str,
    *,
    by: Any,
    arguments: dict[str, Any] | None = None,
    note: str = "",
    source: str = "",
) -> Approval:
    """Approve or deny, with edited arguments if given. Raises Invalid, AlreadyDecided, Forbidden.

    Only the run's principal decides: the approval is about their devices, accounts and money.
    """
    if approval.run.principal_id != by.pk:
        raise Forbidden("Only the person whose run this is may decide.")
    status = DECISIONS.get(decision)
    if status is None:
        raise Invalid(f"“{decision}” is no decision.", hint="Send approve or deny.")
    check_edited(approval, arguments)
    now = timezone.now()
    fields = {"status": status, "decided_by": by, "decided_at": now, "note": note[:500], "edited_arguments": arguments}
    if not Approval.objects.open().filter(pk=approval.pk, expires_at__gt=now).update(**fields):
        approval.refresh_from_db()
        word = approval.status if approval.status != Approval.Status.OPEN else Approval.Status.EXPIRED
        raise AlreadyDecided(f"This approval is {word}.", hint="GET it to see who decided and when.")
    approval.refresh_from_db()
    told = {"id": str(approval.pk), "status": status, "by": by.get_username(), "note": note}
    events.record(approval.run, "approval.decided", told)
    AuditEvent.record(f"approval.{decision}", approval, actor=by, source=source, run=str(approval.run_id), note=note)
    endings.wake(approval.run_id, waiting_for="approval")
    return approval


def check_edited(approval: Approval, arguments: dict[str, Any] | None) -> None:
    """Edited arguments must keep the tool's schema, as the model's own must."""
    if arguments is None:
        return
    tool = Tool.objects.filter(name=approval.tool, grants__agent=approval.run.agent_id).first()
    problems = schema.validate(tool.input_schema, arguments) if tool else []
    if problems:
        details = [
            {"field": f"arguments{found['path']}", "code": "schema", "message": found["message"]} for found in problems
        ]
        raise Invalid("The edited arguments break the tool's schema.", details=details)
