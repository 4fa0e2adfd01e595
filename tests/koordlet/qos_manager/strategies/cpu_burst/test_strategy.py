"""CPU burst on a node that applies each plan, second by second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import ValueChange, order
from koord_model.cpu_burst import BurstPolicy
from koord_model.node import Kernel, NodeView
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.strategies.cpu_burst.strategy import Settings, plan

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
    """16 CPUs; its kernel refuses a burst above the quota, and applies all else."""

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
    reads: int = 0

    def view(self) -> StrategyView:
        at = AT + self.steady - STEADY
        series: dict[tuple[str, ...], WindowStats] = {}
        if self.used is not None:
            series["node_cpu_usage",] = stats(self.used, until=at)
        ids = {one.container.id: pod.uid for pod in self.pods for one in pod.containers}
        measured = {"container_cpu_usage": self.use, "container_cpu_throttled": self.throttled}
        for kind, found in measured.items():
            for ident in found.keys() & ids.keys():
                series[kind, ids[ident], ident] = stats(found[ident], until=at)
        return view(
            pods=self.pods,
            steady=self.steady,
            node=self.node,
            latest=FakeLatest({}, cpu_info(16)),
            history=FakeHistory(series),
            cgroups=FakeCgroups(self.base | self.now, self.base),
        )

    def round(self, seconds: float = 1.0) -> Plan:
        """One round, carried out."""
        self.steady += seconds
        seen = self.view()
        found = plan(seen, self.settings, self.memory)
        assert plan(seen, self.settings, self.memory) == found  # same again
        assert isinstance(seen.cgroups, FakeCgroups)
        self.reads = seen.cgroups.reads
        self.carry_out(found)
        self.memory = found.memory
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


def desired(found: Plan, knob: str) -> dict[str, Value]:
    return {one.target.place: one.value for one in found.desired if one.target.knob == knob}


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


def test_without_a_policy_nothing_is_desired_or_read() -> None:
    node = node_of(3, settings=Settings(), throttled={"p000-main": 1.0})
    assert node.round() == Plan(memory=node.memory)
    assert node.reads == 0


def test_a_burst_of_ten_times_the_limit_is_the_quota_and_the_pod_s_their_sum() -> None:
    pod = pod_view(containers={"a": ({}, {"cpu": 1000}), "b": ({}, {"cpu": 1000})})
    exclusive = pod_view("lse", qos=QoSClass.LSE, limits={"cpu": 1000})
    found = Node((pod, exclusive), BY_BURST, base=based((pod, exclusive))).round()
    containers = {one.group: 100_000 for one in pod.containers}
    assert desired(found, BURST) == {pod.group: 200_000, **containers}
    assert desired(found, QUOTA) == {}
    [decision] = found.decisions
    assert str(decision).endswith("(containers 2)")
    signal = "container_scaled_cfs_burst_us"
    names = [(one.name, one.value, one.pod) for one in found.signals]
    assert names == [(f"{signal}/{name}", 100_000, "ns/web") for name in "ab"]


def test_a_pod_without_a_quota_of_its_own_has_no_burst_either() -> None:
    node = node_of(1, throttled={"p000-main": 1.0})
    node.base[node.pods[0].group, QUOTA] = -1
    found = node.round()
    assert set(desired(found, BURST)) == set(desired(found, QUOTA)) == {first(node)}


def test_a_kernel_without_the_knob_is_logged() -> None:
    found = node_of(1, settings=BY_BURST, node=NodeView()).round()
    assert found.desired == ()
    [decision] = found.decisions
    assert decision.outcome.endswith("the kernel has no cpu.cfs_burst_us")
    assert node_of(1, settings=BY_QUOTA, node=NodeView()).round().desired == ()


def test_a_throttled_container_s_quota_grows_to_its_ceiling_and_the_pod_s_with_it() -> None:
    node = node_of(1, throttled={"p000-main": 0.3}, use={"p000-main": 1.0})
    seen = [node.round() for _ in range(9)]
    grown = [desired(found, QUOTA)[first(node)] for found in seen]
    assert grown == [120_000, 144_000, 172_800, 207_360, 248_832, 298_598, *[300_000] * 3]
    assert desired(seen[-1], QUOTA)[node.pods[0].group] == 300_000
    # The kubelet may write its limit again: no burst is above that.
    assert set(desired(seen[-1], BURST).values()) == {100_000}
    decision = seen[-1].decisions[-1]
    assert decision is seen[-2].decisions[-1]
    assert str(decision).endswith(
        "with quota 3 cores, base 1 cores, ceiling 3 cores, cause × 1.2 while it is throttled)"
    )
    signals = [(one.name, one.value, one.pod) for one in seen[-1].signals]
    assert ("container_scaled_cfs_quota_us/main", 300_000.0, "ns/p000") in signals


def test_the_quota_that_hooks_want_is_the_base() -> None:
    node = node_of(1, throttled={"p000-main": 0.3}, use={"p000-main": 0.6})
    node.base = based(node.pods, 50_000)  # divided by 2
    node.node = replace(KNOWS_BURST, cpu_normalization_ratio=2.0)
    for _ in range(9):
        found = node.round()
    assert set(desired(found, QUOTA).values()) == {150_000}
    node.base = based(node.pods, 100_000)
    node.node = KNOWS_BURST
    assert desired(node.round(), QUOTA) == {}, "another base begins anew"


def test_periods_other_than_100_ms() -> None:
    node = node_of(1, throttled={"p000-main": 0.3})
    node.base[first(node), PERIOD] = 50_000
    node.base[first(node), QUOTA] = 50_000
    found = node.round()
    assert desired(found, QUOTA) == {first(node): 60_000, node.pods[0].group: 120_000}
    assert desired(found, BURST) == {first(node): 50_000, node.pods[0].group: 100_000}


def test_a_full_pool_takes_back_the_greediest_first_and_all_by_and_by() -> None:
    node = node_of(40, settings=BY_QUOTA)
    node.now = {key: value * 3 for key, value in node.base.items()}  # type: ignore[operator]
    node.use = dict.fromkeys((f"p{n:03}-main" for n in range(40)), 1.0) | {"p007-main": 3.0}
    node.used = 8.1
    before = desired(node.round(), QUOTA)
    assert [place for place, value in before.items() if value != 300_000] == [
        node.pods[7].containers[0].group,
        node.pods[7].group,
    ]
    node.used = 12.0
    for _ in range(400):
        found = desired(node.round(), QUOTA)
        assert sum(found.get(pod.group) != before.get(pod.group) for pod in node.pods) <= 10
        before = found
    assert before == {}
    assert len(node.round().decisions) == 1


def test_tokens_run_out_and_come_back() -> None:
    limited = replace(BY_QUOTA, quota_period_seconds=10)
    node = node_of(1, settings=limited, throttled={"p000-main": 0.3}, use={"p000-main": 2.0})
    counts = [bool(desired(node.round(), QUOTA)) for _ in range(60)]
    assert (counts[0], any(counts[30:])) == (True, False)
    node.use["p000-main"] = 0.1
    assert any(bool(desired(node.round(), QUOTA)) for _ in range(30))


def test_switching_the_policy_off_lets_go_of_all() -> None:
    node = node_of(3, throttled={"p000-main": 0.3})
    assert node.round().desired
    node.settings = Settings()
    assert node.round().desired == ()
    assert node.now[first(node), QUOTA] == 100_000
    node.settings = BY_BURST
    assert desired(node.round(), QUOTA) == {}
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


def test_a_round_of_many_pods_keeps_its_objects_and_decides_only_on_what_differs() -> None:
    node = node_of(110, throttled=dict.fromkeys((f"p{n:03}-main" for n in range(110)), 0.0))
    one, two = node.round(), node.round()
    assert all(a is b for a, b in zip(one.desired, two.desired, strict=True))
    node.throttled = {"p005-main": 0.3}
    assert [each.pod for each in node.round().decisions] == ["", "", "ns/p005"]


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
    settings = replace(given_settings, quota_percent=percent, quota_period_seconds=period)
    made = (
        pod_view("one", containers=("a", "b"), qos=QoSClass.LS),
        pod_view("two", containers=("a",)),
        pod_view("three", containers=("a",), limits={"cpu": 10_000}),
    )
    ids = [one.container.id for pod in made for one in pod.containers]
    node = Node(made, settings, base=based(made, base))
    for used, loads, length, ratio, restart in seconds:
        node.used = used
        node.throttled = {ident: load[0] for ident, load in zip(ids, loads, strict=True)}
        node.use = {ident: load[1] for ident, load in zip(ids, loads, strict=True)}
        node.node = replace(KNOWS_BURST, cpu_normalization_ratio=ratio)
        # Hooks' new quotas are written together with what is desired here.
        node.now = node.base | node.now
        node.base = based(made, max(int(base / ratio), 1000))
        if restart and length == 60.0:
            node.memory = None
        found = node.round(length)
        for place, value in desired(found, QUOTA).items():
            least = node.base[place, QUOTA]
            assert least < value <= least * percent / 100  # type: ignore[operator]
        for pod in made:
            inside = [node.current((one.group, QUOTA)) for one in pod.containers]
            assert sum(inside) <= node.current((pod.group, QUOTA))  # type: ignore[arg-type]
    node.used, node.throttled, node.use = 1.0, {}, dict.fromkeys(ids, 0.0)
    for _ in range(12):
        found = node.round(300.0)
    assert desired(found, QUOTA) == {}
    assert all(node.current(key) == value for key, value in node.base.items())
