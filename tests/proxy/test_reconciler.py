"""Records are brought in line with what the runtime has, whatever happened meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_demo.runtime import DemoRuntime, serve
from koord_proto import cri_pb2 as cri
from koord_proto import hook_pb2 as hook
from koord_proxy import reconciler
from koord_proxy.contract.runtime_client import RuntimeCallError, RuntimeNotFoundError
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.runtime_clients.cri import CriRuntimeClient
from koord_proxy.store import RecordStore

from tests.support.cri import PodPlan, batch_pod_config, pb
from tests.support.processes import PATIENCE
from tests.support.waiting import until


class Node:
    """A runtime, a store, and what a kubelet did without the proxy."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "runtime.sock"
        self.runtime = DemoRuntime(directory / "cgroup")
        self.store = RecordStore(str(directory / "state.db"))
        self.reconciler = RecordReconciler(self.store, lambda: CriRuntimeClient(str(self.path)))

    def serving(self) -> Any:
        return serve(self.runtime, self.path)

    def run_pod(self, plan: PodPlan) -> str:
        made = self.runtime.pods.run_pod_sandbox(pb.RunPodSandboxRequest(config=plan.sandbox))
        return made.pod_sandbox_id

    def create(self, sandbox: str, plan: PodPlan) -> str:
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=plan.container, sandbox_config=plan.sandbox
        )
        return self.runtime.pods.create_container(request).container_id

    def make(self, name: str) -> tuple[str, str]:
        plan = batch_pod_config(name)
        sandbox = self.run_pod(plan)
        container = self.create(sandbox, plan)
        self.runtime.pods.start_container(pb.StartContainerRequest(container_id=container))
        return sandbox, container

    def stop(self, sandbox: str) -> None:
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        self.runtime.pods.stop_pod_sandbox(request)

    def ids(self, kind: RecordKind) -> set[str]:
        return {record.id for record in self.store.records(kind)}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> Iterator[Node]:
    caplog.set_level(logging.INFO, "pykoord")
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "ADOPT_SECONDS", PATIENCE)
    found = Node(tmp_path)
    yield found
    found.store.close()


def pod_record(identity: str, uid: str = "gone") -> RuntimeRecord:
    return RuntimeRecord(
        RecordKind.POD, identity, hook.PodSandboxHookRequest(pod_meta={"uid": uid})
    )


def container_record(identity: str, name: str = "main", sandbox: str = "gone") -> RuntimeRecord:
    facts = hook.ContainerResourceHookRequest(container_meta={"name": name})
    return RuntimeRecord(RecordKind.CONTAINER, identity, facts, sandbox)


