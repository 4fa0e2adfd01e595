from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from koord_manager.noderesource.core.documents import updated
from koord_manager.noderesource.core.node_state import (
    MOST,
    MOST_ZONES,
    CpuMemory,
    MeasuredUsage,
    MetricSummary,
    NodeState,
    NumaZone,
    PodUsageSummary,
    metric_summary,
    read_node_state,
    zones,
)
from koord_model.keys import (
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_RAW_ALLOCATABLE,
    BATCH_CPU,
    BATCH_MEMORY,
    MID_CPU,
)

GIB = 1 << 30


def used(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def summary(**status: Any) -> MetricSummary:
    return metric_summary(json.dumps(status).encode())


def test_a_whole_status() -> None:
    found = summary(
        updateTime="2026-11-20T10:00:00Z",
        nodeMetric={
            "nodeUsage": used("1500m", "2Gi"),
            "systemUsage": used("250m", "512Mi"),
            "aggregatedNodeUsages": [{"usage": {"avg": used("1", "1")}, "duration": "5m0s"}],
            "numaUsages": [{"numaNodeID": 1, "systemUsage": used("100m", "1Gi")}],
        },
        podsMetric=[
            {
                "namespace": "ns",
                "name": "web",
                "podUsage": used("1", "1Gi"),
                "priority": "koord-prod",
            }
        ],
        prodReclaimableMetric={"resource": used("3", "4Gi")},
    )
    assert found == MetricSummary(
        1_795_168_800.0,
        MeasuredUsage(1500, 2 * GIB),
        MeasuredUsage(250, GIB // 2),
        {1: MeasuredUsage(100, GIB)},
        {"ns/web": PodUsageSummary(MeasuredUsage(1000, GIB), "koord-prod")},
        (),
        MeasuredUsage(3000, 4 * GIB),
    )


@pytest.mark.parametrize("text", [b"{}", b"null", b'{"nodeMetric":null,"podsMetric":null}'])
def test_a_metric_that_says_nothing(text: bytes) -> None:
    assert metric_summary(text) == MetricSummary()


def test_what_is_no_quantity_was_not_measured_and_half_of_a_usage_is_known_by_half() -> None:
    pods = [{"namespace": "n", "name": "p", "podUsage": used("much", "9" * 40)}]
    usage = {"nodeUsage": {"resources": {"cpu": "1"}}, "systemUsage": {}}
    found = summary(podsMetric=pods, nodeMetric=usage)
    assert found.pods["n/p"].usage == MeasuredUsage(None, MOST)
    assert (found.node, found.system) == (MeasuredUsage(1000, None), MeasuredUsage())
    assert found.node.known() == CpuMemory(1000, 0)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"7", b'{"updateTime":"yesterday"}', b"\xff",
        # Without a time zone.
        b'{"updateTime":"0001-01-01T00:00:00"}', b'{"updateTime":"2026-11-20T10:00:00"}',
    ],
)  # fmt: skip
def test_what_is_no_status_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not a valid NodeMetric status"):
        metric_summary(text)
    assert updated(text) == 0.0


def node(annotations: dict[str, str] | None = None, **allocatable: str) -> NodeState:
    whole = {"cpu": "16", "memory": "64Gi"}
    status = {"capacity": whole, "allocatable": whole | allocatable}
    return read_node_state({"metadata": {"annotations": annotations or {}}, "status": status})


@pytest.mark.parametrize(
    ("annotations", "allocatable", "expected"),
    [
        ({}, {}, {}),
        ({}, {"cpu": "15", "memory": "62Gi"}, {"reserved": CpuMemory(1000, 2 * GIB)}),
        # An amplified allocatable does not hide the kubelet's reservation.
        (
            {ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "15"}'},
            {"cpu": "22500m"},
            {"reserved": CpuMemory(1000, 0)},
        ),
        ({}, {"cpu": "22500m"}, {}),
        # Only faster CPUs count.
        ({ANNOTATION_CPU_NORMALIZATION_RATIO: "1.25"}, {}, {"ratio": 1.25}),
        ({ANNOTATION_CPU_NORMALIZATION_RATIO: "0.5"}, {}, {}),
        ({ANNOTATION_CPU_NORMALIZATION_RATIO: "fast"}, {}, {}),
        # What is offered now.
        (
            {},
            {BATCH_CPU: "1k", BATCH_MEMORY: "1Gi", MID_CPU: "0"},
            {"batch": MeasuredUsage(1000, GIB), "mid": MeasuredUsage(0, None)},
        ),
    ],
)
def test_what_a_node_is(annotations: Any, allocatable: Any, expected: dict[str, Any]) -> None:
    plain, found = NodeState(capacity=CpuMemory(16_000, 64 * GIB)), node(annotations, **allocatable)
    assert replace(found, allocatable=plain.allocatable) == replace(plain, **expected)
    cpu = 15_000 if ANNOTATION_RAW_ALLOCATABLE in annotations else int(found.allocatable.cpu)
    assert found.allocatable.cpu == cpu, "the kubelet's, whatever is shown"
    assert read_node_state({}) == NodeState()


def test_a_bad_reservation_costs_only_itself() -> None:
    found = node({ANNOTATION_NODE_RESERVATION: '{"reservedCPUs": "many"}'}, cpu="15")
    assert found.reserved == CpuMemory(1000, 0)
    [line] = found.ignored
    assert "reservation" in line
    assert '"many"' in line


def test_zones_of_a_topology() -> None:
    def zone(name: str, **amounts: str) -> dict[str, Any]:
        listed = [{"name": key, "allocatable": amount} for key, amount in amounts.items()]
        return {"name": name, "resources": listed}

    offered = zone("node-1", cpu="7", memory="1Gi")
    offered["resources"].append({"name": BATCH_CPU, "allocatable": "500"})
    topology = {"zones": [zone("node-10", cpu="8"), offered, zone("b", memory="1"), zone("gpu")]}
    assert zones(topology) == (
        NumaZone("node-10", 10, CpuMemory(8000, 0)),
        NumaZone("node-1", 1, CpuMemory(7000, GIB), MeasuredUsage(500, None)),
        NumaZone("b", 2, CpuMemory(0, 1)),
    )
    assert zones({"zones": 7}) == ()


def test_one_node_cannot_ask_for_the_room_of_thousands_of_zones() -> None:
    cpu = {"name": "cpu", "allocatable": "1"}

    def read(number: int) -> int:
        return len(zones({"zones": [{"name": "z", "resources": [cpu]}] * number}))

    assert read(MOST_ZONES) == MOST_ZONES
    assert read(MOST_ZONES + 1) == 0
