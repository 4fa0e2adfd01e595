"""What the proxy says of itself, from real parts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from koord_demo.runtime import DemoRuntime, serve
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_model.version import VERSION
from koord_proto import hook_pb2 as pb
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.health import Health
from koord_proxy.hook_targets import HookServerTarget, InProcessTarget
from koord_proxy.metrics import Metrics
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy, HookServerRegistration
from koord_proxy.runtime_clients.cri import CriRuntimeClient
from koord_proxy.server import Relay
from koord_proxy.store import RecordStore
from koord_service.grpc_core import grpc
from koord_service.program_start import STARTED_AT
from koord_service.status import Query

MISSED = MissedHookCall("PreCreateContainer", "koordlet", "no answer within 2 s", 1700000000.5)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """For a socket: the names of pytest's own directories may be too long."""
    with tempfile.TemporaryDirectory(prefix="pykoord-") as name:
        yield Path(name)


class Parts:
    def __init__(self, directory: Path, tasks: asyncio.TaskGroup) -> None:
        self.store = RecordStore(str(directory / "state.db"))
        self.dispatcher = Dispatcher(Metrics(), tasks)
        backend = str(directory / "runtime.sock")
        self.relay = Relay(backend_path=backend, session=Any, interceptor=Any, tasks=tasks)
        self.reconciler = RecordReconciler(self.store, lambda: CriRuntimeClient(backend))
        self.registrations: dict[str, str] = {}
        self.health = Health(
            relay=self.relay,
            store=self.store,
            dispatcher=self.dispatcher,
            reconciler=self.reconciler,
            connect=lambda: CriRuntimeClient(backend),
            registrations=self.registrations,
        )

    async def healthz(self) -> Any:
        page = await asyncio.to_thread(self.health.healthz, Query())
        assert (page.status, page.content_type) == (200, "application/json")
        return json.loads(page.body)


def runtime(directory: Path) -> AbstractAsyncContextManager[None]:
    """A runtime that is there while the block runs."""
    return serve(DemoRuntime(directory / "cgroup"), directory / "runtime.sock")


@contextlib.asynccontextmanager
async def parts(directory: Path) -> AsyncIterator[Parts]:
    async with asyncio.TaskGroup() as tasks:
        found = Parts(directory, tasks)
        yield found
        for target in found.dispatcher.targets:
            await target.close()
        found.store.close()


def pod(identity: str, **more: Any) -> RuntimeRecord:
    hook_request = pb.PodSandboxHookRequest(pod_meta={"name": identity, "namespace": "batch"})
    return RuntimeRecord(RecordKind.POD, identity, hook_request, **more)


def container(identity: str, sandbox: str, **more: Any) -> RuntimeRecord:
    hook_request = pb.ContainerResourceHookRequest(
        container_meta={"name": f"{identity}-name"}, container_envs={"SECRET": "hunter2"}
    )
    return RuntimeRecord(RecordKind.CONTAINER, identity, hook_request, sandbox, **more)


async def test_before_anything_happened(tmp_path):
    async with parts(tmp_path) as found:
        said = await found.healthz()
    assert said.pop("backend").endswith("runtime.sock: No such file or directory")
    assert (said.pop("version"), said.pop("started_at")) == (VERSION, STARTED_AT)
    assert said == {
        "status": "degraded",
        "database": "ok",
        "reconciled": False,
        "connections": 0,
        "pods": 0,
        "containers": 0,
        "unmanaged": 0,
        "hook_servers": [],
        "registrations": {},
    }


async def test_when_all_is_well(short_path):
    async with parts(short_path) as found, runtime(short_path):
        assert (await found.healthz())["backend"].startswith("waited for: ")
        found.reconciler.done = True
        found.dispatcher.replace([InProcessTarget(load(["batchresource"]), NodeView())])
        found.store.put(pod("s"))
        said = await found.healthz()
    assert (said["status"], said["backend"], said["reconciled"]) == ("ok", "ok", True)
    assert said["pods"] == 1
    [target] = said["hook_servers"]
    assert target["name"] == "in-process"
    assert "PreCreateContainer" in target["stages"]
    assert (target["policy"], target["breaker"]) == ("Ignore", "closed")


