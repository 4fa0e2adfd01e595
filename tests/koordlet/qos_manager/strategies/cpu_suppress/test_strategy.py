"""Holding best-effort pods down: plans, as the node, its pods and their load change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_model import cpuset
from koord_model.node import SharedPool, Topology
from koord_model.node_info import NodeCPUInfo
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koord_model.used_threshold import SuppressPolicy, UsedThreshold
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategySignal, StrategyView
from koordlet.qos_manager.strategies.cpu_suppress import strategy
from koordlet.qos_manager.strategies.cpu_suppress.strategy import Settings
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.views import (
    LAYOUT_IDS,
    LAYOUTS,
    STEADY,
    V2,
    FakeCgroups,
    FakeLatest,
    cpu_info,
    groups_of,
    pod_view,
    view,
)

ON = Settings(enable=True)
QUOTA = Settings(enable=True, policy=SuppressPolicy.CFS_QUOTA)
WEB = pod_view("web", qos=QoSClass.LS)
JOB = pod_view("job", qos=QoSClass.BE)
PLAIN = Topology((SharedPool(0, "0-63"),))
NO_ASIDE = ReservedCPUs()
CPUSET, CFS = "cpuset.cpus", "cpu.cfs_quota_us"


class Node:
    """A node under test: one round after the other, each wish carried out at once."""

    def __init__(
        self,
        cpus: NodeCPUInfo | None = None,
        pods: Iterable[PodView] = (WEB, JOB),
        layout: Layout = V2,
        topology: Topology | None = PLAIN,
        aside: ReservedCPUs = NO_ASIDE,
    ) -> None:
        self.info = cpus or cpu_info(64)
        self.pods = tuple(pods)
        self.layout = layout
        self.topology = topology
        self.aside = aside
        self.known = True
        self.values: dict[tuple[str, str], Value] = {}
        self.unknown: list[str] = []
        self.memory: object = None
        self.steady = STEADY
        self.signals: dict[str, tuple[StrategySignal, ...]] = {}

    @property
    def be(self) -> str:
        return self.layout.kube_qos_group(KubeQoS.BEST_EFFORT)

    def view(self, web: float | None, be: float = 5.0) -> StrategyView:
        """``web`` are the cores of pod web, ``None``: nothing was measured."""
        values = {} if web is None else {("node_cpu_usage",): web + be}
        used = {} if web is None else {"web": web, "job": be}
        everything = [self.be, *groups_of(self.pods), *self.unknown]
        return view(
            pods=self.pods,
            pods_known=self.known,
            steady=self.steady,
            layout=self.layout,
            topology=self.topology,
            latest=FakeLatest(values, self.info, pod_cpu_usage=used),
            cgroups=FakeCgroups(self.values, groups=everything),
            set_aside=self.aside,
            signals=self.signals,
        )

    def round(self, web: float | None, settings: Settings = ON, be: float = 5.0) -> Plan:
        plan = strategy.plan(self.view(web, be), settings, self.memory)
        self.memory = plan.memory
        self.steady += 1
        for one in plan.desired:
            KNOBS[one.target.knob].check(one.value)
            self.values[one.target] = one.value
        return plan

    def rounds(self, count: int, web: float | None, settings: Settings = ON) -> list[Plan]:
        return [self.round(web, settings) for _ in range(count)]


def wished(plan: Plan, knob: str = CPUSET) -> dict[str, Value]:
    return {one.target.place: one.value for one in plan.desired if one.target.knob == knob}


def cpus_of(plan: Plan) -> frozenset[int]:
    """The CPUs that are wished: the same for all groups."""
    [text] = set(wished(plan).values())
    return cpuset.parse(str(text))


def counts(plans: Iterable[Plan]) -> list[int]:
    return [len(cpus_of(one)) for one in plans]


def outcome(plan: Plan) -> str:
    [decision] = plan.decisions
    return decision.outcome


# ---- what is asked


def test_the_node_slo_is_followed() -> None:
    asked = UsedThreshold(True, 70, 10, SuppressPolicy.CFS_QUOTA)
    assert strategy.settings(NodeSLO(threshold=asked)) == Settings(
        True, 70, 10, SuppressPolicy.CFS_QUOTA
    )
    assert strategy.settings(NodeSLO()) == Settings()


def test_switched_off_nothing_is_wished() -> None:
    node = Node()
    node.round(10)
    plan = node.round(10, Settings())
    assert (plan.desired, plan.memory) == ((), None)
    assert "not held down" in outcome(plan)


# ---- policy cpuset


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_the_whole_tree_of_best_effort_pods_is_held(layout: Layout) -> None:
    pods = (
        pod_view("web", qos=QoSClass.LS, layout=layout),
        pod_view("job", qos=QoSClass.BE, layout=layout),
    )
    node = Node(pods=pods, layout=layout)
    sandbox = f"{pods[1].group}/sandbox"
    stranger = f"{node.be}/podx/c"
    node.unknown = [sandbox, stranger]
    # 64 × 65 % − 20.3 = 21.3
    plan = node.round(20.3)
    assert len(cpus_of(plan)) == 22
    assert set(wished(plan)) == {
        node.be,
        *groups_of(pods[1:]),
        sandbox,
        stranger,
        f"{node.be}/podx",
    }
    assert outcome(plan) == (f"best-effort pods run on 22 CPUs: {cpuset.render(cpus_of(plan))}")
    assert plan.signals == (
        StrategySignal("be_suppress_cpu_cores/cpuset", 22.0),
        StrategySignal("ls_used_cpu_cores", 20.3),
    )


def test_the_decision_shows_its_arithmetic() -> None:
    [decision] = Node().round(20.0).decisions
    shown = str(decision)
    for part in ("capacity 64 cores", "threshold 65 %", "non-BE pods 20 cores", "CPUs 22"):
        assert part in shown


def test_less_comes_at_once_and_more_step_by_step() -> None:
    node = Node()
    assert counts(node.rounds(3, 10)) == [32, 32, 32]
    assert counts(node.rounds(1, 30)) == [12]
    # 5 s of more, then 10 % of 64 CPUs a round.
    assert counts(node.rounds(10, 10)) == [12, 12, 12, 12, 19, 26, 32, 32, 32, 32]


def test_load_that_swings_does_not_move_cpus() -> None:
    node = Node()
    node.round(20)
    plans = [node.round(20 + swing) for swing in (0.9, 0, 0.9, 0.4, 0, 0, 0.9, 0, 0.7, 0.9) * 3]
    assert set(counts(plans)) == {22}
    assert {id(one.desired) for one in plans} == {id(plans[0].desired)}


def test_what_is_beyond_the_dead_band_goes_at_once_and_all_of_it() -> None:
    node = Node()
    # 2 % of 64 CPUs are 1.28: there are 41.6 − 20 = 21.6 cores, then 19.73 and 19.71.
    assert counts([node.round(web) for web in (20, 21.87, 21.89)]) == [22, 22, 20]
    assert counts([node.round(20.6) for _ in range(6)]) == [20] * 4 + [21] * 2
    assert "dead band 1.28 cores" in str(node.round(20.6).decisions[0])


def test_a_small_node_has_a_dead_band_of_a_quarter_of_a_cpu() -> None:
    node = Node(cpu_info(8))
    # 5.2 − 1 = 4.2 cores, then 3.8 and 3.7.
    assert counts([node.round(web) for web in (1, 1.4, 1.5)]) == [5, 5, 4]


def test_without_a_dead_band_every_cpu_too_much_goes() -> None:
    node, settings = Node(), replace(ON, deadband_percent=0)
    assert counts([node.round(web, settings) for web in (20, 20.7)]) == [22, 21]


def test_the_least_are_two_cpus_or_what_is_asked() -> None:
    assert counts([Node().round(60)]) == [2]
    assert counts([Node().round(60, Settings(enable=True, min_percent=25))]) == [16]
    assert counts([Node(cpu_info(1, 1, smt=False)).round(1)]) == [1]


def test_a_floor_that_rises_holds_at_once() -> None:
    node = Node()
    node.round(60)
    assert counts([node.round(60, replace(ON, min_percent=50))]) == [32]


@pytest.mark.parametrize(("bound", "count"), [(7.5, 8), (60.0, 32), (0.0, 4)])
def test_pressure_may_bound_it(bound: float, count: int) -> None:
    node = Node()
    node.signals = {"pressure_suppress": (StrategySignal("be_cpu_cores", bound),)}
    plan = node.round(10, Settings(enable=True, min_percent=5))
    assert counts([plan]) == [count]
    assert f"bound by pressure {bound:g} cores" in str(plan.decisions[0])


def test_lse_cpus_are_never_used_and_lsr_cpus_in_proportion() -> None:
    lse = pod_view("lse", qos=QoSClass.LSE, cpuset="0-7,32-39")
    lsr = pod_view("lsr", qos=QoSClass.LSR, cpuset="8-15,40-47")
    node = Node(pods=(WEB, JOB, lse, lsr), aside=ReservedCPUs(frozenset((63,))))
    chosen = cpus_of(node.round(20))
    assert len(chosen) == 22
    assert not chosen & (cpuset.parse("0-7,32-39") | {63})
    assert len(chosen & cpuset.parse("8-15,40-47")) == 22 * 16 // 47


def test_an_lse_pod_that_comes_gets_its_cpus_and_goes_with_them() -> None:
    node = Node()
    before = cpus_of(node.round(30))
    taken = cpuset.parse("0-3,32-35")
    node.pods = (WEB, JOB, pod_view("lse", qos=QoSClass.LSE, cpuset="0-3,32-35"))
    after = cpus_of(node.round(30))
    assert before & taken
    assert after == (after - before) | (before - taken)
    assert len(after) == len(before)
    node.pods = (WEB, JOB)
    assert cpus_of(node.round(30)) == after


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_cpus_that_no_pod_may_use_are_not_chosen(layout: Layout) -> None:
    node = Node(layout=layout)
    assert cpus_of(node.round(20)) & {0, 1, 32, 33}
    node.values[layout.kube_qos_group(KubeQoS.GUARANTEED), CPUSET] = "2-31,34-63"
    plan = node.round(20)
    assert (len(cpus_of(plan)), cpus_of(plan) & {0, 1, 32, 33}) == (22, set())


def test_as_many_as_lse_pods_leave() -> None:
    node = Node(pods=(WEB, JOB, pod_view("lse", qos=QoSClass.LSE, cpuset="0-61")))
    plan = node.round(1)
    assert cpus_of(plan) == {62, 63}
    assert outcome(plan).endswith("LSE pods and reservations leave no more")


def test_where_lse_pods_have_all_a_quota_holds_until_there_are_cpus() -> None:
    node = Node(pods=(WEB, JOB, pod_view("lse", qos=QoSClass.LSE, cpuset="0-63")))
    plan = node.round(1)
    assert (wished(plan), wished(plan, CFS)) == ({}, {node.be: 2000})
    assert outcome(plan).startswith("no CPU is left to best-effort pods")
    assert plan.signals[0] == StrategySignal("be_suppress_cpu_cores/cfsQuota", 0.02)
    node.pods = (WEB, JOB)
    plan = node.round(1)
    assert (len(cpus_of(plan)), wished(plan, CFS)) == (41, {})


def test_a_node_without_best_effort_pods_is_held_ready() -> None:
    plan = Node(pods=(WEB,)).round(20, be=0)
    assert len(cpus_of(plan)) == 22
    assert "(there are none now)" in outcome(plan)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_under_the_static_policy_only_containers_are_held(layout: Layout) -> None:
    job = pod_view("job", qos=QoSClass.BE, layout=layout)
    static = Topology((SharedPool(0, "0-31"), SharedPool(1, "36-63")), kubelet_policy="static")
    node = Node(pods=(WEB, job), layout=layout, topology=static)
    nested = f"{job.containers[0].group}/inner"
    node.unknown = [nested]
    node.values[job.containers[0].group, CPUSET] = "0-31,36-63"
    plan = node.round(20)
    assert set(wished(plan)) == {job.containers[0].group, nested}
    assert len(cpus_of(plan)) == 22
    assert len(cpus_of(plan) & {32, 33, 34, 35}) == 22 * 4 // 64
    # Growth goes by what containers have: the groups above have all CPUs.
    assert counts(node.rounds(6, 5)) == [22, 22, 22, 22, 29, 36]


def test_a_new_group_is_held_as_soon_as_its_pod_is_known_or_after_some_seconds() -> None:
    node = Node()
    first = node.round(20)
    job = pod_view("new", qos=QoSClass.BE)
    node.pods = (WEB, JOB, job)
    plan = node.round(20)
    assert set(wished(plan)) - set(wished(first)) == set(groups_of((job,)))
    stranger = f"{node.be}/podx"
    node.unknown = [stranger]
    found = [stranger in wished(one) for one in node.rounds(6, 20)]
    assert found == [False] * 4 + [True] * 2


def test_the_same_wishes_are_the_same_objects() -> None:
    node = Node()
    first = node.round(20)
    for _ in range(12):
        assert node.round(19.99).desired is first.desired


# ---- policy cfsQuota


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_quota(layout: Layout) -> None:
    node = Node(layout=layout)
    plan = node.round(20.3, QUOTA)
    assert (wished(plan), wished(plan, CFS)) == ({}, {node.be: 2_130_000})
    assert outcome(plan) == "best-effort pods may use 21.3 cores"
    assert plan.signals[0] == StrategySignal("be_suppress_cpu_cores/cfsQuota", 21.3)


def test_quota_follows_another_period_of_the_group() -> None:
    node = Node()
    node.values[node.be, "cpu.cfs_period_us"] = 50_000
    assert wished(node.round(20.3, QUOTA), CFS) == {node.be: 1_065_000}


def test_quota_stays_for_little_falls_at_once_and_grows_by_steps() -> None:
    node = Node()

    def quotas(count: int, web: float) -> list[float]:
        return [
            plan_quota / 100_000
            for one in node.rounds(count, web, QUOTA)
            for plan_quota in wished(one, CFS).values()
            if isinstance(plan_quota, int)
        ]

    assert quotas(2, 20) == [21.6, 21.6]
    assert quotas(2, 20.5) == [21.6, 21.6]
    assert quotas(2, 30) == [11.6, 11.6]
    assert quotas(7, 20) == [11.6] * 4 + [18.0] + [21.6] * 2
    assert quotas(1, 64) == [0.02]


def test_quota_of_no_best_effort_pods() -> None:
    assert outcome(Node(pods=(WEB,)).round(20, QUOTA)).endswith("(there are none now)")


@pytest.mark.parametrize("how", ["LSE", "set aside"])
def test_with_a_quota_they_still_keep_off_cpus_that_are_not_for_sharing(how: str) -> None:
    lse = (pod_view("lse", qos=QoSClass.LSE, cpuset="0-3"),) if how == "LSE" else ()
    aside = NO_ASIDE if lse else ReservedCPUs(frozenset(range(4)))
    node = Node(pods=(WEB, JOB, *lse), aside=aside)
    plan = node.round(20, QUOTA)
    assert cpus_of(plan) == frozenset(range(4, 64))
    assert wished(plan, CFS) == {node.be: 2_160_000}


def test_the_policy_may_change() -> None:
    node = Node()
    node.round(30)
    assert (wished(node.round(10, QUOTA)), wished(node.round(10, QUOTA), CFS)) == (
        {},
        {node.be: 1_160_000},
    )
    assert wished(node.round(10), CFS) == {}


# ---- after a restart, and while something is not known


def test_after_a_restart_it_goes_on_from_what_the_cgroup_has() -> None:
    node = Node()
    before = cpus_of(node.round(36))
    node.memory = None
    plan = node.round(10)
    assert len(before) == 6
    assert (len(cpus_of(plan)), before <= cpus_of(plan)) == (13, True)


def test_after_a_restart_the_quota_goes_on() -> None:
    node = Node()
    node.values[node.be, CFS] = 500_000
    assert wished(node.round(10, QUOTA), CFS) == {node.be: 1_140_000}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"info": NodeCPUInfo(())}, "the node's CPUs"),
        ({"known": False}, "which pods run"),
        ({"topology": None}, "the kubelet's CPU policy"),
        ({}, "node_cpu_usage"),
    ],
    ids=["CPUs", "pods", "topology", "use"],
)
@pytest.mark.parametrize("settings", [ON, QUOTA], ids=["cpuset", "cfsQuota"])
def test_what_is_not_known_changes_nothing(
    settings: Settings, change: dict[str, object], missing: str
) -> None:
    node = Node()
    before = node.round(20, settings)
    for name, value in change.items():
        setattr(node, name, value)
    for _ in range(12):
        plan = node.round(20 if change else None, settings)
        assert plan.desired is before.desired
        assert plan.signals == before.signals[:1]
        assert outcome(plan) == f"{missing}: not known; {outcome(before)}"


def test_a_gap_does_not_shorten_the_wait_for_more() -> None:
    node = Node()
    node.round(30)
    plans = [node.round(10 if second % 2 else None) for second in range(6)]
    assert counts(plans) == [12, 12, 12, 12, 12, 19]


def test_even_then_an_lse_pod_gets_its_cpus() -> None:
    node = Node()
    before = cpus_of(node.round(30))
    node.pods = (WEB, JOB, pod_view("lse", qos=QoSClass.LSE, cpuset="0-3,32-35"))
    plan = node.round(None)
    assert not cpus_of(plan) & cpuset.parse("0-3,32-35")
    assert len(cpus_of(plan)) == len(before)
    assert outcome(plan).endswith(cpuset.render(cpus_of(plan)))
    node.pods = (WEB, JOB, pod_view("all", qos=QoSClass.LSE, cpuset="0-63"))
    plan = node.round(None)
    assert (wished(plan), wished(plan, CFS)) == ({}, {node.be: 2000})


def test_what_an_earlier_run_left_stays_until_more_is_known() -> None:
    node = Node()
    node.values = {
        (node.be, CPUSET): "0-5",
        (JOB.group, CPUSET): "",
        (JOB.containers[0].group, CPUSET): "0-5",
        (node.be, CFS): -1,
    }
    plans = node.rounds(3, None)
    # Nothing but the last run can have changed it: without it there was another value.
    assert plans[0].desired == ()
    node.memory = None
    seen = node.view(None)
    base = {(node.be, CPUSET): "", (JOB.containers[0].group, CPUSET): "0-63"}
    cgroups = FakeCgroups(node.values, base, node.values and {JOB.group})
    plan = strategy.plan(replace(seen, cgroups=cgroups), ON, None)
    assert wished(plan) == {node.be: "0-5", JOB.containers[0].group: "0-5"}
    assert outcome(plan) == "node_cpu_usage: not known; what was found is left as it is"
    node.memory = plan.memory
    again = node.round(None)
    assert again.desired is plan.desired
    assert len(cpus_of(node.round(10))) == 13


# ---- properties


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A machine with pods that own some of its CPUs, and CPUs set aside."""
    cpus = draw(st.integers(1, 32))
    info = cpu_info(cpus, draw(st.integers(1, 3)), draw(st.booleans()))
    numbers = st.frozensets(st.integers(0, cpus - 1))
    pods = [WEB, JOB]
    for name, qos in (("lse", QoSClass.LSE), ("lsr", QoSClass.LSR)):
        pods.append(pod_view(name, qos=qos, cpuset=cpuset.render(draw(numbers))))
    policy = draw(st.sampled_from(["none", "static"]))
    topology = Topology((SharedPool(0, cpuset.render(draw(numbers))),), kubelet_policy=policy)
    return Node(info, pods, topology=topology, aside=ReservedCPUs(draw(numbers)))


