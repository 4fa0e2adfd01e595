"""Keeps what was used last, as much as fits. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class HasSize(Protocol):
    """What has a size."""

    @property
    def size(self) -> int:
        """How many bytes it takes at present."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=HasSize)


class LRUCache(Generic[K, V]):
    """Values by key, as many as ``most_bytes`` hold, but at least ``fewest``.

    A value may grow while it is the one that was used last, and is measured after that.
    """

    def __init__(self, most_bytes: int, fewest: int = 16) -> None:
        self._most_bytes = most_bytes
        self._fewest = fewest
        self._values: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._last: K | None = None
        self.size = 0
        """Bytes of all values, but for what the last one has grown since."""

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """A value, which counts as a use of it."""
        found = self._values.get(key)
        if found is not None:
            self._use(key)
            self._values.move_to_end(key)
        return found

    def add(self, key: K, value: V) -> None:
        """Keep a value, perhaps in place of those that were not used for longest."""
        self.remove(key)
        self._use(key)
        self._values[key] = value
        while len(self._values) > self._fewest and self.size > self._most_bytes:
            self.remove(next(iter(self._values)))

    def remove(self, key: K) -> None:
        """Keep it no longer."""
        if self._values.pop(key, None) is not None:
            self.size -= self._sizes.pop(key, 0)

    def _use(self, key: K) -> None:
        """Measure the value that was used last, since another one is used now."""
        last, self._last = self._last, key
        value = self._values.get(last) if last is not None and last != key else None
        if value is not None and last is not None:
            size = value.size
            self.size += size - self._sizes.get(last, 0)
            self._sizes[last] = size
