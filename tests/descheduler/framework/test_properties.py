"""Whatever the cluster is, rounds make it better, keep to all limits, and come to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from hypothesis import example, given
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

from tests.descheduler.clusters import BY_LOAD, FILLING, node, pod
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


def low_node_utilization(**more: Any) -> LowNodeUtilization:
    thresholds = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}
    return LowNodeUtilization(msgspec.convert(thresholds | more, LowNodeUtilizationArgs))


def balancing() -> list[DeschedulerPlugin]:
    return [low_node_load(**PROD), low_node_utilization()]


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


@st.composite
def evening(draw: st.DrawFn) -> list[DeschedulerPlugin]:
    """Plugins that take from nodes with much: by themselves, or in one round."""
    pools = draw(st.sampled_from([{}, PROD, {"useDeviationThresholds": True}]))
    by_usage = {"metricsUtilization": {"source": "KubernetesMetrics"}}
    given = low_node_utilization(**draw(st.sampled_from([{}, by_usage])))
    return draw(st.sampled_from([[low_node_load(**pools)], [given], [low_node_load(), given]]))


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


def two_nodes(capacity: int, **pods: tuple[str, str, int]) -> StaticLoad:
    """A node of 4 CPUs and a big one; pods have a node, a class and the millicores they use."""
    nodes = [node("small", "4", "64Gi"), node("big", str(capacity), "64Gi")]
    used = [
        (
            pod(name, on, labels={"koordinator.sh/priority-class": kind}, owner=name),
            {"cpu": cpu, "memory": 0},
        )
        for name, (on, kind, cpu) in pods.items()
    ]
    return StaticLoad(nodes, used)


BATCH, OF_PROD = "koord-batch", "koord-prod"


@given(load=static_loads(), plugins=evening())
@example(
    two_nodes(64, hot=("small", BATCH, 2600), much=("big", BATCH, 28000)), [low_node_load()]
).via("the big node would be further above the small one than now")
@example(
    two_nodes(
        32,
        hot=("small", OF_PROD, 1680),
        batch=("small", BATCH, 400),
        much=("big", OF_PROD, 6300),
    ),
    [low_node_load(**PROD)],
).via("so would it by what production uses, though not by all")
def test_every_move_makes_loads_more_even(
    load: StaticLoad, plugins: list[DeschedulerPlugin]
) -> None:
    """Loads as the plugin of the move sees them: used, used by production, or requested.

    HighNodeUtilization, ScaleDownBinPack and CustomPriority are there to make them uneven.
    """
    for _ in range(3):
        for move in load.cluster().round(*plugins).moves:
            of = "prod" if " prod " in move.reason else "used"
            of = "request" if " requests(" in move.reason else of
            before = load.imbalance(of)
            load.carry_out(move)
            assert load.imbalance(of) < before + 1e-9


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
