"""Devices connect and disconnect: what a hello and silence change."""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import DateTimeField, Q

from agents.schema import check_schema
from devices import protocol
from devices.calls import State, latest_deadline, mark_call_sent
from devices.models import Device, DeviceCall, Notice, OfferedTool, silence_allowed
from devices.nudges import nudge
from plumbing import clock
from plumbing.statements import Select

log = logging.getLogger(__name__)
# Names kept of one hello, and their length.
MAX_FOLDERS, MAX_FOLDER = 100, 200
# Calls sent after one hello; the sweep sends the rest.
MAX_WAITING = 1000


@dataclass(slots=True)
class Arrival:
    """The result of a hello: results to request, frames to send. `late`: the device has connected
    again since.
    """

    is_late: bool = False
    resend: list[str] = field(default_factory=list)
    # Pairs of the call's id (or "") and the text.
    frames: list[tuple[str, str]] = field(default_factory=list)


@transaction.atomic
def arrive(device_id: UUID, socket: str, hello: protocol.DeviceHello, now: datetime | None = None) -> Arrival | None:
    """Make this the device's only socket and compare its journal with our open rows. None if it was
    revoked.

    A delayed server may process the hello of a device that has connected elsewhere since: that
    changes nothing.
    """
    now = now or clock.near()
    device = Device.objects.select_for_update().filter(pk=device_id, revoked_at=None).first()
    if device is None:
        return None
    if device.socket and parse_socket_number(socket) < parse_socket_number(device.socket):
        return Arrival(is_late=True)
    has_forgotten = bool(device.journal_id or hello.journal_id) and device.journal_id != hello.journal_id
    greet(device, socket, hello, now)
    arrival = Arrival()
    settle_open(device, hello, has_forgotten, arrival, now)
    hand_over_waiting(device, arrival, now)
    for notice in Notice.objects.filter(device=device):
        arrival.frames.append(("", notice.text))
        notice.delete()
    return arrival


def socket_name(number: int) -> str:
    """A name for the socket of the admission with that number."""
    return f"{number:x}-{uuid4().hex}"


def parse_socket_number(socket: str) -> int:
    number, mark, _ = socket.partition("-")
    if not mark:
        return 0
    return int(number, 16)


def greet(device: Device, socket: str, hello: protocol.DeviceHello, now: datetime) -> None:
    device.name = hello.name[:100] or device.name
    device.platform = hello.platform[:100] or device.platform
    device.client_version = hello.client_version[:40]
    device.tools = {tool.name[:128]: tool.hash[:64] for tool in hello.tools}
    device.folders = [name[:MAX_FOLDER] for name in hello.folders[:MAX_FOLDERS]]
    device.journal_id = hello.journal_id[:64]
    device.socket = socket
    device.last_seen = now
    device.connected_at = now
    device.save(
        update_fields=[
            "name", "platform", "client_version", "tools", "folders", "journal_id", "socket", "last_seen",
            "connected_at",
        ]
    )  # fmt: skip
    keep_offers(device, hello.offers)


def keep_offers(device: Device, offers: tuple[protocol.Offer, ...]) -> None:
    """A definition is identified by the hash that we compute: a changed one is a new row that needs
    approval.
    """
    usable = {offer.true_hash(): offer for offer in offers if is_usable(offer)}
    rows = OfferedTool.objects.filter(device=device)
    stored = dict(rows.order_by().values_list("hash", "is_offered"))
    gone = []
    back = []
    for hash, is_offered in stored.items():
        if is_offered and hash not in usable:
            gone.append(hash)
        elif not is_offered and hash in usable:
            back.append(hash)
    if gone:
        rows.filter(hash__in=gone).update(is_offered=False)
    if back:
        rows.filter(hash__in=back).update(is_offered=True)
    new = []
    for hash, offer in usable.items():
        if hash in stored:
            continue
        row = OfferedTool(
            device=device,
            name=offer.name[:128],
            description=offer.description,
            input_schema=offer.input_schema,
            hash=hash,
        )
        new.append(row)
    OfferedTool.objects.bulk_create(new)


def is_usable(offer: protocol.Offer) -> bool:
    if not 0 < len(offer.name) <= 128 or len(offer.description) > 10_000:
        return False
    return not check_schema(offer.input_schema)


