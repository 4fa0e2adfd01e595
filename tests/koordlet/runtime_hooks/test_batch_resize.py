"""A batch pod is resized by its annotation: Kubernetes cannot resize extended resources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_hooks.protocol import request_type, response_type
from koord_hooks.runner import load
from koord_hooks.stages import Stage, rpc_path
from koord_model import keys
from koord_model.qos import KubeQoS
from koord_proto import hook_pb2 as pb
from koord_proto import nri_pb2 as nri
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.hook_server import HookServer
from koordlet.runtime_hooks.nri.hook_handler import HookHandler

from tests.support.node import NodeFixture, PodSpec
from tests.support.node.pods import pod_list
from tests.support.processes import PATIENCE

GIB = 1 << 30
PLUGINS = load(["batchresource"])


def job(milli_cpu: int, gibibytes: int) -> PodSpec:
    amounts = {keys.BATCH_CPU: milli_cpu, keys.BATCH_MEMORY: f"{gibibytes}Gi"}
    spec = {"containers": {"main": {"requests": amounts, "limits": amounts}}}
    annotations = {keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: spec}
    return PodSpec("job", KubeQoS.BEST_EFFORT, "BE", annotations=annotations)


BEFORE, MORE, LESS = job(500, 2), job(3000, 4), job(250, 1)


class ResizedNode:
    """A node whose kubelet lists the batch pod as it was last written to the API."""

    def __init__(self, node: NodeFixture, source: Path) -> None:
        self.node, self._source = node, source
        node.start(BEFORE)
        source.write_bytes(pod_list([BEFORE]))
        self.managed: ManagedNode = node.start_koordlet(
            "batchresource", pod_list_source=str(source), resource_force_update_seconds=0
        )

    async def patch(self, pod: PodSpec) -> None:
        """The annotation changes, and the next list has it."""
        self._source.write_bytes(pod_list([pod]))
        self.managed.reconcile_loop.pods._ask()
        await self.managed.reconcile_loop.pods.sync()
        await self.managed.reconcile_loop.reconcile()

    def limits(self) -> dict[str, tuple[object, object]]:
        """CPU quota and memory limit of the pod's group and its container's."""
        groups = {"pod": BEFORE.group(self.node.layout)}
        groups["container"] = BEFORE.container_group(self.node.layout)
        return {
            name: (
                self.node.value(group, "cpu.cfs_quota_us"),
                self.node.value(group, "memory.limit_in_bytes"),
            )
            for name, group in groups.items()
        }


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
async def resized(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ResizedNode]:
    # The kernel of v1 refuses a quota above that of the parent: the order of writes counts.
    with NodeFixture(tmp_path, request.param) as node:
        made = ResizedNode(node, tmp_path / "pods.json")
        await made.patch(BEFORE)
        yield made


async def test_up_and_down(resized: ResizedNode) -> None:
    for pod, quota, memory in ((MORE, 300_000, 4), (LESS, 25_000, 1), (BEFORE, 50_000, 2)):
        await resized.patch(pod)
        both = (quota, memory * GIB)
        assert resized.limits() == {"pod": both, "container": both}


async def test_a_spec_that_cannot_be_read_leaves_the_limits(resized: ResizedNode) -> None:
    before = resized.limits()
    broken = {keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: "{nope"}
    await resized.patch(replace(BEFORE, annotations=broken))
    assert resized.limits() == before


async def ask_the_hook_server(resized: ResizedNode, stage: Stage, socket: Path) -> Any:
    """What a proxy gets, which knows the pod as its sandbox was started."""
    server = HookServer(
        PLUGINS, PLUGINS.stages(), HookMetrics(), node=resized.managed.reconcile_loop
    )
    await server.start(str(socket))
    pod = BEFORE.pod(resized.node.layout)
    request = pb.ContainerResourceHookRequest(
        pod_meta=pb.PodSandboxMetadata(name=pod.name, namespace=pod.namespace, uid=pod.uid),
        container_meta=pb.ContainerMetadata(name="main", id="job-main"),
        container_resources=pb.LinuxContainerResources(cpu_period=100_000, cpuset_cpus="0-3"),
        pod_annotations=dict(pod.annotations),
        pod_labels=dict(pod.labels),
        pod_cgroup_parent=pod.cgroup_parent,
    )
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            call = channel.unary_unary(
                rpc_path(stage),
                request_serializer=request_type(stage).SerializeToString,
                response_deserializer=response_type(stage).FromString,
            )
            answer = await call(request, timeout=PATIENCE)
    finally:
        await server.stop(0)
    found = answer.container_resources
    return found.cpu_quota, found.memory_limit_in_bytes


@pytest.mark.parametrize(
    "stage", [Stage.PRE_CREATE_CONTAINER, Stage.PRE_UPDATE_CONTAINER_RESOURCES]
)
async def test_a_proxy_that_knows_the_old_annotation_gets_the_new_limits(
    resized: ResizedNode, stage: Stage, tmp_path: Path
) -> None:
    await resized.patch(MORE)
    assert await ask_the_hook_server(resized, stage, tmp_path / "k.sock") == (300_000, 4 * GIB)


async def test_so_does_a_runtime_over_nri(resized: ResizedNode) -> None:
    await resized.patch(MORE)
    pod = BEFORE.pod(resized.node.layout)
    sandbox = nri.PodSandbox(
        id="job-sandbox",
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        annotations=dict(pod.annotations),
        labels=dict(pod.labels),
    )
    sandbox.linux.cgroup_parent = pod.cgroup_parent
    container = nri.Container(id="job-main", pod_sandbox_id="job-sandbox", name="main")
    loop = resized.managed.reconcile_loop
    handler = HookHandler(PLUGINS, loop, HookMetrics(), LogDeduplicator())
    asked = nri.CreateContainerRequest(pod=sandbox, container=container)
    created = handler.create_container(asked).adjust.linux.resources
    asked = nri.UpdateContainerRequest(pod=sandbox, container=container)
    [update] = handler.update_container(asked).update
    for found in (created, update.linux.resources):
        assert found.cpu.quota.value == 300_000
        assert found.memory.limit.value == 4 * GIB


async def test_a_container_that_the_annotation_does_not_name_keeps_its_limits(
    resized: ResizedNode,
) -> None:
    before = resized.limits()
    await resized.patch(replace(BEFORE, annotations={}))
    assert resized.limits() == before
