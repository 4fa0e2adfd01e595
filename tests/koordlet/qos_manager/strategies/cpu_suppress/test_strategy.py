"""Suppressing best-effort pods: plans, as the node, its pods and their load change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_model import cpuset
from koord_model.node import SharedPool, Topology
from koord_model.node_info import NodeCPUInfo
from koord_model.qos import KubeQoS, QoSClass
from koord_model.used_threshold import SuppressPolicy
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


def lse(cpus: str) -> PodView:
    return pod_view("lse", qos=QoSClass.LSE, cpuset=cpus)


@dataclass
class Node:
    """A node under test: one round after the other, each plan carried out at once."""

    pods: Iterable[PodView] = (WEB, JOB)
    layout: Layout = V2
    topology: Topology | None = PLAIN
    aside: ReservedCPUs = NO_ASIDE
    info: NodeCPUInfo = field(default_factory=lambda: cpu_info(64))
    known: bool = True
    values: dict[tuple[str, str], Value] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    memory: object = None
    steady: float = STEADY

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
        )

    def round(self, web: float | None, settings: Settings = ON) -> Plan:
        plan = strategy.plan(self.view(web), settings, self.memory)
        self.memory = plan.memory
        self.steady += 1
        for one in plan.desired:
            KNOBS[one.target.knob].check(one.value)
            self.values[one.target] = one.value
        return plan

    def rounds(self, *web: float | None, settings: Settings = ON) -> list[Plan]:
        return [self.round(one, settings) for one in web]


def desired(plan: Plan, knob: str = CPUSET) -> dict[str, Value]:
    return {one.target.place: one.value for one in plan.desired if one.target.knob == knob}


def cpus_of(plan: Plan) -> frozenset[int]:
    """The desired CPUs: the same for all groups."""
    [text] = set(desired(plan).values())
    return cpuset.parse(str(text))


def counts(plans: Iterable[Plan]) -> list[float]:
    """CPUs, or the cores of the quota."""
    return [
        len(cpus_of(one)) if desired(one) else int(*desired(one, CFS).values()) / 100_000
        for one in plans
    ]


def outcome(plan: Plan) -> str:
    [decision] = plan.decisions
    return decision.outcome


# ---- how much: 64 CPUs × 65 % − what pod web uses


@pytest.mark.parametrize(
    ("settings", "cpus", "loads", "expected"),
    [
        # More comes after 5 s, then 10 % of 64 CPUs a round.
        (ON, 64, [10, 30, *[10] * 8], [32, 12, 12, 12, 12, 12, 19, 26, 32, 32]),
        # A gap does not shorten that wait.
        (ON, 64, [30, *[None, 10] * 3], [12, 12, 12, 12, 12, 12, 19]),
        # Beyond 2 % of 64 CPUs, 1.28, all that is too much goes at once; a quarter at least.
        (ON, 64, [20, 20.7, 21.87, 21.89, *[20.6] * 6], [22, 22, 22, 20, 20, 20, 20, 20, 21, 21]),
        (ON, 8, [1, 1.4, 1.5], [5, 5, 4]),
        (replace(ON, deadband_percent=0), 64, [20, 20.7], [22, 21]),
        (replace(ON, min_percent=25), 64, [60], [16]),
        # A quota stays for little, falls at once and grows by steps.
        (QUOTA, 64, [20, 20.5, 30, *[20] * 7], [21.6, 21.6, *[11.6] * 5, 18.0, 21.6, 21.6]),
        (QUOTA, 64, [64], [0.02]),
    ],
    ids=lambda one: str(one.policy) if isinstance(one, Settings) else None,
)
def test_less_comes_at_once_and_more_step_by_step(
    settings: Settings, cpus: int, loads: list[float | None], expected: list[float]
) -> None:
    assert counts(Node(info=cpu_info(cpus)).rounds(*loads, settings=settings)) == expected


# ---- policy cpuset


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_all_groups_of_best_effort_pods_have_the_cpus(layout: Layout) -> None:
    job = pod_view("job", qos=QoSClass.BE, layout=layout)
    node = Node(pods=(pod_view("web", qos=QoSClass.LS, layout=layout), job), layout=layout)
    sandbox, unknown = f"{job.group}/sandbox", f"{node.be}/podx/c"
    node.unknown = [sandbox, unknown]
    plan = node.round(20.3)
    expected = {node.be, *groups_of((job,)), sandbox, unknown, f"{node.be}/podx"}
    assert set(desired(plan)) == expected
    assert outcome(plan) == f"best-effort pods run on 22 CPUs: {cpuset.render(cpus_of(plan))}"
    assert plan.signals == (
        StrategySignal("be_suppress_cpu_cores/cpuset", 22.0),
        StrategySignal("ls_used_cpu_cores", 20.3),
    )


@pytest.mark.parametrize("web", [30, None], ids=["measured", "not measured"])
def test_an_lse_pod_that_comes_gets_its_cpus(web: float | None) -> None:
    node = Node()
    before = cpus_of(node.round(30))
    taken = cpuset.parse("0-3,32-35")
    node.pods = (WEB, JOB, lse("0-3,32-35"))
    plan = node.round(web)
    after = cpus_of(plan)
    assert before & taken
    assert after == (after - before) | (before - taken)
    assert len(after) == len(before)
    assert outcome(plan).endswith(cpuset.render(after))
    node.pods = (WEB, JOB)
    assert cpus_of(node.round(30)) == after


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_cpus_that_no_pod_may_use_are_not_chosen(layout: Layout) -> None:
    node = Node(layout=layout)
    assert cpus_of(node.round(20)) & {0, 1, 32, 33}
    node.values[layout.kube_qos_group(KubeQoS.GUARANTEED), CPUSET] = "2-31,34-63"
    plan = node.round(20)
    assert (len(cpus_of(plan)), cpus_of(plan) & {0, 1, 32, 33}) == (22, set())


def test_where_lse_pods_have_all_a_quota_holds_until_there_are_cpus() -> None:
    node = Node(pods=(WEB, JOB, lse("0-63")))
    plan = node.round(1)
    assert (desired(plan), desired(plan, CFS)) == ({}, {node.be: 2000})
    assert outcome(plan).startswith("no CPU is left to best-effort pods")
    assert plan.signals[0] == StrategySignal("be_suppress_cpu_cores/cfsQuota", 0.02)
    node.pods = (WEB, JOB)
    plan = node.round(1)
    assert (len(cpus_of(plan)), desired(plan, CFS)) == (41, {})
    node.pods = (WEB, JOB, lse("0-63"))
    plan = node.round(None)
    assert (desired(plan), desired(plan, CFS)) == ({}, {node.be: 2000})


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_under_the_static_policy_only_containers_are_held(layout: Layout) -> None:
    job = pod_view("job", qos=QoSClass.BE, layout=layout)
    static = Topology(kubelet_policy="static", exclusive={"db": frozenset(range(32, 36))})
    node = Node(pods=(WEB, job), layout=layout, topology=static)
    nested = f"{job.containers[0].group}/inner"
    node.unknown = [nested]
    node.values[job.containers[0].group, CPUSET] = "0-31,36-63"
    plan = node.round(20)
    assert set(desired(plan)) == {job.containers[0].group, nested}
    assert len(cpus_of(plan)) == 22
    assert len(cpus_of(plan) & {32, 33, 34, 35}) == 22 * 4 // 64
    # Growth goes by what containers have: the groups above have all CPUs.
    assert counts(node.rounds(*[5] * 6)) == [22, 22, 22, 22, 29, 36]


def test_a_new_group_is_held_as_soon_as_its_pod_is_known_or_after_some_seconds() -> None:
    node = Node()
    first = node.round(20)
    job = pod_view("new", qos=QoSClass.BE)
    node.pods = (WEB, JOB, job)
    assert set(desired(node.round(20))) - set(desired(first)) == set(groups_of((job,)))
    unknown = f"{node.be}/podx"
    node.unknown = [unknown]
    found = [unknown in desired(one) for one in node.rounds(*[20] * 6)]
    assert found == [False] * 4 + [True] * 2


# ---- policy cfsQuota


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_a_quota_of_the_groups_own_period(layout: Layout) -> None:
    node = Node(layout=layout)
    plan = node.round(20.3, QUOTA)
    assert (desired(plan), desired(plan, CFS)) == ({}, {node.be: 2_130_000})
    assert outcome(plan) == "best-effort pods may use 21.3 cores"
    assert plan.signals[0] == StrategySignal("be_suppress_cpu_cores/cfsQuota", 21.3)
    other = Node(layout=layout)
    other.values[other.be, "cpu.cfs_period_us"] = 50_000
    assert desired(other.round(20.3, QUOTA), CFS) == {other.be: 1_065_000}
    assert outcome(Node(pods=(WEB,)).round(20, QUOTA)).endswith("(there are none now)")
    # The policy may change.
    assert desired(node.round(20.3), CFS) == {}
    assert desired(node.round(20.3, QUOTA)) == {}
    off = node.round(20.3, Settings())
    assert (off.desired, off.memory) == ((), None)
    assert "not held down" in outcome(off)


@pytest.mark.parametrize(
    ("pods", "aside"),
    [((lse("0-3"),), NO_ASIDE), ((), ReservedCPUs(frozenset(range(4))))],
    ids=["LSE", "set aside"],
)
def test_with_a_quota_too_they_keep_off_cpus_that_are_not_for_sharing(
    pods: tuple[PodView, ...], aside: ReservedCPUs
) -> None:
    node = Node(pods=(WEB, JOB, *pods), aside=aside)
    plan = node.round(20, QUOTA)
    assert cpus_of(plan) == frozenset(range(4, 64))
    assert desired(plan, CFS) == {node.be: 2_160_000}


# ---- after a restart, and while something is not known


def test_after_a_restart_it_goes_on_from_what_the_cgroup_has() -> None:
    node = Node()
    before = cpus_of(node.round(36))
    node.memory = None
    after = cpus_of(node.round(10))
    assert (len(before), len(after), before <= after) == (6, 13, True)
    node = Node()
    node.values[node.be, CFS] = 500_000
    assert desired(node.round(10, QUOTA), CFS) == {node.be: 1_140_000}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"info": NodeCPUInfo(())}, "the node's CPUs"),
        ({"known": False}, "which pods run"),
        ({"topology": None}, "exclusive CPUs"),
        ({"topology": Topology(owners_known=False)}, "exclusive CPUs"),
        ({}, "node_cpu_usage"),
    ],
)
@pytest.mark.parametrize("settings", [ON, QUOTA], ids=["cpuset", "cfsQuota"])
def test_what_is_not_known_changes_nothing(
    settings: Settings, change: dict[str, object], missing: str
) -> None:
    node = Node()
    before = node.round(20, settings)
    for name, value in change.items():
        setattr(node, name, value)
    for plan in node.rounds(*[20 if change else None] * 12, settings=settings):
        assert plan.desired is before.desired
        assert plan.signals == before.signals[:1]
        assert outcome(plan) == f"{missing}: not known; {outcome(before)}"


def test_what_an_earlier_run_left_stays_until_more_is_known() -> None:
    node = Node()
    container = JOB.containers[0].group
    node.values = {
        (node.be, CPUSET): "0-5",
        (JOB.group, CPUSET): "",
        (container, CPUSET): "0-5",
        (node.be, CFS): -1,
    }
    # Only the last run can have changed it: without it there was another value.
    assert node.rounds(None, None, None)[0].desired == ()
    base = {(node.be, CPUSET): "", (container, CPUSET): "0-63"}
    cgroups = FakeCgroups(node.values, base, {JOB.group})
    plan = strategy.plan(replace(node.view(None), cgroups=cgroups), ON, None)
    assert desired(plan) == {node.be: "0-5", container: "0-5"}
    assert outcome(plan) == "node_cpu_usage: not known; what was found is left as it is"
    node.memory = plan.memory
    assert node.round(None).desired is plan.desired
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
    topology = Topology(kubelet_policy=policy, exclusive={"given": draw(numbers)})
    return Node(pods, topology=topology, aside=ReservedCPUs(draw(numbers)), info=info)


LOADS = st.lists(st.one_of(st.none(), st.floats(0, 40)), min_size=1, max_size=25)
FLOORS = st.sampled_from([0, 10, 50, 100])
POLICIES = st.sampled_from(SuppressPolicy)


@given(nodes(), LOADS, FLOORS, POLICIES)
def test_bounds_hold_whatever_happens(
    node: Node, loads: list[float | None], floor: int, policy: SuppressPolicy
) -> None:
    settings = Settings(True, 65, floor, policy)
    online = {one.id for one in node.info.online}
    owners = strategy.be_cpus.pools(node.view(1.0))
    before: int | None = None
    for plan in node.rounds(*loads, settings=settings):
        for value in desired(plan).values():
            cpus = cpuset.parse(str(value))
            assert cpus
            assert cpus <= online - owners.lse - owners.aside
            if policy is SuppressPolicy.CPUSET:
                least = max(min(2, len(online)), math.ceil(len(online) * floor / 100))
                assert len(cpus) >= min(least, len(owners.allowed))
                assert len(cpus & owners.lsr) == len(cpus) * len(owners.lsr) // len(owners.allowed)
                if before is not None and not floor:
                    assert len(cpus) <= before + math.ceil(len(online) * 0.1)
                before = len(cpus)
        for quota in desired(plan, CFS).values():
            assert int(quota) >= 2000
            if owners.allowed:
                assert int(quota) <= max(len(online) * 100_000, 2000)


@given(nodes(), LOADS, st.floats(0, 40), st.floats(0, 40), POLICIES)
def test_more_load_never_gives_more(
    node: Node, past: list[float | None], one: float, other: float, policy: SuppressPolicy
) -> None:
    settings = Settings(True, policy=policy)
    node.rounds(*past, settings=settings)
    lighter, heavier = (
        strategy.plan(node.view(web), settings, node.memory) for web in sorted((one, other))
    )
    assert heavier.signals[0].value <= lighter.signals[0].value
    if policy is SuppressPolicy.CPUSET and desired(lighter):
        assert cpus_of(heavier) <= cpus_of(lighter)


@given(nodes(), LOADS, st.floats(0, 40), POLICIES)
def test_the_same_is_decided_of_the_same_and_constant_load_settles(
    node: Node, past: list[float | None], web: float, policy: SuppressPolicy
) -> None:
    settings = Settings(True, policy=policy)
    node.rounds(*past, settings=settings)
    seen = node.view(web)
    assert strategy.plan(seen, settings, node.memory) == strategy.plan(seen, settings, node.memory)
    cores = [one.signals[0].value for one in node.rounds(*[web] * 20, settings=settings)]
    # It may fall once, and then only grows until it stays.
    assert cores == sorted(cores)
    assert len(set(cores[-3:])) == 1
    one, other = node.rounds(web, web, settings=settings)
    assert one.desired is other.desired
