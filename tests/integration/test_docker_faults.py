"""Pods that dockerd runs, while proxy, dockerd and hook servers come and go; and what hooks hear.

It needs no cgroup of a kubelet's: limits are read from wherever runc put them.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest
from koord_demo.cgroups import mounts
from koord_hooks.stages import Stage

from tests.integration.conftest import assert_sound
from tests.support import docker_bodies
from tests.support.cgroups import group, read_values
from tests.support.docker_pods import (
    MODE,
    CriDockerd,
    DockerPod,
    EngineError,
    container_body,
    sandbox_body,
)
from tests.support.dockerd import IMAGE, Dockerd, why_not
from tests.support.hook_server import HookServer, echo, refusing, waiting, wishing
from tests.support.pod_cases import BE, MIB
from tests.support.processes import until
from tests.support.proxy import Koordlet, Proxy

_WHY_NOT = why_not()

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

RUN, CREATE = Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER
START, UPDATE = Stage.PRE_START_CONTAINER, Stage.PRE_UPDATE_CONTAINER_RESOURCES
REMOVE = Stage.PRE_REMOVE_POD_SANDBOX

WISHES = wishing(
    resources={"cpu_shares": 717, "memory_limit_in_bytes": 99 * MIB, "cpu_quota": 33_000},
    annotations={"hooked.example/by": "the hook"},
    envs={"FROM_THE_HOOK": "yes", "CHANGED": "by the hook"},
    stages=(RUN, CREATE),
)
NOTED = BE.like("noted", envs={"PLAIN": "a=b=c", "CHANGED": "no", "EMPTY": ""})

LOST = (EngineError, OSError, http.client.HTTPException)
"""What a call may end with while what it goes through dies."""


@pytest.fixture
def proxy(dockerd: Dockerd, directory: Path) -> Iterator[Proxy]:
    with Proxy(directory, dockerd.address, MODE, "--log-level=debug") as instance:
        yield instance
        assert_sound(instance)
    dockerd.remove_all_containers()


@pytest.fixture
def cri(proxy: Proxy, dockerd: Dockerd) -> Iterator[CriDockerd]:
    """cri-dockerd at the proxy."""
    with CriDockerd(proxy.address, dockerd.cgroup_root) as client:
        yield client


@pytest.fixture
def direct(dockerd: Dockerd) -> Iterator[CriDockerd]:
    """cri-dockerd at dockerd itself."""
    with CriDockerd(dockerd.address, dockerd.cgroup_root) as client:
        yield client


@pytest.fixture
def wishes(proxy: Proxy, hooks: HookServer) -> HookServer:
    """A registered hook server that wants something of every pod."""
    proxy.use(hooks, WISHES)
    return hooks


def by_id(proxy: Proxy) -> dict[str, dict[str, Any]]:
    """What the proxy shows of pods; their order, and that of their containers, may change."""
    return {
        pod["id"]: {**pod, "containers": {one["id"]: one for one in pod["containers"]}}
        for pod in proxy.pods()
    }


def kept(proxy: Proxy) -> list[object]:
    """All that is in the proxy's records and its database, expected things included."""
    with contextlib.closing(sqlite3.connect(f"file:{proxy.state}?mode=ro", uri=True)) as database:
        return [*proxy.pods(), *database.execute("SELECT kind, id FROM records")]


def is_batch(cri: CriDockerd, container: str) -> bool:
    """Whether a container is under the limits of the row ``BE``, on CPUs of full speed."""
    limits = read_values(cri.pid(container))
    reported = cri.reported(container)
    return (
        (512, 50_000, 128 * MIB)
        == (limits.cpu_shares, limits.cpu_quota, limits.memory_limit)
        == (reported["CpuShares"], reported["CpuQuota"], reported["Memory"])
    )


