"""An amount of the two resources that are predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceAmount:
    """CPU in cores, memory in bytes."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(self.cpu - other.cpu, self.memory - other.memory)

    def times(self, factor: float) -> ResourceAmount:
        """Both multiplied."""
        return ResourceAmount(self.cpu * factor, self.memory * factor)

    def at_least_zero(self) -> ResourceAmount:
        """Negative ones replaced by 0."""
        return each(max, self, ResourceAmount())


def each(
    choose: Callable[[float, float], float], amount: ResourceAmount, other: ResourceAmount
) -> ResourceAmount:
    """``choose`` (min, max) applied to CPU and to memory by itself."""
    return ResourceAmount(choose(amount.cpu, other.cpu), choose(amount.memory, other.memory))
