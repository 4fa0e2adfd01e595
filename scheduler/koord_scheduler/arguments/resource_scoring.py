"""Arguments of plugins that score by resources: weights, and the shape of a score. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta
from msgspec.structs import force_setattr

from koord_scheduler.arguments.fields import PerCent, Strict


class WeightedResource(Strict, frozen=True):
    """A resource and what it counts; a weight of 0 is as none."""

    name: str = ""
    weight: PerCent = 1

    def __post_init__(self) -> None:
        if not self.weight:
            force_setattr(self, "weight", 1)


CPU_AND_MEMORY = (WeightedResource("cpu"), WeightedResource("memory"))


class ShapePoint(Strict, frozen=True):
    """A point of a broken line: per cent that are taken, and the score there."""

    utilization: PerCent = 0
    score: Annotated[int, Meta(ge=0, le=10)] = 0


def weights(resources: Iterable[WeightedResource]) -> dict[str, int]:
    """Return the weight of each resource; one that is there twice has the sum of both."""
    found: Counter[str] = Counter()
    for resource in resources:
        found[resource.name] += resource.weight
    return dict(found)