def heard(*requests: Any) -> int:
    """How many different things were said, but for names, ids and what the image sets."""
    assert len(requests) > 1
    said = set()
    for request in requests:
        copy = type(request)()
        copy.CopyFrom(request)
        copy.pod_meta.Clear()
        copy.container_meta.Clear()
        copy.pod_cgroup_parent = os.path.dirname(copy.pod_cgroup_parent)
        copy.container_envs.pop("PATH", None)
        for name in ("name", "namespace", "uid"):
            copy.pod_labels.pop(f"io.kubernetes.pod.{name}", None)
        said.add(copy.SerializeToString(deterministic=True))
    return len(said)


# What hook servers want and hear.


def test_what_a_hook_wants_is_in_the_container(
    proxy: Proxy, cri: CriDockerd, wishes: HookServer
) -> None:
    pod, container = cri.run(NOTED)
    reported = cri.reported(container)
    variables = ["PLAIN=a=b=c", "CHANGED=by the hook", "EMPTY=", "FROM_THE_HOOK=yes"]
    assert [one for one in reported["Env"] if not one.startswith("PATH=")] == variables
    with docker_package(proxy) as client:
        inside = client.containers.get(container).exec_run("env").output.decode()
    assert set(variables) <= {*inside.splitlines()}
    assert reported["Labels"]["annotation.hooked.example/by"] == "the hook"
    assert cri.reported(pod.sandbox)["Labels"]["annotation.hooked.example/by"] == "the hook"
    assert (reported["CpuShares"], reported["CpuQuota"]) == (717, 33_000)
    assert reported["Memory"] == reported["MemorySwap"] == 99 * MIB
    values = read_values(cri.pid(container))
    assert (values.cpu_shares, values.cpu_quota, values.memory_limit) == (717, 33_000, 99 * MIB)
    assert proxy.outcomes("applied", server="hooks", stage=CREATE) == 1


def test_cgroup_parent_of_a_hook(dockerd: Dockerd, cri: CriDockerd, wishes: HookServer) -> None:
    other = f"{dockerd.cgroup_root}/elsewhere"
    wishes.behave = wishing(cgroup_parent=other, stages=(RUN,))
    pod = cri.run_pod_sandbox(NOTED)
    place = group(cri.pid(pod.sandbox), "cpu")
    assert place
    assert place == mounts()["cpu"] / other.lstrip("/") / pod.sandbox


def test_stages_of_a_life(proxy: Proxy, cri: CriDockerd, wishes: HookServer) -> None:
    pod, container = cri.run(NOTED)
    cri.update(container, CpuShares=3)
    cri.stop_container(container)
    assert container not in proxy.containers()
    cri.remove_container(container)
    cri.stop_pod_sandbox(pod)
    assert proxy.pods() == []
    cri.remove_pod_sandbox(pod)
    assert kept(proxy) == []
    until(lambda: len(wishes.asked) >= len(Stage), "a stage is missing")
    assert sorted(asked.stage for asked in wishes.asked) == sorted(Stage)
    # Those that come after a call are asked while the next one is under way.
    ahead = [one.stage for one in wishes.asked if not one.stage.startswith("Post")]
    assert ahead == [RUN, CREATE, START, UPDATE, REMOVE]
    for stage, request in wishes.asked:
        meta = request.pod_meta
        assert (meta.name, meta.namespace, meta.uid) == (pod.name, "default", pod.uid), stage
        if stage not in (RUN, Stage.POST_STOP_POD_SANDBOX, REMOVE):
            assert request.container_meta.name == "main"
            assert request.container_meta.id == ("" if stage is CREATE else container)
            assert request.pod_labels["koordinator.sh/qosClass"] == "BE"
            assert request.pod_cgroup_parent == pod.parent


def test_container_that_ends_by_itself(proxy: Proxy, cri: CriDockerd, wishes: HookServer) -> None:
    pod, first = cri.run(NOTED)
    _end_by_itself(cri, first)
    assert first in proxy.containers()
    # Its successor is made before it goes.
    second = cri.create_container(pod, attempt=1)
    cri.start_container(second)
    cri.remove_container(first)
    assert proxy.containers().keys() == {second}
    _end_by_itself(cri, second)
    # Docker answers that there was nothing to do.
    cri.stop_container(second)
    assert proxy.containers() == {}
    stopped = Stage.POST_STOP_CONTAINER
    until(lambda: wishes.requests(stopped), "not asked after the stop")
    assert [one.container_meta.id for one in wishes.requests(stopped)] == [second]
    # With a container that runs, and without a stop.
    cri.start_container(cri.create_container(pod, attempt=2))
    cri.remove_pod_sandbox(pod)
    assert kept(proxy) == []
    assert cri.containers() == set()


