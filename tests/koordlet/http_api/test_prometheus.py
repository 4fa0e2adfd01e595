"""What Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from koord_prediction.amount import ResourceAmount
from koord_prediction.peak import PredictedPeak
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.metric_cache.core.samples import Sample, Series
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.observed import GIB, NOW, PODS, ObservedNode, busy_node, full_node

Rows = list[tuple[dict[str, str], float]]
WEB = {
    "pod_uid": "uid-web-7c9d8b5f4-x2x9k",
    "pod_name": "web-7c9d8b5f4-x2x9k",
    "pod_namespace": "shop",
    "qos": "LS",
}


def scrape(node: ObservedNode) -> Mapping[str, Rows]:
    """Rows by sample name, through the text format and back."""
    registry = CollectorRegistry()
    registry.register(SampleMetrics(node.observed()))
    found: dict[str, Rows] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


# Names and labels of Koordinator's pkg/koordlet/metrics; qos of pods is ours in addition.


def test_every_kind_has_a_metric_and_every_row_the_node() -> None:
    found = scrape(full_node())
    assert {labels["node"] for rows in found.values() for labels, _ in rows} == {"node-1"}
    shared = {"node_cpu_usage": 2, "node_memory_usage": 2}
    for kind in KINDS.values():
        node = ObservedNode(pods=PODS)
        one = [series for series in full_node().cache.kept if series.kind == kind.name][-1]
        if one.labels and kind.labels[0] == "pod_uid":
            assert one.labels[0] in {record.pod.uid for record in PODS}
        before = sum(map(len, scrape(node).values()))
        node.cache.append(NOW - 1, [Sample(one, 1.0)])
        grown = sum(map(len, scrape(node).values())) - before
        if kind.name.endswith("_cpu_full_supported"):
            assert grown == 0
        elif kind.labels == ("pod_uid",) and kind.name in ("pod_cpu_usage", "pod_memory_usage"):
            assert grown == 2, "the pod's, and its class's"
        else:
            assert grown == shared.get(kind.name, 1), kind.name


def test_values_and_units() -> None:
    found = scrape(busy_node(60))
    assert ({"node": "node-1", "resource": "cpu", "unit": "core"}, 16.0) in found[
        "koordlet_node_resource_capacity"
    ]
    asked = {
        (labels["container_name"], labels["resource"], labels["unit"]): value
        for labels, value in found["koordlet_container_resource_requests"]
        if labels["pod_uid"] in (WEB["pod_uid"], "uid-spark-exec-17")
    }
    assert asked == {
        ("app", "cpu", "core"): 1.0,
        ("envoy", "cpu", "core"): 1.0,
        ("app", "memory", "byte"): 1.5 * GIB,
        ("envoy", "memory", "byte"): 1.5 * GIB,
        ("main", "kubernetes.io/batch-cpu", "integer"): 3000.0,
        ("main", "kubernetes.io/batch-memory", "byte"): 4.0 * GIB,
    }
    assert {value for labels, value in found["koordlet_node_be_cpu_cores"]} == {4.2, 8.0, 9.0}
    precisions = {labels["psi_precision"] for labels, _ in found["koordlet_node_psi"]}
    assert precisions == {"avg10"}


@pytest.mark.parametrize(("full", "word"), [(None, "false"), (0.0, "false"), (1.0, "true")])
def test_whether_full_pressure_of_cpu_is_known(full: float | None, word: str) -> None:
    node = busy_node(0)
    if full is not None:
        series = Series("pod_psi_cpu_full_supported", (WEB["pod_uid"],))
        node.cache.append(NOW - 1, [Sample(series, full)])
    rows = [row for row, _ in scrape(node)["koordlet_pod_psi"] if row["pod_uid"] == WEB["pod_uid"]]
    assert {row["cpu_full_supported"] for row in rows} == {word}


def test_the_help_says_the_unit_that_is_served() -> None:
    words = {one.name: one.documentation for one in SampleMetrics(full_node().observed()).collect()}
    assert words["koordlet_node_be_cpu_cores"].endswith("(cores).")
    for name in ("node_metric_node", "node_metric_numa_system", "host_application_resource"):
        assert words[f"koordlet_{name}_usage"].endswith("(cores, bytes)."), name


def test_labels_of_a_pod_and_a_container() -> None:
    """Names and labels of all are held against the documents (``tests/docs``)."""
    found = scrape(busy_node(60))
    pods = [labels for labels, _ in found["koordlet_pod_cpu_usage_cores"]]
    [pod] = [labels for labels in pods if labels["pod_uid"] == WEB["pod_uid"]]
    assert pod == {"node": "node-1", **WEB}
    names = {labels["container_id"] for labels, _ in found["koordlet_container_cpu_usage_cores"]}
    assert f"containerd://{WEB['pod_uid']}-app" in names


def test_pods_and_containers_that_are_gone_vanish() -> None:
    node = busy_node(60)
    gone = PODS[0]
    one_less = replace(PODS[1], containers=dict(list(PODS[1].containers.items())[:1]))
    node.pods = (one_less, *PODS[2:])
    text = [labels for rows in scrape(node).values() for labels, _ in rows]
    assert not [labels for labels in text if labels.get("pod_uid") == gone.pod.uid]
    left = [row for row in text if row.get("pod_uid") == one_less.pod.uid and "container_id" in row]
    assert {row["container_name"] for row in left} == {"app"}


def test_koordlet_itself() -> None:
    found = scrape(busy_node(60))

    def rows(name: str) -> dict[tuple[str, ...], float]:
        """By the values of all labels but the node."""
        return {
            tuple(value for key, value in labels.items() if key != "node"): value
            for labels, value in found[f"koordlet_{name}"]
        }

    works = {("noderesource",): 1, ("podresource",): 1, ("coldmemory",): 0, ("cpi",): 0}
    assert rows("collector_available") == works
    assert ("cpi",) not in rows("collector_seconds")
    assert rows("collector_rounds_total")["podresource",] == 1800
    assert rows("metric_cache_refused_total") == {(): 3}
    assert rows("report_total") == {
        ("NodeMetric", "direct"): 28,
        ("NodeMetric", "object"): 2,
        ("NodeResourceTopology", "object"): 4,
        ("Device", "object"): 0,
    }
    failed = {("NodeMetric",): 3, ("NodeResourceTopology",): 0, ("Device",): 7}
    assert rows("report_failures_total") == failed
    assert rows("report_age_seconds") == {("NodeMetric",): 41, ("NodeResourceTopology",): 2}
    assert rows("state_age_seconds") == {("pods",): 3.2, ("NodeSLO",): 812.0}


def test_predictions_by_predictor() -> None:
    node = busy_node(0)
    node.predictions = {
        "podReclaimablePredictor": PredictedPeak(ResourceAmount(3, GIB), None),
        "minPredictor": PredictedPeak(ResourceAmount(4, 2 * GIB), ResourceAmount(0, 5)),
    }
    rows = {
        (name, row["predictor"], row["resource"], row["unit"]): value
        for name in ("peak", "reclaimable")
        for row, value in scrape(node)[f"koordlet_node_predicted_resource_{name}"]
    }
    assert rows == {
        ("peak", "podReclaimablePredictor", "cpu", "core"): 3,
        ("peak", "podReclaimablePredictor", "memory", "byte"): GIB,
        ("peak", "minPredictor", "cpu", "core"): 4,
        ("peak", "minPredictor", "memory", "byte"): 2 * GIB,
        ("reclaimable", "minPredictor", "cpu", "core"): 0,
        ("reclaimable", "minPredictor", "memory", "byte"): 5,
    }


def test_a_node_of_which_nothing_is_known() -> None:
    assert not [name for name in scrape(ObservedNode()) if "metric_cache" not in name]
