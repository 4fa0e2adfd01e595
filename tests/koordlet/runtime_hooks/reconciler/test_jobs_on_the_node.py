"""What takes long holds up no write of a knob, and no stop: each slow effect hangs in turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_hooks.stages import Stage
from koord_host.planning.desired_values import DesiredValue, Target
from koord_host.planning.jobs import OVERDUE_SECONDS, CancelToken, Job, JobEnd, JobKey
from koord_host.resource_executor.job_threads import JobThreads
from koord_model import keys
from koord_model.traffic import Traffic
from koordlet.agent import runtime_hooks as node_module
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.qos_manager.plan_queue import NodePlan

from tests.support.node import FakeKernel, NodeFixture
from tests.support.node.pods import JOB, WEB
from tests.support.processes import PATIENCE
from tests.support.waiting import until

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
POD = replace(WEB, annotations={keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}}})
EFFECTS = ["memory.reclaim", "resctrl", "core scheduling", "traffic"]


class HangingKernel(FakeKernel):
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


class Hanging:
    """A managed node with a running loop, on which one effect hangs in its thread."""

    def __init__(self, effect: str, directory: Path) -> None:
        self.kernel, self.now = HangingKernel(effect), 0.0
        self.node = NodeFixture(directory, files=self.kernel)
        self.node.start(POD)
        (directory / "rules.yaml").write_text(RULES)
        self.jobs = JobThreads(lambda *_: None, lambda: self.now)

    @asynccontextmanager
    async def managed(self) -> AsyncIterator[ManagedNode]:
        """Until the effect hangs; it goes on at the end."""
        plugins = "coresched", "resctrl", "tcnetworkqos"
        rules = str(self.node.directory / "rules.yaml")
        with self.node.koordlet(*plugins, jobs=self.jobs, nodeslo_file=rules) as managed:
            async with asyncio.TaskGroup() as group:
                loop = group.create_task(managed.reconcile_loop.run())
                try:
                    managed.reconcile_loop.saw(
                        Stage.POST_START_CONTAINER, POD.container(self.node.layout)
                    )
                    managed.plan_queue.put(NodePlan(one_shot=(("memory_offload", (RECLAIM,)),)))
                    managed.reconcile_loop.hurry()
                    await until(self.kernel.begun.is_set, "it hangs")
                    yield managed
                finally:
                    self.kernel.let.set()
                    loop.cancel()

    async def suppress(self, managed: ManagedNode, value: int) -> None:
        """Hand a strategy's plan over, and wait for its write."""
        managed.plan_queue.put(quota_plan(value))
        managed.reconcile_loop.hurry()
        await until(lambda: self.node.read(BE, "cpu.max").startswith(f"{value} "), "it is written")


def quota_plan(value: int) -> NodePlan:
    return NodePlan({"cpu_suppress": (DesiredValue(QUOTA, value, "load"),)})


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_suppression_is_written_while_a_slow_effect_hangs(effect, tmp_path):
    one = Hanging(effect, tmp_path)
    async with one.managed() as managed:
        for value in (50_000, 40_000):
            await one.suppress(managed, value)
        [state] = [state for state in one.jobs.states() if state.key.kind == effect]
        assert state.state == "running"
        one.kernel.let.set()
        # A round may not have come to it yet.
        await until(lambda: one.kernel.traffic is not None, "the last one is done")
        await until(lambda: not one.jobs.states(), "all are done")
        assert managed.reconcile_loop.has_cache_group(f"koordlet-{POD.uid}")
        assert any(one.kernel.cookies.values())
        knobs = lambda: {line.knob for line in one.node.journal()}  # noqa: E731
        await until(lambda: "memory.reclaim" in knobs(), "it is journalled")


@pytest.mark.parametrize("effect", EFFECTS)
async def test_an_effect_that_hangs_does_not_delay_shutdown(effect, tmp_path, monkeypatch, words):
    for name in ("_STOP_SECONDS", "_UNDO_SECONDS"):
        monkeypatch.setattr(node_module, name, 0.1)
    one = Hanging(effect, tmp_path)
    async with one.managed() as managed:
        async with asyncio.timeout(PATIENCE):
            await managed.reconcile_loop.finish(managed.shut_down)
        assert effect in [fields["job"] for _, fields in words("job abandoned on shutdown")]
        one.kernel.let.set()
        assert one.jobs.wait(PATIENCE) == ()


async def test_an_overdue_job_is_logged_once_and_shown(tmp_path, words):
    one = Hanging("traffic", tmp_path)
    async with one.managed() as managed:
        one.now += 30 + OVERDUE_SECONDS
        for value in (50_000, 40_000, 30_000):
            await one.suppress(managed, value)
            await managed.reconcile_loop.reconcile()
        [(_, fields)] = words("job hangs")
        assert (fields["job"], fields["deadline"]) == ("traffic", "30 s")
        states = managed.jobs.states()
        assert [one.state for one in states if one.key.kind == "traffic"] == ["overdue"]


async def test_a_plan_is_written_in_the_middle_of_a_round(node):
    """Pods whose plugins take long are many on a node whose rules have changed."""
    node.start(JOB, POD)
    seen: list[str] = []

    def pre_run_pod_sandbox() -> None:
        seen.append(node.read(BE, "cpu.max").split()[0])
        managed.plan_queue.put(quota_plan(50_000))

    plugin = SimpleNamespace(pre_run_pod_sandbox=hookimpl(pre_run_pod_sandbox))
    managed = node.start_koordlet(runner=HookRunner([("p", plugin)]))
    for pod in (JOB, POD):
        managed.reconcile_loop.saw(Stage.POST_START_CONTAINER, pod.container(node.layout))
    done = await managed.reconcile_loop.reconcile()
    assert seen == ["max", "50000"]
    assert next(one.new for one in done.writes.results if one.target == QUOTA) == 50_000
    assert len(done.plans) == 1, "the last one is for the next round"


class TestShutdown:
    async def test_original_values_are_restored_after_jobs_have_ended(self, tmp_path):
        one = Hanging("resctrl", tmp_path)
        settings = {"jobs": JobThreads(lambda *_: None), "restore_on_stop": True}
        with one.node.koordlet("resctrl", **settings) as managed:
            loop = managed.reconcile_loop
            loop.saw(Stage.POST_START_CONTAINER, POD.container(one.node.layout))
            await loop.reconcile()
            await until(one.kernel.begun.is_set, "it hangs")
            async with asyncio.TaskGroup() as group:
                group.create_task(loop.finish(managed.shut_down))
                await asyncio.sleep(0)
                one.kernel.let.set()
        assert not one.kernel.exists(f"/sys/fs/resctrl/koordlet-{POD.uid}")
        last = one.node.journal()[-1]
        assert (last.knob, last.new) == ("resctrl.group", "absent")

    async def test_jobs_are_cancelled(self, node, words, monkeypatch):
        monkeypatch.setattr(node_module, "_STOP_SECONDS", PATIENCE)
        jobs, begun = JobThreads(lambda *_: None), threading.Event()

        def until_stopped(cancel: CancelToken) -> None:
            begun.set()
            while not cancel.cancelled():
                time.sleep(0.01)

        managed = node.start_koordlet(jobs=jobs)
        jobs.submit(Job(JobKey("long"), 2 * PATIENCE, until_stopped))
        assert begun.wait(PATIENCE)
        await managed.reconcile_loop.finish(managed.shut_down)
        assert words("job abandoned on shutdown") == []
        assert jobs.ended() == {("long", JobEnd.CANCELLED): 1}
