"""LowNodeLoad: pods go from nodes that use too much to nodes that use little. No IO."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

from koord_model import duration

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.low_node_load.anomaly import AnomalyDetectors
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs
from koord_descheduler.plugins.low_node_load.pool_balance import PoolBalance
from koord_descheduler.plugins.low_node_load.pool_loads import Audience, PoolLoads


class LowNodeLoad(DeschedulerPlugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "LowNodeLoad"
    Args: ClassVar[type[LowNodeLoadArgs]] = LowNodeLoadArgs

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self._args = args
        self.dry_run = args.dry_run
        self._pools = args.pools()
        forgets = duration.seconds(args.detector_cache_timeout)
        self._detectors = [
            {audience: AnomalyDetectors(pool.anomaly, forgets) for audience in Audience}
            for pool in self._pools
        ]

    def balance(self, cluster: ProfileRound) -> None:
        if self._args.paused:
            return
        usages = cluster.usages(self._args.node_metric_expiration_seconds)
        seen: set[str] = set()
        for pool, detectors in zip(self._pools, self._detectors, strict=True):
            nodes = (
                node
                for name, node in cluster.nodes.items()
                if name not in seen
                and (pool.selector is None or pool.selector.matches(node.labels))
            )
            loads = PoolLoads(pool, nodes, usages)
            kept = deepcopy(detectors) if cluster.is_trial else detectors
            seen |= PoolBalance(self._args, pool, kept, cluster, loads).run()
