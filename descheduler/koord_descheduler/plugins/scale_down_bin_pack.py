"""ScaleDownBinPack: pods are ranked for a scale-down that empties nodes. No IO.

The rank is written as the pods' deletion cost, or the first of them move. A cost that somebody else
set stays: what this plugin wrote is repeated in an annotation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from koord_model.keys import CPU, MEMORY
from koord_scheduler.arguments.fields import Int32
from koord_scheduler.arguments.problems import problem
from koord_scheduler.objects.annotations import read_annotations
from msgspec.structs import force_setattr

from koord_descheduler.framework.balancing.request_table import RequestTable
from koord_descheduler.framework.pod_selection import PodSelection, SelectingArgs
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.eviction_order import ANNOTATION_DELETION_COST
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

ANNOTATION_OWN_COST = "descheduler.koordinator.sh/pod-deletion-cost"
"""The deletion cost that this plugin wrote last."""
_NEVER = str(2**31 - 1)
_EVICT = "EvictDirectly"
_LEAST_GAIN = 1e-9

read_annotations(ANNOTATION_OWN_COST)


class ScaleDownBinPackArgs(SelectingArgs, frozen=True):
    """Arguments of ScaleDownBinPack."""

    strategy: Literal["CalculateOnly", "EvictDirectly"] = "CalculateOnly"
    max_pods_to_evict: Int32 | None = None
    resources: tuple[str, ...] = (CPU, MEMORY)
    resource_weights: dict[str, float] | None = None

    def __post_init__(self) -> None:
        weights = dict.fromkeys(self.resources, 1.0) | (self.resource_weights or {})
        force_setattr(self, "resource_weights", weights)

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        if self.strategy == _EVICT and (self.max_pods_to_evict or 0) <= 0:
            expected = f"1 or more, with {_EVICT}"
            yield problem(f"{path}.maxPodsToEvict", self.max_pods_to_evict, expected)
        for name, weight in self.weights.items():
            if not 0 < weight < math.inf:
                yield problem(f"{path}.resourceWeights.{name}", weight, "more than 0")

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights of resources."""
        return self.resource_weights or {}


class _RankedNode(NamedTuple):
    """A node, its pods to be ranked, and the part of it that others request for each of theirs."""

    row: int
    pods: list[KnownPod]
    score: float


class ScaleDownBinPack(DeschedulerPlugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "ScaleDownBinPack"
    Args: ClassVar[type[ScaleDownBinPackArgs]] = ScaleDownBinPackArgs

    def __init__(self, args: ScaleDownBinPackArgs) -> None:
        self._args = args
        self._selection = PodSelection(args)
        self.dry_run = args.dry_run
        self._weights = np.array(list(args.weights.values()))

    def balance(self, cluster: ProfileRound) -> None:
        if self._args.paused:
            return
        table = self.table(cluster)
        blocked: list[ObservedPod] = []
        ranked = self.ranked(table, cluster, blocked)
        if self._args.strategy == _EVICT:
            self._evict(ranked, table, cluster)
        else:
            pods = (pod.view for node in ranked for pod in node.pods)
            costs = {pod.key: str(rank) for rank, pod in enumerate(pods)}
            _annotate(costs | {pod.key: _NEVER for pod in blocked}, cluster)

    # ---- ranking

    def table(self, cluster: ProfileRound) -> RequestTable:
        """The nodes that are selected, and what is requested of them."""
        return RequestTable(cluster, self._selection.nodes(cluster), list(self._args.weights))

    def ranked(
        self, table: RequestTable, cluster: ProfileRound, blocked: list[ObservedPod]
    ) -> list[_RankedNode]:
        """Nodes in the order in which they empty best; pods that may not move are ``blocked``."""
        found = []
        for row, name in enumerate(table.names):
            own, others, kept = list[KnownPod](), list[KnownPod](), list[ObservedPod]()
            for pod in cluster.pods_on(name):
                if pod.view.has_ended:
                    continue
                is_target = self._selection.names(pod.view)
                may_move = is_target and not cluster.obstacle(pod.view)[0]
                (own if may_move else others).append(pod)
                if is_target and not may_move:
                    kept.append(pod.view)
            if not own:
                continue
            blocked += kept
            sizes = {pod.view.key: self._size(pod, row, table) for pod in (*own, *others)}
            own.sort(key=lambda pod: (-sizes[pod.view.key], -pod.view.created, pod.view.key))
            taxes, gains = _sum(sizes, others), _sum(sizes, own)
            score = taxes / gains if gains else math.inf if taxes else 0.0
            found.append(_RankedNode(row, own, score))
        return sorted(found, key=lambda node: (node.score, len(node.pods), table.names[node.row]))

    def _size(self, pod: KnownPod, row: int, table: RequestTable) -> float:
        return float(table.parts_of(pod)[row] @ self._weights)

    # ---- moves

    def _evict(self, ranked: list[_RankedNode], table: RequestTable, cluster: ProfileRound) -> None:
        """Move the first pods to nodes that are then fuller than theirs was."""
        most, known = self._args.max_pods_to_evict or 0, len(cluster.moves)
        for node in ranked:
            for pod in node.pods:
                if len(cluster.moves) - known >= most:
                    return
                self._move(pod, node.row, table, cluster)

    def _move(self, pod: KnownPod, row: int, table: RequestTable, cluster: ProfileRound) -> None:
        loads, more = table.parts() @ self._weights, table.parts_of(pod) @ self._weights
        lost = loads[row] ** 2 - (loads[row] - more[row]) ** 2
        fuller = (loads + more) ** 2 - loads**2 > lost + _LEAST_GAIN
        fuller[row] = False
        if not fuller.any():
            cluster.refuse(pod.view, "Target", "no other node would be fuller than its own")
            return
        among = cluster.virtual.mask(table.rows[fuller])
        cluster.move(pod, "scale-down binpack", among=among)


def _sum(sizes: Mapping[str, float], pods: Iterable[KnownPod]) -> float:
    return sum(sizes[pod.view.key] for pod in pods)


def _annotate(costs: Mapping[str, str], cluster: ProfileRound) -> None:
    """Have costs written that changed, and those removed that are not computed any more."""
    for key, pod in cluster.cluster.pods.items():
        annotations = pod.view.annotations
        present, own = (
            annotations.get(ANNOTATION_DELETION_COST),
            annotations.get(ANNOTATION_OWN_COST),
        )
        cost = costs.get(key)
        if present != own or cost == present or pod.view.deleted is not None:
            continue
        cluster.annotate(pod.view, {ANNOTATION_DELETION_COST: cost, ANNOTATION_OWN_COST: cost})
