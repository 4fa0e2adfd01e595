"""Pods are resized while strategies hold their limits: the kubelet's latest word is what counts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.resource_executor.kubelet_limits import SURE_SECONDS
from koord_model.keys import CPU, MEMORY
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import PodView

from tests.support.examples import fewer
from tests.support.node.strategies import StrategyNode, StrategyRun
from tests.support.node.workload import Measured, everything_on, measured, some_pods
from tests.support.views import (
    GIB,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
)

QUOTA, MIN, CPUS = "cpu.cfs_quota_us", "memory.min", "cpuset.cpus"
FIRST = {"main": 1000, "side": 500}
LAG = 12
"""Rounds that the kubelet's list may be late."""


def web(layout: Layout, limits: dict[str, int]) -> PodView:
    demand = {name: ({CPU: 100, MEMORY: GIB}, {CPU: one}) for name, one in limits.items()}
    return pod_view("web", qos=QoSClass.LS, priority=9100, containers=demand, layout=layout)


def load(pod: PodView, at: float, throttled: bool) -> Measured:
    values: dict[tuple[str, ...], float] = {("node_cpu_usage",): 3.0, ("pod_cpu_usage", "web"): 1.0}
    for one in pod.containers:
        key = "web", one.container.id
        values["container_cpu_usage", *key] = 1.2 if throttled else 0.1
        values["container_cpu_throttled", *key] = 0.6 if throttled else 0.0
    series = {key: stats(value, until=at) for key, value in values.items()}
    return Measured(FakeLatest(values, cpu_info(64, 2), memory_info(64 * GIB)), FakeHistory(series))


@dataclass
class Kubelet:
    """Writes what a resize needs, one file after the other, again where the kernel refuses."""

    node: StrategyNode
    limits: dict[str, int] = field(default_factory=lambda: dict(FIRST))
    said: dict[str, int] = field(default_factory=dict)
    lists: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """What the list says after so many more rounds."""

    def __post_init__(self) -> None:
        self.said = self.quotas()

    def resize(self, name: str, milli: int, late: int) -> None:
        self.limits = self.limits | {name: milli}
        self.lists = [one for one in self.lists if one[0] < late]
        self.lists.append((max(late, 0), self.limits))

    def quotas(self) -> dict[str, int]:
        """What the pod's group and those of its containers are to have."""
        pod = self.node.pods[0]
        whole = {pod.group: 100 * sum(self.limits.values())}
        return whole | {one.group: 100 * self.limits[one.container.name] for one in pod.containers}

    @property
    def todo(self) -> list[str]:
        """The files to write: of containers that shrink, of the pod, of those that grow."""
        wanted, said = self.quotas(), self.said
        pod, *containers = wanted
        shrink = [group for group in containers if wanted[group] < said[group]]
        grow = [group for group in containers if wanted[group] > said[group]]
        return [*shrink, *([pod] if wanted[pod] != said[pod] else []), *grow]

    def step(self) -> None:
        for group in self.todo[:1]:
            with suppress(OSError):
                self.node.set(group, QUOTA, self.quotas()[group])
                self.said[group] = self.quotas()[group]

    def list_pods(self) -> None:
        self.lists = [(late - 1, limits) for late, limits in self.lists]
        for late, limits in self.lists:
            if late < 0:
                self.node.pods = [web(self.node.layout, limits)]
        self.lists = [one for one in self.lists if one[0] >= 0]


class Scene:
    """A pod of two containers, its kubelet, and one koordlet after another."""

    def __init__(self, stack: ExitStack, version: int, driver: Driver) -> None:
        directory = tempfile.TemporaryDirectory(prefix="koord-test-", dir="/dev/shm")
        self.node = StrategyNode(Path(stack.enter_context(directory)), version, driver)
        stack.callback(self.node.close)
        self.node.start(web(self.node.layout, FIRST))
        self.kubelet = Kubelet(self.node)
        self.found = self.node.values()
        self.throttled = True
        self.on = True
        self.calm = 0.0
        self._stack = ExitStack()
        stack.callback(self._stack.close)
        self.restart()

    def restart(self) -> None:
        """kill -9, and the next run."""
        self._stack.close()
        self.run: StrategyRun = self._stack.enter_context(self.node.run())

    def round(self, seconds: float = 1.0, in_between: int | None = None) -> None:
        """``in_between`` is before or after which write of koordlet's the kubelet writes."""
        self.calm = 0.0 if self.kubelet.todo or self.kubelet.lists else self.calm + seconds
        self.kubelet.list_pods()
        node = self.node
        burst = {"policy": "cfsQuotaBurstOnly", "cfsQuotaBurstPercent": 300}
        node.slo = everything_on() | {"cpuBurstStrategy": burst} if self.on else None
        node.measured = load(node.pods[0], node.wall + seconds, self.throttled)
        node.files.at_write = self._interrupting(in_between)
        self.run.round(seconds)
        node.files.at_write = None
        if in_between is None:
            self.kubelet.step()
        self.check()

    def _interrupting(self, count: int | None) -> Callable[[], None]:
        left = [count]

        def at_write() -> None:
            if left[0] == 0 and self.kubelet.todo:
                self.kubelet.step()
            left[0] = None if left[0] is None else left[0] - 1

        return at_write

    def quotas(self) -> list[int]:
        pod = self.node.pods[0]
        groups = [pod.group, *(one.group for one in pod.containers)]
        return [int(self.node.value(group, QUOTA)) for group in groups]

    def check(self) -> None:
        """Once all is said: nobody has less than its limit, nor more than its pod."""
        self.node.files.cgroups.check()
        if self.calm > SURE_SECONDS + 15:
            whole, *each = self.quotas()
            limits = [100 * self.kubelet.limits[name] for name in FIRST]
            assert whole >= sum(limits)
            assert all(one >= limit for one, limit in zip(each, limits, strict=True)), each
            assert max(each) <= whole


