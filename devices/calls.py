"""Calls to devices: write the row, notify the socket, wait two seconds on the thread, then release
it until the answer.

queued → sent → acked → done | failed | expired | cancelled | unknown. A call is settled once
`finished_at` is set.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, Q, UUIDField

from agents.tools import CallPending, OutcomeUnknown, ToolCall, ToolContext, ToolResult
from devices import outbox, protocol
from devices.exceptions import DeviceFailed
from devices.models import Device, DeviceCall, Notice
from devices.nudges import ANSWERS, announce, nudge
from devices.statements import NewCall, Place
from devices.wire import BadFrame, clean_frame_text
from plumbing import clock
from plumbing.broker.announcements import Waiter
from plumbing.statements import Select
from plumbing.threads import release_connection
from plumbing.waits import run_blocking

State = DeviceCall.State
# How often a waiting thread checks whether the run was cancelled.
PULSE_S = 0.25
# Seconds that a worker waits for a device before it frees its thread.
HOLD_S = 2.0
# A frame that is not acknowledged for this long is sent again with the same id.
CLAIM_S = 3.0


def call_device(
    request: "Wanted", call: ToolCall, context: ToolContext, *, place: Callable[[], tuple[Place | None, bool]] | None
) -> ToolResult:
    """Ask a device and wait a little. Repeating a call id finds the existing row and never makes a
    second call.

    For a new call `place` chooses the device (None for any) and says whether it is online; `place`
    None: the call has a row already. Raises CallPending, OutcomeUnknown, and whatever `place`
    raises.
    """
    ANSWERS.listen()
    with ANSWERS.waiter(call.id, Waiter) as waiter:
        until = None
        if place is not None:
            device, is_online = place()
            until = create_device_call(request, call, context, device, is_online)
        if until is not None:
            has_answer = run_blocking(wait_for_call_answer, waiter, until, context)
            if has_answer and waiter.news is not None:
                return build_device_result(call.id, **waiter.news)
        row = DeviceCall.objects.get(pk=call.id)
        return pend_or_answer(row)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to a device: the tool's name there, the time limit, and what to do when the device
    is offline.
    """

    tool: str
    offer: str = ""
    timeout_s: float = 30.0
    offline: str = "fail"


def create_device_call(
    request: Wanted, call: ToolCall, context: ToolContext, device: Place | None, is_online: bool
) -> datetime | None:
    """Write the row before anything is sent, then notify. Returns the time until which an answer
    may come, or None if the call is not new or no device is online.
    """
    now = clock.near()
    sent_at: datetime | None
    if is_online:
        state = State.SENT
        sent_at = now
        wait_s = request.timeout_s
    else:
        state = State.QUEUED
        sent_at = None
        wait_s = settings.DEVICE_WAIT_S
    row = NewCall(
        id=UUID(call.id),
        owner_id=context.user_id,
        device_id=device.pk if device else None,
        run_id=parse_call_id(context.run_id),
        root_id=parse_call_id(context.root_id or context.run_id),
        tool=request.tool,
        offer=request.offer,
        arguments=call.arguments,
        run_context=run_context(context),
        state=state.value,
        timeout_s=request.timeout_s,
        deadline=now + timedelta(seconds=wait_s),
        created_at=now,
        sent_at=sent_at,
        waits=request.offline == "wait",
    )
    # Raised here if it is too large, before anything is written.
    text = render_call_frame(row, now)
    is_new = outbox.post_device_call(row, text)
    if not is_new or not is_online:
        return None
    return row.deadline


def parse_call_id(text: str | None) -> UUID | None:
    if not text:
        return None
    return UUID(text)


def run_context(context: ToolContext) -> dict[str, Any]:
    """What the device may display and group by. `agent_id` is the client's own stable id for the
    agent.
    """
    fields = {
        "run": context.run_id,
        "root": context.root_id or context.run_id,
        "agent": context.agent,
        "agent_id": context.metadata.get("agent_id"),
        "session": context.session_id,
        "chain": context.chain,
        "step": context.step,
        "untrusted": context.is_untrusted,
    }
    return {name: value for name, value in fields.items() if value}


def render_call_frame(row: NewCall | DeviceCall, now: datetime) -> str:
    """The tool_call frame. Raises DeviceFailed when the arguments do not fit into one."""
    # The time of a call that waits for its device begins when the device comes.
    remaining_s = row.timeout_s
    if row.state != State.QUEUED:
        remaining_s = max(0.0, (row.deadline - now).total_seconds())
    ends = now + timedelta(seconds=remaining_s)
    deadline = ends.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    attempt = 1
    if isinstance(row, DeviceCall):
        attempt = row.attempt
    seconds = round(remaining_s, 3)
    frame = protocol.ToolCall(str(row.id), row.tool, row.arguments, row.run_context, deadline, seconds, attempt)
    try:
        return protocol.encode(frame)
    except BadFrame as error:
        raise DeviceFailed(f"the arguments cannot be sent: {error}", code=error.code)


