"""How a worker's thread hears that a device has answered: one listener a process, whatever number of calls wait."""

import json
import logging
import os
import queue
import threading
import time
from typing import Any
from uuid import UUID

import orjson
import redis
from django.conf import settings

from plumbing import broadcast

log = logging.getLogger(__name__)
CHANNEL = "muster:device-calls"
MAX_INLINE = 64 * 1024  # characters; a longer outcome is read from its row
PULSE_S = 0.25


class Waiter:
    """One thread's wait for one call. `outcome` is {state, result, error, late}, or None: read the row."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.outcome: dict[str, Any] | None = None

    def wait(self, seconds: float) -> bool:
        """Whether the call was settled within this time."""
        try:
            self.outcome = self.told.get(timeout=seconds)
        except queue.Empty:
            return False
        return True


class Switchboard:
    """Waiters of this process by call id."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters: dict[str, Waiter] = {}
        self.started_in = 0
        self.is_listening = threading.Event()

    def register(self, call_id: str) -> Waiter:
        """From now on nothing that is told about this call is missed."""
        waiter = self.waiters[call_id] = Waiter()
        if self.started_in != os.getpid() and broadcast.is_shared():
            self.start()
        if not self.is_listening.is_set() and broadcast.is_shared():
            self.is_listening.wait(1)  # a second at most: without a listener the row is read in the end
        return waiter

    def start(self) -> None:
        with self.lock:
            if self.started_in == os.getpid():
                return
            self.is_listening.clear()
            self.started_in = os.getpid()
            threading.Thread(target=self.listen_for_ever, name="device-calls", daemon=True).start()

    def forget(self, call_id: str) -> None:
        self.waiters.pop(call_id, None)

    def deliver(self, call_id: str, outcome: dict[str, Any] | None) -> None:
        if (waiter := self.waiters.get(call_id)) is not None:
            waiter.told.put(outcome)

    def listen_for_ever(self) -> None:
        while True:
            try:
                self.listen()
            except (redis.RedisError, OSError) as error:
                log.info("Listening for device calls again in a second: %s", error)
                time.sleep(1)

    def listen(self) -> None:
        """Reads the connection itself, as devices/nudges.py does: the client's loop costs more than the message."""
        line = redis.ConnectionPool.from_url(settings.CHANNEL_URL, socket_timeout=None).make_connection()
        try:
            line.connect()
            line.send_command("SUBSCRIBE", CHANNEL)
            while True:
                kind, _, data = line.read_response(disconnect_on_error=False, push_request=True)
                if kind == b"subscribe":
                    self.is_listening.set()
                elif kind == b"message":
                    self.hear(data)
        finally:
            line.disconnect()

    def hear(self, data: bytes) -> None:
        """One line a call. What this process waits for is read, the rest is some other worker's."""
        for line in data.split(b"\n"):
            call_id, _, body = line.partition(b" ")
            if (waiting := call_id.decode()) in self.waiters:
                self.deliver(waiting, orjson.loads(body) if body else None)


SWITCHBOARD = Switchboard()


def tell(outcomes: list[tuple[UUID, dict[str, Any]]]) -> None:
    """Wake the threads that hold for these calls: here at once, in other processes by one message."""
    for call_id, outcome in outcomes:
        SWITCHBOARD.deliver(str(call_id), outcome)
    if outcomes:
        broadcast.publish_many([], [(CHANNEL, "\n".join(line_of(*one) for one in outcomes))])


def line_of(call_id: UUID, outcome: dict[str, Any]) -> str:
    body = json.dumps(outcome)  # no raw line breaks
    return f"{call_id} {body if len(body) <= MAX_INLINE else ''}"
