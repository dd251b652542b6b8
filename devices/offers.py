"""The owner's decision about a tool that a device offers. An approval creates a catalogue row
pinned to the definition.
"""

import re
from typing import Any

from django.db import transaction

from agents.exceptions import Conflict, Invalid
from agents.models import AuditEvent, Tool
from agents.models.agent import tool_changed
from devices.client.tools import TOOLS
from devices.models import OfferedTool
from plumbing import clock

Status = OfferedTool.Status


@transaction.atomic
def approve_offer(offer: OfferedTool, *, by: Any, source: str = "") -> Tool:
    """Let agents with a grant use this tool. Approving a changed definition updates the tool.

    Raises Conflict if the name is taken by something else.
    """
    name = tool_name(offer.name)
    tool = Tool.objects.filter(owner_id=offer.device.owner_id, name=name).first()
    if name in TOOLS or (tool is not None and "offer" not in tool.source):
        raise Conflict(
            f"There is already a tool “{name}”.",
            code="name_taken",
            hint="Rename the tool on the device, or the other tool.",
        )
    tool = tool or Tool(owner_id=offer.device.owner_id, name=name, untrusted=True)
    tool.kind = Tool.Kind.DEVICE
    tool.description = offer.description
    tool.input_schema = offer.input_schema
    # Unless a user has chosen otherwise.
    tool.effect = Tool.Effect.DESTRUCTIVE
    tool.source = {"device": offer.name, "offer": offer.hash}
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    decide_offer(offer, Status.APPROVED, by, tool)
    AuditEvent.record("offer.approved", offer.device, actor=by, source=source, tool=offer.name, hash=offer.hash)
    return tool


@transaction.atomic
def reject_offer(offer: OfferedTool, *, by: Any, source: str = "") -> None:
    """Refuse it, even after it was approved: the tool stays in the catalogue and answers that it is
    not approved.
    """
    decide_offer(offer, Status.REJECTED, by, offer.tool)
    AuditEvent.record("offer.rejected", offer.device, actor=by, source=source, tool=offer.name, hash=offer.hash)


def decide_offer(offer: OfferedTool, status: str, by: Any, tool: Tool | None) -> None:
    offer.status = status
    offer.decided_by = by
    offer.decided_at = clock.near()
    offer.tool = tool
    offer.save()


def tool_name(offered: str) -> str:
    """A slug for the tool's name on the device. Raises Invalid if nothing is left of it."""
    name = re.sub(r"[^a-z0-9_-]+", "-", offered.lower()).strip("-_")[:64].strip("-_")
    if not name:
        raise Invalid(f"“{offered}” cannot be turned into a tool name.", code="bad_name")
    return name
