"""Weights of containers, by the formula that the node's runtime has."""

from __future__ import annotations

from functools import cached_property

import pytest
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.weights import WeightFormula
from koord_model.demand import Demand
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks.reconciler.reconcile_loop import NodeReconcileLoop
from koordlet.runtime_hooks.reconciler.runtime_weights import WeightLearner, known_shares
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.node import FakeKernel, NodeFixture, PodSpec
from tests.support.node.pods import JOB, WEB, pod_list

LINEAR, QUADRATIC = WeightFormula
LAYOUT = Layout(2, Driver.CGROUPFS)
MAIN = JOB.container_group(LAYOUT)


class Weights:
    """A node whose kubelet lists its pods, with koordlet's batch plugin."""

    def __init__(self, node: NodeFixture, formula: WeightFormula) -> None:
        self.node = node
        node.runtime.formula = formula
        self._list = node.directory / "pods.json"
        self._pods: list[PodSpec] = []

    def start(self, *pods: PodSpec, weight: int = 0) -> None:
        """Start pods; JOB's container gets a weight where hooks set it."""
        self.node.start(*pods)
        if weight:
            self.node.write(MAIN, "cpu.weight", weight)
        self._pods += pods
        self._list.write_bytes(pod_list(self._pods))

    @cached_property
    def loop(self) -> NodeReconcileLoop:
        return self.node.start_koordlet(
            "batchresource",
            pod_list_source=str(self._list),
            kubelet_sync_interval=0.001,
            resource_force_update_seconds=0,
        ).reconcile_loop

    async def written(self, rounds: int = 1) -> list[str]:
        """The writes of so many rounds to the weight of JOB's container."""
        before = len(self.node.files.writes)
        for _ in range(rounds):
            await self.loop.pods.sync()
            await self.loop.reconcile()
        path = self.node.path(MAIN, "cpu.weight")
        return [text for where, text in self.node.files.writes[before:] if where == path]


@pytest.mark.parametrize("formula", WeightFormula)
@pytest.mark.parametrize("others", [(), (WEB,)])
async def test_what_the_runtime_made_of_the_shares_stays(node, formula, others):
    weights = Weights(node, formula)
    weights.start(*others, JOB, weight=formula.weight(512))
    assert await weights.written(3) == []


@pytest.mark.parametrize("formula", WeightFormula)
async def test_a_pod_that_missed_the_hooks_gets_what_the_runtime_would_have_made(node, formula):
    weights = Weights(node, formula)
    weights.start(WEB, JOB)
    assert await weights.written() == [str(formula.weight(512))]
    # The kubelet makes the pod's own group, and has one formula.
    assert node.read(JOB.group(LAYOUT), "cpu.weight") == str(LINEAR.weight(512))


async def test_a_weight_written_before_the_formula_was_known_is_corrected(node):
    weights = Weights(node, QUADRATIC)
    weights.start(JOB)
    assert await weights.written() == [str(LINEAR.weight(512))]
    weights.start(WEB)
    assert await weights.written() == [str(QUADRATIC.weight(512))]
    assert await weights.written() == []


async def test_a_container_that_a_hook_call_started_shows_the_formula(node):
    node.runtime.formula = QUADRATIC
    loop = node.start_koordlet("batchresource").reconcile_loop
    for pod in (WEB, JOB):
        node.start(pod)
        shares = max(pod.cpus * 1024, 2)
        loop.saw(Stage.POST_START_CONTAINER, pod.container(LAYOUT, cpu_shares=shares))
    await loop.reconcile()
    assert node.read(MAIN, "cpu.weight") == "59"


class TestTheLearner:
    GROUP = "kubepods/podu1/c1"

    @pytest.fixture(autouse=True)
    def group(self, node: NodeFixture) -> None:
        node.files.cgroups.make_group(self.GROUP)

    def record(self, shares: int | None, requests: dict[str, int] | None = None) -> PodRecord:
        pod = Pod("web-1", "shop", "u1", cgroup_parent="/kubepods/podu1")
        container = Container(pod, "main", "c1", resources=LinuxResources(cpu_shares=shares))
        demand = None if requests is None else Demand(container_requests={"main": requests})
        return PodRecord(pod, {"c1": container}, demand=demand)

    @pytest.mark.parametrize(
        ("reported", "requests", "shares"),
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
    def test_known_shares(self, reported, requests, shares):
        record = self.record(reported, requests)
        assert known_shares(record, record.containers["c1"]) == shares

    def test_of_a_container_that_is_in_no_list_nothing_is_known(self):
        record = self.record(None, {"cpu": 500})
        assert known_shares(record, Container(record.pod, "other", "c2")) is None

    def test_what_koordlet_has_written_says_nothing(self, node):
        node.write(self.GROUP, "cpu.weight", 20)
        record = self.record(512)
        for original, learnt in ((False, None), (True, LINEAR)):
            learner = WeightLearner(node.layout, node.files, lambda _, it=original: it)
            assert learner.examine([record]) is original
            assert node.layout.weights.formula is learnt

    def test_a_container_is_examined_once(self, node):
        learner = WeightLearner(node.layout, node.files, lambda _: True)
        for weight, examined in ((59, True), (20, False)):
            node.write(self.GROUP, "cpu.weight", weight)
            assert learner.examine([self.record(512)]) is examined
        assert node.layout.weights.formula is QUADRATIC

    @pytest.mark.parametrize("kernel", [FakeKernel(1), FakeKernel(2)], ids=["v1", "no group"])
    def test_nothing_is_learnt_where_there_is_no_weight(self, kernel):
        layout = Layout(kernel.cgroups.version, Driver.CGROUPFS)
        if layout.version == 1:
            kernel.cgroups.make_group(self.GROUP)
        assert not WeightLearner(layout, kernel, lambda _: True).examine([self.record(1024)])
