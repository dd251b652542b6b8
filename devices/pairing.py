"""Turns a code of a signed-in user into a device with its own credential."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from agents.exceptions import Forbidden
from agents.models import AuditEvent
from devices.models import Device, Pairing
from plumbing import clock

# Devices that a user may have at most.
MAX_DEVICES = 100


@dataclass(frozen=True, slots=True)
class Paired:
    device: Device
    credential: str


def find_pairing_account(code: str) -> Any:
    """The account of this code, so that the client can ask before it pairs. Raises Forbidden."""
    return find_pairing(code).owner


def pair_with_code(code: str, *, name: str, platform: str, source: str = "") -> Paired:
    """Use the code. Raises Forbidden for a wrong, used or expired one."""
    # Outside the transaction below: a wrong try must be counted.
    pairing = find_pairing(code)
    with transaction.atomic():
        return make_device(pairing, name, platform, source)


def make_device(pairing: Pairing, name: str, platform: str, source: str) -> Paired:
    if not pairing.use():
        raise refuse_code()
    if Device.objects.live().filter(owner=pairing.owner).count() >= MAX_DEVICES:
        raise Forbidden(
            f"This account already has {MAX_DEVICES} devices.",
            code="too_many_devices",
            hint="Revoke a device that you no longer use.",
        )
    device = Device.objects.create(owner=pairing.owner, name=name, platform=platform)
    _, credential = device.issue_credential()
    AuditEvent.record("device.paired", device, actor=pairing.owner, source=source, platform=platform)
    return Paired(device, credential)


def find_pairing(code: str) -> Pairing:
    pairing = Pairing.find(code, clock.near())
    if pairing is None:
        raise refuse_code()
    return pairing


def refuse_code() -> Forbidden:
    return Forbidden(
        "This pairing code is wrong, used or expired.",
        code="bad_code",
        hint="Ask for a new one: a code is valid for ten minutes and five tries.",
    )