# Restarts.


def in_order(proxy: Proxy) -> None:
    assert proxy.stop() == 0
    proxy.start()


def killed(proxy: Proxy) -> None:
    proxy.restart_after_kill()


def killed_and_robbed(proxy: Proxy) -> None:
    """Its records are gone, too; what it cannot see of a container is what was missed."""
    proxy.kill()
    for file in proxy.state.parent.glob(f"{proxy.state.name}*"):
        file.unlink()
    proxy.start()


@pytest.mark.parametrize("restart", [in_order, killed, killed_and_robbed])
def test_proxy_restarts_amid_a_pods_making(
    proxy: Proxy, cri: CriDockerd, wishes: HookServer, restart: Callable[[Proxy], None]
) -> None:
    """Hooks hear the same afterwards, of the pod that runs and of the one that begins."""
    running, container = cri.run(NOTED)
    cri.update(container, CpuShares=3)
    half = cri.run_pod_sandbox(NOTED)
    wishes.behave = refusing
    unmanaged = cri.create_container(running, "unmanaged")
    wishes.behave = WISHES
    assert not proxy.containers()[unmanaged]["managed"]
    known = by_id(proxy)
    restart(proxy)
    assert by_id(proxy).keys() == known.keys()
    assert proxy.containers().keys() == {container, unmanaged}
    second = cri.create_container(half)
    cri.start_container(second)
    cri.update(container, CpuShares=3)
    # What is asked again to make it good has an id.
    before, _, after = (one for one in wishes.requests(CREATE) if not one.container_meta.id)
    assert heard(before, after) == 1
    assert after.pod_annotations["hooked.example/by"] == "the hook"
    assert heard(*wishes.requests(UPDATE)) == 1
    assert wishes.requests(UPDATE)[1].container_envs["FROM_THE_HOOK"] == "yes"
    assert read_values(cri.pid(second)).memory_limit == 99 * MIB
    for pod in (running, half):
        cri.remove(pod)
    assert kept(proxy) == []


def test_killed_amid_many_creates(
    proxy: Proxy, cri: CriDockerd, direct: CriDockerd, wishes: HookServer
) -> None:
    """Whatever dockerd has made of what it was asked for is known afterwards."""
    pods = [cri.run_pod_sandbox(NOTED) for _ in range(2)]
    wanted = [(pod, f"c{number}") for number in range(5) for pod in pods]

    def create(pod: DockerPod, name: str) -> None:
        with CriDockerd(proxy.address, "") as own, contextlib.suppress(*LOST):
            own.create_container(pod, name)

    with ThreadPoolExecutor(len(wanted)) as kubelet:
        for pod, name in wanted:
            kubelet.submit(create, pod, name)
        until(lambda: len(direct.containers()) > len(pods) + 1)
        proxy.kill()
    proxy.start()
    sandboxes = {pod.sandbox for pod in pods}
    until(lambda: proxy.containers().keys() | sandboxes == direct.containers(), "not the same")
    for container in proxy.containers():
        cri.update(container, CpuShares=3)
        asked = wishes.requests(UPDATE)[-1]
        assert asked.container_meta.id == container
        assert asked.container_envs["CHANGED"] == "by the hook"
        assert asked.container_resources.memory_limit_in_bytes == 99 * MIB
        assert asked.pod_annotations["hooked.example/by"] == "the hook"
    for pod in pods:
        cri.remove_pod_sandbox(pod)
    assert proxy.pods() == []