class TestRun:
    async def test_what_is_unknown_is_adopted(self, node, caplog):
        sandbox, container = node.make("worker")
        async with node.serving():
            await node.reconciler.run()
        assert node.reconciler.done
        facts = node.store.get(RecordKind.POD, sandbox).facts
        assert facts.pod_meta.name == "worker"
        one = node.store.get(RecordKind.CONTAINER, container)
        assert one.sandbox == sandbox
        assert one.facts.pod_meta.name == "worker"
        assert one.facts.pod_cgroup_parent == facts.cgroup_parent != ""
        assert one.facts.container_resources.cpu_shares == 2
        event = caplog.records[-1]
        assert event.getMessage() == "records match the runtime"
        assert event.fields == {"pods": 1, "containers": 1, "dropped": 0, "adopted": 2}

    async def test_what_is_gone_is_dropped(self, node, caplog):
        sandbox, container = node.make("worker")
        kept = container_record(container, sandbox=sandbox)
        for record in (pod_record("p"), pod_record(sandbox), container_record("c"), kept):
            node.store.put(record)
        node.store.put(container_record("d", sandbox=sandbox))
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == {sandbox}
        assert node.ids(RecordKind.CONTAINER) == {container}
        # What is known is not looked up again.
        assert node.store.get(RecordKind.CONTAINER, container) is kept
        assert caplog.records[-1].fields["dropped"] == 3
        assert caplog.records[-1].fields["adopted"] == 0

    async def test_what_has_ended_is_neither_dropped_nor_adopted(self, node):
        stopped, _ = node.make("stopped")
        node.stop(stopped)
        known, also = node.make("known")
        node.store.put(pod_record(known))
        node.store.put(container_record(also, sandbox=known))
        node.stop(known)
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == {known}
        assert node.ids(RecordKind.CONTAINER) == {also}

    async def test_what_was_expected_before_a_kill_came(self, node, tmp_path):
        plan = batch_pod_config("worker")
        meta = plan.sandbox.metadata
        store = node.store
        facts = hook.PodSandboxHookRequest(pod_meta={"uid": meta.uid}, labels={"hook": "1"})
        store.expect(RuntimeRecord(RecordKind.POD, "", facts))
        sandbox = node.run_pod(plan)
        one = container_record("", sandbox=sandbox)
        one.facts.container_envs["SECRET"] = "hunter2"
        store.expect(one)
        container = node.create(sandbox, plan)
        store.close()
        node.store = RecordStore(str(tmp_path / "state.db"))
        assert node.store.left_over
        again = RecordReconciler(node.store, lambda: CriRuntimeClient(str(node.path)))
        async with node.serving():
            await again.run()
        assert node.store.get(RecordKind.POD, sandbox).facts.labels == {"hook": "1"}
        found = node.store.get(RecordKind.CONTAINER, container)
        assert found.facts.container_envs == {"SECRET": "hunter2"}
        assert found.facts.container_meta.id == container
        assert not node.store.left_over

    async def test_what_was_expected_may_come_late(self, node, tmp_path):
        plan = batch_pod_config("worker")
        facts = hook.PodSandboxHookRequest(
            pod_meta={"uid": plan.sandbox.metadata.uid}, labels={"hook": "1"}
        )
        node.store.expect(RuntimeRecord(RecordKind.POD, "", facts))
        node.store.close()
        node.store = RecordStore(str(tmp_path / "state.db"))
        again = RecordReconciler(node.store, lambda: CriRuntimeClient(str(node.path)))
        async with node.serving():
            running = asyncio.get_running_loop().create_task(again.run())
            await until(lambda: again.done)
            assert not running.done()
            sandbox = node.run_pod(plan)
            await asyncio.wait_for(running, PATIENCE)
        assert node.store.get(RecordKind.POD, sandbox).facts.labels == {"hook": "1"}

    async def test_what_does_not_come_is_forgotten(self, node, tmp_path, monkeypatch):
        monkeypatch.setattr(reconciler, "LEFT_OVER_SECONDS", 0.1)
        node.store.expect(pod_record(""))
        node.store.close()
        node.store = RecordStore(str(tmp_path / "state.db"))
        again = RecordReconciler(node.store, lambda: CriRuntimeClient(str(node.path)))
        async with node.serving():
            await asyncio.wait_for(again.run(), PATIENCE)
        assert not node.store.left_over
        assert again.done

    async def test_the_runtime_comes_later(self, node, caplog):
        sandbox, _ = node.make("worker")
        tries: list[CriRuntimeClient] = []

        def connect() -> CriRuntimeClient:
            tries.append(CriRuntimeClient(str(node.path)))
            return tries[-1]

        node.reconciler = RecordReconciler(node.store, connect)
        running = asyncio.get_running_loop().create_task(node.reconciler.run())
        await until(lambda: len(tries) > 3)
        assert not node.reconciler.done
        # Tried several times, said once.
        [event] = caplog.records
        assert event.getMessage() == "waiting for the runtime's lists"
        assert event.fields["error"].startswith("ListPodSandbox: UNAVAILABLE: ")
        async with node.serving():
            await asyncio.wait_for(running, PATIENCE)
        assert node.ids(RecordKind.POD) == {sandbox}

    async def test_a_call_made_meanwhile_knows_better(self, node):
        sandbox, container = node.make("worker")
        better = container_record(container, sandbox=sandbox)

        class Slow(CriRuntimeClient):
            async def container(self, identity: str) -> Any:
                response = await super().container(identity)
                node.store.put(better)
                return response

        reconciler = RecordReconciler(node.store, lambda: Slow(str(node.path)))
        async with node.serving():
            await reconciler.run()
        assert node.store.get(RecordKind.CONTAINER, container) is better

    async def test_what_a_call_makes_while_lists_are_read_is_not_dropped(self, node):
        class Slow(CriRuntimeClient):
            async def containers(self) -> Any:
                found = await super().containers()
                node.store.put(pod_record("new"))
                node.store.put(container_record("fresh", sandbox="new"))
                return found

        reconciler = RecordReconciler(node.store, lambda: Slow(str(node.path)))
        async with node.serving():
            await reconciler.run()
        assert node.ids(RecordKind.POD) == {"new"}
        assert node.ids(RecordKind.CONTAINER) == {"fresh"}

    async def test_what_ends_while_it_is_adopted_disturbs_no_other(self, node, caplog):
        first, other = node.make("first"), node.make("other")

        class Racing(CriRuntimeClient):
            async def pod(self, identity: str) -> Any:
                if identity == first[0]:
                    request = pb.RemovePodSandboxRequest(pod_sandbox_id=identity)
                    node.runtime.pods.remove_pod_sandbox(request)
                return await super().pod(identity)

        reconciler = RecordReconciler(node.store, lambda: Racing(str(node.path)))
        async with node.serving():
            await reconciler.run()
        assert reconciler.done
        assert node.ids(RecordKind.POD) == {other[0]}
        assert caplog.records[-1].fields["adopted"] == 2

    async def test_a_runtime_that_tells_little(self, node):
        sandbox, container = node.make("worker")

        class Terse(CriRuntimeClient):
            async def _call(self, *asked: Any) -> Any:
                answer = await super()._call(*asked)
                if isinstance(answer, cri.PodSandboxStatusResponse | cri.ContainerStatusResponse):
                    answer.info.clear()
                return answer

        reconciler = RecordReconciler(node.store, lambda: Terse(str(node.path)))
        async with node.serving():
            await reconciler.run()
        one = node.store.get(RecordKind.CONTAINER, container)
        assert one.facts.container_resources.cpu_shares == 2
        # The list told whose it is.
        assert one.sandbox == sandbox
        assert one.facts.pod_meta.name == "worker"


