"""Celery's Redis transport, keeping its client.

kombu makes a new Redis client, with a copy of its eighty response callbacks, for every command it sends: a quarter of
what a message through the queue costs. One client a channel does the same work; it is safe from many threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):
    kept: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        if client is None:
            if self.kept is None or self.kept.connection_pool is not self.pool:  # the pool is new after a reconnect
                self.kept = self._create_client()
            client = self.kept
        yield client


redis.Transport.Channel = Channel
