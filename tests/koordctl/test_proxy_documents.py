import asyncio
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_proxy.health import Health
from koord_proxy.hook_targets import HookServerTarget
from koord_proxy.rules.merge import ContainerHookRequest, PodHookRequest
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy, HookServerRegistration
from koord_proxy.store import RecordStore
from koord_service.status import Query
from koordctl.proxy_documents import ContainerHooks, PodHooks, ProxyStatus, read, unmanaged


def test_another_release_may_say_more_or_less() -> None:
    assert read(b'{"status":"ok","moon":"full"}', ProxyStatus) == ProxyStatus("ok")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"status":1}', b"<html>", b"\xff"])
def test_what_is_no_status(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read(body, ProxyStatus)


def test_a_pod_that_went_without_a_hook_itself() -> None:
    pod = PodHooks("p", "ns/p", managed=False, containers=[ContainerHooks("c", "main")])
    assert unmanaged([pod]) == [PodHooks("p", "ns/p", managed=False)]


class _Relay:
    connections: tuple[()] = ()

    def __init__(self, backend_path: str) -> None:
        self.backend_path = backend_path


class _Dispatcher:
    def __init__(self, *targets: HookServerTarget) -> None:
        self.targets = targets


class _Reconciler:
    done = True


async def test_the_proxy_s_own_pages_are_understood(tmp_path: Path) -> None:
    store = RecordStore("")
    missed = [MissedHookCall("PreRunPodSandbox", "koordlet", "away", 1.0)]
    pod = PodHookRequest(pod_meta={"name": "job-1", "namespace": "batch"})
    store.put(RuntimeRecord(RecordKind.POD, "p", pod, missed=missed))
    main = ContainerHookRequest(container_meta={"name": "main"})
    store.put(RuntimeRecord(RecordKind.CONTAINER, "c", main, "p"))
    server = HookServerTarget(
        HookServerRegistration(
            "koordlet", "/k", FailurePolicy.FAIL, frozenset({Stage.PRE_CREATE_CONTAINER})
        )
    )
    parts: Any = {
        "relay": _Relay(f"{tmp_path}/none.sock"),
        "store": store,
        "dispatcher": _Dispatcher(server),
        "reconciler": _Reconciler(),
        "connect": None,
        "registrations": {"koordlet": "is gone"},
    }
    health = Health(**parts)
    await server.close()
    page = await asyncio.to_thread(health.healthz, Query())
    status = read(page.body, ProxyStatus)
    assert (status.status, status.pods, status.unmanaged) == ("degraded", 1, 1)
    assert status.backend == f"{tmp_path}/none.sock: No such file or directory"
    assert status.registrations == {"koordlet": "is gone"}
    [shown] = status.hook_servers
    assert (shown.policy, shown.breaker, shown.stages) == ("Fail", "closed", ["PreCreateContainer"])
    [known] = read(health.pods(Query()).body, list[PodHooks])
    assert (known.name, known.managed, known.missed[0].reason) == ("batch/job-1", False, "away")
    assert known.containers == [ContainerHooks("c", "main")]
