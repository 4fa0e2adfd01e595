from __future__ import annotations

from koord_manager.node_metric.core.store import NodeMetricStore
from koord_manager.node_metric.metrics import NodeMetricMetrics
from koord_service.grpc_core import grpc
from prometheus_client import CollectorRegistry


def test_what_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = NodeMetricMetrics(registry)
    metrics.answered(None)
    metrics.answered(grpc.StatusCode.ABORTED)
    store = NodeMetricStore(stale_seconds=10)
    store.begin(1)
    store.put("n1", b"{}", 0, 0)
    store.put("n2", b"{}", 5, 5)
    store.age(11, 11)
    metrics.show(store, 4, 3)
    found = {
        f"{one.name}{one.labels.get('code', '')}": one.value
        for family in registry.collect()
        for one in family.samples
        if not one.name.endswith("_created")
    }
    prefix = "koord_manager_node_metric_"
    assert {name.removeprefix(prefix): value for name, value in found.items()} == {
        "reports_totalOK": 1,
        "reports_totalABORTED": 1,
        "nodes": 2,
        "stale_nodes": 1,
        "bytes": 4,
        "watches": 3,
    }
