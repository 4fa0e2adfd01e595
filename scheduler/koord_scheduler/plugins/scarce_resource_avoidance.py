"""ScarceResourceAvoidance: what needs no scarce resources stays off nodes that have some. No IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, HUGE_PAGES, MEMORY

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.plugin import MAX_SCORE, Plugin, Score
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resources import EPHEMERAL_STORAGE

_PLAIN = (CPU, MEMORY, EPHEMERAL_STORAGE)
_ATTACHABLE = "attachable-volumes-"


class ScarceResourceAvoidanceArgs(PluginArgs, frozen=True):
    """Arguments of ScarceResourceAvoidance."""

    resources: tuple[str, ...] = ()


class ScarceResourceAvoidance(Plugin):
    """Koordinator's plugin of that name; ``scarce`` are names of resources."""

    name: ClassVar[str] = "ScarceResourceAvoidance"
    reads_labels: ClassVar[bool] = False

    def __init__(self, scarce: frozenset[str]) -> None:
        self._scarce = scarce

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        resources, requested = nodes.resources, {name for name, amount in pod.amounts if amount}

        def score(rows: Rows) -> Amounts:
            names = resources.names
            unused = np.array([_counts(name) and name not in requested for name in names])
            scarce = unused & np.array([name in self._scarce for name in names])
            has = (resources.allocatable[: len(names), rows] > 0).astype(np.float64)
            number, of_scarce = unused.astype(np.float64) @ has, scarce.astype(np.float64) @ has
            found = np.floor((number - of_scarce) * MAX_SCORE / np.maximum(number, 1.0))
            return np.where(of_scarce > 0, found, MAX_SCORE)

        return score


def _counts(resource: str) -> bool:
    """True if kube-scheduler keeps account of a resource; pods are no resource here."""
    return resource in _PLAIN or "/" in resource or resource.startswith((HUGE_PAGES, _ATTACHABLE))