LOADS = st.lists(st.one_of(st.none(), st.floats(0, 40)), min_size=1, max_size=25)
FLOORS = st.sampled_from([0, 10, 50, 100])


@given(nodes(), LOADS, FLOORS, st.sampled_from(SuppressPolicy))
def test_bounds_hold_whatever_happens(
    node: Node, loads: list[float | None], floor: int, policy: SuppressPolicy
) -> None:
    settings = Settings(True, 65, floor, policy)
    online = {one.id for one in node.info.online}
    first = node.view(1.0)
    owners = strategy.be_cpus.pools(first)
    before: int | None = None
    for web in loads:
        plan = node.round(web, settings)
        for value in wished(plan).values():
            cpus = cpuset.parse(str(value))
            assert cpus
            assert cpus <= online - owners.lse - owners.aside
            if policy is SuppressPolicy.CPUSET:
                wanted = max(min(2, len(online)), math.ceil(len(online) * floor / 100))
                assert len(cpus) >= min(wanted, len(owners.allowed))
                assert len(cpus & owners.lsr) == len(cpus) * len(owners.lsr) // len(owners.allowed)
                if before is not None and not floor:
                    assert len(cpus) <= before + math.ceil(len(online) * 0.1)
                before = len(cpus)
        for quota in wished(plan, CFS).values():
            assert int(quota) >= 2000
            if owners.allowed:
                assert int(quota) <= max(len(online) * 100_000, 2000)


