"""An amount of the two resources that are predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amount:
    """CPU in cores, memory in bytes."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.cpu - other.cpu, self.memory - other.memory)

    def times(self, factor: float) -> Amount:
        """Both multiplied."""
        return Amount(self.cpu * factor, self.memory * factor)

    def at_least_zero(self) -> Amount:
        """Negative ones replaced by 0."""
        return each(max, self, Amount())


def each(choose: Callable[[float, float], float], one: Amount, other: Amount) -> Amount:
    """``choose`` (min, max) applied to CPU and to memory by itself."""
    return Amount(choose(one.cpu, other.cpu), choose(one.memory, other.memory))
