import asyncio
import logging
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_hooks.protocol import HookRequest, request_type, response_type
from koord_hooks.runner import HookRunner, available_plugins, load
from koord_hooks.specs import hookimpl
from koord_hooks.stages import POD_STAGES, Stage, rpc_path
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_proto import hook_pb2 as pb
from koord_service.sockets import SocketInUseError
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.hook_server import HookServer

from tests.support.processes import PATIENCE

CREATE = Stage.PRE_CREATE_CONTAINER

Ask = Callable[[Stage, HookRequest], Awaitable[Any]]


@asynccontextmanager
async def serving(
    path: Path, runner: HookRunner | None = None, **options: Any
) -> AsyncIterator[tuple[HookServer, Ask]]:
    runner = runner or load(["all"])
    stages = options.pop("stages", runner.stages())
    server = HookServer(runner, stages, HookMetrics(), **options)
    await server.start(str(path))
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:

        async def ask(stage: Stage, request: HookRequest) -> Any:
            call = channel.unary_unary(
                rpc_path(stage),
                request_serializer=request_type(stage).SerializeToString,
                response_deserializer=response_type(stage).FromString,
            )
            return await call(request, timeout=PATIENCE)

        try:
            yield server, ask
        finally:
            await server.stop(0)


def wanting(**env: str) -> SimpleNamespace:
    def pre_create_container() -> Patch:
        return Patch(env=env, why="so")

    return SimpleNamespace(pre_create_container=hookimpl(pre_create_container))


@pytest.fixture(autouse=True)
def log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "koordlet.sock"


async def test_a_change_is_answered_and_logged(path, words, batch_container, batch_answer):
    async with serving(path) as (_, ask):
        assert await ask(CREATE, batch_container) == batch_answer
    why = (
        "batchresource: batch-cpu request 1000 → cpu.shares 1024; "
        "limit 1000 → quota 100000; batch-memory limit 1Gi → 1073741824"
    )
    subject = {"stage": "PreCreateContainer", "pod": "batch/job-1", "container": "main"}
    assert words() == [("changed", {**subject, "why": why})]


async def test_what_is_as_desired_already_is_not_logged(path, words, batch_container, batch_answer):
    batch_container.container_resources.CopyFrom(batch_answer.container_resources)
    async with serving(path) as (_, ask):
        assert await ask(CREATE, batch_container) == batch_answer
    assert words() == []


@pytest.mark.parametrize("stage", Stage)
async def test_every_call_is_served_and_echoes(path, stage):
    async with serving(path) as (_, ask):
        if stage in POD_STAGES:
            carried = {"labels": {"l": "1"}, "cgroup_parent": "/p"}
            answer = await ask(stage, pb.PodSandboxHookRequest(**carried))
            assert answer == pb.PodSandboxHookResponse(**carried)
        else:
            carried = {"container_envs": {"A": "1"}, "pod_cgroup_parent": "/p"}
            answer = await ask(stage, pb.ContainerResourceHookRequest(**carried))
            assert answer == pb.ContainerResourceHookResponse(**carried)


async def test_a_disabled_stage_is_echoed(path, batch_container):
    async with serving(path, stages=()) as (_, ask):
        answer = await ask(CREATE, batch_container)
    assert answer.container_resources == batch_container.container_resources


async def test_a_pod_waits_until_it_is_prepared_and_may_be_refused(path, batch_container):
    async def prepare(pod: Pod) -> str:
        await asyncio.sleep(0.01)
        return f"{pod.name} must not start"

    request = pb.PodSandboxHookRequest(pod_meta=batch_container.pod_meta)
    async with serving(path, prepare=prepare) as (_, ask):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(Stage.PRE_RUN_POD_SANDBOX, request)
        await ask(CREATE, batch_container)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert raised.value.details() == "job-1 must not start"


async def test_pods_are_logged_without_a_container(path, words, batch_container):
    request = pb.PodSandboxHookRequest(
        pod_meta=batch_container.pod_meta,
        labels=batch_container.pod_labels,
        annotations=batch_container.pod_annotations,
    )
    async with serving(path) as (_, ask):
        answer = await ask(Stage.PRE_RUN_POD_SANDBOX, request)
    assert answer.resources.cpu_shares == 1024
    [(message, fields)] = words()
    assert message == "changed"
    assert fields.keys() == {"stage", "pod", "why"}


class Node:
    """A node whose view can change, and that records events."""

    def __init__(self) -> None:
        self.view = NodeView()
        self.seen: list[tuple[Stage, str]] = []

    def current(self, container: Container) -> Container:
        return container

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        self.seen.append((stage, subject.name))


