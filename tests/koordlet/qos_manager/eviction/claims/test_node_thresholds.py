"""Thresholds of our own: how far past them the node is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims.node_thresholds import (
    NodeSignal,
    NodeThreshold,
    PressureAverage,
    PressureDegree,
    ThresholdOperator,
    observe,
    releases,
    weight,
)

from tests.support.views import (
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
    view,
)

GIB = 1 << 30


def threshold(**fields: Any) -> NodeThreshold:
    """As it comes out of a NodeSLO's JSON."""
    return msgspec.convert(fields, NodeThreshold)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"signal": "memory.available"}, "wants one of percent and quantity"),
        ({"signal": "memory.available", "percent": 5, "quantity": 5}, "wants one of"),
        ({"signal": "cpu.usage", "quantity": 5}, "in percent"),
        ({"signal": "cpu.usage", "percent": 80, "operator": "LessThan"}, "when it is GreaterThan"),
        ({"signal": "memory.available", "percent": 8, "operator": "GreaterThan"}, "is LessThan"),
        ({"signal": "cpu.usage", "percent": 0}, "> 0"),
        ({"signal": "cpu.usage", "percent": 101}, "<= 100"),
        ({"signal": "disk.usage", "percent": 5}, "Invalid enum value"),
        ({"signal": "cpu.usage", "percent": 5, "grace_seconds": -1}, ">= 0"),
        ({"percent": 5}, "signal"),
    ],
)
def test_a_threshold_that_makes_no_sense_is_refused(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        threshold(**fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"signal": "memory.available", "percent": 10}, "soft memory.available < 10 %"),
        (
            {"signal": "memory.available", "quantity": 512 << 20, "hard": True},
            "hard memory.available < 512 MiB",
        ),
        (
            {"signal": "cpu.usage", "percent": 90, "operator": "GreaterThan"},
            "soft cpu.usage > 90 %",
        ),
        (
            {"signal": "io.pressure", "percent": 20, "average": "avg10", "degree": "full"},
            "soft io.pressure avg10 full > 20 %",
        ),
    ],
)
def test_a_threshold_says_what_it_is(fields: dict[str, object], text: str) -> None:
    assert str(threshold(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "available", "need"),
    [
        ({"percent": 10, "free_percent": 0}, 9, 1),
        ({"percent": 10, "free_percent": 5}, 9, 6),
        ({"percent": 10}, 10, 0),
        ({"percent": 10}, 11, 0),
        ({"quantity": 10 * GIB, "free_percent": 0}, 4, 6),
        ({"quantity": 10 * GIB}, 10, 0),
        # Page tables of the kernel's may make use seem larger than all there is.
        ({"percent": 10, "free_percent": 0}, -5, 10),
    ],
)
def test_memory_is_freed_until_enough_is_available(
    fields: dict[str, object], available: float, need: float
) -> None:
    used = (100 - available) * GIB
    seen = view(latest=FakeLatest({("node_memory_usage",): used}, memory_info(100 * GIB)))
    found = observe(seen, threshold(signal="memory.available", **fields))
    assert found is not None
    assert found.need == pytest.approx(need * GIB)
    assert (found.resource, found.unit) == ("memory", "bytes")


@pytest.mark.parametrize(
    ("used", "free", "need"), [(9.0, 10, 2.0), (8.0, 10, 0.0), (8.5, 0, 0.5), (10.0, 100, 10.0)]
)
def test_cpu_is_freed_until_use_is_low_enough(used: float, free: float, need: float) -> None:
    key = ("node_cpu_usage",)
    history = FakeHistory({key: stats(used, last=99.0)})
    seen = view(latest=FakeLatest({key: 99.0}, cpu_info(10)), history=history)
    found = observe(seen, threshold(signal="cpu.usage", percent=80, free_percent=free))
    assert found is not None
    assert found.need == pytest.approx(need)
    assert (found.resource, found.unit) == ("cpu", "cores")


