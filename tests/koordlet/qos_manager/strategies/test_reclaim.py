"""Reclaim at watermarks, and below classes with many dying cgroups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.memory_qos import MemoryQoS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.strategies import dying_cgroups, memory_watermark

from tests.support.formulas import wrong
from tests.support.views import STEADY, V1, FakeCgroups, FakeLatest, pod_view, view

MIB = 1 << 20
KNOBS = frozenset({"memory.reclaim"})
MARKED = ClassQoS(memory=MemoryQoS(enable=True, wmark_ratio=90, wmark_scale_permill=500))


def amounts(made: Plan) -> dict[str, int]:
    assert [line for one in made.decisions for line in wrong(one)] == []
    return {one.target.place: int(one.value) for one in made.one_shot}


# ---- memory_watermark

POD = pod_view("job", qos=QoSClass.BE)
[MAIN] = POD.containers


def at_mark(
    use: int,
    anonymous: int = 0,
    swap: int = 0,
    pod: PodView = POD,
    knobs: frozenset[str] = KNOBS,
    **limits: int,
) -> StrategyView:
    """A container with so many MiB of a limit of 1000, and its class marked at 900 and 850."""
    [container] = pod.containers
    labels = pod.uid, container.container.id
    values = {
        ("container_memory_usage_with_page_cache", *labels): float(use * MIB),
        ("container_memory_usage", *labels): float(anonymous * MIB),
        ("pod_memory_stat", pod.uid, "swap_free"): float(swap * MIB),
    }
    slo = NodeSLO(classes={QoSClass.BE: MARKED, QoSClass.LS: MARKED})
    found = {"limit_in_bytes": 1000, "high": -1} | limits
    knob = {(container.group, f"memory.{name}"): size * MIB for name, size in found.items()}
    return view(
        pods=(pod,),
        node=NodeView(kernel=Kernel(knobs=knobs), slo=slo),
        latest=FakeLatest(values),
        cgroups=FakeCgroups({key: max(size, -1) for key, size in knob.items()}),
    )


@pytest.mark.parametrize(
    ("seen", "amount"),
    [
        (at_mark(900), 0),
        (at_mark(901), 32),
        (at_mark(901, limit_in_bytes=2000), 0),
        (at_mark(501, limit_in_bytes=2000, high=500), 32),
        (at_mark(999, limit_in_bytes=-1), 0),
        # No more than there is page cache, and swap.
        (at_mark(990, anonymous=985), 5),
        (at_mark(990, anonymous=990), 0),
        (at_mark(990, anonymous=985, swap=7), 12),
        (at_mark(990, pod=pod_view("web", qos=QoSClass.LS)), 0),
        (at_mark(990, pod=pod_view("vm", qos=QoSClass.BE, runtime_handler="kata")), 0),
        (at_mark(990, knobs=KNOBS | {"memory.wmark_ratio"}), 0),
        (at_mark(990, knobs=frozenset()), 0),
        (replace(at_mark(990), layout=V1), 0),
        (replace(at_mark(990), latest=FakeLatest()), 0),
    ],
)
def test_what_is_reclaimed_at_a_watermark(seen: StrategyView, amount: int) -> None:
    made = memory_watermark.plan(seen, memory_watermark.Settings(), None)
    assert amounts(made) == ({MAIN.group: amount * MIB} if amount else {})


def test_it_goes_on_until_the_lower_watermark() -> None:
    memory: Any = None
    found = []
    for steady, use in enumerate((899, 905, 905, 906, 906, 906, 873, 851, 850, 899)):
        seen = replace(at_mark(use), steady=STEADY + steady)
        made = memory_watermark.plan(seen, memory_watermark.Settings(), memory)
        memory = made.memory
        found.append(sum(amounts(made).values()) // MIB)
    # As long as the effect of a batch is not measured, no other is wanted.
    assert found == [0, 32, 0, 0, 32, 0, 23, 1, 0, 0]


# ---- dying_cgroups


def dying(number: float | None, steady: float = STEADY) -> StrategyView:
    values = {} if number is None else {("qos_dying_cgroups", "BestEffort"): number}
    kernel = NodeView(kernel=Kernel(knobs=KNOBS))
    return view(node=kernel, latest=FakeLatest(values), steady=steady)


def test_a_class_with_dying_cgroups_is_reclaimed_ten_times_in_a_period() -> None:
    memory: Any = None
    settings = dying_cgroups.Settings()
    group = view().layout.kube_qos_group(KubeQoS.BEST_EFFORT)
    found = []
    for number in range(32):
        made = dying_cgroups.plan(dying(2001, STEADY + 10 * number), settings, memory)
        memory = made.memory
        assert amounts(made) in ({}, {group: 30 * MIB})
        found.append(len(made.one_shot))
    assert found == [1] * 10 + [0] * 20 + [1] * 2
    assert amounts(dying_cgroups.plan(dying(2000), settings, None)) == {}
    made = dying_cgroups.plan(dying(None), settings, None)
    assert made.decisions[0].outcome.endswith("the number of dying cgroups is not known")
