"""What takes long holds up no write of a knob, and no stop: each slow effect hangs in turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from koord_hooks.runner import HookRunner, load
from koord_hooks.specs import hookimpl
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver
from koord_host.planning.desired_values import DesiredValue, Target
from koord_host.planning.jobs import OVERDUE_SECONDS, CancelToken, Job, JobEnd, JobKey, JobState
from koord_host.resource_executor.job_threads import JobThreads
from koord_host.resource_executor.journal import ChangeEntry, read
from koord_model import keys
from koord_model.pod import Pod
from koord_model.qos import KubeQoS
from koord_model.traffic import Traffic
from koordlet.agent import runtime_hooks as node_module
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.qos_manager.plan_queue import NodePlan

from tests.koordlet.conftest import Words
from tests.koordlet.runtime_hooks.reconciler.test_reconcile_loop import JOB, Bench, main_of
from tests.support.fake_node import FakeNode, PodSpec
from tests.support.fake_node.kept import kept, settings_of
from tests.support.processes import PATIENCE

BE = "kubepods/besteffort"
QUOTA = Target(BE, "cpu.cfs_quota_us")
RECLAIM = DesiredValue(Target(BE, "memory.reclaim"), 1 << 20, "cold")
RULES = """\
kind: NodeSLO
spec:
  systemStrategy: {totalNetworkBandwidth: 1G}
  resourceQOSStrategy:
    policies: {cpuPolicy: coreSched}
    lsClass: {cpuQOS: {enable: true}}
"""
POD = PodSpec(
    "web",
    KubeQoS.BURSTABLE,
    "LS",
    2,
    annotations={keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}}},
)
EFFECTS = ["memory.reclaim", "resctrl", "core scheduling", "traffic"]


class HangingNode(FakeNode):
    """Answers to all but one effect, and to that when it is let."""

    def __init__(self, effect: str) -> None:
        self.effect = ""
        super().__init__()
        self.effect = effect
        self.begun, self.let = threading.Event(), threading.Event()

    def _hang(self, effect: str) -> None:
        if effect == self.effect:
            self.begun.set()
            assert self.let.wait(2 * PATIENCE)

    def write(self, path: str, text: str) -> None:
        self._hang("resctrl" if "/resctrl/" in path else path.rpartition("/")[2])
        super().write(path, text)

    def prctl(self, operation: int, pid: int, scope: int, address: int) -> None:
        if pid:
            self._hang("core scheduling")
        super().prctl(operation, pid, scope, address)

    @property
    def traffic(self) -> Traffic | None:
        return self._traffic

    @traffic.setter
    def traffic(self, traffic: Traffic | None) -> None:
        self._hang("traffic")
        self._traffic = traffic


class Clock:
    """Steady seconds that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """A node that is kept by a running loop, and jobs in threads."""

    def __init__(
        self, files: HangingNode, node: ManagedNode, jobs: JobThreads, clock: Clock
    ) -> None:
        self.files, self.node, self.jobs, self.clock = files, node, jobs, clock

    def quota(self) -> str:
        return self.files.read(f"/sys/fs/cgroup/{BE}/cpu.max").split()[0]

    async def until(self, what: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not what():
                await asyncio.sleep(0.01)

    async def suppress(self, value: int) -> None:
        """A plan as strategies hand it over, and its write."""
        self.node.plan_queue.put(NodePlan({"cpu_suppress": (DesiredValue(QUOTA, value, "load"),)}))
        self.node.reconcile_loop.hurry()
        await self.until(lambda: self.quota() == str(value))


@asynccontextmanager
async def hanging(effect: str, directory: Path) -> AsyncIterator[Kept]:
    """A node on which a slow effect hangs; it is let go on at the end."""
    files, clock = HangingNode(effect), Clock()
    rules = directory / "rules.yaml"
    rules.write_text(RULES)
    Bench(POD, node=files)
    settings = settings_of(files, directory, Driver.CGROUPFS, nodeslo_file=str(rules))
    jobs = JobThreads(lambda *_: None, clock)
    runner = load(["coresched", "resctrl", "tcnetworkqos"])
    with kept(files, settings, runner, jobs=jobs) as node:
        async with asyncio.TaskGroup() as group:
            loop = group.create_task(node.reconcile_loop.run())
            try:
                node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(POD))
                node.plan_queue.put(NodePlan(deeds=(("memory_offload", (RECLAIM,)),)))
                node.reconcile_loop.hurry()
                one = Kept(files, node, jobs, clock)
                await one.until(files.begun.is_set)
                yield one
            finally:
                files.let.set()
                loop.cancel()