@given(nodes(), LOADS, st.floats(0, 40), st.floats(0, 40), st.sampled_from(SuppressPolicy))
def test_more_load_never_gives_more(
    node: Node, past: list[float | None], one: float, other: float, policy: SuppressPolicy
) -> None:
    settings = Settings(True, policy=policy)
    for web in past:
        node.round(web, settings)
    low, high = sorted((one, other))
    lighter = strategy.plan(node.view(low), settings, node.memory)
    heavier = strategy.plan(node.view(high), settings, node.memory)
    assert heavier.signals[0].value <= lighter.signals[0].value
    if policy is SuppressPolicy.CPUSET and wished(lighter):
        assert cpus_of(heavier) <= cpus_of(lighter)


@given(nodes(), LOADS, st.floats(0, 40), st.sampled_from(SuppressPolicy))
def test_the_same_is_decided_of_the_same_and_constant_load_settles(
    node: Node, past: list[float | None], web: float, policy: SuppressPolicy
) -> None:
    settings = Settings(True, policy=policy)
    for earlier in past:
        node.round(earlier, settings)
    seen = node.view(web)
    assert strategy.plan(seen, settings, node.memory) == strategy.plan(seen, settings, node.memory)
    cores = [node.round(web, settings).signals[0].value for _ in range(20)]
    # It may fall once, and then only grows until it stays.
    assert cores == sorted(cores)
    assert len(set(cores[-3:])) == 1
    assert node.round(web, settings).desired is node.round(web, settings).desired
