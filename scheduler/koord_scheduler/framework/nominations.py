"""Room that is kept for pods whose victims have not ended yet. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from koord_scheduler.state.pod_usage import PodUsage


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
        self._by_node: dict[str, set[str]] = {}
        self.on_changed: Callable[[str], None] = lambda key: None
        """Hears the key of each pod whose nomination has changed."""

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._by_key.values())

    def get(self, key: str) -> Nomination | None:
        """The nomination of a pod."""
        return self._by_key.get(key)

    def set(self, nomination: Nomination) -> None:
        """A pod is nominated, in place of what it was nominated for before."""
        self._take(nomination.key)
        self._by_key[nomination.key] = nomination
        self._by_node.setdefault(nomination.node, set()).add(nomination.key)
        self.on_changed(nomination.key)

    def remove(self, key: str) -> None:
        """A pod has a node, is gone, or looks elsewhere."""
        if self._take(key):
            self.on_changed(key)

    def _take(self, key: str) -> bool:
        before = self._by_key.pop(key, None)
        if before is None:
            return False
        there = self._by_node[before.node]
        there.remove(key)
        if not there:
            del self._by_node[before.node]
        return True

    def displace(self, node: str, priority: int) -> tuple[str, ...]:
        """Forget those for a node that are less important; returns the keys of their pods."""
        there = sorted(self._by_node.get(node, ()))
        found = [key for key in there if self._by_key[key].priority < priority]
        for key in found:
            self.remove(key)
        return tuple(found)

    def against(self, key: str, priority: int) -> Sequence[Nomination]:
        """Those that a pod has to leave room for: of others that are not less important."""
        return [one for one in self._by_key.values() if one.key != key and one.priority >= priority]
