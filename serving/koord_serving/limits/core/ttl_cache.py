"""A bounded cache whose entries expire. No IO."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """By key; times are monotonic seconds. Of more than ``capacity`` the oldest are forgotten."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[K, tuple[V, float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V, now: float, fresh: float, held: float = 0.0) -> None:
        """An answer that is good for ``fresh`` seconds, and for ``held`` where none can be had."""
        self._entries[key] = (value, now + fresh, now + max(fresh, held))
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        """The answer is not right any more."""
        self._entries.pop(key, None)

    def get(self, key: K, now: float) -> V | None:
        """The answer while it is good."""
        found = self._entries.get(key)
        return found[0] if found is not None and now < found[1] else None

    def held(self, key: K, now: float) -> V | None:
        """The answer while it may stand in for one that cannot be had."""
        found = self._entries.get(key)
        return found[0] if found is not None and now < found[2] else None
