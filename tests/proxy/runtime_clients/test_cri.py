"""The proxy's own CRI calls, to the embedded runtime and to worse ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_demo.runtime import DemoRuntime, serve
from koord_proxy.contract.runtime_client import (
    RuntimeCallError,
    RuntimeListItem,
    RuntimeNotFoundError,
)
from koord_proxy.runtime_clients.cri import CriRuntimeClient

from tests.support.cri import batch_pod_config, pb


@contextlib.asynccontextmanager
async def serving(path: Path, *services: str, answer: bytes = b"") -> AsyncIterator[list[str]]:
    """Something that speaks these services, and answers every call with the same bytes."""
    asked: list[str] = []

    class Methods(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            asked.append(details.method)
            if not details.method.startswith(services):
                return None

            async def call(_: bytes, __: Any) -> bytes:
                return answer

            return grpc.unary_unary_rpc_method_handler(call)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Methods(),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield asked
    finally:
        await server.stop(0)


async def test_lists_and_descriptions(tmp_path):
    runtime = DemoRuntime(tmp_path / "cgroup")
    plan = batch_pod_config("worker")
    made = runtime.pods.run_pod_sandbox(pb.RunPodSandboxRequest(config=plan.sandbox))
    sandbox = made.pod_sandbox_id
    create = pb.CreateContainerRequest(
        pod_sandbox_id=sandbox, config=plan.container, sandbox_config=plan.sandbox
    )
    container = runtime.pods.create_container(create).container_id
    path = tmp_path / "runtime.sock"
    async with serve(runtime, path), CriRuntimeClient(str(path)) as client:
        uid = plan.sandbox.metadata.uid
        assert await client.pods() == [RuntimeListItem(sandbox, f"pod/{uid}/0", live=True)]
        identity = f"container/{sandbox}/main/0"
        assert await client.containers() == [RuntimeListItem(container, identity, True, sandbox)]
        pod = await client.pod(sandbox)
        assert (pod.id, pod.hook_request.pod_meta.name) == (sandbox, "worker")
        assert pod.hook_request.cgroup_parent == plan.sandbox.linux.cgroup_parent
        one = await client.container(container)
        assert (one.id, one.sandbox, one.hook_request.container_meta.name) == (
            container,
            sandbox,
            "main",
        )
        runtime.pods.stop_pod_sandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        assert [found.live for found in await client.pods()] == [False]
        with pytest.raises(RuntimeCallError) as caught:
            await client.pod("unknown")
    assert isinstance(caught.value, RuntimeNotFoundError)
    assert str(caught.value) == 'PodSandboxStatus: NOT_FOUND: sandbox "unknown": not found'
    assert {request.service for request in runtime.requests} == {"runtime.v1"}


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_the_version_the_runtime_has(tmp_path, version):
    path = tmp_path / "s"
    async with (
        serving(path, f"/runtime.{version}.") as asked,
        CriRuntimeClient(str(path)) as client,
    ):
        assert await client.pods() == []
        assert await client.containers() == []
    service = f"/runtime.{version}.RuntimeService"
    # What was found out with the first call is known for the second.
    assert asked[-2:] == [f"{service}/ListPodSandbox", f"{service}/ListContainers"]
    assert len(asked) == (2 if version == "v1" else 3)


async def test_neither(tmp_path):
    async with serving(tmp_path / "s", "/other."), CriRuntimeClient(str(tmp_path / "s")) as client:
        with pytest.raises(RuntimeCallError) as caught:
            await client.pods()
    services = "runtime.v1.RuntimeService, runtime.v1alpha2.RuntimeService"
    assert str(caught.value) == f"ListPodSandbox: the runtime supports none of {services}"


async def test_a_method_the_runtime_has_not(tmp_path):
    path = tmp_path / "s"
    method = "/runtime.v1.RuntimeService/ListPodSandbox"
    async with serving(path, method) as asked, CriRuntimeClient(str(path)) as client:
        await client.pods()
        with pytest.raises(RuntimeCallError, match="ListContainers: UNIMPLEMENTED"):
            await client.containers()
    assert asked[-1] == "/runtime.v1.RuntimeService/ListContainers"


async def test_nobody_there(tmp_path):
    async with CriRuntimeClient(str(tmp_path / "nobody")) as client:
        with pytest.raises(RuntimeCallError, match="ListPodSandbox: UNAVAILABLE: "):
            await client.pods()


async def test_what_cannot_be_read(tmp_path):
    path = tmp_path / "s"
    async with serving(path, "/", answer=b"\xff\xff"), CriRuntimeClient(str(path)) as client:
        with pytest.raises(RuntimeCallError) as caught:
            await client.pods()
    assert str(caught.value) == "ListPodSandbox: cannot decode the response"


async def test_a_path_may_hold_what_addresses_do_not(tmp_path):
    path = tmp_path / "a b%20?#.sock"
    async with serving(tmp_path / "s", "/"):
        (tmp_path / "s").rename(path)
        async with CriRuntimeClient(str(path)) as client:
            assert await client.pods() == []


async def test_a_list_larger_than_grpc_likes(tmp_path):
    item = pb.PodSandbox(annotations={"large": "x" * (1 << 20)})
    answer = pb.ListPodSandboxResponse(items=[item] * 20).SerializeToString()
    path = tmp_path / "s"
    async with serving(path, "/", answer=answer), CriRuntimeClient(str(path)) as client:
        assert len(await client.pods()) == 20


async def test_an_update(tmp_path):
    path = tmp_path / "s"
    linux = pb.LinuxContainerResources(cpu_shares=7)
    request = pb.UpdateContainerResourcesRequest(container_id="c", linux=linux)
    async with serving(path, "/runtime.v1.") as asked, CriRuntimeClient(str(path)) as client:
        await client.update("c", request.SerializeToString())
    assert asked == ["/runtime.v1.RuntimeService/UpdateContainerResources"]
