"""Runs started or woken by devices: requested ones, waiting ones, and those whose calls were
answered.
"""

from typing import Any
from uuid import UUID

from agents import roles
from agents.exceptions import Invalid
from devices.models import Device
from devices.protocol import RunRequest
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import endings

from . import triggers

# Characters; it is part of the run's idempotency key.
MAX_ID = 200


def call_settled(run_id: UUID) -> None:
    """A device has answered a call whose run released its worker."""
    endings.wake(run_id, waiting_for="device")


def device_came_online(device_id: UUID) -> None:
    """Fire the device's triggers, then start due occurrences that waited for it, or for any of its
    owner's devices.
    """
    owner = Device.objects.filter(pk=device_id).values_list("owner_id", flat=True).first()
    if owner is not None:
        triggers.device_came(device_id, owner)


def start_for_device(device_id: UUID, request: RunRequest) -> str:
    """The id of a run requested by the device's owner. Raises the MusterError of intake."""
    check_run_request(request)
    device = Device.objects.select_related("owner").get(pk=device_id)
    roles.require(device.owner, roles.ACT)
    metadata = {"device": str(device.pk)}
    if request.agent_id:
        metadata["agent_id"] = request.agent_id
    key = f"device:{device.pk}:{request.request_id}" if request.request_id else None
    common: dict[str, Any] = {"trigger": Run.Trigger.DEVICE, "metadata": metadata, "idempotency_key": key}
    if request.chain:
        run = intake.start_chain(user=device.owner, chain=request.chain, input=request.input, **common)
        return str(run.pk)
    text, values = read_device_message(request)
    accepted = intake.accept_message(
        user=device.owner, agent=request.agent, text=text, input=values or None, device=str(device.pk), **common
    )
    return str(accepted.run.pk)


def read_device_message(request: RunRequest) -> tuple[str, dict[str, Any]]:
    """The text of the message to an agent, and its input. An object may hold the text itself."""
    if isinstance(request.input, str):
        return request.input, {}
    values = request.input if isinstance(request.input, dict) else {}
    text = values.get("message") or values.get("text") or "Begin."
    return str(text), values


def check_run_request(request: RunRequest) -> None:
    """Raises Invalid."""
    if not request.agent and not request.chain:
        raise Invalid("A run_request must name an agent or a chain.", code="invalid_request")
    if len(request.request_id) > MAX_ID or len(request.agent_id) > MAX_ID:
        raise Invalid(f"“request_id” and “agent_id” can have at most {MAX_ID} characters.", code="invalid_request")
    # The input of a chain may be any JSON.
    is_for_agent = request.agent and not request.chain
    if is_for_agent and not isinstance(request.input, str | dict | None):
        raise Invalid("“input” for an agent must be a text or an object.", code="invalid_request")