def wait_for_call_answer(waiter: Waiter, deadline: datetime, context: ToolContext) -> bool:
    """Keep this thread until the device has answered, as long as a thread may be kept."""
    allowed_s = max(0.0, (deadline - clock.near()).total_seconds())
    until = time.monotonic() + min(HOLD_S, allowed_s)
    release_connection()
    while True:
        remaining_s = until - time.monotonic()
        if remaining_s <= 0 or context.is_cancelled():
            return False
        if waiter.wait(min(remaining_s, PULSE_S)):
            return True


def pend_or_answer(row: DeviceCall) -> ToolResult:
    """The answer if it has arrived; otherwise the run releases its worker. Raises CallPending."""
    now = clock.near()
    if not row.is_settled and row.deadline <= now:
        expire_device_calls(DeviceCall.objects.filter(pk=row.pk), now)
        row.refresh_from_db()
    if not row.is_settled:
        # From now on the answer wakes the run. None is changed if the answer came in between.
        is_open = DeviceCall.objects.open().filter(pk=row.pk).update(is_awaited=True)
        if is_open:
            raise CallPending("device", until=row.deadline, reference=str(row.device_id or ""))
    row.refresh_from_db()
    return build_device_result(row.pk, row.state, row.result, row.error, row.late)


def build_device_result(
    call_id: Any, state: str, result: Any = None, error: Any = None, late: bool = False
) -> ToolResult:
    """A settled call as a result for the runner. Raises OutcomeUnknown."""
    details: dict[str, Any] = {"device_call": str(call_id)}
    if late:
        details["late"] = True
    if state == State.DONE:
        return ToolResult(ok=True, value=result, details=details)
    error = error or {}
    code = str(error.get("code") or state)
    message = str(error.get("message") or "the device gave no reason")
    if state == State.UNKNOWN or code == protocol.OUTCOME_UNKNOWN:
        raise OutcomeUnknown(message)
    return ToolResult(ok=False, error={"code": code, "message": message}, details=details)


# -- deadlines --------------------------------------------------------------------------------------------------------


def expire_due(now: datetime | None = None) -> list[Any]:
    """Settle every call that is past its deadline; called by the recovery tick. Safe to run
    concurrently.

    Returns the ids of the runs that wait for one of them.
    """
    now = now or clock.near()
    return expire_device_calls(OVERDUE.all(now=now), now)


OVERDUE = Select(lambda at: DeviceCall.objects.overdue(at.now).order_by("deadline")[:500], now=DateTimeField())


def expire_device_calls(rows: Iterable[DeviceCall], now: datetime) -> list[Any]:
    """Never sent: expired. Sent without an answer: unknown. A running tool gets a request to stop. A call
    that waits for its device goes on waiting while the device is away.
    """
    runs = []
    for row in rows:
        if row.is_settled or row.deadline > now or stands_still(row, now):
            continue
        was_sent = row.state in DeviceCall.HANDED_OVER
        state = State.UNKNOWN if was_sent else State.EXPIRED
        error = AFTER_SENDING if was_sent else NEVER_SENT
        same = DeviceCall.objects.open().filter(pk=row.pk, state=row.state, deadline=row.deadline)
        if not same.update(state=state, error=error, finished_at=now):
            continue
        if row.is_awaited and row.run_id:
            runs.append(row.run_id)
        announce([(row.pk, {"state": state, "result": None, "error": error, "late": False})])
        if was_sent:
            tell_cancelled(row, "its deadline passed")
    return runs


def stands_still(row: DeviceCall, now: datetime) -> bool:
    """Whether this overdue call was sent to a device that is away and may come back: its deadline is moved."""
    last = latest_deadline(row)
    if not row.waits or row.state not in DeviceCall.HANDED_OVER or last <= now:
        return False
    device = Device.objects.live().filter(pk=row.device_id).first()
    if device is None or device.is_online(now):
        return False
    mine = DeviceCall.objects.open().filter(pk=row.pk, deadline=row.deadline)
    return bool(mine.update(deadline=last))


def latest_deadline(row: DeviceCall) -> datetime:
    """However often its device comes and goes."""
    return row.created_at + timedelta(seconds=settings.DEVICE_WAIT_S)


def waits_until(run_id: Any) -> datetime | None:
    """Until when the open calls of a run wait for a device that is away, or may go away; None if none does."""
    row = WAITING_OF_RUN.first(run=run_id)
    if row is None:
        return None
    return latest_deadline(row)


