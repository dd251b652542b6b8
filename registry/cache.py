"""A bounded cache keyed by content. An entry cannot be stale, because the key covers everything it
was built from.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Evicts the least recently used entry. Thread-safe; a missing value is built outside the lock,
    possibly twice.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        value = self.get(key)
        return value if value is not None else self._keep(key, make())

    def get(self, key: Key) -> Value | None:
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
        return value

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Value]:
        """The cached values among these keys, in the given order, with the lock taken once."""
        with self._lock:
            values = {key: value for key in keys if (value := self._kept.get(key)) is not None}
            for key in values:
                self._kept.move_to_end(key)
        return values

    def _keep(self, key: Key, value: Value) -> Value:
        with self._lock:
            value = self._kept.setdefault(key, value)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return value

    def keys(self) -> list[Key]:
        with self._lock:
            return list(self._kept)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
