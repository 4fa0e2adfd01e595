"""Stopping a pod's containers, at the embedded runtime and at worse ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_demo.runtime import DemoRuntime, serve
from koord_proto import cri_pb2 as cri
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend
from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.cri import PodPlan, batch_pod_config, pb
from tests.support.views import pod_view

Answer = Callable[[str, bytes], Any]


async def no_sleep(seconds: float) -> None:
    pass


class Node:
    """The embedded runtime with pods, and a backend that stops them."""

    def __init__(self, directory: Path) -> None:
        self.runtime = DemoRuntime(directory / "cgroup")
        self.path = directory / "r.sock"

    def run(self, name: str, *containers: str) -> tuple[PodRecord, str]:
        """A pod with these containers that run; its sandbox."""
        plan = batch_pod_config(name)
        made = self.runtime.pods.run_pod_sandbox(pb.RunPodSandboxRequest(config=plan.sandbox))
        for container in containers:
            self.start(made.pod_sandbox_id, plan, container)
        return pod_view(name, uid=plan.sandbox.metadata.uid).record, made.pod_sandbox_id

    def start(self, sandbox: str, plan: PodPlan, name: str, attempt: int = 0) -> str:
        config = pb.ContainerConfig.FromString(plan.container.SerializeToString())
        config.metadata.name, config.metadata.attempt = name, attempt
        config.labels["io.kubernetes.pod.uid"] = plan.sandbox.metadata.uid
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=config, sandbox_config=plan.sandbox
        )
        ident = self.runtime.pods.create_container(request).container_id
        self.runtime.pods.start_container(pb.StartContainerRequest(container_id=ident))
        return ident

    def running(self) -> list[str]:
        found = self.runtime.pods.list_containers(pb.ListContainersRequest()).containers
        return [one.metadata.name for one in found if one.state == pb.CONTAINER_RUNNING]

    def stops(self) -> list[pb.StopContainerRequest]:
        return [
            pb.StopContainerRequest.FromString(one.data)
            for one in self.runtime.requests
            if one.method == "StopContainer"
        ]

    @contextlib.asynccontextmanager
    async def stopping(
        self, sleep: Callable[[float], Awaitable[object]] = no_sleep
    ) -> AsyncIterator[ContainerStopBackend]:
        backend = ContainerStopBackend(f"unix://{self.path}", sleep=sleep)
        async with serve(self.runtime, self.path):
            yield backend
            await backend.close()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


GONE, EVICTED = (EvictionOutcome(one) for one in (EvictionResult.GONE, EvictionResult.EVICTED))


async def test_all_containers_of_the_pod_are_stopped_and_no_other(node: Node) -> None:
    record, _ = node.run("job", "first", "second", "third")
    node.run("other", "stays")
    # Koordinator's would stop here: the first does not run.
    first = node.runtime.pods.list_containers(pb.ListContainersRequest()).containers[0]
    node.runtime.pods.stop_container(pb.StopContainerRequest(container_id=first.id))
    async with node.stopping() as backend:
        assert await backend.evict(record, 30, forced=False) == EVICTED
        assert node.running() == ["stays"]
        assert await backend.evict(record, 30, forced=False) == GONE


@pytest.mark.parametrize(("forced", "seconds"), [(False, 25), (True, 0)])
async def test_the_grace_period_is_the_pod_s_unless_it_is_forced(
    node: Node, forced: bool, seconds: int
) -> None:
    record, _ = node.run("job", "main")
    async with node.stopping() as backend:
        await backend.evict(record, 25.0, forced=forced)
    assert [one.timeout for one in node.stops()] == [seconds]


async def test_what_a_kubelet_starts_again_is_no_success(node: Node) -> None:
    record, sandbox = node.run("job", "main")
    plan = batch_pod_config("job")
    plan.sandbox.metadata.uid = record.pod.uid

    async def kubelet(seconds: float) -> None:
        node.start(sandbox, plan, "main", attempt=1)

    async with node.stopping(kubelet) as backend:
        outcome = await backend.evict(record, 30, forced=False)
    assert outcome == EvictionOutcome(
        EvictionResult.FAILED, "containers started again by the kubelet: main", 60.0, disrupted=True
    )


@contextlib.asynccontextmanager
async def answering(path: Path, answer: Answer) -> AsyncIterator[ContainerStopBackend]:
    """A runtime that answers so, by method and request; an Exception is a refusal."""

    class Methods(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            async def call(request: bytes, context: Any) -> bytes:
                found = answer(details.method, request)
                if isinstance(found, tuple):
                    await context.abort(*found)
                return bytes(found)

            return grpc.unary_unary_rpc_method_handler(call)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Methods(),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    backend = ContainerStopBackend(f"unix://{path}", sleep=no_sleep)
    try:
        yield backend
    finally:
        await backend.close()
        await server.stop(0)


def containers(*names: str) -> bytes:
    found = [
        cri.Container(id=name, metadata=cri.ContainerMetadata(name=name), state=1) for name in names
    ]
    return cri.ListContainersResponse(containers=found).SerializeToString()


def listed(*names: str) -> Answer:
    """These run, and go on running."""
    return lambda method, _: containers(*names) if method.endswith("ListContainers") else b""


async def evict_at(path: Path, answer: Answer) -> EvictionOutcome:
    async with answering(path / "r", answer) as backend:
        return await backend.evict(pod_view(uid="u-1").record, 30, forced=False)


@pytest.mark.parametrize(
    ("answer", "end", "reason"),
    [
        (listed("b", "a"), EvictionResult.FAILED, "containers not stopped: a, b"),
        (
            lambda *_: (grpc.StatusCode.UNAVAILABLE, "down"),
            EvictionResult.FAILED,
            "ListContainers: UNAVAILABLE: down",
        ),
        (lambda *_: b"\xff", EvictionResult.FAILED, "ListContainers: cannot decode the response"),
    ],
    ids=["containers run on", "no runtime", "nonsense"],
)
async def test_a_runtime_that_fails(
    tmp_path: Path, answer: Answer, end: EvictionResult, reason: str
) -> None:
    outcome = await evict_at(tmp_path, answer)
    assert (outcome.end, outcome.reason) == (end, reason)
    assert outcome.disrupted == ("containers" in reason)


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (grpc.StatusCode.UNKNOWN, EvictionResult.FAILED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, EvictionResult.UNKNOWN),
    ],
)
async def test_a_container_that_cannot_be_stopped_keeps_no_other(
    tmp_path: Path, code: grpc.StatusCode, end: EvictionResult
) -> None:
    stopped: list[str] = []

    def answer(method: str, request: bytes) -> Any:
        if method.endswith("ListContainers"):
            label = cri.ListContainersRequest.FromString(request).filter.label_selector
            assert label == {"io.kubernetes.pod.uid": "u-1"}
            return containers("stuck", "fine")
        stopped.append(cri.StopContainerRequest.FromString(request).container_id)
        return (code, "is  stuck") if stopped[-1] == "stuck" else b""

    outcome = await evict_at(tmp_path, answer)
    assert sorted(stopped) == ["fine", "stuck"]
    assert outcome == EvictionOutcome(end, f"StopContainer: {code.name}: is stuck", disrupted=True)


async def test_a_container_that_is_gone_is_stopped(tmp_path: Path) -> None:
    lists = iter([containers("a"), b""])

    def answer(method: str, request: bytes) -> Any:
        gone = grpc.StatusCode.NOT_FOUND, "gone"
        return next(lists) if method.endswith("ListContainers") else gone

    assert await evict_at(tmp_path, answer) == EVICTED
