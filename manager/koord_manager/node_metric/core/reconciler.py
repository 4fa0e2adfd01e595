"""Desired NodeMetric of a Node: when and how koordlet reports. No IO."""

from __future__ import annotations

from koord_model import duration

from koord_manager.node_objects.core.nodes import ClusterNode, Object
from koord_manager.node_objects.core.reconciler import ExistingObject
from koord_manager.slo_config.core.config import COLOCATION, SLOConfig


def desired(
    config: SLOConfig, node: ClusterNode, there: ExistingObject | None
) -> tuple[Object, list[str]]:
    """The spec, and a line for each annotation of the Node that cannot be used.

    While nothing good is known of the configuration, what is there stays as it is.
    """
    before = there.decoded() if there else {}
    strategies = config.strategies_for(node.labels, node.annotations)
    ignored = [f"node {node.name}: {line}" for line in strategies.ignored]
    if there is not None and COLOCATION in config.unknown:
        return before, ignored
    strategy = strategies.colocation
    windows = [
        # As Koordinator's manager writes them, so that the two would not take turns.
        duration.written(duration.seconds(metric_aggregate_duration))
        for metric_aggregate_duration in strategy.metric_aggregate_durations
    ]
    policy = {
        "aggregateDurationSeconds": strategy.metric_aggregate_seconds,
        "reportIntervalSeconds": strategy.metric_report_seconds,
        "nodeAggregatePolicy": {"durations": windows},
        "nodeMemoryCollectPolicy": strategy.metric_memory_policy.value,
    }
    return {**before, "metricCollectPolicy": policy}, ignored
