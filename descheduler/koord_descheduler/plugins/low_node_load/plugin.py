"""LowNodeLoad: pods go from nodes that use too much to nodes that use little. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import ClassVar

from koord_model import duration

from koord_descheduler.framework.balancing.anomaly import AnomalyDetectors
from koord_descheduler.framework.balancing.pool_balance import BalanceRules, PoolBalance
from koord_descheduler.framework.balancing.pool_loads import Audience, PoolLoads
from koord_descheduler.framework.pod_selection import PodSelection
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.eviction_order import eviction_order
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs


class LowNodeLoad(DeschedulerPlugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "LowNodeLoad"
    Args: ClassVar[type[LowNodeLoadArgs]] = LowNodeLoadArgs

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self._args = args
        self._selection = PodSelection(args)
        self.dry_run = args.dry_run
        self._pools = args.pools()
        forgets = duration.seconds(args.detector_cache_timeout)
        self._detectors = [
            {audience: AnomalyDetectors(pool.anomaly, forgets) for audience in Audience}
            for pool in self._pools
        ]

    def balance(self, cluster: ProfileRound) -> None:
        if not self._args.paused:
            for pool in self.pools(cluster):
                pool.run()

    def pools(self, cluster: ProfileRound) -> Iterator[PoolBalance]:
        """The pools in order; sources of one belong to no later one."""
        usages = cluster.usages(self._args.node_metric_expiration_seconds)

        def may_move(pod: ObservedPod) -> bool:
            if self._args.node_fit and not usages.is_reported(pod):
                return cluster.refuse(pod, "NoUsage", "its node's NodeMetric does not have it")
            return self._selection.may_move(pod, cluster)

        rules = BalanceRules(may_move, eviction_order, self._args.number_of_nodes)
        seen: set[str] = set()
        for pool, detectors in zip(self._pools, self._detectors, strict=True):
            nodes = (
                node
                for name, node in cluster.nodes.items()
                if name not in seen and pool.selector.matches(node.labels)
            )
            loads = PoolLoads(pool, nodes, usages)
            seen |= loads.sources()
            kept = deepcopy(detectors) if cluster.is_trial else detectors
            yield PoolBalance(pool, rules, kept, cluster, loads)