async def test_plugins_get_the_node_as_it_is_now(path, batch_container):
    batch_container.pod_labels["koordinator.sh/qosClass"] = "LS"
    node = Node()
    async with serving(path, node=node) as (_, ask):
        assert (await ask(CREATE, batch_container)).container_resources.cpuset_cpus == ""
        node.view = NodeView(topology=Topology(shared_pools=(SharedPool(0, "0-3"),)))
        assert (await ask(CREATE, batch_container)).container_resources.cpuset_cpus == "0-3"


async def test_the_node_gets_every_call_also_of_stages_without_a_plugin(path, batch_container):
    node = Node()
    async with serving(path, node=node) as (_, ask):
        await ask(CREATE, batch_container)
        await ask(Stage.POST_START_CONTAINER, batch_container)
    assert node.seen == [(CREATE, "main"), (Stage.POST_START_CONTAINER, "main")]


def broken_plugin() -> SimpleNamespace:
    def pre_create_container() -> Patch:
        raise KeyError("first\nsecond")

    return SimpleNamespace(pre_create_container=hookimpl(pre_create_container))


class TestFailures:
    REASON = (
        "pod batch/job-1: annotation node.koordinator.sh/extended-resource-spec: "
        'container "main" requests kubernetes.io/batch-cpu: "half" is not a valid quantity; '
        "expected one like 500m, 2 or 1Gi (left out)"
    )

    @pytest.mark.parametrize("failing", [False, True])
    async def test_input_that_cannot_be_used_fails_no_call_and_the_rest_applies(
        self, path, words, broken_container, failing
    ):
        batch = available_plugins()["batchresource"]()
        runner = HookRunner([("batchresource", batch), ("other", wanting(B="2"))])
        async with serving(path, runner, plugin_failure_fails=failing) as (_, ask):
            answer = await ask(CREATE, broken_container)
        assert answer.container_envs == {"A": "1", "B": "2"}
        # The limit is as bad as the request; the memory limit can be read, and counts.
        expected = pb.LinuxContainerResources()
        expected.CopyFrom(broken_container.container_resources)
        expected.memory_limit_in_bytes = 1 << 30
        assert answer.container_resources == expected
        logged = words()
        assert [message for message, _ in logged] == ["field ignored", "field ignored", "changed"]
        assert self.REASON in [fields.get("reason") for _, fields in logged]

    async def test_a_plugin_failure_is_logged_with_its_kind(self, path, words, batch_container):
        async with serving(path, HookRunner([("theirs", broken_plugin())])) as (_, ask):
            await ask(CREATE, batch_container)
        [(_, fields)] = words()
        assert fields["reason"] == r"KeyError: 'first\nsecond'"

    async def test_a_plugin_failure_may_fail_the_call_and_names_the_plugin(
        self, path, batch_container
    ):
        runner = HookRunner([("theirs", broken_plugin())])
        async with serving(path, runner, plugin_failure_fails=True) as (_, ask):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(CREATE, batch_container)
            # The next call is answered as if nothing had been.
            await ask(Stage.POST_STOP_CONTAINER, batch_container)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        expected = "hook plugin theirs failed at PreCreateContainer: KeyError: 'first\\nsecond'"
        assert caught.value.details() == expected

    async def test_a_conflict_is_logged_and_the_field_left_alone(
        self, path, words, batch_container
    ):
        runner = HookRunner([("a", wanting(A="2")), ("b", wanting(A="3"))])
        async with serving(path, runner) as (_, ask):
            assert (await ask(CREATE, batch_container)).container_envs == {"A": "1"}
        [(message, fields)] = words()
        assert message == "plugins conflict, field not changed"
        assert fields["conflict"] == "env[A]: a wants '2', b wants '3'"


class TestSocket:
    @pytest.mark.parametrize("name", ["koordlet.sock", "a b%20?#.sock"])
    async def test_it_is_for_owner_and_group_and_gone_afterwards(self, tmp_path, name):
        path = tmp_path / name
        server = HookServer(load([]), (), HookMetrics())
        await server.start(str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        await server.stop(0)
        assert not path.exists()

    async def test_a_live_one_is_an_error_and_goes_on(self, path, batch_container):
        async with serving(path) as (_, ask):
            with pytest.raises(SocketInUseError, match=r"koordlet\.sock"):
                await HookServer(load([]), (), HookMetrics()).start(str(path))
            await ask(CREATE, batch_container)

    async def test_one_that_grpc_cannot_bind_is_an_error_that_names_it(self, path, monkeypatch):
        def add_insecure_port(_: object, address: str) -> int:
            raise RuntimeError(f"Failed to bind to address {address}")

        monkeypatch.setattr("grpc.aio._server.Server.add_insecure_port", add_insecure_port)
        with pytest.raises(OSError, match=r"koordlet\.sock: cannot listen: Failed to bind"):
            await HookServer(load([]), (), HookMetrics()).start(str(path))

    async def test_one_never_started_stops(self):
        await HookServer(load([]), (), HookMetrics()).stop(0)
