"""Records are brought in line with what dockerd has, whatever happened meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_proto import hook_pb2 as pb
from koord_proxy import reconciler
from koord_proxy.contract.runtime_client import NotKubernetesError, RuntimeNotFoundError
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.runtime_clients import docker as docker_client
from koord_proxy.runtime_clients.docker import DockerRuntimeClient
from koord_proxy.store import RecordStore

from tests.support import docker_requests as requests
from tests.support.docker_bodies import PARENT_PATH, SPEC
from tests.support.docker_engine import Engine
from tests.support.processes import PATIENCE
from tests.support.waiting import until

FOREIGN = requests.create("web", {"Image": "nginx", "Labels": {"app": "web"}})


class Node:
    """A double of dockerd, a store, and what cri-dockerd did without the proxy."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "docker.sock"
        self.engine = Engine()
        self.database = directory / "state.db"
        self.store = RecordStore(str(self.database))
        self.reconciler = self.new_reconciler(DockerRuntimeClient)

    def new_reconciler(self, runtime: Callable[[str], DockerRuntimeClient]) -> RecordReconciler:
        return RecordReconciler(self.store, lambda: runtime(str(self.path)))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with self.engine.serving(self.path):
            yield

    def run_pod(self, name: str, attempt: int = 0) -> str:
        made = self.engine.create(requests.create_sandbox(name, f"uid-{name}", attempt))
        self.engine.start(made)
        return made

    def create(self, sandbox: str, pod: str, **more: Any) -> str:
        request = requests.create_container(sandbox=sandbox, pod=pod, uid=f"uid-{pod}", **more)
        return self.engine.create(request)

    def make(self, name: str) -> tuple[str, str]:
        sandbox = self.run_pod(name)
        container = self.create(sandbox, name)
        self.engine.start(container)
        return sandbox, container

    def ids(self, kind: RecordKind) -> set[str]:
        return {record.id for record in self.store.records(kind)}

    def killed(self) -> None:
        """The proxy is begun anew, with what it has on its disk."""
        self.store.close()
        self.store = RecordStore(str(self.database))
        self.reconciler = self.new_reconciler(DockerRuntimeClient)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> Iterator[Node]:
    caplog.set_level(logging.INFO, "pykoord")
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "ADOPT_SECONDS", PATIENCE)
    found = Node(tmp_path)
    yield found
    found.store.close()


def pod_record(identity: str, uid: str = "gone", **facts: Any) -> RuntimeRecord:
    return RuntimeRecord(
        RecordKind.POD, identity, pb.PodSandboxHookRequest(pod_meta={"uid": uid}, **facts)
    )


def container_record(identity: str, sandbox: str = "gone", **facts: Any) -> RuntimeRecord:
    request = pb.ContainerResourceHookRequest(container_meta={"name": "main"}, **facts)
    return RuntimeRecord(RecordKind.CONTAINER, identity, request, sandbox)