def test_dockerd_is_killed_and_comes_back(
    dockerd: Dockerd, koordlet: Koordlet, proxy: Proxy, cri: CriDockerd
) -> None:
    proxy.wait_for_server("koordlet")
    pod, container = cri.run(BE)
    pid, known = cri.pid(container), by_id(proxy)
    dockerd.kill()
    try:
        for call in (
            lambda: cri.stop_container(container),
            lambda: cri.remove_container(container),
            lambda: cri.create_container(pod, "second"),
        ):
            with pytest.raises(ConnectionError):
                call()
        until(lambda: proxy.healthz()["status"] == "degraded")
        assert by_id(proxy) == known
    finally:
        dockerd.start()
    assert cri.pid(container) == pid
    assert proxy.healthz()["status"] == "ok"
    cri.update(container, CpuPeriod=100_000, CpuShares=2)
    assert is_batch(cri, container)
    second = cri.create_container(pod, attempt=1)
    cri.start_container(second)
    assert is_batch(cri, second)
    cri.remove(pod)
    assert kept(proxy) == []


# Hook servers that are not there.


def test_failing_koordlet(koordlet: Koordlet, proxy: Proxy, cri: CriDockerd) -> None:
    text = koordlet.registration.read_text()
    koordlet.registration.write_text(text.replace('"Ignore"', '"Fail"'))
    proxy.wait_until(lambda: proxy.policy("koordlet") == "Fail", "not in use")
    pod = cri.run_pod_sandbox(BE)
    before = cri.containers()
    koordlet.kill()
    for call, stage in (
        (lambda: cri.create_container(pod), CREATE),
        (lambda: cri.run_pod_sandbox(BE), RUN),
    ):
        with pytest.raises(EngineError) as failure:
            call()
        assert failure.value.status == 503
        assert f"hook server koordlet at {stage}" in failure.value.message
    with docker_package(proxy) as client:
        with pytest.raises(docker.errors.APIError) as reported:
            client.api.create_container_from_config(container_body(pod), pod.container_name("main"))
        assert reported.value.is_server_error()
        assert str(reported.value.explanation).endswith("(its failure policy is Fail)")
        # What is none of Kubernetes' is not refused.
        client.containers.create(IMAGE, name="web").remove()
    assert cri.containers() == before
    assert proxy.containers() == {}
    koordlet.start()
    proxy.wait_for_breaker_not_open("koordlet")
    container = cri.create_container(pod)
    cri.start_container(container)
    assert is_batch(cri, container)
    cri.remove(pod)
    assert kept(proxy) == []


def test_client_that_leaves_makes_nothing(proxy: Proxy, cri: CriDockerd, hooks: HookServer) -> None:
    forever = threading.Event()
    proxy.use(hooks, waiting(forever), policy="Fail", timeout=60)
    pod = cri.new_pod(NOTED)
    name, body = pod.container_name("POD"), docker_bodies.text(sandbox_body(pod))
    lines = (
        f"POST /containers/create?name={name} HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(proxy.address))
            client.sendall("\r\n".join((*lines, "", "")).encode() + body)
            until(lambda: hooks.requests(RUN), "the hook server was not asked")
        until(lambda: hooks.cancelled == 1, "the hook server was not reported")
    finally:
        forever.set()
    proxy.wait_until(lambda: proxy.outcomes("cancelled", server="hooks") == 1, "not counted")
    assert proxy.metric("intercepted_calls_total", result="abandoned") == 1
    assert cri.containers() == set()
    assert kept(proxy) == []
    # The same again, once the server has come to its senses.
    hooks.behave = echo
    assert proxy.breaker("hooks") == "closed"
    made = cri.create(name, sandbox_body(pod))
    assert by_id(proxy).keys() == {made}


def _end_by_itself(cri: CriDockerd, container: str) -> None:
    os.kill(cri.pid(container), signal.SIGKILL)
    until(lambda: not cri.inspect(container)["State"]["Running"])


@contextlib.contextmanager
def docker_package(proxy: Proxy) -> Iterator[docker.DockerClient]:
    """Anybody's client."""
    with contextlib.closing(docker.DockerClient(base_url=f"unix://{proxy.address}")) as client:
        yield client
