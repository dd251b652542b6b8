"""A cache that is bounded by the bytes it holds, not by the number of its entries."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Weighed(Generic[Key, Value]):
    """The least recently used go first once all weigh more than `largest` bytes. Threads may share it."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.bytes = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:
            pass  # dropped this very moment, in another thread
        return entry[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Keep it. What weighs more than a quarter of everything is not kept at all."""
        if weight > self.largest // 4:
            return
        with self._lock:
            self.bytes += weight - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = (value, weight)
            while self.bytes > self.largest:
                self.bytes -= self._entries.popitem(last=False)[1][1]

    def get_or_make(self, key: Key, make: Callable[[], tuple[Value, int]]) -> Value:
        """The kept value, or what `make` returns with its weight. Two threads may make it at once."""
        kept = self.get(key)
        if kept is None:
            kept, weight = make()
            self.put(key, kept, weight)
        return kept

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.bytes = 0
