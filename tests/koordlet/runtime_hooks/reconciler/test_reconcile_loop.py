"""The loop: what events and lists make it write, when a round is due, what it logs."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver, Layout
from koord_model import keys
from koord_model.qos import KubeQoS
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.runtime_hooks.reconciler import reconcile_loop as loop_module
from koordlet.runtime_hooks.reconciler.reconcile_loop import NodeReconcileLoop

from tests.support.node import NodeFixture, PodSpec
from tests.support.node.pods import JOB, WEB, pod_list

LAYOUT = Layout(2, Driver.CGROUPFS)
JOB_MAIN, WEB_MAIN = JOB.container_group(LAYOUT), WEB.container_group(LAYOUT)
START, UPDATE = Stage.POST_START_CONTAINER, Stage.PRE_UPDATE_CONTAINER_RESOURCES
LIMITED = "50000 100000"


def names(loop: NodeReconcileLoop) -> set[str]:
    return {record.pod.name for record in loop.inventory.records()}


class TestRounds:
    async def test_a_container_that_started_is_reconciled_and_one_that_ended_is_not(self, node):
        node.start(JOB)
        loop = node.start_koordlet("batchresource").reconcile_loop
        loop.saw(START, JOB.container(LAYOUT))
        await loop.reconcile()
        assert node.read(JOB_MAIN, "cpu.max") == LIMITED
        loop.saw(Stage.POST_STOP_CONTAINER, JOB.container(LAYOUT))
        loop.saw(Stage.POST_STOP_POD_SANDBOX, JOB.pod(LAYOUT))
        node.files.remove_group(JOB.group(LAYOUT))
        done = await loop.reconcile()
        assert [one for one in done.writes.results if one.alert] == []
        assert names(loop) == set()

    async def test_the_groups_of_a_sandbox_that_starts_are_checked_at_once(self, node):
        node.start(JOB)
        loop = node.start_koordlet("batchresource").reconcile_loop
        loop.saw(START, JOB.container(LAYOUT))
        await loop.reconcile()
        node.write(JOB.group(LAYOUT), "cpu.max", "max 100000")
        await loop.reconcile()
        assert node.read(JOB.group(LAYOUT), "cpu.max") == "max 100000", "not due"
        loop.saw(Stage.PRE_RUN_POD_SANDBOX, JOB.pod(LAYOUT))
        await loop.reconcile()
        assert node.read(JOB.group(LAYOUT), "cpu.max") == LIMITED

    async def test_a_resize_in_place_is_not_undone(self, node, tmp_path):
        rules = tmp_path / "rules.yaml"
        annotation = f'{keys.ANNOTATION_CPU_NORMALIZATION_RATIO}: "2"'
        rules.write_text(f"kind: Node\nmetadata: {{annotations: {{{annotation}}}}}\n")
        node.start(WEB)
        loop = node.start_koordlet(
            "cpunormalization", nodeslo_file=str(rules), resource_force_update_seconds=0
        ).reconcile_loop
        loop.saw(START, WEB.container(LAYOUT, cpu_quota=200_000))
        await loop.reconcile()
        assert node.read(WEB_MAIN, "cpu.max") == "100000 100000"
        # Half of 3 CPUs: the runtime sets what hooks made of the request.
        loop.saw(UPDATE, WEB.container(LAYOUT, cpu_quota=300_000))
        node.write(WEB_MAIN, "cpu.max", "150000 100000")
        await loop.reconcile()
        assert node.read(WEB_MAIN, "cpu.max") == "150000 100000"

    @pytest.mark.parametrize("listed", [False, True])
    async def test_after_a_restart_pods_are_known_and_pools_unless_there_is_a_list(
        self, node, listed
    ):
        own = {keys.ANNOTATION_RESOURCE_STATUS: {"cpuset": "0"}}
        lse = PodSpec("lse", KubeQoS.GUARANTEED, "LSE", annotations=own)
        node.start(lse, WEB)
        with node.koordlet() as before:
            for spec in (lse, WEB):
                before.reconcile_loop.saw(START, spec.container(LAYOUT))
            await before.reconcile_loop.reconcile()
            shared = before.reconcile_loop.view.topology
        assert shared is not None
        after = node.start_koordlet(pod_list_source="/none" if listed else "").reconcile_loop
        assert names(after) == {"lse", "web"}
        assert (after.view.topology == shared) is not listed

    async def test_what_is_wrong_is_logged_once(self, node, tmp_path, words):
        rules = tmp_path / "rules.yaml"
        rules.write_text("---\n")
        broken = replace(JOB, annotations={keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: "{"})
        node.start(broken, WEB)
        node.files.cgroups.refusals[node.path(WEB_MAIN, "cpuset.cpus")] = 1
        loop = node.start_koordlet(
            "all", nodeslo_file=str(rules), resource_force_update_seconds=0
        ).reconcile_loop
        for spec in (broken, WEB):
            loop.saw(START, spec.container(LAYOUT))
        rules.write_text("a: [")
        for _ in range(3):
            await loop.reconcile()
        logged = [
            json.dumps(one)
            for one in words("node settings rejected", "field ignored", "not written")
        ]
        assert len(logged) == len(set(logged)) == 3


class TestBeforeTheFirstList:
    """Pods that are not known yet may have CPUs and resctrl groups of their own."""

    @pytest.fixture
    def source(self, tmp_path: Path, node: NodeFixture) -> Path:
        node.start(WEB)
        source = tmp_path / "pods.json"
        source.write_bytes(b"")
        return source

    async def rounds(self, loop: NodeReconcileLoop, source: Path) -> AsyncIterator[bool]:
        """A round without a list, and one with it."""
        for text in (b"", pod_list([WEB])):
            source.write_bytes(text)
            loop.pods._ask()
            await loop.pods.sync()
            await loop.reconcile()
            yield bool(text)

    async def test_no_cpus_are_shared(self, node, source):
        loop = node.start_koordlet("cpusetallocator", pod_list_source=str(source)).reconcile_loop
        loop.saw(START, WEB.container(LAYOUT))
        found = node.read(WEB_MAIN, "cpuset.cpus")
        async for listed in self.rounds(loop, source):
            assert loop.view.topology is not None
            assert bool(loop.view.topology.shared_pools) is listed
            assert (node.read(WEB_MAIN, "cpuset.cpus") != found) is listed

    async def test_no_resctrl_group_is_removed(self, node, source):
        earlier = "/sys/fs/resctrl/koordlet-of-an-earlier-run"
        node.files.make_directory(earlier)
        loop = node.start_koordlet("resctrl", pod_list_source=str(source)).reconcile_loop
        loop.saw(Stage.PRE_RUN_POD_SANDBOX, WEB.pod(LAYOUT))
        async for listed in self.rounds(loop, source):
            assert node.files.exists(earlier) is not listed


@asynccontextmanager
async def running(managed: ManagedNode) -> AsyncIterator[Callable[[], object]]:
    """The loop runs; what is yielded waits for the end of the next round."""
    ended: asyncio.Queue[object] = asyncio.Queue()
    managed.reconcile_loop._on_result = ended.put_nowait
    async with asyncio.TaskGroup() as group:
        task = group.create_task(managed.reconcile_loop.run())
        yield ended.get
        task.cancel()


class TestTheLoop:
    @pytest.mark.parametrize("by_nri", [False, True])
    async def test_an_event_starts_a_round_at_once(self, node, by_nri):
        node.start(JOB)
        managed = node.start_koordlet("batchresource")
        async with running(managed) as next_round:
            await next_round()
            if by_nri:
                managed.reconcile_loop.synchronize([JOB.pod(LAYOUT)], [JOB.container(LAYOUT)])
            else:
                managed.reconcile_loop.saw(START, JOB.container(LAYOUT))
            await next_round()
        assert node.read(JOB_MAIN, "cpu.max") == LIMITED

    async def test_an_update_is_checked_when_the_runtime_has_made_it(self, node, monkeypatch):
        monkeypatch.setattr(loop_module, "_UPDATE_SECONDS", (0.0, 0.1))
        node.start(JOB)
        managed = node.start_koordlet("batchresource")
        managed.reconcile_loop.saw(START, JOB.container(LAYOUT))
        async with running(managed) as next_round:
            await next_round()
            managed.reconcile_loop.saw(UPDATE, JOB.container(LAYOUT))
            for _ in ("soon", "or later, on a busy node"):
                node.write(JOB_MAIN, "cpu.max", "max 100000")
                await next_round()
                assert node.read(JOB_MAIN, "cpu.max") == LIMITED

    async def test_otherwise_there_is_a_round_at_an_interval_and_a_defect_ends_one_alone(
        self, node, monkeypatch, words
    ):
        managed = node.start_koordlet()
        managed.reconcile_loop._interval = 0.001
        reconciler = managed.reconcile_loop._reconciler
        reconcile_all, defects = reconciler.reconcile_all, [KeyError("defect")]

        def defective(*given, **named):  # type: ignore[no-untyped-def]
            if defects:
                raise defects.pop()
            return reconcile_all(*given, **named)

        monkeypatch.setattr(reconciler, "reconcile_all", defective)
        async with running(managed) as next_round:
            for _ in range(3):
                await next_round()
        assert words("round failed") == [("round failed", {"reason": "KeyError: 'defect'"})]

    async def test_the_last_thing_is_done_by_the_writer(self, node):
        done: list[str] = []
        await node.start_koordlet().reconcile_loop.finish(lambda: done.append("let go"))
        assert done == ["let go"]
