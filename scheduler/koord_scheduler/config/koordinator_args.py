"""Arguments of Koordinator's plugins that score by requests. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import problem

_LEAST, _MOST = "LeastAllocated", "MostAllocated"


class FitPlusResource(Strict, frozen=True):
    """Scoring of a resource, and its weight."""

    type: str = ""
    weight: NotNegative = 0


class NodeResourcesFitPlusArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesFitPlus."""

    resources: dict[str, FitPlusResource] = msgspec.field(default_factory=dict)

    def problems(self, path: str) -> Iterator[str]:
        for name, resource in self.resources.items():
            if resource.type not in (_LEAST, _MOST):
                # Koordinator scores 0 for another one.
                yield problem(
                    f"{path}.resources.{name}.type", resource.type, f"{_LEAST} or {_MOST}"
                )

    def weights(self, *, of_most: bool) -> dict[str, int]:
        """The weights of the resources with one of the two types."""
        kind = _MOST if of_most else _LEAST
        return {
            name: resource.weight
            for name, resource in self.resources.items()
            if resource.type == kind
        }


class ScarceResourceAvoidanceArgs(PluginArgs, frozen=True):
    """Arguments of ScarceResourceAvoidance."""

    resources: tuple[str, ...] = ()


class SchedulingHintArgs(PluginArgs, frozen=True):
    """Arguments of SchedulingHint: how many of a pod's preferred nodes are tried."""

    max_hint_nodes: Annotated[int, Meta(gt=0, le=2**31 - 1)] = 100
