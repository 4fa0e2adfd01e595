"""The pods that have a node. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from koord_scheduler.columns.nodes import NodeColumns, PodUsage


class PlacedPod(NamedTuple):
    """A pod on ``node``; ``key`` is namespace/name.

    ``started`` is when it started to run, in seconds since the epoch; ``None``: not yet.
    """

    key: str
    uid: str
    node: str
    priority: int
    started: float | None
    usage: PodUsage


class PlacedPods:
    """Placed pods by key and by row; what they use is counted in ``nodes``."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._pods: dict[str, PlacedPod] = {}
        self._on: dict[int, dict[str, PlacedPod]] = {}
        self.by_key: Mapping[str, PlacedPod] = MappingProxyType(self._pods)

    def set(self, pod: PlacedPod) -> None:
        """A pod has a node, or something of it has changed."""
        before = self._pods.get(pod.key)
        if before is not None:
            if before.node == pod.node and before.usage == pod.usage:
                self._keep(self._nodes.row_of_pods(pod.node), pod)
                return
            self.remove(pod.key)
        self._keep(self._nodes.add_pod(pod.node, pod.usage), pod)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        pod = self._pods.pop(key)
        row = self._nodes.row_of_pods(pod.node)
        on = self._on[row]
        del on[key]
        if not on:
            del self._on[row]
        self._nodes.remove_pod(pod.node, pod.usage)

    def on(self, row: int) -> Iterable[PlacedPod]:
        """The pods on a row's node."""
        return self._on.get(row, {}).values()

    def _keep(self, row: int, pod: PlacedPod) -> None:
        self._pods[pod.key] = pod
        self._on.setdefault(row, {})[pod.key] = pod
