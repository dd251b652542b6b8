"""What devices set going: runs they ask for, runs that waited for them, runs that waited for their answers."""

from typing import Any
from uuid import UUID

from agents.exceptions import Invalid
from devices.models import Device
from devices.protocol import RunRequest
from runs.intake import messages as intake
from runs.lifecycle import endings
from runs.models import Run

from . import triggers

MAX_ID = 200  # characters; the run's idempotency key is made of one


def call_settled(run_id: UUID) -> None:
    """A device has answered a call whose run let go of its worker."""
    endings.wake(run_id, waiting_for="device")


def device_came_online(device_id: UUID) -> None:
    """Fire the triggers on it, then start the due occurrences that waited for it, or for any of its owner's."""
    owner = Device.objects.filter(pk=device_id).values_list("owner_id", flat=True).first()
    if owner is not None:
        triggers.device_came(device_id, owner)


def start_for_device(device_id: UUID, asked: RunRequest) -> str:
    """The id of the run a device's owner asked for at the device. Raises MusterError for whatever intake refuses."""
    check(asked)
    device = Device.objects.select_related("owner").get(pk=device_id)
    metadata = {"device": str(device.pk), **({"agent_id": asked.agent_id} if asked.agent_id else {})}
    key = f"device:{device.pk}:{asked.request_id}" if asked.request_id else None
    common: dict[str, Any] = {"trigger": Run.Trigger.DEVICE, "metadata": metadata, "idempotency_key": key}
    if asked.chain:
        return str(intake.start_chain(user=device.owner, chain=asked.chain, input=asked.input, **common).pk)
    values = asked.input if isinstance(asked.input, dict) else {}
    text = asked.input if isinstance(asked.input, str) else values.get("message") or values.get("text") or "Begin."
    accepted = intake.accept_message(
        user=device.owner, agent=asked.agent, text=str(text), input=values or None, device=str(device.pk), **common
    )
    return str(accepted.run.pk)


def check(asked: RunRequest) -> None:
    """Raises Invalid."""
    if not asked.agent and not asked.chain:
        raise Invalid("A run_request names an agent or a chain.", code="invalid_request")
    if len(asked.request_id) > MAX_ID or len(asked.agent_id) > MAX_ID:
        raise Invalid(f"“request_id” and “agent_id” have at most {MAX_ID} characters.", code="invalid_request")
    if asked.agent and not asked.chain and not isinstance(asked.input, str | dict | None):
        raise Invalid("“input” of an agent is a text or an object.", code="invalid_request")
