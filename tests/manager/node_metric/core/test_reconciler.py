"""The policy in a NodeMetric's spec."""

from __future__ import annotations

import json
from typing import Any

import pytest
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


@pytest.mark.parametrize("memory", list(MemoryPolicy))
def test_koordlet_reads_what_is_written(memory: MemoryPolicy):
    given = config(
        metricAggregateDurationSeconds=120,
        metricReportIntervalSeconds=30,
        metricAggregatePolicy={"durations": ["90s", "1h"]},
        metricMemoryCollectPolicy=memory.value,
    )
    spec, _ = desired(given, NODE, None)
    assert policy({"spec": spec}) == (MetricCollectPolicy(120, 30, (90.0, 3600.0), memory), ())


def test_a_nodes_annotation_counts_more_and_a_bad_one_is_reported():
    key = "node.koordinator.sh/colocation-strategy"
    node = ClusterNode("n1", "u1", {}, {key: '{"metricReportIntervalSeconds": 45}'})
    spec, lines = desired(config(metricReportIntervalSeconds=90), node, None)
    assert (spec["metricCollectPolicy"]["reportIntervalSeconds"], lines) == (45, [])
    node = ClusterNode("n1", "u1", {}, {key: '{"metricReportIntervalSeconds": 0}'})
    spec, [line] = desired(config(metricReportIntervalSeconds=90), node, None)
    assert spec["metricCollectPolicy"]["reportIntervalSeconds"] == 90
    assert line.startswith(f"node n1: annotation {key}: metricReportIntervalSeconds is 0; ")


def test_other_fields_stay_and_all_of_it_while_nothing_good_is_known():
    bad, _ = advance(UNREAD, {"colocation-config": "{"})
    spec = {"other": 1, "metricCollectPolicy": {"reportIntervalSeconds": 7}}
    there = ExistingObject("u", (), json.dumps(spec).encode())
    assert desired(bad, NODE, there)[0] == spec
    usual = desired(DEFAULTS, NODE, None)
    assert desired(bad, NODE, None) == usual
    assert desired(DEFAULTS, NODE, there)[0] == {"other": 1} | usual[0]
