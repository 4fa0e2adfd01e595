"""LowNodeUtilization of the upstream descheduler: from nodes asked for much to others. No IO.

With ``metricsUtilization`` usage counts in place of requests: that of NodeMetrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.balancing.anomaly import AnomalyDetectors
from koord_descheduler.framework.balancing.pool_balance import BalanceRules, PoolBalance
from koord_descheduler.framework.balancing.pool_loads import Audience, PoolLoads
from koord_descheduler.framework.balancing.utilization import (
    AT_ONCE,
    importance,
    namespace_problems,
    threshold_problems,
    utilization_pool,
)
from koord_descheduler.framework.pod_selection import EvictableNamespaces
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.usage import NodeUsages, RequestUsages
from koord_descheduler.plugin import DeschedulerPlugin

_REPORT_EXPIRES = 180.0
_NODE_METRICS = "KubernetesMetrics"


class PrometheusQuery(Strict, frozen=True):
    """A query, which upstream's descheduler can have answered."""

    query: str = ""


class MetricsUtilization(Strict, frozen=True):
    """The source of usage."""

    metrics_server: bool = False
    source: str = ""
    prometheus: PrometheusQuery | None = None

    def problems(self, path: str) -> Iterator[str]:
        """Return an error where the source is another one than NodeMetrics."""
        expected = f"{_NODE_METRICS}, which stands for NodeMetrics"
        if self.prometheus is not None or self.source == "Prometheus":
            yield problem(f"{path}.source", "Prometheus", expected)
        elif self.metrics_server == (self.source == _NODE_METRICS):
            yield problem(f"{path}.source", self.source, f"{expected}, or metricsServer")
        elif self.source not in ("", _NODE_METRICS):
            yield problem(f"{path}.source", self.source, expected)


class NodeEvictionLimit(Strict, frozen=True):
    """At most so many evictions from a node in a round."""

    node: NotNegative | None = None


class LowNodeUtilizationArgs(PluginArgs, frozen=True):
    """Arguments of LowNodeUtilization."""

    use_deviation_thresholds: bool = False
    thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    target_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    number_of_nodes: NotNegative = 0
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: EvictableNamespaces | None = None
    eviction_limits: NodeEvictionLimit | None = None

    def problems(self, path: str) -> Iterator[str]:
        low, high = self.thresholds, self.target_thresholds
        yield from threshold_problems(low, f"{path}.thresholds")
        yield from threshold_problems(high, f"{path}.targetThresholds")
        for name in sorted(low.keys() ^ high.keys()):
            absent = "targetThresholds" if name in low else "thresholds"
            yield problem(f"{path}.{absent}.{name}", None, "the same resources in both")
        for name in sorted(low.keys() & high.keys()):
            if low[name] > high[name] and not self.use_deviation_thresholds:
                expected = f"targetThresholds.{name} ({high[name]:g}) or less"
                yield problem(f"{path}.thresholds.{name}", low[name], expected)
        yield from namespace_problems(self.evictable_namespaces, f"{path}.evictableNamespaces")
        if self.metrics_utilization is not None:
            yield from self.metrics_utilization.problems(f"{path}.metricsUtilization")


class LowNodeUtilization(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "LowNodeUtilization"
    Args: ClassVar[type[LowNodeUtilizationArgs]] = LowNodeUtilizationArgs

    def __init__(self, args: LowNodeUtilizationArgs) -> None:
        self._args = args
        self._pool = utilization_pool(
            args.thresholds, args.target_thresholds, uses_deviation=args.use_deviation_thresholds
        )
        self._namespaces = args.evictable_namespaces or EvictableNamespaces()
        self._most = args.eviction_limits.node if args.eviction_limits is not None else None

    def balance(self, cluster: ProfileRound) -> None:
        loads = self.loads(cluster)
        detectors = {Audience.NODE: AnomalyDetectors(AT_ONCE, 0.0)}

        def may_move(pod: ObservedPod) -> bool:
            if why := self._namespaces.refusal(pod.namespace):
                return cluster.refuse(pod, "EvictableNamespaces", why)
            return cluster.may_move(pod)

        rules = BalanceRules(may_move, importance, self._args.number_of_nodes, self._most)
        PoolBalance(self._pool, rules, detectors, cluster, loads).run()

    def loads(self, cluster: ProfileRound) -> PoolLoads:
        """The loads of the nodes."""
        usages: NodeUsages = RequestUsages(cluster.cluster)
        if self._args.metrics_utilization is not None:
            usages = cluster.usages(_REPORT_EXPIRES)
        return PoolLoads(self._pool, cluster.nodes.values(), usages)
