"""Thresholds of our own: how far past them the node is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.core.strategy import StrategyView
from koordlet.qos_manager.eviction.claims.node_signals import observe, releases, weight
from koordlet.qos_manager.eviction.claims.node_thresholds import NodeSignal, NodeThreshold

from tests.support.views import (
    GIB,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
    view,
)

MEMORY, CPU = {"signal": "memory.available"}, {"signal": "cpu.usage"}


def threshold(fields: dict[str, Any], **more: Any) -> NodeThreshold:
    """As it comes out of a NodeSLO's JSON."""
    return msgspec.convert({**fields, **more}, NodeThreshold)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (MEMORY, "wants one of percent and quantity"),
        (MEMORY | {"percent": 5, "quantity": 5}, "wants one of"),
        (CPU | {"quantity": 5}, "in percent"),
        (CPU | {"percent": 80, "operator": "LessThan"}, "when it is GreaterThan"),
        (MEMORY | {"percent": 8, "operator": "GreaterThan"}, "is LessThan"),
        (CPU | {"percent": 0}, "> 0"),
        (CPU | {"percent": 101}, "<= 100"),
        ({"signal": "disk.usage", "percent": 5}, "Invalid enum value"),
        (CPU | {"percent": 5, "grace_seconds": -1}, ">= 0"),
        ({"percent": 5}, "signal"),
    ],
)
def test_a_threshold_that_makes_no_sense_is_refused(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        threshold(fields)


@pytest.mark.parametrize(
    ("fields", "text", "settles"),
    [
        (MEMORY | {"percent": 10}, "soft memory.available < 10 %", 0),
        (MEMORY | {"quantity": 512 << 20, "hard": True}, "hard memory.available < 512 MiB", 0),
        (CPU | {"percent": 90, "operator": "GreaterThan"}, "soft cpu.usage > 90 %", 10),
        (CPU | {"percent": 90, "window_seconds": 30}, "soft cpu.usage > 90 %", 30),
        (
            {"signal": "io.pressure", "percent": 20, "average": "avg10", "degree": "full"},
            "soft io.pressure avg10 full > 20 %",
            10,
        ),
        ({"signal": "cpu.pressure", "percent": 5}, "soft cpu.pressure avg60 some > 5 %", 60),
    ],
)
def test_a_threshold_says_what_it_is_and_how_long_its_average_shows_what_pods_did(
    fields: dict[str, object], text: str, settles: float
) -> None:
    assert str(threshold(fields)) == text
    assert threshold(fields).settles_seconds == settles


def of_memory(available: float) -> StrategyView:
    """Of 100 GiB."""
    used = {("node_memory_usage",): (100 - available) * GIB}
    return view(latest=FakeLatest(used, memory_info(100 * GIB)))


def of_cpu(used: float) -> StrategyView:
    """Of 10 CPUs; the newest value does not count."""
    key = ("node_cpu_usage",)
    history = FakeHistory({key: stats(used, last=99.0)})
    return view(latest=FakeLatest({key: 99.0}, cpu_info(10)), history=history)


@pytest.mark.parametrize(
    ("seen", "fields", "need"),
    [
        (of_memory(9), MEMORY | {"percent": 10, "free_percent": 0}, 1 * GIB),
        (of_memory(9), MEMORY | {"percent": 10, "free_percent": 5}, 6 * GIB),
        (of_memory(10), MEMORY | {"percent": 10}, 0),
        (of_memory(4), MEMORY | {"quantity": 10 * GIB, "free_percent": 0}, 6 * GIB),
        (of_memory(10), MEMORY | {"quantity": 10 * GIB}, 0),
        # Page tables of the kernel's may make use seem larger than all there is.
        (of_memory(-5), MEMORY | {"percent": 10, "free_percent": 0}, 10 * GIB),
        (of_cpu(9.0), CPU | {"percent": 80, "free_percent": 10}, 2.0),
        (of_cpu(8.0), CPU | {"percent": 80, "free_percent": 10}, 0.0),
        (of_cpu(8.5), CPU | {"percent": 80, "free_percent": 0}, 0.5),
        (of_cpu(10.0), CPU | {"percent": 80, "free_percent": 100}, 10.0),
    ],
)
def test_so_much_is_freed_that_the_node_is_back_before_its_threshold(
    seen: StrategyView, fields: dict[str, object], need: float
) -> None:
    found = observe(seen, threshold(fields))
    assert found is not None
    assert found.need == pytest.approx(need)
    expected = ("memory", "bytes") if fields["signal"] == "memory.available" else ("cpu", "cores")
    assert (found.resource, found.unit) == expected


@pytest.mark.parametrize(
    ("signal", "word"), [("memory.pressure", "mem"), ("cpu.pressure", "cpu"), ("io.pressure", "io")]
)
@pytest.mark.parametrize(
    ("value", "points", "need"), [(20.0, 1, 0.0), (20.1, 1, 1.0), (50, 0, None)]
)
def test_for_pressure_one_pod_goes(
    signal: str, word: str, value: float, points: int, need: float | None
) -> None:
    history = FakeHistory(
        {
            ("node_psi", word, "avg300", "full"): stats(0.0, last=value, points=points),
            ("node_psi", word, "avg10", "full"): stats(99.0),
            ("node_psi", word, "avg300", "some"): stats(99.0),
        }
    )
    one = threshold({"signal": signal, "percent": 20, "average": "avg300", "degree": "full"})
    found = observe(view(history=history), one)
    assert found is None or (found.resource, found.unit) == (signal, "pods")
    assert (found.need if found else None) == need


@pytest.mark.parametrize("signal", list(NodeSignal))
def test_what_is_not_measured_is_not_known(signal: NodeSignal) -> None:
    one = NodeThreshold(signal, percent=50)
    assert observe(view(), one) is None
    assert observe(view(latest=FakeLatest({}, cpu_info(4), memory_info())), one) is None
    # Use is known, but not of how much.
    values = {("node_cpu_usage",): 99.0, ("node_memory_usage",): 1e15}
    assert observe(view(latest=FakeLatest(values, cpu_info(0), memory_info(0))), one) is None


def test_a_pod_frees_what_it_uses_or_itself() -> None:
    seen = view(latest=FakeLatest(pod_memory_usage={"a": 5.0}, pod_cpu_usage={"a": 0.5}))
    found = {}
    for signal in NodeSignal:
        one, pod = NodeThreshold(signal, percent=50), pod_view("a")
        found[signal.value] = releases(seen, one)(pod), weight(seen, one)(pod)
    assert found == {
        "memory.available": (5.0, 5.0),
        "cpu.usage": (0.5, 0.5),
        "memory.pressure": (1.0, 5.0),
        "cpu.pressure": (1.0, 0.5),
        "io.pressure": (1.0, None),
        "class.memory.pressure": (1.0, 5.0),
        "numa.memory.free": (5.0, 5.0),
        "pod.rss": (None, None),
        "imagefs.available": (1.0, None),
        "imagefs.inodesFree": (1.0, None),
        "system.load": (1.0, 0.5),
    }


@given(st.floats(0, 200), st.floats(0, 200), st.floats(0.1, 100), st.floats(0, 100))
def test_need_is_never_negative_and_grows_with_use(
    one: float, other: float, percent: float, free: float
) -> None:
    for signal, kind in (
        ("cpu.usage", "node_cpu_usage"),
        ("memory.available", "node_memory_usage"),
    ):
        at = NodeThreshold(NodeSignal(signal), percent=percent, free_percent=free, window_seconds=1)
        needs = []
        for used in sorted((one, other)):
            latest = FakeLatest({(kind,): used}, cpu_info(100), memory_info(100))
            found = observe(view(latest=latest), at)
            assert found is not None
            needs.append(found.need)
        assert 0 <= needs[0] <= needs[1]
