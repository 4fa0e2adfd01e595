"""Room that is kept for pods whose victims have not ended yet. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from koord_scheduler.columns.nodes import PodUsage


class Nomination(NamedTuple):
    """A pod is to have room on a node; ``victims`` are the keys of the pods that leave for it."""

    key: str
    node: str
    priority: int
    usage: PodUsage
    victims: tuple[str, ...] = ()


class Nominations:
    """The nominations of all pods."""

    def __init__(self) -> None:
        self._by_key: dict[str, Nomination] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._by_key.values())

    def get(self, key: str) -> Nomination | None:
        """The nomination of a pod."""
        return self._by_key.get(key)

    def set(self, nomination: Nomination) -> None:
        """A pod is nominated, in place of what it was nominated for before."""
        self._by_key[nomination.key] = nomination

    def remove(self, key: str) -> None:
        """A pod has a node, is gone, or looks elsewhere."""
        self._by_key.pop(key, None)

    def displace(self, node: str, priority: int) -> tuple[str, ...]:
        """Forget those for a node that are less important; returns the keys of their pods."""
        found = [one for one in self if one.node == node and one.priority < priority]
        for one in found:
            self.remove(one.key)
        return tuple(one.key for one in found)

    def against(self, key: str, priority: int) -> Sequence[Nomination]:
        """Those that a pod has to leave room for: of others that are not less important."""
        return [one for one in self._by_key.values() if one.key != key and one.priority >= priority]
