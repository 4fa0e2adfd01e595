"""What reconciliation does for docker only; the rest is the contract in ``test_reconciler.py``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from koord_proto import hook_pb2 as pb
from koord_proxy import reconciler
from koord_proxy.contract.runtime_client import NotKubernetesError
from koord_proxy.rules.records import RecordKind

from tests.support import docker_requests as requests
from tests.support.docker_bodies import PARENT_PATH, SPEC
from tests.support.processes import PATIENCE
from tests.support.runtime_nodes import DockerNode, container_record, pod_record
from tests.support.waiting import until

POD, CONTAINER = RecordKind.POD, RecordKind.CONTAINER
FOREIGN = requests.create("web", {"Image": "nginx", "Labels": {"app": "web"}})


@pytest.fixture
def node(new_node: Any) -> Any:
    return new_node(DockerNode)


async def test_hook_requests_of_adopted_containers(node):
    sandbox, container = node.make("worker")
    async with node.serving():
        await node.reconciler.run()
    hook_request = node.store.get(POD, sandbox).hook_request
    assert hook_request.pod_meta == pb.PodSandboxMetadata(
        name="worker", namespace="default", uid="uid-worker"
    )
    assert hook_request.annotations["node.koordinator.sh/extended-resource-spec"] == SPEC
    assert hook_request.cgroup_parent == PARENT_PATH
    hook_request = node.store.get(CONTAINER, container).hook_request
    assert hook_request.container_meta == pb.ContainerMetadata(name="main", id=container)
    assert hook_request.container_resources.cpu_quota == 50000
    assert hook_request.container_envs["A"] == "1"


async def test_what_is_not_of_kubernetes_is_left_alone(node, caplog):
    node.engine.start(node.engine.create(FOREIGN))
    # Whoever takes the label has not the name, and the other way round.
    labels = {"io.kubernetes.docker.type": "podsandbox"}
    node.engine.create(requests.create("labelled", {"Image": "x", "Labels": labels}))
    node.engine.create(requests.create(requests.name("main"), {"Image": "x"}))
    async with node.serving():
        await node.reconciler.run()
    assert node.ids(POD) == node.ids(CONTAINER) == set()
    fields = caplog.records[-1].fields
    assert fields == {"pods": 0, "containers": 0, "dropped": 0, "adopted": 0}
    assert len(node.engine.asked) == 2


async def test_a_container_that_was_not_started_yet(node):
    container = node.create(node.run_pod("worker"), "worker")
    async with node.serving():
        await node.reconciler.run()
    assert node.ids(CONTAINER) == {container}


async def test_a_container_whose_pod_has_ended(node):
    """Its pod is known for as long as it lives itself."""
    sandbox, container = node.make("worker")
    node.engine.stop(sandbox)
    async with node.serving():
        await node.reconciler.run()
    assert node.ids(POD) == {sandbox}
    labels = node.store.get(CONTAINER, container).hook_request.pod_labels
    assert labels["koordinator.sh/qosClass"] == "BE"


async def test_a_container_whose_pod_is_gone(node, caplog):
    sandbox, _ = node.make("worker")
    _, other = node.make("other")
    node.engine.remove(sandbox)
    async with node.serving():
        await node.reconciler.run()
    assert node.ids(CONTAINER) == {other}
    assert caplog.records[-1].fields["adopted"] == 2


@pytest.mark.parametrize("attempt", [0, 1])
async def test_another_attempt_is_another(node, monkeypatch, attempt):
    monkeypatch.setattr(reconciler, "LEFT_OVER_SECONDS", 0.05)
    node.store.expect(pod_record("", "uid-worker", 1, labels={"hook": "1"}))
    sandbox = node.run_pod("worker", attempt)
    node.killed()
    async with node.serving():
        await node.reconciler.run()
    came = node.store.get(POD, sandbox).hook_request.labels == {"hook": "1"}
    assert came is (attempt == 1)


async def test_one_whose_name_was_taken(node):
    """A token is appended to its name, which is no part of what it was expected as."""
    sandbox = node.run_pod("worker")
    node.store.expect(container_record("", sandbox, container_envs={"A": "hook"}))
    request = requests.create_container(sandbox=sandbox, pod="worker", uid="uid-worker")
    container = node.engine.create(request._replace(target=f"{request.target}_6ba5f31a"))
    node.killed()
    async with node.serving():
        await node.reconciler.run()
    assert node.store.get(CONTAINER, container).hook_request.container_envs == {"A": "hook"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["error", "not a list"],
)
async def test_without_a_list_nothing_is_dropped(node, answer, caplog):
    node.store.put(pod_record("p"))
    node.engine.answer = answer
    async with node.serving():
        running = asyncio.get_running_loop().create_task(node.reconciler.run())
        await until(lambda: len(node.engine.asked) > 3)
        assert node.ids(POD) == {"p"}
        # Tried several times, logged once.
        assert [one.getMessage() for one in caplog.records] == ["waiting for the runtime's lists"]
        node.engine.answer = None
        await asyncio.wait_for(running, PATIENCE)
    assert node.ids(POD) == set()


class TestAdopt:
    async def test_one_that_was_stopped(self, node):
        """Looked up because it is removed."""
        sandbox = node.run_pod("worker")
        node.engine.stop(sandbox)
        async with node.serving():
            record = await node.reconciler.adopt(POD, sandbox)
        assert record.hook_request.pod_meta.name == "worker"

    async def test_by_what_a_user_types(self, node):
        _, container = node.make("worker")
        name = node.engine.find(container).name
        async with node.serving():
            records = [
                await node.reconciler.adopt(CONTAINER, typed)
                for typed in (container[:12], name, container)
            ]
        # It is one and the same, under its id.
        assert node.ids(CONTAINER) == {container}
        assert all(record is node.store.get(CONTAINER, container) for record in records)

    async def test_of_another_kind(self, node):
        sandbox, container = node.make("worker")
        foreign = node.engine.create(FOREIGN)
        async with node.serving():
            for kind, one in (
                (POD, container),
                (CONTAINER, sandbox),
                (POD, foreign),
                (CONTAINER, foreign),
                (CONTAINER, "web"),
            ):
                with pytest.raises(NotKubernetesError):
                    await node.reconciler.adopt(kind, one)
        assert node.ids(POD) == node.ids(CONTAINER) == set()
