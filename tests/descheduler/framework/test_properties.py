"""Whatever the cluster is, rounds make it better, keep to all limits, and come to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.budgets import MoveLimit, of_node, of_target, of_workload
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.custom_priority import CustomPriority, CustomPriorityArgs
from koord_descheduler.plugins.fragmentation_aware import (
    FragmentationAware,
    FragmentationAwareArgs,
)
from koord_descheduler.plugins.high_node_utilization import (
    HighNodeUtilization,
    HighNodeUtilizationArgs,
)
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs
from koord_descheduler.plugins.low_node_load.plugin import LowNodeLoad
from koord_descheduler.plugins.low_node_utilization import (
    LowNodeUtilization,
    LowNodeUtilizationArgs,
)
from koord_descheduler.plugins.scale_down_bin_pack import (
    ScaleDownBinPack,
    ScaleDownBinPackArgs,
)
from koord_scheduler.framework.self_check import SelfCheck

from tests.descheduler.clusters import BY_LOAD, FILLING
from tests.descheduler.static_load import StaticLoad, fits, rounds, static_loads

AT_ONCE = {"anomalyCondition": {"consecutiveAbnormalities": 1}}
NODE = {
    "lowThresholds": {"cpu": 45, "memory": 55},
    "highThresholds": {"cpu": 60, "memory": 70},
}
PROD = {
    "prodLowThresholds": {"cpu": 20, "memory": 30},
    "prodHighThresholds": {"cpu": 40, "memory": 50},
}


def low_node_load(**more: Any) -> LowNodeLoad:
    return LowNodeLoad(msgspec.convert(AT_ONCE | NODE | more, LowNodeLoadArgs))


def balancing() -> list[DeschedulerPlugin]:
    thresholds = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}
    return [
        low_node_load(**PROD),
        LowNodeUtilization(msgspec.convert(thresholds, LowNodeUtilizationArgs)),
    ]


def spreading() -> list[DeschedulerPlugin]:
    return [*balancing(), FragmentationAware(FragmentationAwareArgs())]


def filling() -> list[DeschedulerPlugin]:
    direct = {"strategy": "EvictDirectly", "maxPodsToEvict": 3}
    return [
        ScaleDownBinPack(msgspec.convert(direct, ScaleDownBinPackArgs)),
        HighNodeUtilization(msgspec.convert({"thresholds": {"cpu": 20}}, HighNodeUtilizationArgs)),
    ]


def cheapening() -> list[DeschedulerPlugin]:
    zones = ({"name": z, "nodeSelector": {"matchLabels": {"zone": z}}} for z in ("z0", "z1"))
    order = {"evictionOrder": list(zones)}
    return [
        CustomPriority(msgspec.convert(order | {"mode": mode}, CustomPriorityArgs))
        for mode in ("DrainNode", "BestEffort")
    ]


class Case(NamedTuple):
    """A load, and plugins that want the same as its scheduler."""

    load: StaticLoad
    plugins: Callable[[], list[DeschedulerPlugin]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    case = Case(
        draw(static_loads()), draw(st.sampled_from([spreading, spreading, filling, cheapening]))
    )
    case.load.config = (
        FILLING if case.plugins is filling else draw(st.sampled_from([None, BY_LOAD]))
    )
    return case


def moves(plan: RoundPlan) -> list[tuple[str, str, str]]:
    return [(move.plugin, move.pod.key, move.target) for move in plan.moves]


@given(load=static_loads(), deviation=st.booleans())
def test_imbalance_never_rises_through_low_node_load(load: StaticLoad, deviation: bool) -> None:
    before = load.imbalance()
    for _ in rounds(load, low_node_load(useDeviationThresholds=deviation)):
        now = load.imbalance()
        assert now <= before + 1e-9
        before = now


@given(case=cases())
def test_a_static_load_comes_to_rest(case: Case) -> None:
    *_, (_, last) = rounds(case.load, *case.plugins())
    assert moves(last) == []


@given(case=cases())
def test_targets_are_the_schedulers_and_nothing_else_changes(case: Case) -> None:
    cluster = case.load.cluster()
    scheduler = cluster.cluster.scheduler
    before = scheduler.nodes.resources.requested.copy()
    plan = cluster.round(*case.plugins())
    assert np.array_equal(scheduler.nodes.resources.requested, before)
    check = SelfCheck(scheduler.nodes, scheduler.placed)
    assert [name for _ in range(300) for name in check.check_some()] == []
    again = cluster.round(*case.plugins())
    assert moves(again) == moves(plan)
    for move in plan.moves:
        assert fits(case.load, move)
        case.load.carry_out(move)


@given(case=cases(), most=st.integers(0, 2))
def test_no_limit_is_exceeded(case: Case, most: int) -> None:
    limits = [MoveLimit(of.__name__, most, of) for of in (of_node, of_target, of_workload)]
    plan = case.load.cluster().round(*case.plugins(), limits=limits)
    for limit in limits:
        counts = Counter(filter(None, map(limit.of, plan.moves)))
        assert max(counts.values(), default=0) <= most


class Refusing(DeschedulerPlugin):
    """Keeps some pods where they are: at once, or at the last moment."""

    name = "Refusing"

    def __init__(self, names: set[str], *, late: bool) -> None:
        self.names, self.late = names, late

    def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        return "kept" if pod.name in self.names and not self.late else ""

    def pre_eviction_filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        return "kept" if pod.name in self.names else ""


@given(load=static_loads(), kept=st.sets(st.sampled_from([f"p{n}" for n in range(16)])))
def test_only_chosen_moves_spend_room(load: StaticLoad, kept: set[str]) -> None:
    plugins = balancing()
    early, late = (
        load.cluster().round(*plugins, Refusing(kept, late=late)) for late in (False, True)
    )
    assert moves(early) == moves(late)
