"""Lets a running tool check, inside its loops, whether its call has been stopped."""

import threading
from contextvars import ContextVar

from .exceptions import Stopped

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


def watch(event: threading.Event) -> None:
    """This thread works for a call that `event` stops."""
    _stop.set(event)


def raise_if_stopped() -> None:
    """Raises Stopped when the call was cancelled or is past its deadline."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise Stopped("stopped")
