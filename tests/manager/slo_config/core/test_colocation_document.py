"""What Nodes say of themselves, and every field of ``colocation-config``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.slo_config.core.colocation import (
    CalculatePolicy,
    ColocationStrategy,
    MemoryPolicy,
    MidReclaimMode,
    Smoothing,
)
from koord_manager.slo_config.core.colocation_document import on_node, overlay

ANNOTATION = "node.koordinator.sh/colocation-strategy"
CPU = "node.koordinator.sh/cpu-reclaim-ratio"
USUAL = ColocationStrategy(cpu_reclaim_percent=40)

SMOOTHING = {"fallPercent": 1, "risePercent": 2, "stepSeconds": 3, "holdSeconds": 4}
ALL: dict[str, tuple[Any, str, Any]] = {
    "enable": (True, "enable", True),
    "metricAggregateDurationSeconds": (100, "metric_aggregate_seconds", 100),
    "metricReportIntervalSeconds": (30, "metric_report_seconds", 30),
    "metricAggregatePolicy": ({"durations": ["1m"]}, "metric_aggregate_durations", ("1m",)),
    "metricMemoryCollectPolicy": (
        "usageWithPageCache",
        "metric_memory_policy",
        MemoryPolicy.WITH_PAGE_CACHE,
    ),
    "cpuReclaimThresholdPercent": (1, "cpu_reclaim_percent", 1),
    "cpuCalculatePolicy": ("maxUsageRequest", "cpu_policy", CalculatePolicy.MAX_USAGE_REQUEST),
    "memoryReclaimThresholdPercent": (2, "memory_reclaim_percent", 2),
    "memoryCalculatePolicy": ("request", "memory_policy", CalculatePolicy.REQUEST),
    "degradeTimeMinutes": (3, "degrade_minutes", 3),
    "updateTimeThresholdSeconds": (4, "update_seconds", 4),
    "resourceDiffThreshold": (1, "diff_threshold", 1.0),
    "midReclaimMode": ("static", "mid_mode", MidReclaimMode.STATIC),
    "midCPUThresholdPercent": (5, "mid_cpu_percent", 5),
    "midMemoryThresholdPercent": (6, "mid_memory_percent", 6),
    "midUnallocatedPercent": (7, "mid_unallocated_percent", 7),
    "midStaticCPUReservedPercent": (8, "mid_static_cpu_percent", 8),
    "midStaticMemoryReservedPercent": (9, "mid_static_memory_percent", 9),
    "batchCPUThresholdPercent": (10, "batch_cpu_percent", 10),
    "batchMemoryThresholdPercent": (11, "batch_memory_percent", 11),
    "extensions": ({"pykoord": {"smoothing": SMOOTHING}}, "smoothing", Smoothing(1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", ALL)
def test_each_field_is_read_and_changes_nothing_else(name: str):
    given, attribute, expected = ALL[name]
    problems: list[str] = []
    found = overlay(USUAL, {name: given}, "here", problems)
    assert problems == []
    changed = {
        field
        for field in ColocationStrategy.__dataclass_fields__
        if getattr(found, field) != getattr(USUAL, field)
    }
    assert (changed, getattr(found, attribute)) == ({attribute, "source"}, expected)


def test_every_field_of_the_strategy_can_be_given():
    given = {attribute for _, attribute, _ in ALL.values()}
    assert given | {"source"} == set(ColocationStrategy.__dataclass_fields__)


def test_who_said_so_is_kept_for_people():
    assert USUAL.source == "defaults"
    assert overlay(USUAL, {}, "here", []).source == "defaults"
    cluster = overlay(USUAL, {"enable": True}, "colocation-config", [])
    assert cluster.source == "colocation-config"
    # Nodes that ask for the same below different layers each name their own.
    for usual in (cluster, overlay(cluster, {"enable": True}, "nodeConfigs[0]", [])):
        for labels, noted, said in (
            ({}, {}, []),
            ({CPU: "0.5"}, {}, [CPU]),
            ({}, {ANNOTATION: "{}"}, [ANNOTATION]),
            ({CPU: "0.5"}, {ANNOTATION: "{}"}, [ANNOTATION, CPU]),
        ):
            found, _ = on_node(usual, labels, noted)
            assert found.source == ", ".join([usual.source, *said])


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("resourceDiffThreshold", 0),
        ("resourceDiffThreshold", 1.1),
        ("resourceDiffThreshold", True),
        ("degradeTimeMinutes", 0),
        ("midCPUThresholdPercent", 101),
        ("cpuReclaimThresholdPercent", 101),
        ("batchCPUThresholdPercent", -1),
        ("midReclaimMode", "fixed"),
        ("metricAggregatePolicy", {"durations": ["5 minutes"]}),
        ("metricAggregatePolicy", {"durations": ["13h"]}),
        ("metricMemoryCollectPolicy", "rss"),
        ("extensions", {"pykoord": {"smoothing": {"stepSeconds": 0}}}),
    ],
)
def test_what_is_out_of_range_is_ignored_with_a_line(name: str, given: Any):
    problems: list[str] = []
    assert overlay(USUAL, {name: given}, "here", problems) == USUAL
    assert len(problems) == 1
    assert problems[0].startswith(f"here {name}")


def test_a_node_may_leave_the_static_mode_of_its_cluster():
    static = ColocationStrategy(mid_mode=MidReclaimMode.STATIC)
    found, ignored = on_node(static, {}, {ANNOTATION: '{"midReclaimMode": ""}'})
    assert (found, ignored) == (ColocationStrategy(), ())


@pytest.mark.parametrize(
    ("ratio", "percent"), [("0", 0), ("0.29", 29), ("0.575", 57), ("1", 100), ("1e-1", 10)]
)
def test_a_ratio_in_a_label_is_in_percent(ratio: str, percent: int):
    found, ignored = on_node(USUAL, {CPU: ratio}, {})
    assert (found.cpu_reclaim_percent, ignored) == (percent, ())


@pytest.mark.parametrize("ratio", ["-0.1", "1.5", "nan", "inf", "70%", ""])
def test_a_bad_label_costs_only_itself(ratio: str):
    labels = {CPU: ratio, "node.koordinator.sh/memory-reclaim-ratio": "0.5"}
    found, [line] = on_node(USUAL, labels, {})
    assert (found.cpu_reclaim_percent, found.memory_reclaim_percent) == (40, 50)
    assert line == f'label {CPU} is "{ratio}"; expected 0 to 1 (40 percent kept)'


def test_a_bad_annotation_costs_only_itself():
    found, [line] = on_node(USUAL, {CPU: "0.3"}, {ANNOTATION: "{"})
    assert found.cpu_reclaim_percent == 30
    assert line.startswith(f'annotation {ANNOTATION}: "{{": ')
    found, [line] = on_node(USUAL, {}, {ANNOTATION: '{"enable": true, "degradeTimeMinutes": 0}'})
    assert found == ColocationStrategy(enable=True, cpu_reclaim_percent=40)
    assert "degradeTimeMinutes is 0" in line


@given(
    st.dictionaries(st.sampled_from([CPU, "other"]), st.text(max_size=5)),
    st.dictionaries(st.just(ANNOTATION), st.text(max_size=20)),
)
def test_whatever_a_node_says_there_is_a_strategy(
    labels: dict[str, str], annotations: dict[str, str]
):
    found, ignored = on_node(USUAL, labels, annotations)
    assert 0 <= found.cpu_reclaim_percent <= 100
    assert all("\n" not in line for line in ignored)
