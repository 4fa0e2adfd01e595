from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_proxy.health import Health
from koord_proxy.hook_targets import HookServer
from koord_proxy.rules.merge import ContainerFacts, PodFacts
from koord_proxy.rules.records import Kind, Missed, Record
from koord_proxy.rules.registration import Policy, Registration
from koord_proxy.store import Store
from koord_service.status import Query
from koordctl.answers import Container, Pod, Status, read, unmanaged


def test_the_status(health: bytes) -> None:
    status = read(health, Status)
    assert (status.status, status.connections, status.unmanaged) == ("degraded", 3, 1)
    assert status.hook_servers[0].stages == ["PreCreateContainer", "PreRunPodSandbox"]


def test_another_release_may_say_more_or_less() -> None:
    assert read(b'{"status":"ok","moon":"full"}', Status) == Status("ok")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"status":1}', b"<html>", b"\xff"])
def test_what_is_no_status(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read(body, Status)


def test_only_the_unmanaged(pods: bytes) -> None:
    known = read(pods, list[Pod])
    assert [pod.name for pod in known] == ["shop/web", "batch/job-1"]
    [job] = unmanaged(known)
    assert job.managed
    assert [one.name for one in job.containers] == ["main"]


def test_a_pod_that_went_without_a_hook_itself() -> None:
    pod = Pod("p", "ns/p", managed=False, containers=[Container("c", "main")])
    assert unmanaged([pod]) == [Pod("p", "ns/p", managed=False)]


class _Relay:
    backend_trouble = ""
    connections: tuple[()] = ()


class _Dispatcher:
    def __init__(self, *targets: HookServer) -> None:
        self.targets = targets


class _Reconciler:
    done = True


async def test_the_proxy_s_own_pages_are_understood() -> None:
    store = Store("")
    missed = [Missed("PreRunPodSandbox", "koordlet", "away", 1.0)]
    pod = PodFacts(pod_meta={"name": "job-1", "namespace": "batch"})
    store.put(Record(Kind.POD, "p", pod, missed=missed))
    main = ContainerFacts(container_meta={"name": "main"})
    store.put(Record(Kind.CONTAINER, "c", main, "p"))
    server = HookServer(
        Registration("koordlet", "/k", Policy.FAIL, frozenset({Stage.PRE_CREATE_CONTAINER}))
    )
    parts: Any = {
        "relay": _Relay(),
        "store": store,
        "dispatcher": _Dispatcher(server),
        "reconciler": _Reconciler(),
    }
    health = Health(**parts)
    await server.close()
    status = read(health.healthz(Query()).body, Status)
    assert (status.backend, status.pods, status.unmanaged) == ("ok", 1, 1)
    [shown] = status.hook_servers
    assert (shown.policy, shown.breaker, shown.stages) == ("Fail", "closed", ["PreCreateContainer"])
    [known] = read(health.pods(Query()).body, list[Pod])
    assert (known.name, known.managed, known.missed[0].reason) == ("batch/job-1", False, "away")
    assert known.containers == [Container("c", "main")]