class TestRun:
    async def test_what_is_unknown_is_adopted(self, node, caplog):
        sandbox, container = node.make("worker")
        async with node.serving():
            await node.reconciler.run()
        assert node.reconciler.done
        facts = node.store.get(RecordKind.POD, sandbox).facts
        assert facts.pod_meta == pb.PodSandboxMetadata(
            name="worker", namespace="default", uid="uid-worker"
        )
        assert facts.annotations["node.koordinator.sh/extended-resource-spec"] == SPEC
        assert facts.cgroup_parent == PARENT_PATH
        one = node.store.get(RecordKind.CONTAINER, container)
        assert one.sandbox == sandbox
        assert one.facts.container_meta == pb.ContainerMetadata(name="main", id=container)
        # What docker knows of the pod it says of the sandbox only.
        assert one.facts.pod_meta == facts.pod_meta
        assert one.facts.pod_labels == facts.labels != {}
        assert one.facts.pod_annotations == facts.annotations
        assert one.facts.pod_cgroup_parent == PARENT_PATH
        assert one.facts.container_resources.cpu_quota == 50000
        assert one.facts.container_envs["A"] == "1"
        event = caplog.records[-1]
        assert event.getMessage() == "records match the runtime"
        assert event.fields == {"pods": 1, "containers": 1, "dropped": 0, "adopted": 2}

    async def test_it_survives(self, node):
        sandbox, container = node.make("worker")
        async with node.serving():
            await node.reconciler.run()
        before = node.store.get(RecordKind.CONTAINER, container)
        node.killed()
        assert node.store.get(RecordKind.CONTAINER, container) == before
        assert node.ids(RecordKind.POD) == {sandbox}

    async def test_what_is_not_of_kubernetes_is_left_alone(self, node, caplog):
        node.engine.start(node.engine.create(FOREIGN))
        # Whoever takes the label has not the name, and the other way round.
        labels = {"io.kubernetes.docker.type": "podsandbox"}
        node.engine.create(requests.create("labelled", {"Image": "x", "Labels": labels}))
        node.engine.create(requests.create(requests.name("main"), {"Image": "x"}))
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == node.ids(RecordKind.CONTAINER) == set()
        assert caplog.records[-1].fields == {
            "pods": 0,
            "containers": 0,
            "dropped": 0,
            "adopted": 0,
        }
        assert len(node.engine.asked) == 2

    async def test_what_is_gone_is_dropped(self, node, caplog):
        sandbox, container = node.make("worker")
        kept = container_record(container, sandbox)
        for record in (pod_record("p"), pod_record(sandbox), container_record("c"), kept):
            node.store.put(record)
        node.store.put(container_record("d", sandbox))
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == {sandbox}
        assert node.ids(RecordKind.CONTAINER) == {container}
        # What is known is not looked up again.
        assert node.store.get(RecordKind.CONTAINER, container) is kept
        assert len(node.engine.asked) == 2
        assert caplog.records[-1].fields["dropped"] == 3
        assert caplog.records[-1].fields["adopted"] == 0

    async def test_what_has_ended_is_neither_dropped_nor_adopted(self, node):
        for one in node.make("stopped"):
            node.engine.stop(one)
        known, also = node.make("known")
        node.store.put(pod_record(known))
        node.store.put(container_record(also, known))
        for one in (also, known):
            node.engine.stop(one)
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == {known}
        assert node.ids(RecordKind.CONTAINER) == {also}

    async def test_one_that_was_not_started_yet(self, node):
        sandbox = node.run_pod("worker")
        container = node.create(sandbox, "worker")
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.CONTAINER) == {container}

    async def test_a_container_whose_pod_has_ended(self, node):
        """Its pod is known for as long as it lives itself."""
        sandbox, container = node.make("worker")
        node.engine.stop(sandbox)
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.POD) == {sandbox}
        labels = node.store.get(RecordKind.CONTAINER, container).facts.pod_labels
        assert labels["koordinator.sh/qosClass"] == "BE"

    async def test_a_container_whose_pod_is_gone(self, node, caplog):
        sandbox, _ = node.make("worker")
        _, other = node.make("other")
        node.engine.remove(sandbox)
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(RecordKind.CONTAINER) == {other}
        assert caplog.records[-1].fields["adopted"] == 2

    async def test_what_was_expected_before_a_kill_came(self, node):
        store = node.store
        store.expect(pod_record("", "uid-worker", labels={"hook": "1"}))
        sandbox = node.run_pod("worker")
        store.expect(container_record("", sandbox, container_envs={"SECRET": "hunter2"}))
        container = node.create(sandbox, "worker")
        node.killed()
        assert node.store.left_over
        async with node.serving():
            await node.reconciler.run()
        # As hooks left it, and not as docker has it.
        assert node.store.get(RecordKind.POD, sandbox).facts.labels == {"hook": "1"}
        found = node.store.get(RecordKind.CONTAINER, container)
        assert found.facts.container_envs == {"SECRET": "hunter2"}
        assert found.facts.container_meta.id == container
        assert not node.store.left_over

    @pytest.mark.parametrize("attempt", [0, 1])
    async def test_another_attempt_is_another(self, node, monkeypatch, attempt):
        monkeypatch.setattr(reconciler, "LEFT_OVER_SECONDS", 0.05)
        facts = {"pod_meta": {"uid": "uid-worker", "attempt": 1}, "labels": {"hook": "1"}}
        node.store.expect(RuntimeRecord(RecordKind.POD, "", pb.PodSandboxHookRequest(**facts)))
        sandbox = node.run_pod("worker", attempt)
        node.killed()
        async with node.serving():
            await node.reconciler.run()
        came = node.store.get(RecordKind.POD, sandbox).facts.labels == {"hook": "1"}
        assert came is (attempt == 1)

    async def test_one_whose_name_was_taken(self, node):
        """A token is appended to its name, which is no part of what it was expected as."""
        sandbox = node.run_pod("worker")
        node.store.expect(container_record("", sandbox, container_envs={"A": "hook"}))
        request = requests.create_container(sandbox=sandbox, pod="worker", uid="uid-worker")
        request = request._replace(target=f"{request.target}_6ba5f31a")
        container = node.engine.create(request)
        node.killed()
        async with node.serving():
            await node.reconciler.run()
        assert node.store.get(RecordKind.CONTAINER, container).facts.container_envs == {"A": "hook"}

    async def test_what_was_expected_may_come_late(self, node):
        node.store.expect(pod_record("", "uid-worker", labels={"hook": "1"}))
        node.killed()
        async with node.serving():
            running = asyncio.get_running_loop().create_task(node.reconciler.run())
            await until(lambda: node.reconciler.done)
            assert not running.done()
            sandbox = node.run_pod("worker")
            await asyncio.wait_for(running, PATIENCE)
        assert node.store.get(RecordKind.POD, sandbox).facts.labels == {"hook": "1"}

    @pytest.mark.parametrize("answer", [None, b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n"])
    async def test_dockerd_comes_later(self, node, caplog, answer):
        sandbox, _ = node.make("worker")
        node.engine.answer = answer
        async with contextlib.AsyncExitStack() as later:
            if answer is not None:
                await later.enter_async_context(node.serving())
            tries: list[DockerRuntimeClient] = []

            def connect(path: str) -> DockerRuntimeClient:
                tries.append(DockerRuntimeClient(path))
                return tries[-1]

            node.reconciler = node.new_reconciler(connect)
            running = asyncio.get_running_loop().create_task(node.reconciler.run())
            await until(lambda: len(tries) > 3)
            assert not node.reconciler.done
            # Tried several times, said once.
            [event] = caplog.records
            assert event.getMessage() == "waiting for the runtime's lists"
            reason = "500" if answer else f"{node.path}: No such file or directory"
            assert reason in event.fields["error"]
            node.engine.answer = None
            if answer is None:
                await later.enter_async_context(node.serving())
            await asyncio.wait_for(running, PATIENCE)
        assert node.ids(RecordKind.POD) == {sandbox}

    async def test_a_list_that_cannot_be_read_drops_nothing(self, node):
        node.store.put(pod_record("p"))
        node.engine.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        async with node.serving():
            running = asyncio.get_running_loop().create_task(node.reconciler.run())
            await until(lambda: len(node.engine.asked) > 1)
            assert node.ids(RecordKind.POD) == {"p"}
            node.engine.answer = None
            await asyncio.wait_for(running, PATIENCE)
        assert node.ids(RecordKind.POD) == set()

    async def test_what_ends_while_it_is_adopted_disturbs_no_other(self, node, caplog):
        first, other = node.make("first"), node.make("other")

        class Racing(DockerRuntimeClient):
            async def pod(self, identity: str) -> RuntimeRecord:
                if identity in {first[0]} & node.engine.containers.keys():
                    node.engine.remove(identity)
                return await super().pod(identity)

        reconciler = node.new_reconciler(Racing)
        async with node.serving():
            await reconciler.run()
        assert reconciler.done
        assert node.ids(RecordKind.POD) == {other[0]}
        assert caplog.records[-1].fields["adopted"] == 2

    async def test_a_call_made_meanwhile_knows_better(self, node):
        sandbox, container = node.make("worker")
        better = container_record(container, sandbox)

        class Slow(DockerRuntimeClient):
            async def container(self, identity: str) -> RuntimeRecord:
                record = await super().container(identity)
                node.store.put(better)
                return record

        async with node.serving():
            await node.new_reconciler(Slow).run()
        assert node.store.get(RecordKind.CONTAINER, container) is better


class TestAdopt:
    async def test_a_pod(self, node):
        sandbox, _ = node.make("worker")
        async with node.serving():
            record = await node.reconciler.adopt(RecordKind.POD, sandbox)
        assert record is node.store.get(RecordKind.POD, sandbox)
        assert record.facts.pod_meta.name == "worker"

    async def test_one_that_was_stopped(self, node):
        """Asked for because it is removed."""
        sandbox = node.run_pod("worker")
        node.engine.stop(sandbox)
        async with node.serving():
            record = await node.reconciler.adopt(RecordKind.POD, sandbox)
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

    async def test_by_what_a_user_types(self, node):
        _, container = node.make("worker")
        name = node.engine.find(container).name
        async with node.serving():
            records = [
                await node.reconciler.adopt(RecordKind.CONTAINER, typed)
                for typed in (container[:12], name, container)
            ]
        # It is one and the same, under its id.
        assert node.ids(RecordKind.CONTAINER) == {container}
        assert all(record is node.store.get(RecordKind.CONTAINER, container) for record in records)

    async def test_of_another_kind(self, node):
        sandbox, container = node.make("worker")
        foreign = node.engine.create(FOREIGN)
        async with node.serving():
            for kind, one in (
                (RecordKind.POD, container),
                (RecordKind.CONTAINER, sandbox),
                (RecordKind.POD, foreign),
                (RecordKind.CONTAINER, foreign),
                (RecordKind.CONTAINER, "web"),
            ):
                with pytest.raises(NotKubernetesError):
                    await node.reconciler.adopt(kind, one)
        assert node.ids(RecordKind.POD) == node.ids(RecordKind.CONTAINER) == set()

    @pytest.mark.parametrize("kind", list(RecordKind))
    async def test_what_nobody_knows(self, node, kind):
        async with node.serving():
            with pytest.raises(RuntimeNotFoundError, match="No such container: unknown"):
                await node.reconciler.adopt(kind, "unknown")

    async def test_with_nobody_there(self, node, caplog):
        assert await node.reconciler.adopt(RecordKind.POD, "x") is None
        assert caplog.records[0].fields["error"] == f"{node.path}: No such file or directory"

    async def test_a_dockerd_that_does_not_answer(self, node, caplog, monkeypatch):
        """A call waits for it, but not long."""
        monkeypatch.setattr(reconciler, "ADOPT_SECONDS", 0.05)
        # The thread that asks waits longer.
        monkeypatch.setattr(docker_client, "TIMEOUT", 0.5)
        node.engine.silent = True
        async with node.serving():
            assert await node.reconciler.adopt(RecordKind.POD, "x") is None
        assert caplog.records[0].fields["error"] == "no answer"