events = st.one_of(
    st.tuples(st.just("round"), st.none() | st.integers(0, 5)),
    st.tuples(
        st.just("resize"),
        st.sampled_from(["main", "side"]),
        st.sampled_from([200, 500, 720, 1000, 1200, 1440, 2000, 3000]),
        st.integers(-2, LAG),
    ),
    st.tuples(st.sampled_from(["restart", "switch", "load", "step", "wait"])),
)


def play(scene: Scene, story: list[tuple[Any, ...]]) -> None:
    for what, *more in story:
        match what:
            case "round":
                scene.round(in_between=more[0])
            case "resize":
                scene.kubelet.resize(*more)
            case "restart":
                scene.restart()
            case "switch":
                scene.on = not scene.on
            case "load":
                scene.throttled = not scene.throttled
            case "step":
                scene.kubelet.step()
            case "wait":
                scene.round(30.0)


def calm_down(scene: Scene) -> None:
    """The kubelet finishes, its list is new, strategies work on, and then let go."""
    for seconds in [1.0] * 20 + [5.0] * 30:
        scene.round(seconds)
    assert not scene.kubelet.todo, "the kernel refuses the kubelet for good"
    scene.on = False
    for seconds in (1.0, 11.0, 1.0, 61.0, 61.0):
        scene.round(seconds)


@fewer(2)
@given(st.sampled_from([1, 2]), st.sampled_from(Driver), st.lists(events, max_size=30))
@example(2, Driver.SYSTEMD, [("round", None)] * 3 + [("resize", "main", 1440, 4)])
@example(1, Driver.CGROUPFS, [("round", None)] * 3 + [("resize", "main", 200, 4)])
def test_whatever_happens_the_kubelets_last_word_stands(
    version: int, driver: Driver, story: list[tuple[Any, ...]]
) -> None:
    with ExitStack() as stack:
        scene = Scene(stack, version, driver)
        play(scene, story)
        calm_down(scene)
        whole = 100 * sum(scene.kubelet.limits.values())
        limits = [100 * scene.kubelet.limits[name] for name in FIRST]
        assert scene.quotas() == [whole, *limits]
        assert scene.run.executor._baselines.all() == []


@pytest.mark.parametrize("in_between", range(4))
@pytest.mark.parametrize("milli", [720, 2000])
def test_a_word_that_was_overwritten_is_right_after_a_restart_too(
    milli: int, in_between: int
) -> None:
    """What the kubelet writes just before a former limit is put back."""
    with ExitStack() as stack:
        scene = Scene(stack, 2, Driver.SYSTEMD)
        for _ in range(3):
            scene.round()
        scene.kubelet.resize("main", milli, 12)
        scene.on = False
        scene.round(1.0, in_between)
        for _ in range(5):
            scene.round()
        scene.restart()
        calm_down(scene)
        whole = 100 * sum(scene.kubelet.limits.values())
        assert scene.quotas() == [whole, *(100 * scene.kubelet.limits[name] for name in FIRST)]


@pytest.mark.parametrize("seen", [0, 1, 5], ids="killed {} rounds after it".format)
@pytest.mark.parametrize("milli", [200, 1440, 3000])
@pytest.mark.parametrize("version", [1, 2])
def test_restore_puts_no_former_limit_back(version: int, milli: int, seen: int) -> None:
    with ExitStack() as stack:
        scene = Scene(stack, version, Driver.CGROUPFS)
        for _ in range(3):
            scene.round()
        scene.kubelet.resize("main", milli, 3)
        scene.kubelet.step()
        for _ in range(seen):
            scene.round()
        said = scene.kubelet.said
        scene.run.__exit__()
        scene.node.restored()
        assert {group: scene.node.value(group, QUOTA) for group in said} == said


OTHER_VALUES: dict[str, tuple[int | str, ...]] = {
    "cpuset.cpus": ("2-5", "0-15"),
    "memory.min": (0, 64 << 20),
    "memory.low": (0, 96 << 20),
    "memory.high": (1 << 30, -1),
    "memory.oom.group": (1, 0),
    "cpu.cfs_quota_us": (150_000, 250_000),
    "cpu.shares": (50, 3000),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("policy", ["cpuset", "cfsQuota"])
def test_whatever_the_kubelet_sets_of_what_strategies_hold_is_put_back(
    version: int, policy: str, tmp_path: Path
) -> None:
    """Of each file that they write, and the kubelet too; and what they want goes on."""
    classes = (QoSClass.LS, QoSClass.BE, QoSClass.LS, QoSClass.BE, QoSClass.LSR)
    with StrategyNode(tmp_path, version, vendor=True) as node:
        node.start(*some_pods(node.layout, *classes))
        node.slo = everything_on(policy)
        with node.run() as run:
            for _ in range(4):
                node.measured = measured(node.pods, 0.8, 3, at=node.wall)
                run.round()
            held = [
                one.target
                for one in run.executor._baselines.all()
                if one.strategy and KNOBS[one.target.knob].kubelet
            ]
            assert {one.knob for one in held} >= {QUOTA if policy == "cfsQuota" else CPUS, MIN}
            wanted, said = {one: node.value(*one) for one in held}, {}
            for target in held:
                for value in OTHER_VALUES[target.knob]:
                    with suppress(OSError):
                        node.set(*target, value)
                        said[target] = node.value(*target)
            run.rounds_of(61.0, 3.0)  # files are read again each minute
            assert {one: node.value(*one) for one in held} == wanted
            node.slo = None
            run.rounds_of(1.0, 11.0, 1.0, 61.0)
            assert {one: node.value(*one) for one in said} == said
            assert run.executor._baselines.all() == []