@pytest.mark.parametrize("signal", ["memory.pressure", "cpu.pressure", "io.pressure"])
@pytest.mark.parametrize(("value", "need"), [(20.0, 0.0), (20.1, 1.0)])
def test_for_pressure_one_pod_goes(signal: str, value: float, need: float) -> None:
    word = {"memory.pressure": "mem", "cpu.pressure": "cpu", "io.pressure": "io"}[signal]
    history = FakeHistory(
        {
            ("node_psi", word, "avg300", "full"): stats(0.0, last=value, points=1),
            ("node_psi", word, "avg10", "full"): stats(99.0),
            ("node_psi", word, "avg300", "some"): stats(99.0),
        }
    )
    one = threshold(signal=signal, percent=20, average="avg300", degree="full")
    found = observe(view(history=history), one)
    assert found is not None
    assert (found.need, found.resource, found.unit) == (need, signal, "pods")


@pytest.mark.parametrize("signal", list(NodeSignal))
def test_what_is_not_measured_is_not_known(signal: NodeSignal) -> None:
    one = NodeThreshold(signal, percent=50)
    assert observe(view(), one) is None
    assert observe(view(latest=FakeLatest({}, cpu_info(4), memory_info())), one) is None
    # Use is known, but not of how much.
    values = {("node_cpu_usage",): 99.0, ("node_memory_usage",): 1e15}
    assert observe(view(latest=FakeLatest(values, cpu_info(0), memory_info(0))), one) is None


def test_pressure_without_points_is_not_known() -> None:
    history = FakeHistory({("node_psi", "mem", "avg60", "some"): stats(50.0, points=0)})
    one = NodeThreshold(NodeSignal.MEMORY_PRESSURE, percent=10)
    assert observe(view(history=history), one) is None


def test_a_pod_frees_what_it_uses_or_itself() -> None:
    seen = view(latest=FakeLatest(pod_memory_usage={"a": 5.0}, pod_cpu_usage={"a": 0.5}))
    pod = pod_view("a")
    expected = {
        NodeSignal.MEMORY_AVAILABLE: (5.0, 5.0),
        NodeSignal.CPU_USAGE: (0.5, 0.5),
        NodeSignal.MEMORY_PRESSURE: (1.0, 5.0),
        NodeSignal.CPU_PRESSURE: (1.0, 0.5),
        NodeSignal.IO_PRESSURE: (1.0, None),
    }
    for signal, (freed, weighed) in expected.items():
        one = NodeThreshold(signal, percent=50)
        assert (releases(seen, one)(pod), weight(seen, one)(pod)) == (freed, weighed)


@pytest.mark.parametrize(
    ("one", "seconds"),
    [
        (NodeThreshold(NodeSignal.MEMORY_AVAILABLE, percent=5), 0.0),
        (NodeThreshold(NodeSignal.CPU_USAGE, percent=5, window_seconds=30), 30.0),
        (NodeThreshold(NodeSignal.IO_PRESSURE, percent=5, average=PressureAverage.AVG300), 300.0),
        (NodeThreshold(NodeSignal.IO_PRESSURE, percent=5, degree=PressureDegree.FULL), 60.0),
    ],
)
def test_an_average_shows_for_its_time_what_pods_did(one: NodeThreshold, seconds: float) -> None:
    assert one.settles_seconds == seconds


@given(st.floats(0, 200), st.floats(0, 200), st.floats(0.1, 100), st.floats(0, 100))
def test_need_is_never_negative_and_grows_with_use(
    one: float, other: float, percent: float, free: float
) -> None:
    less, more = sorted((one, other))
    for signal, kind in (
        (NodeSignal.CPU_USAGE, "node_cpu_usage"),
        (NodeSignal.MEMORY_AVAILABLE, "node_memory_usage"),
    ):
        at = NodeThreshold(signal, percent=percent, free_percent=free, window_seconds=1)
        needs = []
        for used in (less, more):
            facts = cpu_info(100), memory_info(100)
            found = observe(view(latest=FakeLatest({(kind,): used}, *facts)), at)
            assert found is not None
            needs.append(found.need)
        assert 0 <= needs[0] <= needs[1]


def test_a_signal_s_own_operator_may_be_written() -> None:
    for signal in NodeSignal:
        usual = NodeThreshold(signal, percent=5)
        assert NodeThreshold(signal, percent=5, operator=usual.side).side in ThresholdOperator