def changes(directory: Path) -> list[ChangeEntry]:
    return list(read(str(directory / "state/journal.jsonl")))


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_suppression_is_written_while_a_slow_effect_hangs(
    effect: str, tmp_path: Path
) -> None:
    async with hanging(effect, tmp_path) as one:
        for value in (50_000, 40_000):
            await one.suppress(value)
        [state] = [state for state in one.jobs.states() if state.key.kind == effect]
        assert state.state == "running"
        one.files.let.set()
        await one.until(lambda: not one.jobs.states())
        assert one.files.traffic is not None
        assert one.node.reconcile_loop.has_cache_group(f"koordlet-{POD.uid}")
        assert any(one.files.cookies.values())
        await one.until(lambda: {"memory.reclaim"} <= {line.knob for line in changes(tmp_path)})


@pytest.mark.parametrize("effect", EFFECTS)
async def test_one_that_hangs_keeps_nobody_from_stopping(
    effect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Callable[..., Words]
) -> None:
    for name in ("_STOP_SECONDS", "_UNDO_SECONDS"):
        monkeypatch.setattr(node_module, name, 0.1)
    async with hanging(effect, tmp_path) as one:
        async with asyncio.timeout(PATIENCE):
            await one.node.reconcile_loop.finish(one.node.shut_down)
        told = [fields["job"] for _, fields in words("job abandoned on shutdown")]
        assert effect in told
        one.files.let.set()
        assert one.jobs.wait(PATIENCE) == ()


async def test_one_that_outlives_its_deadline_is_told_once_and_shown(
    tmp_path: Path, words: Callable[..., Words]
) -> None:
    async with hanging("traffic", tmp_path) as one:
        one.clock.now += 30 + OVERDUE_SECONDS
        for value in (50_000, 40_000, 30_000):
            await one.suppress(value)
            await one.node.reconcile_loop.reconcile()
        [(_, fields)] = words("job hangs")
        assert (fields["job"], fields["deadline"]) == ("traffic", "30 s")
        states: tuple[JobState, ...] = one.node.jobs.states()
        assert [one.state for one in states if one.key.kind == "traffic"] == ["overdue"]


async def test_a_plan_is_written_in_the_middle_of_a_round(tmp_path: Path) -> None:
    """Pods whose plugins take long are many on a node whose rules have changed."""
    files = FakeNode()
    bench = Bench(JOB, POD, node=files)
    seen: list[str] = []

    def pre_run_pod_sandbox(pod: Pod) -> None:
        seen.append(bench.read(f"{BE}/cpu.max").split()[0])
        node.plan_queue.put(NodePlan({"cpu_suppress": (DesiredValue(QUOTA, 50_000, "load"),)}))

    plugin = SimpleNamespace(pre_run_pod_sandbox=hookimpl(pre_run_pod_sandbox))
    settings = settings_of(files, tmp_path, Driver.CGROUPFS)
    with kept(files, settings, HookRunner([("p", plugin)])) as node:
        for pod in (JOB, POD):
            node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(pod))
        done = await node.reconcile_loop.reconcile()
    assert seen == ["max", "50000"]
    assert next(one.new for one in done.writes.results if one.target == QUOTA) == 50_000
    assert len(done.plans) == 1, "the last one is for the next round"


class TestWhenItStops:
    async def test_what_was_found_is_put_back_after_jobs_have_ended(self, tmp_path: Path) -> None:
        files = HangingNode("resctrl")
        settings = settings_of(files, tmp_path, Driver.CGROUPFS, restore_on_stop=True)
        Bench(POD, node=files)
        jobs = JobThreads(lambda *_: None)
        with kept(files, settings, load(["resctrl"]), jobs=jobs) as node:
            node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(POD))
            await node.reconcile_loop.reconcile()
            async with asyncio.timeout(PATIENCE):
                while not files.begun.is_set():
                    await asyncio.sleep(0.01)
            async with asyncio.TaskGroup() as group:
                group.create_task(node.reconcile_loop.finish(node.shut_down))
                await asyncio.sleep(0)
                files.let.set()
        assert not files.exists(f"/sys/fs/resctrl/koordlet-{POD.uid}")
        knobs = [(line.knob, line.new) for line in changes(tmp_path)]
        assert knobs[-1] == ("resctrl.group", "absent")

    async def test_jobs_are_told_to_stop(
        self, tmp_path: Path, words: Callable[..., Words], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node_module, "_STOP_SECONDS", PATIENCE)
        files, jobs, begun = FakeNode(), JobThreads(lambda *_: None), threading.Event()
        Bench(node=files)

        def until_stopped(cancel: CancelToken) -> None:
            begun.set()
            while not cancel.cancelled():
                time.sleep(0.01)

        settings = settings_of(files, tmp_path, Driver.CGROUPFS)
        with kept(files, settings, HookRunner([]), jobs=jobs) as node:
            jobs.submit(Job(JobKey("long"), 2 * PATIENCE, until_stopped))
            assert begun.wait(PATIENCE)
            await node.reconcile_loop.finish(node.shut_down)
            assert words("job abandoned on shutdown") == []
        assert jobs.ended() == {("long", JobEnd.CANCELLED): 1}
