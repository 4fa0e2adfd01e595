"""What the proxy says of itself, from real parts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_proto import hook_pb2 as pb
from koord_proxy.cri.client import CriRuntime
from koord_proxy.dispatch import Dispatcher
from koord_proxy.health import Health
from koord_proxy.hook_targets import HookServer, InProcess
from koord_proxy.metrics import Metrics
from koord_proxy.reconcile import Reconciler
from koord_proxy.rules.records import Kind, Missed, Record
from koord_proxy.rules.registration import Policy, Registration
from koord_proxy.server import Relay
from koord_proxy.store import Store
from koord_service.status import Query

MISSED = Missed("PreCreateContainer", "koordlet", "no answer within 2 s", 1700000000.5)


class Parts:
    def __init__(self, directory: Path, tasks: asyncio.TaskGroup) -> None:
        self.store = Store(str(directory / "state.db"))
        self.dispatcher = Dispatcher(Metrics(), tasks)
        backend = str(directory / "runtime.sock")
        self.relay = Relay(backend_path=backend, session=Any, interceptor=Any, tasks=tasks)
        self.reconciler = Reconciler(self.store, lambda: CriRuntime(backend))
        self.health = Health(
            relay=self.relay,
            store=self.store,
            dispatcher=self.dispatcher,
            reconciler=self.reconciler,
        )

    def healthz(self) -> Any:
        page = self.health.healthz(Query())
        assert (page.status, page.content_type) == (200, "application/json")
        return json.loads(page.body)


@contextlib.asynccontextmanager
async def parts(directory: Path) -> AsyncIterator[Parts]:
    async with asyncio.TaskGroup() as tasks:
        found = Parts(directory, tasks)
        yield found
        for target in found.dispatcher.targets:
            await target.close()
        found.store.close()


def pod(identity: str, **more: Any) -> Record:
    facts = pb.PodSandboxHookRequest(pod_meta={"name": identity, "namespace": "batch"})
    return Record(Kind.POD, identity, facts, **more)


def container(identity: str, sandbox: str, **more: Any) -> Record:
    facts = pb.ContainerResourceHookRequest(
        container_meta={"name": f"{identity}-name"}, container_envs={"SECRET": "hunter2"}
    )
    return Record(Kind.CONTAINER, identity, facts, sandbox, **more)


async def test_before_anything_happened(tmp_path):
    async with parts(tmp_path) as found:
        said = found.healthz()
    assert said["status"] == "degraded"
    assert said["backend"] != "ok"
    del said["backend"]
    assert said == {
        "status": "degraded",
        "database": "ok",
        "reconciled": False,
        "connections": 0,
        "pods": 0,
        "containers": 0,
        "unmanaged": 0,
        "hook_servers": [],
    }


async def test_when_all_is_well(tmp_path):
    async with parts(tmp_path) as found:
        found.relay.backend_there()
        found.reconciler.done = True
        found.dispatcher.replace([InProcess(load(["batchresource"]), NodeView())])
        found.store.put(pod("s"))
        said = found.healthz()
    assert (said["status"], said["backend"], said["reconciled"]) == ("ok", "ok", True)
    assert said["pods"] == 1
    [target] = said["hook_servers"]
    assert target["name"] == "in-process"
    assert "PreCreateContainer" in target["stages"]
    assert (target["policy"], target["breaker"]) == ("Ignore", "closed")


async def test_each_trouble_is_named(tmp_path):
    async with parts(tmp_path) as found:
        found.relay.backend_there()
        found.reconciler.done = True
        assert found.healthz()["status"] == "ok"
        found.relay.backend_away(ConnectionRefusedError(111, "Connection refused"))
        said = found.healthz()
        assert said["status"] == "degraded"
        assert said["backend"] == f"{tmp_path}/runtime.sock: Connection refused"
        found.relay.backend_there()
        found.store.trouble = "x: disk full"
        said = found.healthz()
        assert (said["status"], said["database"]) == ("degraded", "x: disk full")
        found.store.trouble = ""
        stages = frozenset({Stage.PRE_START_CONTAINER, Stage.PRE_CREATE_CONTAINER})
        server = HookServer(Registration("koordlet", "/nobody", Policy.FAIL, stages))
        found.dispatcher.replace([server])
        assert found.healthz()["status"] == "ok"
        server.breaker.failed(0)
        said = found.healthz()
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
        assert found.healthz()["hook_servers"][0]["breaker"] == "half_open"


async def test_pods_with_their_containers_and_what_they_went_without(tmp_path):
    async with parts(tmp_path) as found:
        found.store.put(pod("s"))
        found.store.put(pod("t", missed=[MISSED]))
        found.store.put(container("c", "s", missed=[MISSED, MISSED]))
        found.store.put(container("d", "s"))
        assert found.health.records() == {"pod": 2, "container": 2}
        assert found.health.unmanaged() == found.healthz()["unmanaged"] == 2
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
