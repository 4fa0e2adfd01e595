"""Katalyst's signals: NUMA memory, pressure of a class, overused requests, disks, load."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_model.qos import KubeQoS
from koordlet.qos_manager.core.strategy import Decision, StrategyView, Term
from koordlet.qos_manager.eviction.claims.node_signals import (
    SignalReading,
    observe,
    releases,
)
from koordlet.qos_manager.eviction.claims.node_thresholds import NodeThreshold

from tests.support import formulas
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


def threshold(signal: str, **fields: Any) -> NodeThreshold:
    return msgspec.convert({"signal": signal, **fields}, NodeThreshold)


def read(seen: StrategyView, signal: str, **fields: Any) -> SignalReading:
    found = observe(seen, threshold(signal, **fields))
    assert found is not None

    given = (*found.given, Term("need", found.need, found.unit))
    assert formulas.wrong(Decision("", found.formula, given)) == []
    return found


def numa(*nodes: tuple[float, float, float, float]) -> StrategyView:
    """Nodes of 100 GiB with free, min, low and inactive_file, in GiB."""
    names = ("free", "min_watermark", "low_watermark", "inactive_file")
    values = {
        (f"node_numa_memory_{name}", str(number)): value * GIB
        for number, node in enumerate(nodes)
        for name, value in zip(names, node, strict=True)
    }
    return view(latest=FakeLatest(values, memory_info(100 * GIB * len(nodes), len(nodes))))


@pytest.mark.parametrize(
    ("node", "hard", "limit"),
    [
        ((1, 0.5, 1, 50), True, 1.5),
        ((1, 0.5, 1, 50), False, 1.25),  # much idle cache: low counts as it is
        ((1, 0.5, 1, 3.9), False, 4.25),  # little: 4 GiB
        ((1, 4, 6, 5), False, 7.25),  # little for such a low: low and 1 GiB
    ],
)
def test_a_numa_node_has_katalysts_own_thresholds_by_its_watermarks(
    node: tuple[float, float, float, float], hard: bool, limit: float
) -> None:
    for free, need in ((limit, 0), (limit - 0.25, 2.25)):
        found = read(numa((free, *node[1:])), "numa.memory.free", hard=hard)
        assert found.need == pytest.approx(need * GIB)
        assert (found.given[0].value, found.resource) == (limit * GIB, "memory")


def test_the_numa_node_that_lacks_most_counts() -> None:
    seen = numa((9, 1, 1, 50), (5, 1, 1, 50), (90, 1, 1, 50))
    found = read(seen, "numa.memory.free", percent=10, free_percent=0)
    assert (found.need, found.given[-1].value) == (5 * GIB, 1)
    assert read(seen, "numa.memory.free", quantity=6 * GIB, free_percent=0).need == GIB


@pytest.mark.parametrize(
    ("pressure", "waits", "need"),
    [(16, (5, 5, 2), 1), (15, (5, 5, 2), 0), (16, (9, 9), 0), (16, (4, 4, 1.1), 0), (16, (), 0)],
)
def test_pressure_of_a_class_counts_where_several_of_its_pods_wait(
    pressure: float, waits: tuple[float, ...], need: float
) -> None:
    series = {("class_psi", "Burstable", "mem", "avg10", "some"): stats(pressure)}
    for number, wait in enumerate(waits):
        series["pod_psi", f"p{number}", "mem", "avg10", "some"] = stats(wait)
    series["pod_psi", "be", "mem", "avg10", "some"] = stats(99)
    pods = [pod_view(f"p{number}", kube=KubeQoS.BURSTABLE) for number in range(3)]
    seen = view(history=FakeHistory(series), pods=(*pods, pod_view("be", kube=KubeQoS.BEST_EFFORT)))
    assert read(seen, "class.memory.pressure", percent=15, average="avg10").need == need


@pytest.mark.parametrize(
    ("used", "enhancement", "need"),
    [
        (106, "", 1),
        (105, "", 0),
        (119, '{"rss_overuse_threshold":"1.2"}', 0),
        (121, '{"rss_overuse_threshold":"1.2"}', 1),
        (106, '{"numa_binding":"true"}', 1),
        (999, '{"rss_overuse_threshold":"much"}', None),
        (999, "{", None),
        (999, " " * 5000, None),
    ],
)
def test_a_pod_above_its_request_goes_unless_it_says_that_it_may_be(
    used: float, enhancement: str, need: float | None
) -> None:
    said = {"katalyst.kubewharf.io/memory_enhancement": enhancement} if enhancement else {}
    pods = (
        pod_view("a", requests={"kubernetes.io/batch-memory": 100 * GIB}, annotations=said),
        pod_view("none", containers={"x": ({"memory": 1}, {}), "y": ({}, {})}),
    )
    latest = FakeLatest({}, pod_memory_usage={"a": used * GIB, "none": 99 * GIB})
    seen = view(pods=pods, latest=latest)
    if need is None:
        assert observe(seen, threshold("pod.rss")) is None
    else:
        assert read(seen, "pod.rss").need == need
    release = releases(seen, threshold("pod.rss"))
    assert [release(pod) for pod in pods] == [1.0 if need else None, None]


def test_disks_and_load() -> None:
    series = {
        ("node_imagefs_available",): stats(14),
        ("node_imagefs_capacity",): stats(100),
        ("node_imagefs_inodes_free",): stats(5),
        ("node_imagefs_inodes",): stats(100),
        ("node_load1",): stats(20.5),
    }
    seen = view(history=FakeHistory(series), latest=FakeLatest({}, cpu_info(10)))
    assert read(seen, "imagefs.available", percent=15).need == 1
    assert read(seen, "imagefs.available", quantity=14).need == 0
    assert read(seen, "imagefs.inodesFree", quantity=6).need == 1
    assert read(seen, "system.load", percent=200).need == 1
    assert read(seen, "system.load", percent=210).need == 0
    assert threshold("system.load", percent=200).settles_seconds == 60


@pytest.mark.parametrize(
    ("signal", "fields", "text"),
    [
        ("numa.memory.free", {"hard": True}, "hard numa.memory.free < its own threshold"),
        ("imagefs.inodesFree", {"quantity": 9}, "soft imagefs.inodesFree < 9 inodes"),
        ("pod.rss", {"percent": 120}, "soft pod.rss > 120 %"),
    ],
)
def test_thresholds_say_what_they_are(signal: str, fields: dict[str, Any], text: str) -> None:
    assert str(threshold(signal, **fields)) == text
