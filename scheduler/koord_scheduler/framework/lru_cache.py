"""Keeps what was used last, as much as fits. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class HasSize(Protocol):
    """What has a size."""

    @property
    def size(self) -> int:
        """How many bytes it takes at present."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=HasSize)


class LRUCache(Generic[K, V]):
    """Values by key; of values of about one size as many as ``most_bytes`` hold, or ``fewest``."""

    def __init__(self, most_bytes: int, fewest: int = 16) -> None:
        self._most_bytes = most_bytes
        self._fewest = fewest
        self._values: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """A value, which counts as a use of it."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def add(self, key: K, value: V) -> None:
        """Keep a value, perhaps in place of the one that was not used for longest."""
        self._values[key] = value
        if len(self._values) > self._fewest and self._size() > self._most_bytes:
            self._values.popitem(last=False)

    def remove(self, key: K) -> None:
        """Keep it no longer."""
        self._values.pop(key, None)

    def _size(self) -> int:
        """As much for each as what was not used for longest has grown to."""
        return next(iter(self._values.values())).size * len(self._values)