def settle_open(
    device: Device, hello: protocol.DeviceHello, has_forgotten: bool, arrival: Arrival, now: datetime
) -> None:
    """For each call sent to the device: request its result, leave it running, or send it again."""
    listed = {item.id: item.state for item in hello.unfinished if parse_device_call_id(item.id)}
    sent = Q(state__in=DeviceCall.HANDED_OVER, finished_at=None)
    for row in DeviceCall.objects.filter(device=device).filter(sent):
        state = listed.get(str(row.pk))
        if row.waits:
            # Its time limit stood still.
            last = now
            if not has_forgotten:
                last += timedelta(seconds=row.timeout_s)
            row.deadline = min(last, latest_deadline(row))
            row.save(update_fields=["deadline"])
        if state in ("done", "failed"):
            arrival.resend.append(str(row.pk))
        elif state == "running":
            row.state = State.ACKED
            row.acked_at = row.acked_at or now
            row.save(update_fields=["state", "acked_at"])
            tell_to_stop(row, arrival)
        elif has_forgotten:
            row.state = State.UNKNOWN
            row.save(update_fields=["state"])
        elif row.cancel_requested_at:
            row.state = State.CANCELLED
            row.finished_at = now
            row.error = {"code": protocol.CANCELLED, "message": row.cancel_reason}
            row.save(update_fields=["state", "finished_at", "error"])
        elif row.deadline > now:
            frame = mark_call_sent(row, now)
            arrival.frames.append((str(row.pk), frame))
    arrival.resend += late_ones(device, listed)


def late_ones(device: Device, listed: dict[str, str]) -> list[str]:
    """Calls that ended without an answer here and whose results the device has: stored as late."""
    finished = [id for id, state in listed.items() if state != "running"]
    if not finished:
        return []
    ended = Q(state__in=[State.UNKNOWN, State.EXPIRED], finished_at__isnull=False)
    rows = DeviceCall.objects.filter(ended, device=device, pk__in=finished[:500])
    ids = rows.values_list("pk", flat=True)
    return list(map(str, ids))


def tell_to_stop(row: DeviceCall, arrival: Arrival) -> None:
    if not row.cancel_requested_at:
        return
    frame = protocol.ToolCancel(str(row.pk), row.cancel_reason)
    arrival.frames.append(("", protocol.encode(frame)))


def hand_over_waiting(device: Device, arrival: Arrival, now: datetime) -> None:
    """Calls that were never sent: this device's own, and its owner's that any device may run."""
    own = Q(device=device)
    anyone = Q(device=None, owner_id=device.owner_id)
    waiting = DeviceCall.objects.open().filter(own | anyone, state=State.QUEUED, deadline__gt=now)
    offers = device.offers.filter(status=OfferedTool.Status.APPROVED, is_offered=True)
    approved = set(offers.values_list("hash", flat=True))
    for row in waiting.order_by("created_at")[:MAX_WAITING]:
        is_able = row.tool in device.tools
        if row.offer:
            is_able = row.offer in approved
        if is_able:
            row.device = device
            frame = mark_call_sent(row, now)
            arrival.frames.append((str(row.pk), frame))


@transaction.atomic
def record_disconnect(device_id: UUID, socket: str) -> bool:
    """This socket closed. Calls that were sent and not answered are unknown until the device
    reports.
    """
    if not Device.objects.filter(pk=device_id, socket=socket).update(socket="", last_seen=clock.near()):
        # A newer socket has taken over.
        return False
    doubt([device_id])
    return True


def doubt(device_ids: list[Any]) -> None:
    sent = DeviceCall.objects.open().filter(device__in=device_ids, state__in=[State.SENT, State.ACKED])
    sent.update(state=State.UNKNOWN)


VANISHED = Select(
    lambda at: Device.objects.vanished(at.silent_since).order_by().values_list("pk")[:1000],
    silent_since=DateTimeField(),
)


def sweep(now: datetime | None = None) -> int:
    """Devices whose server died with their socket: set offline, their calls unknown."""
    silent_since = (now or clock.near()) - silence_allowed()
    gone = [pk for (pk,) in VANISHED.all(silent_since=silent_since)]
    if not gone:
        return 0
    with transaction.atomic():
        # Devices heard from in the meantime are back.
        silent = Device.objects.vanished(silent_since).select_for_update().filter(pk__in=gone)
        gone = list(silent.values_list("pk", flat=True))
        Device.objects.filter(pk__in=gone).update(socket="")
        doubt(gone)
    return len(gone)


def is_online(owner_id: Any, device_id: Any = None) -> bool:
    """Whether this device (or any device of the user, if none is named) is connected now."""
    online = Device.objects.online(clock.near()).filter(owner_id=owner_id)
    if device_id:
        online = online.filter(pk=device_id)
    return online.exists()


def is_current(device_id: UUID, socket: str) -> bool:
    return Device.objects.filter(pk=device_id, socket=socket).exists()


def tell_replaced(device_id: UUID, socket: str) -> None:
    nudge(device_id, "device_replaced", socket=socket)


def tell_revoked(device: Device) -> None:
    """Close its socket, in whichever server process it is."""
    nudge(device.pk, "device_revoked")


def parse_device_call_id(text: str) -> UUID | None:
    """A call id as sent by a device; None if it is invalid."""
    try:
        return UUID(text)
    except ValueError:
        return None