WAITING_OF_RUN = Select(
    lambda at: DeviceCall.objects.open().filter(run_id=at.run, waits=True).order_by("-created_at")[:1], run=UUIDField()
)


AFTER_SENDING = {
    "code": protocol.OUTCOME_UNKNOWN,
    "message": "the device did not answer before the deadline; it is unknown whether the call was carried out",
}
NEVER_SENT = {"code": "device_offline", "message": "the device did not come online in time; nothing was done"}


# -- cancelling -------------------------------------------------------------------------------------------------------


def cancel_run(run_id: Any, reason: str) -> int:
    """Cancel a run's open device calls. Calls that were never sent end now; running tools get a
    request to stop.
    """
    return cancel_device_calls(DeviceCall.objects.open().filter(run_id=run_id), reason)


def cancel_device_calls(rows: Iterable[DeviceCall], reason: str) -> int:
    now = clock.near()
    count = 0
    error = {"code": protocol.CANCELLED, "message": reason[:200] or "the run was cancelled"}
    for row in rows:
        mine = DeviceCall.objects.open().filter(pk=row.pk)
        mine.update(cancel_requested_at=now, cancel_reason=reason[:200])
        queued = mine.filter(state=State.QUEUED)
        if queued.update(state=State.CANCELLED, error=error, finished_at=now):
            # It was never sent, so it ends here.
            announce([(row.pk, {"state": State.CANCELLED, "result": None, "error": error, "late": False})])
        else:
            tell_cancelled(row, reason)
        count += 1
    return count


def tell_cancelled(row: DeviceCall, reason: str) -> None:
    if not row.device_id:
        return
    frame = protocol.ToolCancel(str(row.pk), clean_frame_text(reason))
    nudge(row.device_id, "device_frame", text=protocol.encode(frame))


# -- the end of a run -------------------------------------------------------------------------------------------------


WORKED_FOR = Select(
    lambda at: (
        DeviceCall.objects.filter(Q(run_id=at.run) | Q(root_id=at.run))
        .exclude(device=None)
        .values_list("device_id", "run_context")
    ),
    run=UUIDField(),
)


def complete_run(run_id: Any, status: str, counts: dict[str, int], summary: str = "") -> int:
    """Tell every device that worked for this run that the run has ended; an offline device
    learns it when it reconnects.
    """
    devices = dict(WORKED_FOR.all(run=run_id))
    if not devices:
        return 0
    rows = Device.objects.online(clock.near()).filter(pk__in=devices)
    online = set(rows.values_list("pk", flat=True))
    text_summary = clean_frame_text(summary[:2000])
    for device, context in devices.items():
        closing = {**context, "run": str(run_id)}
        frame = protocol.RunComplete(closing, status, counts, text_summary)
        text = protocol.encode(frame)
        is_told = device in online and nudge(device, "device_frame", text=text)
        if not is_told:
            Notice.objects.create(device_id=device, text=text)
    return len(devices)


# -- calls on their way -----------------------------------------------------------------------------------------------


def query_unanswered(before: Any) -> Any:
    sent = Q(state=State.SENT, sent_at__lt=before)
    queued = Q(state=State.QUEUED, created_at__lt=before)
    return DeviceCall.objects.open().filter(sent | queued, cancel_requested_at=None).order_by()


UNANSWERED = Select(
    lambda at: query_unanswered(at.before).filter(device__socket__gt="").values_list("pk", "device_id"),
    before=DateTimeField(),
)


def claim_unanswered(here: set[Any], now: datetime) -> list[tuple[Any, str]]:
    """(device, frame) of calls that devices connected here have not acknowledged: the notification
    was lost.

    Safe to repeat: a device answers a known id from its journal. It reads first and locks only what
    it found, so the usual empty result blocks no writer.
    """
    before = now - timedelta(seconds=CLAIM_S)
    mine = [pk for pk, device in UNANSWERED.all(before=before) if device in here]
    if not mine:
        return []
    frames = []
    with transaction.atomic():
        rows = query_unanswered(before).filter(pk__in=mine[:500]).select_for_update()
        for row in list(rows):
            if row.state == State.QUEUED or row.deadline > now:
                frames.append((row.device_id, mark_call_sent(row, now)))
    return frames


def mark_call_sent(row: DeviceCall, now: datetime) -> str:
    """Mark a row as sent (again) and return its frame; a call that waited for its device gets its
    full time limit now.
    """
    if row.state == State.QUEUED:
        row.deadline = now + timedelta(seconds=row.timeout_s)
    else:
        row.attempt += 1
    row.state = State.SENT
    row.sent_at = now
    row.save(update_fields=["state", "sent_at", "attempt", "deadline", "device"])
    return render_call_frame(row, now)
