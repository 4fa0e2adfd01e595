"""The policy in a NodeMetric's spec."""

from __future__ import annotations

import json
from typing import Any

from koord_manager.node_metric.core.reconciler import desired
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_objects.core.reconciler import ExistingObject
from koord_manager.slo_config.core.config import DEFAULTS, UNREAD, SLOConfig, advance
from koordlet.metrics_reporter.documents.metric_policy import (
    MemoryPolicy,
    MetricCollectPolicy,
    policy,
)

NODE = ClusterNode("n1", "u1")


def config(**colocation: Any) -> SLOConfig:
    found, problems = advance(UNREAD, {"colocation-config": json.dumps(colocation)})
    assert problems == ()
    return found


def test_without_a_configuration_it_is_what_koordinator_writes():
    spec, lines = desired(DEFAULTS, NODE, None)
    assert lines == []
    assert spec == {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": 300,
            "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
            "nodeMemoryCollectPolicy": "usageWithoutPageCache",
        }
    }


def test_koordlet_reads_what_is_written():
    given = config(
        metricAggregateDurationSeconds=120,
        metricReportIntervalSeconds=30,
        metricAggregatePolicy={"durations": ["90s", "1h"]},
        metricMemoryCollectPolicy="usageWithPageCache",
    )
    spec, _ = desired(given, NODE, None)
    assert policy({"spec": spec}) == (
        MetricCollectPolicy(120, 30, (90.0, 3600.0), MemoryPolicy.WITH_PAGE_CACHE),
        (),
    )


def test_koordlets_policies_are_those_of_the_configuration():
    for word in MemoryPolicy:
        spec, _ = desired(config(metricMemoryCollectPolicy=word.value), NODE, None)
        assert policy({"spec": spec})[0].memory is word


def test_a_nodes_annotation_counts_more_and_a_bad_one_is_told():
    key = "node.koordinator.sh/colocation-strategy"
    node = ClusterNode("n1", "u1", {}, {key: '{"metricReportIntervalSeconds": 45}'})
    spec, lines = desired(config(metricReportIntervalSeconds=90), node, None)
    assert (spec["metricCollectPolicy"]["reportIntervalSeconds"], lines) == (45, [])
    node = ClusterNode("n1", "u1", {}, {key: '{"metricReportIntervalSeconds": 0}'})
    spec, [line] = desired(config(metricReportIntervalSeconds=90), node, None)
    assert spec["metricCollectPolicy"]["reportIntervalSeconds"] == 90
    assert line.startswith(f"node n1: annotation {key}: metricReportIntervalSeconds is 0; ")


def test_while_nothing_good_is_known_what_is_there_stays():
    bad, _ = advance(UNREAD, {"colocation-config": "{"})
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 7}}
    there = ExistingObject("u", (), json.dumps(spec).encode())
    assert desired(bad, NODE, there)[0] == spec
    assert desired(bad, NODE, None) == desired(DEFAULTS, NODE, None)


def test_other_fields_of_the_spec_stay():
    there = ExistingObject(
        "u", (), b'{"other": 1, "metricCollectPolicy": {"reportIntervalSeconds": 7}}'
    )
    spec, _ = desired(DEFAULTS, NODE, there)
    assert spec == {"other": 1} | desired(DEFAULTS, NODE, None)[0]
