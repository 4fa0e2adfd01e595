"""What Prometheus scrapes of strategies."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.qos_manager.core.strategy import StrategySignal
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.decided import DecidedNode, busy_decisions
from tests.support.observed import PODS, ObservedNode, busy_node

Rows = list[tuple[dict[str, str], float]]
WEB = PODS[0]
CONTAINER = {
    "pod_namespace": "shop",
    "pod_name": WEB.pod.name,
    "container_id": f"containerd://uid-{WEB.pod.name}-app",
    "container_name": "app",
}


def scrape(decided: DecidedNode, observed: ObservedNode | None = None) -> Mapping[str, Rows]:
    """Rows by sample name, through the text format and back, without the node."""
    registry = CollectorRegistry()
    node = (observed or busy_node(0)).observed()
    registry.register(SampleMetrics(node))
    registry.register(StrategyMetrics(node, decided.decided()))
    found: dict[str, Rows] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("node") == "node-1"
            found.setdefault(sample.name, []).append((labels, sample.value))
    return found


def by_strategy(rows: Rows) -> dict[str, float]:
    return {labels["strategy"]: value for labels, value in rows}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mode", {"cpu_suppress": 2, "cpu_burst": 1, "memory_evict": 2, "blkio": 0}),
        ("rounds_total", {"cpu_suppress": 60, "cpu_burst": 60, "memory_evict": 60}),
        ("failures_total", {"cpu_suppress": 0, "cpu_burst": 0, "memory_evict": 0}),
        ("overruns_total", {"cpu_suppress": 0, "cpu_burst": 1, "memory_evict": 0}),
        ("seconds", {"cpu_suppress": 0.0021, "cpu_burst": 0.0021, "memory_evict": 0.0021}),
        ("decisions", {"cpu_suppress": 1, "cpu_burst": 2, "memory_evict": 0}),
        ("wishes", {"cpu_suppress": 2, "cpu_burst": 2, "memory_evict": 2}),
    ],
)
def test_how_strategies_fare(name: str, wanted: dict[str, float]) -> None:
    assert by_strategy(scrape(busy_decisions())[f"koordlet_strategy_{name}"]) == wanted


def test_koordinators_names_and_labels_and_signals_of_our_own() -> None:
    found = scrape(busy_decisions())
    assert found["koordlet_be_suppress_cpu_cores"] == [({"type": "cpuset"}, 4.0)]
    assert found["koordlet_be_suppress_ls_used_cpu_cores"] == [({}, 5.9)]
    assert found["koordlet_be_suppress_be_used_cpu_cores"] == [({}, 4.2)]
    assert found["koordlet_container_scaled_cfs_quota_us"] == [(CONTAINER, 300000)]
    assert found["koordlet_container_scaled_cfs_burst_us"] == [(CONTAINER, 2000000)]
    own = {"strategy": "cpu_suppress", "name": "headroom", "pod": ""}
    assert found["koordlet_strategy_signal"] == [(own, 0.5)]
    signals = (StrategySignal("be_suppress_cpu_cores", 2.0),)
    found = scrape(DecidedNode(signals={"cpu_suppress": signals}))
    assert found["koordlet_be_suppress_cpu_cores"] == [({"type": ""}, 2.0)], "no policy"


@pytest.mark.parametrize(
    ("strategy", "signal"),
    [
        ("pressure_suppress", StrategySignal("be_suppress_cpu_cores/cpuset", 1.0)),
        ("cpu_burst", StrategySignal("container_scaled_cfs_quota_us", 1.0, WEB.pod.full_name)),
        (
            "cpu_burst",
            StrategySignal("container_scaled_cfs_quota_us/other", 1.0, WEB.pod.full_name),
        ),
        ("cpu_burst", StrategySignal("container_scaled_cfs_quota_us/app", 1.0, "shop/gone")),
        ("cpu_burst", StrategySignal("container_scaled_cfs_quota_us/app", 1.0)),
    ],
    ids=["another strategy", "no container", "no such", "a pod that is gone", "no pod"],
)
def test_a_signal_without_koordinators_labels_is_one_of_our_own(
    strategy: str, signal: StrategySignal
) -> None:
    found = scrape(DecidedNode(signals={strategy: (signal,)}))
    labels = {"strategy": strategy, "name": signal.name, "pod": signal.pod}
    assert found["koordlet_strategy_signal"] == [(labels, 1.0)]
    assert f"koordlet_{signal.name.partition('/')[0]}" not in found


def test_a_node_without_strategies_or_measurements() -> None:
    assert not [name for name in scrape(DecidedNode(), ObservedNode()) if "strategy" in name]
    assert "koordlet_be_suppress_be_used_cpu_cores" not in scrape(DecidedNode(), ObservedNode())
