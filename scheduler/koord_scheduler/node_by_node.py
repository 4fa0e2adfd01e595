"""The slow way to write a plugin: it is asked about one node after the other. No IO."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from koord_scheduler.plugin import Filter, Plugin, Score
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class SchedulableNode(NamedTuple):
    """A plugin's view of a node."""

    name: str
    labels: Mapping[str, str]


class NodeByNodePlugin(Plugin):
    """Some microseconds for each node that changed, where numpy takes as many for thousands.

    What it sees is all that its answer may depend on.
    """

    @abstractmethod
    def fits(self, pod: PodClass, node: SchedulableNode) -> bool:
        """True if pods of a class can run on a node."""

    def score_node(self, pod: PodClass, node: SchedulableNode) -> float:
        """Score a node, a whole number from 0 to 100."""
        return 0.0

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            return np.array([self.fits(pod, _view(nodes, row)) for row in rows], np.bool_)

        return can_run

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        def score(rows: Rows) -> Amounts:
            return np.array([self.score_node(pod, _view(nodes, row)) for row in rows], np.float64)

        return score


def _view(nodes: ClusterState, row: int) -> SchedulableNode:
    return SchedulableNode(nodes.name(row), nodes.labels.of(row))
