"""This app's toolset: chooses a device, calls it, counts the results."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

from agents.tools import OutcomeUnknown, ToolCall, ToolContext, ToolResult, ToolSpec
from devices import statements
from devices.calls import Wanted, call_device
from devices.client.tools import TOOLS
from devices.exceptions import DeviceFailed, DeviceOffline
from devices.files import with_files
from devices.models import DeviceCall, OfferedTool
from devices.protocol import DEADLINE
from devices.records.tools import run_tool
from devices.statements import Place
from plumbing import clock

SHORTEST_S = 0.1


class DeviceToolset:
    """Executes tools of kind `device`. `source` is {"device": name on the device, "offer"?:
    approved hash}.

    Repeating a call with its old id finds the old row: nothing runs twice, so the calls of a
    crashed worker can simply be repeated (`is_durable`).
    """

    is_durable = True

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        """Raises CallPending, OutcomeUnknown (never for tools that may be repeated) and
        DeviceFailed.
        """
        timeout_s = max(context.seconds_left(tool.deadline_s), SHORTEST_S)
        request = Wanted(
            tool.source.get("device", tool.name),
            offer=tool.source.get("offer", ""),
            timeout_s=timeout_s,
            offline=tool.offline,
        )
        devices, is_known = statements.places(context.user_id, UUID(call.id))
        if not is_known and not devices:
            # Without a device the statement finds no call either: the device may have been revoked since.
            is_known = DeviceCall.objects.filter(pk=call.id).exists()
        if not is_known and is_for_the_server(request, context, devices):
            result = run_tool(TOOLS[request.tool], call, context)
            return mark_record_result(request, add_success_counts(request, result))
        place = None
        if not is_known:
            place = partial(choose_device, request, context, devices)
        try:
            result = call_device(request, call, context, place=place)
        except OutcomeUnknown:
            if not tool.is_repeatable:
                raise
            return ToolResult(False, error={"code": DEADLINE, "message": AGAIN}, details={"device_call": call.id})
        if result.ok:
            result = add_success_counts(request, result)
        if tool.untrusted:
            result = mark_result_untrusted(result)
        else:
            result = mark_record_result(request, result)
        return with_files(call, context, result)


AGAIN = "the device did not answer before the deadline; this tool can safely be called again"


def is_for_the_server(request: Wanted, context: ToolContext, devices: list[Place]) -> bool:
    """Records of a user without a device that keeps records."""
    builtin = TOOLS.get(request.tool)
    if request.offer or builtin is None or builtin.works_on != "records" or context.device_id:
        return False
    return not able_among(devices, request, context)


def choose_device(request: Wanted, context: ToolContext, devices: list[Place]) -> tuple[Place | None, bool]:
    """The device for a call, and whether it is online. None: whichever of the user's devices comes
    first.

    Raises DeviceFailed if none offers the tool, and DeviceOffline if none is online and the policy
    is not to wait.
    """
    able = able_among(devices, request, context)
    now = clock.near()
    if context.device_id:
        chosen = next((device for device in able if str(device.pk) == str(context.device_id)), None)
        if chosen is None and request.offline != "any":
            raise not_able(request, context, devices)
        if chosen is not None and chosen.is_online(now):
            return chosen, True
        if chosen is not None and request.offline != "any":
            return choose_offline_device(chosen, request)
    online = [device for device in able if device.is_online(now)]
    if online:
        latest = max(online, key=lambda device: device.connected_at or now)
        return latest, True
    if not able:
        raise not_able(request, context, devices)
    only = able[0] if len(able) == 1 else None
    return choose_offline_device(only, request)


def able_among(devices: list[Place], request: Wanted, context: ToolContext) -> list[Place]:
    if not request.offer:
        return [device for device in devices if request.tool in device.tools]
    # The tool of a mounted MCP server: only where its owner has approved exactly this definition.
    offering = OfferedTool.objects.filter(
        hash=request.offer, status=OfferedTool.Status.APPROVED, is_offered=True, device__owner_id=context.user_id
    )
    ids = set(offering.values_list("device_id", flat=True))
    return [device for device in devices if device.pk in ids]


def choose_offline_device(device: Place | None, request: Wanted) -> tuple[Place | None, bool]:
    if request.offline == "wait":
        return device, False
    who = f"“{device.name}” is" if device else "none of the user's devices is"
    raise DeviceOffline(f"{who} not connected; start the device client, or let the grant wait for the device")


def not_able(request: Wanted, context: ToolContext, devices: list[Place]) -> DeviceFailed:
    if context.device_id and str(context.device_id) not in {str(device.pk) for device in devices}:
        return DeviceFailed(
            "the chosen device is not one of this user's devices, or was revoked", code="device_unknown"
        )
    if not devices:
        return DeviceFailed("this user has not paired a device", code="no_device")
    if request.offer:
        return DeviceFailed(
            f"no device offers the approved “{request.tool}”; its definition may have changed: approve it again",
            code="not_approved",
        )
    return DeviceFailed(f"the device does not offer “{request.tool}”", code="not_offered")


def add_success_counts(request: Wanted, result: ToolResult) -> ToolResult:
    """What one success adds to the run's counts; a file counts once, however many parts it was read
    in.
    """
    tool = TOOLS.get(request.tool)
    if tool is None or request.offer or not tool.counts or not result.ok:
        return result
    value = result.value
    if tool.counts == "processed" and isinstance(value, dict) and value.get("offset"):
        return result
    return ToolResult(ok=True, value=value, counts={tool.counts: 1}, details=result.details)


def mark_record_result(request: Wanted, result: ToolResult) -> ToolResult:
    """Records keep the mark of the run that created or changed them."""
    tool = TOOLS.get(request.tool)
    if request.offer or tool is None or tool.works_on != "records":
        return result
    if not any(map(is_marked, iterate_records(result.value))):
        return result
    return mark_result_untrusted(result)


def is_marked(record: dict[str, Any]) -> bool:
    return bool(record.get("untrusted"))


def iterate_records(value: Any) -> Iterator[dict[str, Any]]:
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        yield value
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    for one in inner:
        yield from iterate_records(one)


def mark_result_untrusted(result: ToolResult) -> ToolResult:
    return ToolResult(
        ok=result.ok,
        value=result.value,
        error=result.error,
        counts=result.counts,
        details=result.details,
        untrusted=True,
    )


def has_settled(call_id: str) -> bool:
    """Whether the call a run waits for has been answered in the meantime."""
    return DeviceCall.objects.filter(pk=call_id, finished_at__isnull=False).exists()