async def test_the_runtime_s_state_is_that_of_now(short_path):
    """Nobody calls it: only asking tells."""
    async with parts(short_path) as found:
        found.reconciler.done = True
        async with runtime(short_path):
            assert (await found.healthz())["status"] == "ok"
        said = await found.healthz()
        assert said["status"] == "degraded"
        assert said["backend"].startswith(f"{short_path}/runtime.sock: ")
        # What calls met does not count once it is over.
        found.relay.backend_away(ConnectionRefusedError(111, "Connection refused"))
        async with runtime(short_path):
            said = await found.healthz()
            assert (said["status"], said["backend"]) == ("ok", "ok")


async def test_a_runtime_that_hangs_is_asked_once_at_a_time(short_path):
    asked: list[Any] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(asyncio.current_task())
        try:
            while await reader.read(1 << 16):
                pass
        finally:
            writer.close()

    path = short_path / "runtime.sock"
    async with parts(short_path) as found, await asyncio.start_unix_server(hang, path):
        found.reconciler.done = True
        said = await asyncio.gather(*(found.healthz() for _ in range(4)))
        for one in asked:
            one.cancel()
    assert {one["backend"] for one in said} == {f"{path}: no answer within 1 s"}
    # A connection to see whether it is there, and one for the call.
    assert len(asked) <= 2


async def test_one_that_does_not_speak_cri_yet(short_path):
    async with parts(short_path) as found:
        found.reconciler.done = True
        server = grpc.aio.server()
        server.add_insecure_port(f"unix:{short_path}/runtime.sock")
        await server.start()
        said = await found.healthz()
        await server.stop(None)
    assert said["backend"].startswith("Version: ")


async def test_each_problem_is_named(short_path):
    async with parts(short_path) as found, runtime(short_path):
        found.reconciler.done = True
        assert (await found.healthz())["status"] == "ok"
        found.store._state.problem = "x: disk full"
        said = await found.healthz()
        assert (said["status"], said["database"]) == ("degraded", "x: disk full")
        found.store._state.problem = ""
        found.registrations["koordlet"] = "is gone"
        said = await found.healthz()
        assert (said["status"], said["registrations"]) == ("degraded", {"koordlet": "is gone"})
        found.registrations.clear()
        stages = frozenset({Stage.PRE_START_CONTAINER, Stage.PRE_CREATE_CONTAINER})
        server = HookServerTarget(
            HookServerRegistration("koordlet", "/nobody", FailurePolicy.FAIL, stages)
        )
        found.dispatcher.replace([server])
        assert (await found.healthz())["status"] == "ok"
        server.breaker.failed(0)
        said = await found.healthz()
        assert said["status"] == "degraded"
        assert said["hook_servers"] == [
            {
                "name": "koordlet",
                "stages": ["PreCreateContainer", "PreStartContainer"],
                "policy": "Fail",
                "breaker": "open",
            }
        ]
        server.breaker.probe_answered()
        assert (await found.healthz())["hook_servers"][0]["breaker"] == "half_open"


async def test_pods_with_their_containers_and_what_they_went_without(tmp_path):
    async with parts(tmp_path) as found:
        found.store.put(pod("s"))
        found.store.put(pod("t", missed=[MISSED]))
        found.store.put(container("c", "s", missed=[MISSED, MISSED]))
        found.store.put(container("d", "s"))
        assert found.health.records() == {"pod": 2, "container": 2}
        assert found.health.unmanaged() == (await found.healthz())["unmanaged"] == 2
        found.store.put(container("alone", "unknown"))
        assert found.health.records() == {"pod": 2, "container": 3}
        page = found.health.pods(Query())
    assert b"hunter2" not in page.body
    first, second, last = json.loads(page.body)
    assert (last["id"], last["name"]) == ("unknown", "(unknown pod)")
    assert [one["id"] for one in last["containers"]] == ["alone"]
    assert first["name"] == "batch/s"
    assert first["managed"]
    assert [(one["id"], one["name"], one["managed"]) for one in first["containers"]] == [
        ("c", "c-name", False),
        ("d", "d-name", True),
    ]
    assert len(first["containers"][0]["missed"]) == 2
    assert second["missed"] == [
        {
            "stage": "PreCreateContainer",
            "server": "koordlet",
            "reason": "no answer within 2 s",
            "at": 1700000000.5,
        }
    ]
    assert not second["managed"]
