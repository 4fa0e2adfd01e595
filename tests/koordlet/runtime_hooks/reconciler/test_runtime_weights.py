"""Weights of containers, by the formula that the node's runtime has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.weights import WeightFormula
from koord_model import keys
from koord_model.demand import Demand
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks.reconciler.reconcile_loop import NodeReconcileLoop
from koordlet.runtime_hooks.reconciler.runtime_weights import WeightLearner, known_shares
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.conftest import Keep
from tests.support.fake_node import FakeNode, PodSpec, StandInRuntime
from tests.support.fake_node.cri import pod_list

LINEAR, QUADRATIC = WeightFormula
LAYOUT = Layout(2, Driver.CGROUPFS)
AMOUNT = {keys.BATCH_CPU: 500}
BATCH = {"containers": {"main": {"requests": AMOUNT, "limits": AMOUNT}}}
JOB = PodSpec(
    "job",
    KubeQoS.BEST_EFFORT,
    "BE",
    annotations={keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: BATCH},
)
WEB = PodSpec("web", KubeQoS.BURSTABLE, "LS", 2)
OF_JOB = f"{JOB.group(LAYOUT)}/job-main"


class Bench:
    """A node with such a runtime, and koordlet's batch plugin; the kubelet's list is a file."""

    def __init__(self, keep: Keep, directory: Path, formula: WeightFormula) -> None:
        self.node = FakeNode()
        self.runtime = StandInRuntime(self.node, LAYOUT)
        self.runtime.formula = formula
        self._list = directory / "pods.json"
        self._pods: list[PodSpec] = []
        self._list.write_bytes(pod_list([]))
        self._keep = lambda: (
            keep(
                self.node,
                "batchresource",
                pod_list_source=str(self._list),
                kubelet_sync_interval=0.001,
                resource_force_update_seconds=0,
            ).reconcile_loop
        )
        self.reconcile_loop: NodeReconcileLoop | None = None

    def start(self, pod: PodSpec, weight: int | None = None) -> None:
        """Start a pod; its container gets another weight where hooks say so."""
        config = pod.sandbox_request(LAYOUT).config
        self.runtime.make_pod_group(config)
        self.runtime.run_sandbox(config)
        self.runtime.create(pod.container_request(LAYOUT))
        if weight is not None:
            self.set(f"{pod.group(LAYOUT)}/{pod.name}-main", weight)
        self._pods.append(pod)
        self._list.write_bytes(pod_list(self._pods))

    async def level(self) -> None:
        self.reconcile_loop = self.reconcile_loop or self._keep()
        await self.reconcile_loop.pods.sync()
        await self.reconcile_loop.reconcile()

    def set(self, group: str, weight: int) -> None:
        self.node.write(f"/sys/fs/cgroup/{group}/cpu.weight", str(weight))

    def weight(self, group: str) -> int:
        return int(self.node.read(f"/sys/fs/cgroup/{group}/cpu.weight"))

    def writes(self, group: str) -> list[str]:
        path = f"/sys/fs/cgroup/{group}/cpu.weight"
        return [text for where, text in self.node.writes if where == path]


Make = Callable[[WeightFormula], Bench]


@pytest.fixture
def make(keep: Keep, tmp_path: Path) -> Make:
    return lambda formula: Bench(keep, tmp_path, formula)


@pytest.mark.parametrize("formula", WeightFormula)
@pytest.mark.parametrize("others", [(), (WEB,)])
async def test_what_the_runtime_made_of_the_shares_stays(
    make: Make, formula: WeightFormula, others: tuple[PodSpec, ...]
) -> None:
    bench = make(formula)
    for pod in others:
        bench.start(pod)
    bench.start(JOB, formula.weight(512))
    before = bench.writes(OF_JOB)
    for _ in range(3):
        await bench.level()
    assert bench.writes(OF_JOB) == before


@pytest.mark.parametrize("formula", WeightFormula)
async def test_a_pod_that_missed_the_hooks_gets_what_the_runtime_would_have_made(
    make: Make, formula: WeightFormula
) -> None:
    bench = make(formula)
    bench.start(WEB)
    bench.start(JOB)
    await bench.level()
    assert bench.weight(OF_JOB) == formula.weight(512)
    # The kubelet makes the pod's own group, and has one formula.
    assert bench.weight(JOB.group(LAYOUT)) == LINEAR.weight(512)


async def test_what_was_written_before_it_was_known_is_made_right(make: Make) -> None:
    bench = make(QUADRATIC)
    bench.start(JOB)
    await bench.level()
    assert bench.weight(OF_JOB) == LINEAR.weight(512)
    bench.start(WEB)
    await bench.level()
    assert bench.weight(OF_JOB) == QUADRATIC.weight(512)
    before = bench.writes(OF_JOB)
    await bench.level()
    assert bench.writes(OF_JOB) == before


class TestTheLearner:
    def node(self) -> FakeNode:
        node = FakeNode()
        node.cgroups.make_group("kubepods/podu1/c1")
        return node

    def record(self, shares: int | None, requests: dict[str, int] | None = None) -> PodRecord:
        pod = Pod("web-1", "shop", "u1", cgroup_parent="/kubepods/podu1")
        container = Container(pod, "main", "c1", resources=LinuxResources(cpu_shares=shares))
        demand = None if requests is None else Demand(container_requests={"main": requests})
        return PodRecord(pod, {"c1": container}, demand=demand)

    @pytest.mark.parametrize(
        ("told", "requests", "shares"),
        [
            (512, None, 512),
            (512, {"cpu": 9000}, 512),
            (None, {"cpu": 500}, 512),
            (None, {"cpu": 1}, 2),
            (None, {"cpu": 10_000_000}, 262_144),
            (None, {}, 2),
            (None, None, None),
        ],
    )
    def test_whose_shares_are_known(
        self, told: int | None, requests: dict[str, int] | None, shares: int | None
    ) -> None:
        record = self.record(told, requests)
        assert known_shares(record, record.containers["c1"]) == shares

    def test_of_a_container_that_is_in_no_list_nothing_is_known(self) -> None:
        record = self.record(None, {"cpu": 500})
        assert known_shares(record, Container(record.pod, "other", "c2")) is None

    def test_what_koordlet_has_written_says_nothing(self) -> None:
        node, layout = self.node(), Layout(2, Driver.CGROUPFS)
        node.write("/sys/fs/cgroup/kubepods/podu1/c1/cpu.weight", "20")
        record = self.record(512)
        assert not WeightLearner(layout, node, lambda _: False).examine([record])
        assert layout.weights.formula is None
        assert WeightLearner(layout, node, lambda _: True).examine([record])
        assert layout.weights.formula is LINEAR

    def test_a_container_is_looked_at_once(self) -> None:
        node, layout = self.node(), Layout(2, Driver.CGROUPFS)
        path = "/sys/fs/cgroup/kubepods/podu1/c1/cpu.weight"
        node.write(path, "59")
        learner = WeightLearner(layout, node, lambda _: True)
        assert learner.examine([self.record(512)])
        node.write(path, "20")
        assert not learner.examine([self.record(512)])
        assert layout.weights.formula is QUADRATIC

    def test_a_container_without_a_group_is_no_trouble(self) -> None:
        layout = Layout(2, Driver.CGROUPFS)
        assert not WeightLearner(layout, FakeNode(), lambda _: True).examine([self.record(512)])

    def test_version_1_has_no_weights(self) -> None:
        node, layout = FakeNode(1), Layout(1, Driver.CGROUPFS)
        node.cgroups.make_group("kubepods/podu1/c1")
        assert not WeightLearner(layout, node, lambda _: True).examine([self.record(1024)])


async def test_what_is_told_of_a_start_tells(keep: Keep) -> None:
    node = FakeNode()
    runtime = StandInRuntime(node, LAYOUT)
    runtime.formula = QUADRATIC
    reconcile_loop = keep(node, "batchresource").reconcile_loop
    for pod in (WEB, JOB):
        config = pod.sandbox_request(LAYOUT).config
        runtime.make_pod_group(config)
        runtime.run_sandbox(config)
        runtime.create(pod.container_request(LAYOUT))
        told = Pod(pod.name, "shop", pod.uid, pod.all_labels, pod.texts, f"/{pod.group(LAYOUT)}")
        limits = LinuxResources(cpu_shares=max(pod.cpus * 1024, 2))
        started = Container(told, "main", f"{pod.name}-main", resources=limits)
        reconcile_loop.saw(Stage.POST_START_CONTAINER, started)
    await reconcile_loop.reconcile()
    assert node.read(f"/sys/fs/cgroup/{OF_JOB}/cpu.weight") == "59\n"
