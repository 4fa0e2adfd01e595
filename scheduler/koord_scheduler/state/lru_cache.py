"""Keeps what was used last, as much as fits. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class HasSize(Protocol):
    """An object that knows its size."""

    @property
    def size(self) -> int:
        """Present size in bytes."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=HasSize)


class LRUCache(Generic[K, V]):
    """Values by key, as many as ``most_bytes`` hold, but at least ``fewest``.

    Values may grow while they are used. They are measured when the next one comes.
    """

    def __init__(self, most_bytes: int, fewest: int = 16) -> None:
        self._most_bytes = most_bytes
        self._fewest = fewest
        self._values: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._used: set[K] = set()
        self.size = 0
        """Bytes of all values, but for what has grown since the last one came."""

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """A value, which counts as a use of it."""
        found = self._values.get(key)
        if found is not None:
            self._used.add(key)
            self._values.move_to_end(key)
        return found

    def add(self, key: K, value: V) -> None:
        """Keep a value, perhaps in place of those that were not used for longest."""
        self.remove(key)
        self._measure()
        self._values[key] = value
        self._used.add(key)
        while len(self._values) > self._fewest and self.size > self._most_bytes:
            self.remove(next(iter(self._values)))

    def remove(self, key: K) -> None:
        """Keep it no longer."""
        if self._values.pop(key, None) is not None:
            self._used.discard(key)
            self.size -= self._sizes.pop(key, 0)

    def _measure(self) -> None:
        """Measure those that were used since the last time."""
        for key in self._used:
            size = self._values[key].size
            self.size += size - self._sizes.get(key, 0)
            self._sizes[key] = size
        self._used.clear()
