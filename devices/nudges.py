"""The two kinds of messages about devices: to the process that holds a device's socket, and to a thread that waits."""

from typing import Any
from uuid import UUID

from plumbing.broker import announcements, broadcast

# Each answer is {state, result, error, late}.
ANSWERS = announcements.Announcements("device-calls")


def name_device_channel(device_id: Any) -> bytes:
    """Heard by the process that holds this device's socket."""
    return broadcast.name_channel("device", device_id)


def nudge(device_id: Any, type: str, **data: Any) -> bool:
    """Tell the socket of a device; `type` names the consumer's method. False when the broker is down."""
    return broadcast.publish_message(name_device_channel(device_id), {"type": type, **data})


def announce(outcomes: list[tuple[UUID, dict[str, Any]]]) -> None:
    """Wake the threads that wait for these calls, in whichever process they are: one message."""
    if not outcomes:
        return
    lines = [announcements.format_line(*outcome) for outcome in outcomes]
    broadcast.publish_message(ANSWERS.channel, b"\n".join(lines))
