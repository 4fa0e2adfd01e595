"""Number of gangs of a group that start together, where not all of them do. No IO."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple


class Quorum(NamedTuple):
    """``least`` of the ``children``, gangs by their keys or groups of them, start together."""

    least: int
    children: tuple[Quorum | str, ...]

    @property
    def gangs(self) -> tuple[str, ...]:
        """The keys of all gangs below it."""
        found: list[str] = []
        for child in self.children:
            found += (child,) if isinstance(child, str) else child.gangs
        return tuple(found)

    def is_met(self, satisfied: Collection[str]) -> bool:
        """True if enough children have what they need, if these gangs do."""
        return sum(_is_met(child, satisfied) for child in self.children) >= self.least

    def cheapest(self, needed: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
        """The gangs that need the fewest pods, of those that are enough; and how many pods.

        ``needed`` is by gang; one that is not there cannot start.
        """
        costs = sorted(
            (_cheapest(child, needed) for child in self.children), key=lambda cost: cost[0]
        )
        chosen = costs[: self.least]
        if len(chosen) < self.least:
            return math.inf, ()
        return sum(cost for cost, _ in chosen), tuple(key for _, keys in chosen for key in keys)


def _is_met(child: Quorum | str, satisfied: Collection[str]) -> bool:
    return child in satisfied if isinstance(child, str) else child.is_met(satisfied)


def _cheapest(child: Quorum | str, needed: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    if isinstance(child, str):
        return needed.get(child, math.inf), (child,)
    return child.cheapest(needed)
