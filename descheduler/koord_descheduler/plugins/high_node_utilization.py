"""HighNodeUtilization of the upstream descheduler: nodes that are asked for little empty. No IO.

It needs a scheduler that fills nodes (``MostAllocated``): another one would put the pods back, so
they stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec
import numpy as np
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative

from koord_descheduler.framework.balancing.pool_loads import Audience, PoolLoads
from koord_descheduler.framework.balancing.utilization import (
    importance,
    namespace_problems,
    threshold_problems,
    utilization_pool,
)
from koord_descheduler.framework.pod_selection import EvictableNamespaces
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.planner.usage import RequestUsages
from koord_descheduler.plugin import DeschedulerPlugin


class HighNodeUtilizationArgs(PluginArgs, frozen=True):
    """Arguments of HighNodeUtilization."""

    thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    number_of_nodes: NotNegative = 0
    eviction_modes: tuple[Literal["OnlyThresholdingResources"], ...] = ()
    evictable_namespaces: EvictableNamespaces | None = None

    def problems(self, path: str) -> Iterator[str]:
        yield from threshold_problems(self.thresholds, f"{path}.thresholds")
        yield from namespace_problems(self.evictable_namespaces, f"{path}.evictableNamespaces")


class HighNodeUtilization(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "HighNodeUtilization"
    Args: ClassVar[type[HighNodeUtilizationArgs]] = HighNodeUtilizationArgs

    def __init__(self, args: HighNodeUtilizationArgs) -> None:
        self._args = args
        self._pool = utilization_pool(args.thresholds, dict.fromkeys(args.thresholds, 100.0))
        self._namespaces = args.evictable_namespaces or EvictableNamespaces()

    def balance(self, cluster: ProfileRound) -> None:
        loads = self.loads(cluster)
        low = loads.low(Audience.NODE)
        targets = loads.schedulable & ~low
        numbers = {"nodes": len(low), "underused": int(low.sum()), "targets": int(targets.sum())}
        idle = ""
        if not targets.any():
            idle = "no other node can have pods"
        elif numbers["underused"] <= self._args.number_of_nodes:
            idle = f"numberOfNodes is {self._args.number_of_nodes}"
        cluster.note("nodes", numbers | ({"nothingToDo": idle} if idle else {}))
        if idle:
            return
        among = cluster.virtual.rows(np.array(loads.names, object)[targets].tolist())
        used = loads.per_cent(Audience.NODE).mean(axis=1)
        for row in sorted(np.flatnonzero(low).tolist(), key=lambda row: float(used[row])):
            reason = f"node is underutilized, {loads.within(row)}"
            for pod in sorted(cluster.pods_on(loads.names[row]), key=_least_important):
                if self._may_move(pod, cluster):
                    cluster.move(pod, reason, among=among)

    def loads(self, cluster: ProfileRound) -> PoolLoads:
        """The loads of the nodes."""
        return PoolLoads(self._pool, cluster.nodes.values(), RequestUsages(cluster.cluster))

    def _may_move(self, pod: KnownPod, cluster: ProfileRound) -> bool:
        if why := self._namespaces.refusal(pod.view.namespace):
            return cluster.refuse(pod.view, "EvictableNamespaces", why)
        requested = {name for name, _ in pod.placed.usage.request}
        if self._args.eviction_modes and requested.isdisjoint(self._args.thresholds):
            why = "it requests none of the resources with thresholds"
            return cluster.refuse(pod.view, "OnlyThresholdingResources", why)
        return not pod.view.has_ended


def _least_important(pod: KnownPod) -> tuple[object, ...]:
    return *importance(pod.view), pod.view.key
