"""A cache limited by the size of its values, not by their number."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Weighed(Generic[Key, Value]):
    """Evicts the least recently used values beyond `largest` bytes. Thread-safe."""

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
            pass  # evicted by another thread at this moment
        return entry[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Keep a value. One larger than a quarter of the whole cache is not kept."""
        if weight > self.largest // 4:
            return
        with self._lock:
            self.bytes += weight - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = (value, weight)
            while self.bytes > self.largest:
                self.bytes -= self._entries.popitem(last=False)[1][1]

    def get_or_make(self, key: Key, make: Callable[[], tuple[Value, int]]) -> Value:
        """The cached value, or the value and weight returned by `make`. Two threads may build it at
        once.
        """
        kept = self.get(key)
        if kept is None:
            kept, weight = make()
            self.put(key, kept, weight)
        return kept

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.bytes = 0