class TestAdopt:
    async def test_a_pod(self, node):
        sandbox, _ = node.make("worker")
        async with node.serving():
            record = await node.reconciler.adopt(RecordKind.POD, sandbox)
        assert record is node.store.get(RecordKind.POD, sandbox)
        assert record.facts.pod_meta.name == "worker"

    async def test_a_container_with_its_pod(self, node):
        sandbox, container = node.make("worker")
        async with node.serving():
            record = await node.reconciler.adopt(RecordKind.CONTAINER, container)
        assert record.sandbox == sandbox
        assert node.ids(RecordKind.POD) == {sandbox}
        assert (
            record.facts.pod_annotations
            == node.store.get(RecordKind.POD, sandbox).facts.annotations
        )

    @pytest.mark.parametrize("kind", list(RecordKind))
    async def test_what_nobody_knows(self, node, kind, caplog):
        async with node.serving():
            with pytest.raises(RuntimeNotFoundError):
                await node.reconciler.adopt(kind, "unknown")
        assert caplog.records == []

    async def test_with_nobody_there(self, node, caplog):
        assert await node.reconciler.adopt(RecordKind.POD, "x") is None
        assert "UNAVAILABLE" in caplog.records[0].fields["error"]

    async def test_a_runtime_that_does_not_answer(self, node, caplog, monkeypatch):
        monkeypatch.setattr("koord_proxy.reconciler.ADOPT_SECONDS", 0.1)

        class Hung(CriRuntimeClient):
            async def pod(self, identity: str) -> Any:
                await asyncio.sleep(60)
                raise RuntimeCallError

        reconciler = RecordReconciler(node.store, lambda: Hung(str(node.path)))
        assert await reconciler.adopt(RecordKind.POD, "x") is None
        assert caplog.records[0].fields["error"] == "no answer"


async def test_what_a_call_is_making_is_not_adopted(node):
    """The runtime lists it before the call has ended: that will say with what it was made."""
    plan = batch_pod_config("worker")
    facts = hook.PodSandboxHookRequest(pod_meta={"uid": plan.sandbox.metadata.uid})
    record = RuntimeRecord(RecordKind.POD, "", facts)
    node.store.expect(record)
    sandbox = node.run_pod(plan)
    async with node.serving():
        await node.reconciler.run()
        assert node.ids(RecordKind.POD) == set()
        node.store.made(record, sandbox)
        assert node.store.get(RecordKind.POD, sandbox) is record


async def test_it_is_done_again_when_it_is_due(node):
    async with node.serving():
        running = asyncio.get_running_loop().create_task(node.reconciler.run_forever())
        await until(lambda: node.reconciler.done)
        sandbox, container = node.make("behind")
        node.reconciler.wake()
        await until(lambda: node.ids(RecordKind.CONTAINER) == {container})
        assert node.ids(RecordKind.POD) == {sandbox}
        running.cancel()


async def test_what_is_adopted_went_without_hooks(node):
    sandbox, container = node.make("worker")
    missed = MissedHookCall("PreRunPodSandbox", "koordlet", "not looked", 1.0)
    connect = node.reconciler._connect
    reconciler = RecordReconciler(node.store, connect, lambda record: [missed])
    async with node.serving():
        await reconciler.run()
    assert node.store.get(RecordKind.POD, sandbox).missed == [missed]
    assert node.store.get(RecordKind.CONTAINER, container).missed == [missed]
