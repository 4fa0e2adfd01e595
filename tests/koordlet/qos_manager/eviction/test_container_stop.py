"""Stopping a pod's containers, at a double of the runtime."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_proto import cri_pb2 as cri
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend

from tests.support.views import pod_view

FAILED, EVICTED = EvictionResult.FAILED, EvictionOutcome(EvictionResult.EVICTED)
RUNNING, EXITED = 1, 2
Answer = bytes | tuple[grpc.StatusCode, str]


class Runtime(grpc.GenericRpcHandler):
    """Containers of pod "u-1" by id, with their states; ``answers`` are others, by id or method."""

    def __init__(self, **containers: int) -> None:
        self.containers = containers
        self.answers: dict[str, Answer] = {}
        self.stops: list[tuple[str, int]] = []
        self.started_again: list[str] = []

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]

        async def call(request: bytes, context: Any) -> bytes:
            found = (
                self.answers[method] if method in self.answers else getattr(self, method)(request)
            )
            if isinstance(found, tuple):
                await context.abort(*found)
            return bytes(found)

        return grpc.unary_unary_rpc_method_handler(call)

    def ListContainers(self, request: bytes) -> Answer:
        label = cri.ListContainersRequest.FromString(request).filter.label_selector
        assert label == {"io.kubernetes.pod.uid": "u-1"}
        found = [
            cri.Container(
                id=one, metadata=cri.ContainerMetadata(name=one.removesuffix("-2")), state=state
            )
            for one, state in self.containers.items()
        ]
        return cri.ListContainersResponse(containers=found).SerializeToString()

    def StopContainer(self, request: bytes) -> Answer:
        asked = cri.StopContainerRequest.FromString(request)
        self.stops.append((asked.container_id, asked.timeout))
        self.containers[asked.container_id] = EXITED
        self.containers |= dict.fromkeys(self.started_again, RUNNING)
        return self.answers.get(asked.container_id, b"")

    @contextlib.asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[ContainerStopBackend]:
        async def sleep(seconds: float) -> None:
            pass

        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self,))
        server.add_insecure_port(f"unix:{path}/r")
        await server.start()
        backend = ContainerStopBackend(f"unix://{path}/r", sleep=sleep)
        try:
            yield backend
        finally:
            await backend.close()
            await server.stop(0)

    async def evict(self, path: Path, *, forced: bool = False) -> EvictionOutcome:
        async with self.serving(path) as backend:
            return await backend.evict(pod_view(uid="u-1").record, 25.0, forced=forced)


@pytest.mark.parametrize(("forced", "seconds"), [(False, 25), (True, 0)])
async def test_all_running_containers_are_stopped_in_the_grace_period_unless_it_is_forced(
    tmp_path: Path, forced: bool, seconds: int
) -> None:
    # Koordinator's would stop at the first, which does not run.
    runtime = Runtime(first=EXITED, second=RUNNING, third=RUNNING)
    assert await runtime.evict(tmp_path, forced=forced) == EVICTED
    assert sorted(runtime.stops) == [("second", seconds), ("third", seconds)]
    assert await runtime.evict(tmp_path) == EvictionOutcome(EvictionResult.GONE)


async def test_what_a_kubelet_starts_again_is_no_success(tmp_path: Path) -> None:
    runtime = Runtime(main=RUNNING)
    runtime.started_again = ["main-2"]
    reason = "containers started again by the kubelet: main"
    assert await runtime.evict(tmp_path) == EvictionOutcome(FAILED, reason, 60.0, disrupted=True)


@pytest.mark.parametrize(
    ("method", "answer", "reason"),
    [
        ("StopContainer", b"", "containers not stopped: a, b"),
        (
            "ListContainers",
            (grpc.StatusCode.UNAVAILABLE, "down"),
            "ListContainers: UNAVAILABLE: down",
        ),
        ("ListContainers", b"\xff", "ListContainers: cannot decode the response"),
    ],
)
async def test_a_runtime_that_fails(
    tmp_path: Path, method: str, answer: Answer, reason: str
) -> None:
    runtime = Runtime(b=RUNNING, a=RUNNING)
    runtime.answers[method] = answer
    outcome = await runtime.evict(tmp_path)
    assert (outcome.end, outcome.reason) == (FAILED, reason)
    assert outcome.disrupted == (method == "StopContainer")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (grpc.StatusCode.UNKNOWN, FAILED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, EvictionResult.UNKNOWN),
        (grpc.StatusCode.NOT_FOUND, EvictionResult.EVICTED),
    ],
)
async def test_a_container_that_cannot_be_stopped_keeps_no_other(
    tmp_path: Path, code: grpc.StatusCode, outcome: EvictionResult
) -> None:
    runtime = Runtime(stuck=RUNNING, fine=RUNNING)
    runtime.answers["stuck"] = (code, "is  stuck")
    expected = EvictionOutcome(outcome, f"StopContainer: {code.name}: is stuck", disrupted=True)
    found = await runtime.evict(tmp_path)
    assert found == (EVICTED if outcome is EvictionResult.EVICTED else expected)
    assert [one for one, _ in sorted(runtime.stops)] == ["fine", "stuck"]
