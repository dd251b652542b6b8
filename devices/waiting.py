"""How a worker's thread hears that a device has answered: one listener a process, whatever number of calls wait."""

import json
import logging
import os
import threading
import time
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from django.db import connections

from agents import broadcast

log = logging.getLogger(__name__)
CHANNEL = "muster:device-calls"
MAX_INLINE = 64 * 1024  # characters; a longer outcome is read from its row
PULSE_S = 0.25


class Waiter:
    """One thread's wait for one call. `outcome` is {state, result, error, late}, or None: read the row."""

    def __init__(self) -> None:
        self.settled = threading.Event()
        self.outcome: dict[str, Any] | None = None


class Switchboard:
    """Waiters of this process by call id."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters: dict[str, Waiter] = {}
        self.started_in = 0
        self.is_listening = threading.Event()

    def register(self, call_id: str) -> Waiter:
        """From now on nothing that is told about this call is missed."""
        waiter = Waiter()
        with self.lock:
            self.waiters[call_id] = waiter
            if self.started_in != os.getpid() and broadcast.is_shared():
                self.started_in = os.getpid()
                self.is_listening.clear()
                threading.Thread(target=self.listen_for_ever, name="device-calls", daemon=True).start()
        if broadcast.is_shared():
            self.is_listening.wait(1)  # a second at most: without a listener the row is read in the end
        return waiter

    def forget(self, call_id: str) -> None:
        with self.lock:
            self.waiters.pop(call_id, None)

    def deliver(self, call_id: str, outcome: dict[str, Any] | None) -> None:
        with self.lock:
            waiter = self.waiters.get(call_id)
        if waiter is not None:
            waiter.outcome = outcome
            waiter.settled.set()

    def listen_for_ever(self) -> None:
        while True:
            try:
                listener = redis.Redis.from_url(settings.CHANNEL_URL, socket_timeout=None).pubsub()
                listener.subscribe(CHANNEL)
                for message in listener.listen():
                    if message["type"] == "subscribe":
                        self.is_listening.set()
                    elif message["type"] == "message":
                        self.hear(message["data"])
            except (redis.RedisError, OSError) as error:
                log.info("Listening for device calls again in a second: %s", error)
                time.sleep(1)

    def hear(self, data: bytes) -> None:
        call_id, _, body = data.decode().partition(" ")
        if call_id in self.waiters:
            self.deliver(call_id, json.loads(body) if body else None)


SWITCHBOARD = Switchboard()


def told(call_id: UUID, outcome: dict[str, Any]) -> tuple[str, str]:
    """(channel, text) that tells every process of a settled call; also told here at once."""
    SWITCHBOARD.deliver(str(call_id), outcome)
    body = json.dumps(outcome)
    return CHANNEL, f"{call_id} {body if len(body) <= MAX_INLINE else ''}"


def release_connection() -> None:
    """Hold no pooled database connection while waiting; SQLite's is the thread's own and stays."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor != "sqlite" and not connection.in_atomic_block:
            connection.close()
