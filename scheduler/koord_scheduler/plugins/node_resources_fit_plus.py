"""NodeResourcesFitPlus: how full a node gets, with a strategy for each resource. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugin import MAX_SCORE, Plugin, Score
from koord_scheduler.state.arrays import Amounts, Rows, picked, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resource_scores import (
    ResourceScore,
    least_allocated,
    most_allocated,
)
from koord_scheduler.state.resources import SCORED

_LEAST, _MOST = "LeastAllocated", "MostAllocated"


@dataclass(frozen=True)
class FitPlusSettings:
    """Weights by resource: of those of which the ``least`` is to be requested, or the ``most``."""

    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)


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

    def settings(self) -> FitPlusSettings:
        """Return what the plugin is built from."""
        return FitPlusSettings(self._weights(_LEAST), self._weights(_MOST))

    def _weights(self, kind: str) -> dict[str, int]:
        return {
            name: resource.weight
            for name, resource in self.resources.items()
            if resource.type == kind
        }


class NodeResourcesFitPlus(Plugin):
    """Koordinator's plugin of that name.

    Only resources count that a pod requests. One that a node lacks scores 0.
    """

    name: ClassVar[str] = "NodeResourcesFitPlus"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: FitPlusSettings) -> None:
        self._settings = settings

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        settings = self._settings
        parts = [
            _Part(pod, nodes, settings.least, least_allocated),
            _Part(pod, nodes, settings.most, most_allocated),
        ]
        weight = sum(part.weight for part in parts)

        def score(rows: Rows) -> Amounts:
            if not weight:
                return np.full(len(rows), MAX_SCORE)
            total = np.zeros(len(rows))
            for part in parts:
                total += part.score(rows)
            return np.floor(total / weight)

        return score


class _Part:
    """The resources of one strategy; ``weight`` is that of all of them."""

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        weights: Mapping[str, int],
        strategy: ResourceScore,
    ) -> None:
        amounts = dict(pod.amounts)
        scored = {CPU: pod.scored_cpu, MEMORY: pod.scored_memory}
        names = [name for name in weights if amounts.get(name)]
        self.weight = sum(weights[name] for name in names)
        self._strategy = strategy
        self._resources = resources = nodes.resources
        self._weights = np.array([weights[name] for name in names], np.float64)
        self._columns = resources.columns(names)
        self._amounts = np.array([[float(scored.get(one, amounts[one]))] for one in names])
        self._scored = [(at, SCORED[name]) for at, name in enumerate(names) if name in SCORED]

    def score(self, rows: Rows) -> Amounts:
        """The weighted sum of their scores."""
        if not len(self._weights):
            return np.zeros(len(rows))
        taken = picked(self._resources.requested, self._columns.now, rows)
        for at, column in self._scored:
            taken[at] = self._resources.scored[column][span(rows)]
        taken += self._amounts
        has = picked(self._resources.allocatable, self._columns.now, rows)
        found: Amounts = self._weights @ self._strategy(taken, has)
        return found
