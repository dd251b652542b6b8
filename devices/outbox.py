"""Sends new calls: the row first, then the notification."""

from django.db import IntegrityError

from devices import statements
from devices.models import DeviceCall
from devices.nudges import name_device_channel
from devices.statements import NewCall
from plumbing.broker import broadcast

State = DeviceCall.State


def post_device_call(call: NewCall, text: str) -> bool:
    """Write the row and notify its device. False if this call was made before. Raises DatabaseError."""
    try:
        statements.insert_device_call(call)
    except IntegrityError:
        if DeviceCall.objects.filter(pk=call.id).exists():
            return False
        raise
    if call.state == State.SENT:
        send_device_call(call, text)
    return True


def send_device_call(call: NewCall, text: str) -> None:
    """If the broker is down nothing is sent: the server with the socket finds the row in its next
    sweep.
    """
    channel = name_device_channel(call.device_id)
    nudge: broadcast.Message = {"type": "device_call", "id": str(call.id), "text": text}
    if broadcast.publish_many([(channel, nudge)]):
        return
    sent = DeviceCall.objects.filter(pk=call.id, state=State.SENT)
    sent.update(state=State.QUEUED, sent_at=None)
