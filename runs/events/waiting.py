"""Wait for a run's end without polling or an event loop: one listener thread a process, many waiting requests."""

import json
import logging
import threading
import time
from collections import OrderedDict
from typing import Any

import redis
from django.conf import settings

from plumbing import broadcast
from plumbing.threads import release_connection
from runs.models import RunEvent

from .record import ENDS

log = logging.getLogger(__name__)
REMEMBERED = 4096
LOOK_AGAIN_S = 15.0  # a broker that was away loses messages, rows do not


class Ends:
    """Ends of runs as they are announced; each is kept a while for a waiter that comes just too late."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters: dict[str, list[threading.Event]] = {}
        self.recent: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.is_listening = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen; called before a run is queued so that no end is missed."""
        if self.is_listening.is_set() or not broadcast.is_shared():
            return
        with self.lock:
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.listen_for_ever, name="ends", daemon=True)
                self.thread.start()
        self.is_listening.wait(1.0)

    def listen_for_ever(self) -> None:
        while True:
            try:
                listener = redis.Redis.from_url(settings.CHANNEL_URL, socket_timeout=None).pubsub()
                listener.subscribe(ENDS)
                for message in listener.listen():
                    self.is_listening.set()
                    if message["type"] == "message":
                        ended = json.loads(message["data"])
                        self.announce(ended["run"], ended["data"])
            except redis.RedisError as error:
                self.is_listening.clear()
                log.info("Listening for ends again in a second: %s", error)
                time.sleep(1)

    def announce(self, run_id: str, data: dict[str, Any]) -> None:
        with self.lock:
            self.recent[run_id] = data
            while len(self.recent) > REMEMBERED:
                self.recent.popitem(last=False)
            waiters = self.waiters.get(run_id, ())
        for waiter in waiters:
            waiter.set()

    def wait(self, run_id: Any, timeout: float) -> dict[str, Any] | None:
        """Data of run.finished, or None when the run has not ended within `timeout` seconds.

        The row is read only where the announcement may have been missed: nobody listened yet, or it is long in coming.
        """
        key, mine = str(run_id), threading.Event()
        deadline = time.monotonic() + timeout
        was_listening = self.is_listening.is_set()
        with self.lock:
            self.waiters.setdefault(key, []).append(mine)
            if key in self.recent:
                mine.set()
        try:
            while True:
                if mine.is_set() or not was_listening:
                    if ended := self.result(key):
                        return ended
                    was_listening = True
                if (left := deadline - time.monotonic()) <= 0:
                    return self.result(key)
                release_connection()
                was_listening = mine.wait(min(left, LOOK_AGAIN_S))
        finally:
            with self.lock:
                self.waiters[key].remove(mine)
                if not self.waiters[key]:
                    del self.waiters[key]

    def result(self, run_id: str) -> dict[str, Any] | None:
        with self.lock:
            data = self.recent.get(run_id)
        return read_end(run_id) if data is None or data.get("is_cut") else data


LISTENER = Ends()


def read_end(run_id: Any) -> dict[str, Any] | None:
    """What run.finished says, from its row."""
    row = RunEvent.objects.filter(run_id=run_id, type="run.finished").select_related("payload").first()
    if row is None:
        return None
    return row.payload.data if row.data.get("is_cut") else row.data
