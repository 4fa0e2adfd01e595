"""The proxy is killed at the worst moments, and pods change while it is away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage

from tests.support.containerd import requires_containerd
from tests.support.cri import Cri, PodPlan, RunningPod, batch_pod_config, pb, remove_pod, run_pod
from tests.support.hook_server import HookServer, wishing
from tests.support.processes import PATIENCE, until
from tests.support.proxy import Proxy, connect

UPDATE = Stage.PRE_UPDATE_CONTAINER_RESOURCES
CREATE = Stage.PRE_CREATE_CONTAINER

WISHES = wishing(
    resources={"cpu_shares": 717, "memory_limit_in_bytes": 99 << 20, "cpu_quota": 33_000},
    annotations={"hooked.example/by": "the hook"},
    envs={"FROM_THE_HOOK": "yes", "CHANGED": "by the hook"},
    stages=(Stage.PRE_RUN_POD_SANDBOX, CREATE),
)


def _plan(cgroup_root: str = "/kubepods", name: str = "kept") -> PodPlan:
    return batch_pod_config(
        name,
        cgroup_root=cgroup_root,
        envs={"PLAIN": "as it was", "CHANGED": "no", "EMPTY": "", "EQUALS": "a=b=c"},
        annotations={"pod.example/note": "kept too"},
    )


def _update(cri: Cri, pod: RunningPod) -> None:
    linux = pb.LinuxContainerResources(cpu_shares=2, cpu_period=100_000)
    cri.update_container_resources(pod.container_id, linux, annotations={"resize": "1"})


def _asked_at_update(
    proxy: Proxy, hooks: HookServer, plan: PodPlan, between: Callable[[], None]
) -> list[Any]:
    """What the hook server is asked at an update of a new pod, and at a second one."""
    hooks.asked.clear()
    with proxy.cri() as cri:
        pod = run_pod(cri, plan)
    between()
    with proxy.cri() as cri:
        _update(cri, pod)
        between()
    with proxy.cri() as cri:
        _update(cri, pod)
        remove_pod(cri, pod)
    asked = hooks.requests(UPDATE)
    for request in asked:
        assert request.container_meta.id == pod.container_id
        request.container_meta.id = ""
    return asked


def _survives_a_crash(proxy: Proxy, hooks: HookServer, plan: PodPlan) -> None:
    proxy.use(hooks, WISHES)
    without = _asked_at_update(proxy, hooks, plan, lambda: None)
    crashed = _asked_at_update(proxy, hooks, plan, proxy.restart_after_kill)
    assert len(without) == 2
    assert crashed == without
    request = crashed[0]
    assert request.pod_cgroup_parent == plan.sandbox.linux.cgroup_parent
    assert dict(request.container_envs) == {
        "PLAIN": "as it was",
        "CHANGED": "by the hook",
        "EMPTY": "",
        "EQUALS": "a=b=c",
        "FROM_THE_HOOK": "yes",
    }
    assert request.container_resources.memory_limit_in_bytes == 99 << 20
    assert request.container_resources.cpu_quota == 33_000
    assert request.container_annotations["hooked.example/by"] == "the hook"
    assert request.pod_annotations["hooked.example/by"] == "the hook"
    assert request.pod_annotations["pod.example/note"] == "kept too"
    assert request.pod_labels == plan.sandbox.labels


def test_hooks_hear_the_same_after_kill_9(proxy, hooks):
    _survives_a_crash(proxy, hooks, _plan())


@requires_containerd
def test_hooks_hear_the_same_after_kill_9_for_real(containerd, real_proxy, hooks):
    _survives_a_crash(real_proxy, hooks, _plan(containerd.cgroup_root))


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer"])
def test_killed_between_the_making_and_the_answer(proxy, runtime, hooks, method):
    """The runtime has made it; the proxy never hears of that."""
    proxy.use(hooks, WISHES)
    usual, made, dead = (runtime.runtime._answers[method], threading.Event(), threading.Event())

    def make_and_wait(data: bytes) -> Any:
        answer = usual(data)
        made.set()
        assert dead.wait(PATIENCE)
        return answer

    runtime.runtime._answers[method] = make_and_wait
    plan = _plan()
    with ThreadPoolExecutor(1) as kubelet, proxy.cri() as cri:
        running = kubelet.submit(run_pod, cri, plan)
        assert made.wait(PATIENCE)
        proxy.kill()
        dead.set()
        assert _code(running.result) is grpc.StatusCode.UNAVAILABLE
    runtime.runtime._answers[method] = usual
    proxy.start()
    with proxy.cri() as cri:
        (sandbox,) = cri.list_pod_sandbox()
        if method == "RunPodSandbox":
            cri.create_container(sandbox.id, plan.container, plan.sandbox)
        (container,) = cri.list_containers()
        assert [pod["id"] for pod in proxy.pods()] == [sandbox.id]
        assert proxy.containers().keys() == {container.id}
        cri.start_container(container.id)
        pod = RunningPod(sandbox.id, container.id, plan)
        _update(cri, pod)
        asked = hooks.requests(UPDATE)[-1]
        asked.container_meta.id = ""
        remove_pod(cri, pod)
    # The same pod without a crash.
    (usual_asked, _) = _asked_at_update(proxy, hooks, plan, lambda: None)
    assert asked == usual_asked


def _killed_amid_creates(
    proxy: Proxy, hooks: HookServer, direct: Cri, cgroup_root: str, pods: int
) -> None:
    """Kill the proxy amid many creates; everything the runtime has is known afterwards."""
    proxy.use(hooks, WISHES)
    plans = [_plan(cgroup_root, f"many-{number}") for number in range(pods)]

    def create(plan: PodPlan) -> None:
        with Cri(proxy.address) as cri, contextlib.suppress(grpc.RpcError):
            run_pod(cri, plan)

    with ThreadPoolExecutor(pods) as kubelet:
        for plan in plans:
            kubelet.submit(create, plan)
        until(lambda: len(direct.list_containers()) > pods // 4)
        proxy.kill()
    proxy.start()
    _settled(direct)
    containers = {one.id: one for one in direct.list_containers()}
    pods_made = {one.id for one in direct.list_pod_sandbox()}
    until(lambda: proxy.containers().keys() == containers.keys(), "not the runtime's containers")
    until(lambda: {pod["id"] for pod in proxy.pods()} == pods_made, "not the runtime's pods")
    with proxy.cri() as cri:
        for container in containers.values():
            pod = RunningPod(container.pod_sandbox_id, container.id, plans[0])
            _update(cri, pod)
    asked = {request.container_meta.id: request for request in hooks.requests(UPDATE)}
    assert asked.keys() == containers.keys()
    for request in asked.values():
        assert request.container_envs["CHANGED"] == "by the hook"
        assert request.container_envs["FROM_THE_HOOK"] == "yes"
        assert request.container_annotations["hooked.example/by"] == "the hook"
        assert request.container_resources.memory_limit_in_bytes == 99 << 20
        assert request.pod_cgroup_parent.endswith(request.pod_meta.uid)
        assert request.pod_annotations["pod.example/note"] == "kept too"
    assert proxy.containers().keys() == containers.keys()


def _settled(direct: Cri) -> None:
    """Wait until the runtime makes nothing more: it goes on after its client is gone."""
    seen: list[int] = []

    def nothing_more() -> bool:
        seen.append(len(direct.list_containers()) + len(direct.list_pod_sandbox()))
        time.sleep(0.1)
        return len(seen) > 40 and len(set(seen[-40:])) == 1

    until(nothing_more, "the runtime does not settle")


def test_killed_amid_many_creates(proxy, runtime, hooks):
    with connect(runtime.address) as direct:
        _killed_amid_creates(proxy, hooks, direct, "/kubepods", 40)


@requires_containerd
def test_killed_amid_many_creates_for_real(containerd, real_proxy, hooks):
    with connect(containerd.address) as direct:
        _killed_amid_creates(real_proxy, hooks, direct, containerd.cgroup_root, 12)


def _pods_change_while_away(proxy: Proxy, hooks: HookServer, direct: Cri, cgroup_root: str) -> Any:
    """What the hook server is asked at the update of a pod that was made meanwhile."""
    proxy.use(hooks, WISHES)
    with proxy.cri() as cri:
        gone, stays = (run_pod(cri, _plan(cgroup_root, name)) for name in ("gone", "stays"))
    proxy.kill()
    remove_pod(direct, gone)
    new_plan = _plan(cgroup_root, "new")
    new_plan.container.linux.resources.cpu_quota = 44_000
    new_plan.container.linux.resources.memory_limit_in_bytes = 77 << 20
    new = run_pod(direct, new_plan)
    proxy.start()
    assert {pod["id"] for pod in proxy.pods()} == {stays.sandbox_id, new.sandbox_id}
    assert proxy.containers().keys() == {stays.container_id, new.container_id}
    hooks.asked.clear()
    hooks.behave = wishing(resources={"cpu_shares": 555})
    with proxy.cri() as cri:
        _update(cri, new)
    (asked,) = hooks.requests(UPDATE)
    assert asked.container_meta.id == new.container_id
    assert asked.pod_meta.name == "new"
    assert asked.pod_meta.uid == new_plan.sandbox.metadata.uid
    assert asked.pod_cgroup_parent == new_plan.sandbox.linux.cgroup_parent
    assert asked.container_resources.cpu_quota == 44_000
    assert asked.container_resources.memory_limit_in_bytes == 77 << 20
    assert asked.container_resources.oom_score_adj == 1000
    assert asked.pod_labels == new_plan.sandbox.labels
    assert asked.pod_annotations["pod.example/note"] == "kept too"
    status = direct.container_status(new.container_id, verbose=True)
    assert '"shares":555' in status.info["info"].replace(" ", "")
    return asked


def test_pods_that_changed_while_the_proxy_was_down(proxy, runtime, hooks):
    with connect(runtime.address) as direct:
        _pods_change_while_away(proxy, hooks, direct, "/kubepods")


@requires_containerd
def test_pods_that_changed_while_the_proxy_was_down_for_real(containerd, real_proxy, hooks):
    with connect(containerd.address) as direct:
        asked = _pods_change_while_away(real_proxy, hooks, direct, containerd.cgroup_root)
    plan = _plan()
    # The embedded runtime shows no environment.
    assert asked.container_envs == {one.key: one.value.decode() for one in plan.container.envs}


def _code(call: Callable[[], object]) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK
