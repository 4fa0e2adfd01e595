"""CPU burst on a node that does what is wished, second by second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import ValueChange, order
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.keys import ANNOTATION_CPU_BURST
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koordlet.agent.config import KoordletSettings as Flags
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.settings import parse_settings
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.strategies.cpu_burst import strategy
from koordlet.qos_manager.strategies.cpu_burst.strategy import Settings, plan, settings
from koordlet.qos_manager.strategy_table import select_enabled

from tests.support.views import (
    AT,
    STEADY,
    FakeCgroups,
    FakeHistory,
    FakeLatest,
    WindowStats,
    cpu_info,
    pod_view,
    stats,
    view,
)

QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
AUTO = Settings(policy=BurstPolicy.AUTO)
BY_QUOTA = Settings(policy=BurstPolicy.QUOTA_BURST)
BY_BURST = Settings(policy=BurstPolicy.CPU_BURST)
KNOWS_BURST = NodeView(kernel=Kernel(knobs=frozenset({BURST})))


@dataclass
class Node:
    """16 CPUs; its kernel refuses a burst above the quota, and does all else it is told."""

    pods: tuple[PodView, ...] = ()
    settings: Settings = AUTO
    node: NodeView = KNOWS_BURST
    used: float | None = 1.0
    use: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    base: dict[tuple[str, str], Value] = field(default_factory=dict)
    now: dict[tuple[str, str], Value] = field(default_factory=dict)
    steady: float = STEADY
    memory: object = None
    known: bool = True
    reads: int = 0

    def view(self) -> StrategyView:
        at = AT + self.steady - STEADY
        series: dict[tuple[str, ...], WindowStats] = {}
        if self.used is not None:
            series["node_cpu_usage",] = stats(self.used, until=at)
        ids = {one.container.id: pod.uid for pod in self.pods for one in pod.containers}
        for name, kind in (
            ("use", "container_cpu_usage"),
            ("throttled", "container_cpu_throttled"),
        ):
            for ident, value in getattr(self, name).items():
                if ident in ids:
                    series[kind, ids[ident], ident] = stats(value, until=at)
        return view(
            pods=self.pods,
            steady=self.steady,
            node=self.node,
            latest=FakeLatest({}, cpu_info(16)),
            history=FakeHistory(series),
            cgroups=FakeCgroups(self.base | self.now, self.base),
            pods_known=self.known,
        )

    def round(self, seconds: float = 1.0) -> Plan:
        """One round, carried out."""
        self.steady += seconds
        seen = self.view()
        found = plan(seen, self.settings, self.memory)
        assert plan(seen, self.settings, self.memory) == found  # same again
        again = plan(seen, self.settings, found.memory)
        assert isinstance(seen.cgroups, FakeCgroups)
        self.reads = seen.cgroups.reads
        self.carry_out(found)
        self.memory = found.memory
        self.again = again
        return found

    def carry_out(self, found: Plan) -> None:
        wanted = {**self.base, **{one.target: one.value for one in found.desired}}
        targets = {*self.now, *wanted}
        changes = [
            ValueChange(Target(*key), self.current(key), wanted.get(key, self.default(key)))
            for key in sorted(targets)
            if self.current(key) != wanted.get(key, self.default(key))
        ]
        for step in order(changes, lambda target: self.current(target)).steps:
            self.now[step.target] = step.value
            self.check(step.target.place)

    def default(self, key: tuple[str, str]) -> Value:
        return self.base.get(key, 0)

    def current(self, key: tuple[str, str]) -> Value:
        return self.now.get(key, self.default(key))

    def check(self, group: str) -> None:
        quota, burst = self.current((group, QUOTA)), self.current((group, BURST))
        assert quota == -1 or burst <= quota, f"EINVAL in {group}: burst {burst}, quota {quota}"
        assert burst >= 0


def quotas(found: Plan) -> dict[str, Value]:
    return {one.target.place: one.value for one in found.desired if one.target.knob == QUOTA}


def bursts(found: Plan) -> dict[str, Value]:
    return {one.target.place: one.value for one in found.desired if one.target.knob == BURST}


def pods(count: int, cores: int = 1) -> tuple[PodView, ...]:
    limits = {"cpu": cores * 1000}
    return tuple(pod_view(f"p{n:03}", limits=limits) for n in range(count))


def based(found: Iterable[PodView], quota: int = 100_000) -> dict[tuple[str, str], Value]:
    groups = {}
    for pod in found:
        groups[pod.group, QUOTA] = quota * len(pod.containers)
        groups |= {(one.group, QUOTA): quota for one in pod.containers}
    return groups


def node_of(count: int = 1, **others: object) -> Node:
    made = pods(count)
    return Node(made, base=based(made), **others)  # type: ignore[arg-type]


def first(node: Node) -> str:
    return node.pods[0].containers[0].group


def test_its_gate_and_interval_are_there() -> None:
    assert DEFAULTS[strategy.GATE]
    assert getattr(Flags(), strategy.INTERVAL) == 1.0


def test_settings_are_the_node_slo_s() -> None:
    parse_settings = CPUBurst(BurstPolicy.AUTO, 500, 200, 60, 40)
    found = settings(NodeSLO(burst=parse_settings))
    assert found == Settings(BurstPolicy.AUTO, 500, 200, 60, 40)
    assert found.node == parse_settings
    assert settings(NodeSLO()) == Settings()


def test_the_node_slo_s_extension_counts_more() -> None:
    given_ = {"cpu_burst": {"policy": "cfsQuotaBurstOnly", "calm_seconds": 0, "quota_percent": 99}}
    [strategy] = [one for one in select_enabled(Flags(), DEFAULTS)[0] if one.name == "cpu_burst"]
    found = parse_settings(strategy, NodeSLO(burst=CPUBurst(BurstPolicy.AUTO), strategies=given_))
    assert found.settings == replace(BY_QUOTA, calm_seconds=0.0)
    [line] = found.ignored
    assert "quota_percent is 99" in line


def test_without_a_policy_nothing_is_wished_or_read() -> None:
    node = node_of(3, settings=Settings(), throttled={"p000-main": 1.0})
    assert node.round() == Plan(memory=node.memory)
    assert node.reads == 0


@pytest.mark.parametrize("qos", [QoSClass.LSE, QoSClass.LSR, QoSClass.BE])
def test_classes_that_do_not_burst_are_left_alone(qos: QoSClass) -> None:
    pod = pod_view(qos=qos, limits={"cpu": 1000})
    node = Node((pod,), base=based((pod,)), throttled={"web-main": 1.0})
    assert node.round().desired == ()


def test_an_annotation_alone_is_enough() -> None:
    pod = pod_view(limits={"cpu": 1000}, annotations={ANNOTATION_CPU_BURST: '{"policy":"auto"}'})
    other = pod_view("other", limits={"cpu": 1000})
    node = Node((pod, other), Settings(), base=based((pod, other)))
    assert set(bursts(node.round())) == {pod.group, pod.containers[0].group}


def test_what_is_ignored_of_an_annotation_is_said() -> None:
    pod = pod_view(limits={"cpu": 1000}, annotations={ANNOTATION_CPU_BURST: "{"})
    [note] = Node((pod,), Settings(), base=based((pod,))).round().decisions
    assert (note.pod, note.aspect) == ("ns/web", "annotation 0")


def test_a_burst_of_ten_times_the_limit_is_the_quota_and_the_pod_s_their_sum() -> None:
    pod = pod_view(containers={"a": ({}, {"cpu": 1000}), "b": ({}, {"cpu": 1000})})
    node = Node((pod,), BY_BURST, base=based((pod,)))
    found = node.round()
    assert bursts(found) == {
        pod.group: 200_000,
        **{one.group: 100_000 for one in pod.containers},
    }
    assert quotas(found) == {}
    assert [str(one) for one in found.decisions] == [
        "containers may use later what they leave of their quota (containers 2)"
    ]
    assert [(one.name, one.value, one.pod) for one in found.signals] == [
        (f"container_scaled_cfs_burst_us/{one.container.name}", 100_000, "ns/web")
        for one in pod.containers
    ]


def test_a_pod_without_a_quota_of_its_own_has_no_burst_either() -> None:
    node = node_of(1, settings=AUTO, throttled={"p000-main": 1.0})
    node.base[node.pods[0].group, QUOTA] = -1
    found = node.round()
    assert set(bursts(found)) == set(quotas(found)) == {first(node)}


def test_a_kernel_without_the_knob_is_told_of() -> None:
    found = node_of(1, settings=BY_BURST, node=NodeView()).round()
    assert found.desired == ()
    [decision] = found.decisions
    assert decision.outcome.endswith("the kernel has no cpu.cfs_burst_us")
    assert node_of(1, settings=BY_QUOTA, node=NodeView()).round().desired == ()


def test_a_lower_limit_is_not_stood_in_the_way_of() -> None:
    pod = pod_view(limits={"cpu": 500})
    found = Node((pod,), BY_BURST, base=based((pod,))).round()
    assert set(bursts(found).values()) == {50_000}


def test_a_throttled_container_s_quota_grows_to_its_ceiling_and_the_pod_s_with_it() -> None:
    node = node_of(1, throttled={"p000-main": 0.3}, use={"p000-main": 1.0})
    seen = [node.round() for _ in range(9)]
    grown = [quotas(found)[first(node)] for found in seen]
    assert grown == [
        120_000,
        144_000,
        172_800,
        207_360,
        248_832,
        298_598,
        300_000,
        300_000,
        300_000,
    ]
    assert quotas(seen[-1])[node.pods[0].group] == 300_000
    # The kubelet may write its limit again: no burst is above that.
    assert set(bursts(seen[-1]).values()) == {100_000}
    assert seen[-1].desired == seen[-2].desired
    decision = seen[-1].decisions[-1]
    assert decision is seen[-2].decisions[-1]
    assert str(decision) == (
        'container "main" may use more CPU than its limit (quota × 1.2 while it is throttled, '
        "from base to ceiling with quota 3 cores, base 1 cores, ceiling 3 cores)"
    )
    assert ("container_scaled_cfs_quota_us/main", 300_000.0, "ns/p000") in [
        (one.name, one.value, one.pod) for one in seen[-1].signals
    ]


def test_only_what_differs_from_its_base_has_a_decision() -> None:
    node = node_of(110, throttled={"p005-main": 0.3})
    found = node.round()
    assert [one.pod for one in found.decisions] == ["", "", "ns/p005"]


def test_the_same_round_twice_raises_once() -> None:
    node = node_of(1, throttled={"p000-main": 0.3})
    found = node.round()
    assert quotas(node.again) == quotas(found)


def test_the_quota_that_hooks_want_is_the_base() -> None:
    node = node_of(1, throttled={"p000-main": 0.3}, use={"p000-main": 0.6})
    node.base = based(node.pods, 50_000)  # divided by 2
    node.node = replace(KNOWS_BURST, cpu_normalization_ratio=2.0)
    for _ in range(9):
        found = node.round()
    assert set(quotas(found).values()) == {150_000}
    node.base = based(node.pods, 100_000)
    node.node = KNOWS_BURST
    node.throttled.clear()
    assert set(quotas(node.round()).values()) == {150_000}


def test_periods_other_than_100_ms() -> None:
    node = node_of(1, throttled={"p000-main": 0.3})
    node.base[first(node), PERIOD] = 50_000
    node.base[first(node), QUOTA] = 50_000
    found = node.round()
    assert quotas(found) == {first(node): 60_000, node.pods[0].group: 120_000}
    assert bursts(found) == {first(node): 50_000, node.pods[0].group: 100_000}


@pytest.mark.parametrize(
    ("used", "grows"), [(7.1, True), (7.2, False), (8.0, False), (None, False)]
)
def test_quotas_grow_while_the_shared_cpus_have_room(used: float | None, grows: bool) -> None:
    node = node_of(1, used=used, throttled={"p000-main": 0.3})
    assert bool(quotas(node.round())) is grows
    node.known = False
    before = quotas(plan(node.view(), node.settings, node.memory))
    assert quotas(node.round()) == before


def test_without_metrics_raised_quotas_stay() -> None:
    node = node_of(2, throttled={"p000-main": 0.3})
    raised = quotas(node.round())
    node.used, node.throttled = None, {}
    for _ in range(400):
        found = node.round()
    assert quotas(found) == raised
    assert found.decisions[0].outcome == "use of the shared CPUs is not known: no quota grows"


def raised_node(count: int) -> Node:
    node = node_of(count, settings=BY_QUOTA)
    node.now = {key: value * 3 for key, value in node.base.items()}  # type: ignore[operator]
    node.use = {f"p{n:03}-main": 1.0 for n in range(count)}
    return node


def test_at_the_threshold_not_everybody_is_throttled_at_once() -> None:
    node = raised_node(40)
    node.use["p007-main"] = 3.0
    node.used = 8.1
    found = quotas(node.round())
    lowered = [place for place, value in found.items() if value != 300_000]
    assert lowered == [node.pods[7].containers[0].group, node.pods[7].group]
    assert found[node.pods[7].group] == 240_000


def test_a_pool_that_stays_full_brings_everybody_home_by_and_by() -> None:
    node = raised_node(40)
    node.used = 12.0
    before = quotas(node.round(0))
    for seconds in range(400):
        found = quotas(node.round())
        moved_now = sum(found.get(p.group) != before.get(p.group) for p in node.pods)
        assert moved_now <= 10, seconds
        before = found
    assert before == {}
    assert node.memory is not None
    assert len(node.round().decisions) == 1


def test_it_comes_home_when_it_is_calm() -> None:
    node = node_of(1, throttled={"p000-main": 0.3}, use={"p000-main": 1.0})
    for _ in range(10):
        node.round()
    node.throttled, node.use = {"p000-main": 0.0}, {"p000-main": 0.1}
    found = node.round(299)
    assert quotas(found)
    for _ in range(6):
        found = node.round()
    assert quotas(found) == {}
    assert node.now[first(node), QUOTA] == 100_000


def test_after_a_restart_it_goes_on_from_what_the_cgroups_have() -> None:
    node = node_of(1, throttled={"p000-main": 0.3})
    for _ in range(3):
        before = node.round()
    node.memory, node.throttled = None, {}
    assert quotas(node.round()) == quotas(before)
    assert "quota as it was found" in str(node.round().decisions[-1])


def test_tokens_run_out_and_come_back() -> None:
    limited = replace(BY_QUOTA, quota_period_seconds=10)
    node = node_of(1, settings=limited, throttled={"p000-main": 0.3}, use={"p000-main": 2.0})
    counts = [bool(quotas(node.round())) for _ in range(60)]
    assert counts[0]
    assert not any(counts[30:])
    node.use["p000-main"] = 0.1
    assert any(bool(quotas(node.round())) for _ in range(30))


def test_switching_the_policy_off_lets_go_of_all() -> None:
    node = node_of(3, throttled={"p000-main": 0.3})
    assert node.round().desired
    node.settings = Settings()
    assert node.round().desired == ()
    assert node.now[first(node), QUOTA] == 100_000
    node.settings = BY_BURST
    assert quotas(node.round()) == {}
    node.node = NodeView()
    assert node.round().desired == ()


def test_files_are_read_in_turns_and_gone_pods_forgotten() -> None:
    node = node_of(50)
    node.round()
    everything = node.reads
    assert everything >= 100
    reads = []
    for _ in range(20):
        node.round()
        reads.append(node.reads)
    assert max(reads[:4]) == 0
    assert 0 < max(reads) < everything
    node.pods = node.pods[:1]
    node.round()
    assert len(node.memory.pods) == 1  # type: ignore[attr-defined]


def test_a_cgroup_that_comes_late_is_found() -> None:
    node = node_of(1)
    base, node.base = node.base, {}
    assert node.round().desired == ()
    node.base = base
    for _ in range(10):
        found = node.round()
    assert bursts(found)


def test_a_round_of_many_pods_keeps_its_objects() -> None:
    node = node_of(110, throttled={f"p{n:03}-main": 0.0 for n in range(110)})
    one = node.round()
    two = node.round()
    assert all(a is b for a, b in zip(one.desired, two.desired, strict=True))


cores = st.floats(0, 16)
part = st.sampled_from((0.0, 0.2, 1.0))
second = st.tuples(
    st.one_of(st.none(), cores),
    st.lists(st.tuples(part, st.floats(0, 4)), min_size=4, max_size=4),
    st.sampled_from((1.0, 1.0, 5.0, 60.0)),
    st.sampled_from((1.0, 1.0, 1.0, 2.0)),
    st.booleans(),
)


@given(
    st.lists(second, max_size=25),
    st.sampled_from((AUTO, BY_QUOTA)),
    st.sampled_from((100, 250, 300)),
    st.sampled_from((-1, 0, 10)),
    st.integers(1000, 10**6),
)
def test_whatever_happens_the_kernel_takes_it_and_it_comes_home(
    seconds: list[tuple[float | None, list[tuple[float, float]], float, float, bool]],
    given_settings: Settings,
    percent: int,
    period: int,
    base: int,
) -> None:
    parse_settings = replace(given_settings, quota_percent=percent, quota_period_seconds=period)
    made = (
        pod_view("one", containers=("a", "b"), qos=QoSClass.LS),
        pod_view("two", containers=("a",)),
        pod_view("three", containers=("a",), limits={"cpu": 10_000}),
    )
    ids = [one.container.id for pod in made for one in pod.containers]
    node = Node(made, parse_settings, base=based(made, base))
    for used, loads, length, ratio, restart in seconds:
        node.used = used
        node.throttled = {ident: load[0] for ident, load in zip(ids, loads, strict=True)}
        node.use = {ident: load[1] for ident, load in zip(ids, loads, strict=True)}
        node.node = replace(KNOWS_BURST, cpu_normalization_ratio=ratio)
        # Hooks' new quotas are written together with what is wished here.
        node.now = node.base | node.now
        node.base = based(made, max(int(base / ratio), 1000))
        if restart and length == 60.0:
            node.memory = None
        found = node.round(length)
        for place, value in quotas(found).items():
            least = node.base[place, QUOTA]
            assert least < value <= least * percent / 100  # type: ignore[operator]
        for pod in made:
            inside = [node.current((one.group, QUOTA)) for one in pod.containers]
            assert sum(inside) <= node.current((pod.group, QUOTA))  # type: ignore[arg-type]
    node.used, node.throttled, node.use = 1.0, {}, dict.fromkeys(ids, 0.0)
    for _ in range(12):
        found = node.round(300.0)
    assert quotas(found) == {}
    assert all(node.current(key) == value for key, value in node.base.items())
