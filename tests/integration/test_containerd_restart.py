"""Containerd dies and comes back under load; the proxy stays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

from tests.integration.conftest import assert_sound
from tests.support.cgroups import container_values
from tests.support.containerd import Containerd, requires_containerd
from tests.support.cri import Cri, batch_pod_config, pb, remove_pod, run_pod
from tests.support.processes import PATIENCE, until
from tests.support.proxy import Proxy, connect


@pytest.fixture(scope="module")
def own() -> Iterator[Containerd]:
    """One for this file: here it is killed."""
    with Containerd() as instance:
        yield instance
    assert instance.leftovers() == []


@pytest.fixture
def proxy(own, directory, koordlet) -> Iterator[Proxy]:
    with Proxy(directory, own.address) as instance:
        instance.wait_for_server("koordlet")
        yield instance
        assert_sound(instance)
    own.remove_all_pods()


class Load(threading.Thread):
    """A client that calls without pause, and counts what becomes of it."""

    def __init__(self, address: object, container_id: str) -> None:
        super().__init__()
        self.outcomes: Counter[grpc.StatusCode] = Counter()
        self.done = threading.Event()
        self._cri = Cri(address)
        self._container_id = container_id

    def run(self) -> None:
        with self._cri as cri:
            cri.wait_until_ready()
            while not self.done.is_set():
                self._note(lambda: cri.version(timeout=PATIENCE))
                linux = pb.LinuxContainerResources(cpu_shares=2)
                self._note(
                    lambda linux=linux: cri.update_container_resources(
                        self._container_id, linux, timeout=PATIENCE
                    )
                )

    def _note(self, call) -> None:
        try:
            call()
        except grpc.RpcError as error:
            self.outcomes[error.code()] += 1
            self.done.wait(0.01)
        else:
            self.outcomes[grpc.StatusCode.OK] += 1


@requires_containerd
def test_killed_and_restarted_under_load(own, proxy):
    with proxy.cri() as cri:
        pods = [run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root)) for _ in range(3)]
        known = proxy.containers().keys()
        through = [Load(proxy.address, pod.container_id) for pod in pods]
        directly = Load(own.address, pods[0].container_id)
        loads = [*through, directly]
        for load in loads:
            load.start()
        try:
            for how in (own.kill, own.stop):
                _wait_for_more(loads, grpc.StatusCode.OK, 20)
                how()
                _wait_for_more(loads, grpc.StatusCode.UNAVAILABLE, 5)
                own.start()
            _wait_for_more(loads, grpc.StatusCode.OK, 20)
        finally:
            for load in loads:
                load.done.set()
            for load in loads:
                load.join(PATIENCE)
        for load in through:
            # What a client may see, it may also see without a proxy.
            expected = {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, *directly.outcomes}
            # A call that was in containerd's hands as it began to stop in order.
            expected |= {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN}
            assert load.outcomes.keys() <= expected
        cri.wait_until_ready()
        assert proxy.containers().keys() == known == {pod.container_id for pod in pods}
        for pod in pods:
            linux = pb.LinuxContainerResources(cpu_shares=2)
            cri.update_container_resources(pod.container_id, linux)
            assert container_values(cri, pod.container_id).memory_limit == 128 << 20
            remove_pod(cri, pod)
        assert proxy.pods() == []
    assert proxy.healthz()["backend"] == "ok"


@requires_containerd
def test_while_away_clients_see_what_they_see_directly(own, proxy):
    with proxy.cri() as cri, connect(own.address) as direct:
        cri.version()
        direct.version()
        own.kill()
        try:
            for client in (cri, direct):
                until(lambda client=client: _code(client) is grpc.StatusCode.UNAVAILABLE)
            health = proxy.healthz()
            assert health["backend"] != "ok"
            assert health["status"] == "degraded"
        finally:
            own.start()
        # Before anybody calls it again.
        assert proxy.healthz()["status"] == "ok"
        for client in (cri, direct):
            client.wait_until_ready()
        pod = run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root))
        assert container_values(cri, pod.container_id).cpu_quota == 50_000
        assert proxy.healthz()["status"] == "ok"


@requires_containerd
def test_pod_stays_known_when_its_stop_fails(own, proxy):
    with proxy.cri() as cri:
        pod = run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root))
        own.kill()
        try:
            for stop, name in (
                (cri.stop_container, pod.container_id),
                (cri.stop_pod_sandbox, pod.sandbox_id),
            ):
                with pytest.raises(grpc.RpcError) as failure:
                    stop(name, timeout=60)
                assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert pod.container_id in proxy.containers()
        finally:
            own.start()
        cri.wait_until_ready()
        cri.stop_container(pod.container_id)
        assert pod.container_id not in proxy.containers()


def _wait_for_more(loads: list[Load], outcome: grpc.StatusCode, more: int) -> None:
    """Wait until each has seen an outcome so many times more."""
    wanted = [load.outcomes[outcome] + more for load in loads]
    for load, count in zip(loads, wanted, strict=True):
        until(lambda load=load, count=count: load.outcomes[outcome] >= count, f"no more {outcome}")


def _code(cri: Cri) -> grpc.StatusCode:
    try:
        cri.version(timeout=30)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK
