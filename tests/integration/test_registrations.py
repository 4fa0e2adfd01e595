"""Hook servers come, go, change, write badly, and disagree; koordlet restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage

from tests.support.cri import (
    Cri,
    PodPlan,
    RunningPod,
    batch_pod_config,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.embedded import EmbeddedRuntime
from tests.support.hook_server import wishing
from tests.support.processes import until
from tests.support.proxy import Koordlet, Proxy


def _problems(proxy: Proxy) -> dict[str, str]:
    found: dict[str, str] = proxy.healthz()["registrations"]
    return found


def _created(cri: Cri, runtime: EmbeddedRuntime, plan: PodPlan | None = None) -> Any:
    """What the runtime is sent for a new pod's container."""
    pod = run_pod(cri, plan or batch_pod_config())
    (*_, sent) = runtime.requests_of("CreateContainer")
    remove_pod(cri, pod)
    return pb.CreateContainerRequest.FromString(sent).config


def _is_hooked(cri: Cri, runtime: EmbeddedRuntime) -> bool:
    return bool(_created(cri, runtime).linux.resources.cpu_shares == 321)


# Files.


def test_file_that_vanishes(proxy, cri, runtime, hooks):
    file = proxy.use(hooks, wishing(resources={"cpu_shares": 321}))
    assert _is_hooked(cri, runtime)
    file.unlink()
    proxy.wait_until(lambda: _problems(proxy), "not named")
    # Nobody said that it is not to be asked any more.
    assert _is_hooked(cri, runtime)
    assert "koordctl hooks remove hooks" in _problems(proxy)["hooks"]
    assert proxy.healthz()["status"] == "degraded"
    (proxy.hooks / "hooks.removed").touch()
    proxy.wait_until(lambda: not proxy.healthz()["hook_servers"], "still asks")
    assert not _is_hooked(cri, runtime)
    assert proxy.healthz()["status"] == "ok"
    assert not list(proxy.hooks.iterdir())
    # Nothing to ask: nothing is missed.
    assert proxy.metric("unmanaged") == 0


@pytest.mark.parametrize("spoilt", [None, "{"], ids=["deleted", "damaged"])
def test_last_good_registration_outlives_the_proxy(proxy, runtime, hooks, spoilt):
    file = proxy.use(hooks, wishing(resources={"cpu_shares": 321}), policy="Fail")
    proxy.stop()
    if spoilt is None:
        file.unlink()
    else:
        file.write_text(spoilt)
    proxy.start()
    assert proxy.policy(hooks.name) == "Fail"
    assert proxy.healthz()["status"] == "degraded"
    assert list(_problems(proxy)) == [hooks.name]
    with proxy.cri() as cri:
        assert _is_hooked(cri, runtime)
        hooks.die()
        with pytest.raises(grpc.RpcError) as caught:
            run_pod(cri, batch_pod_config())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


# Several servers.


def test_every_stage_of_a_life(proxy, cri, hooks):
    proxy.use(hooks)
    pod = run_pod(cri, batch_pod_config())
    cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=5))
    cri.stop_container(pod.container_id)
    until(lambda: hooks.requests(Stage.POST_STOP_CONTAINER), "not asked after the stop")
    cri.remove_container(pod.container_id)
    cri.stop_pod_sandbox(pod.sandbox_id)
    # Those that come after a call are asked in their own time.
    due = set(Stage) - {Stage.PRE_REMOVE_POD_SANDBOX}
    until(lambda: due <= {asked.stage for asked in (*hooks.asked,)}, "a stage is missing")
    counts = {stage: len(hooks.requests(stage)) for stage in Stage}
    removed = counts.pop(Stage.PRE_REMOVE_POD_SANDBOX)
    assert (set(counts.values()), removed) == ({1}, 0)
    for asked in hooks.asked:
        assert asked.request.pod_meta.name == pod.plan.sandbox.metadata.name


# koordlet.


def _is_batch(cri: Cri, runtime: EmbeddedRuntime) -> bool:
    return bool(_created(cri, runtime).linux.resources.cpu_shares == 512)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_koordlet_that_is_away_is_expected(directory, runtime, how):
    """Under Fail a stop for a restart opens the node no more than kill -9."""
    fail = "--runtime-hooks-failure-policy=Fail"
    with (
        Koordlet(directory, directory / "hookserver.d", fail) as koordlet,
        Proxy(directory, runtime.address) as proxy,
        proxy.cri() as cri,
    ):
        assert _is_batch(cri, runtime)
        koordlet.stop() if how == "stopped" else koordlet.kill()
        assert koordlet.registration.exists()
        with pytest.raises(grpc.RpcError) as caught:
            run_pod(cri, batch_pod_config())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "koordlet" in caught.value.details()
        koordlet.start()
        proxy.wait_for_breaker_not_open("koordlet")
        assert _is_batch(cri, runtime)


@pytest.mark.parametrize(("how", "proxy_too"), [("stopped", False), ("killed", True)])
def test_what_started_without_koordlet_is_named_and_repaired(
    proxy, runtime, koordlet, how, proxy_too
):
    """Under Ignore, without NRI and without the kubelet's list."""
    proxy.wait_for_server("koordlet")
    koordlet.stop() if how == "stopped" else koordlet.kill()
    with proxy.cri() as cri:
        pods = [run_pod(cri, batch_pod_config()) for _ in range(3)]
        plain = run_pod(cri, burstable_pod_config())
    assert proxy.metric("unmanaged") == 2 * len([*pods, plain])
    assert {_shares(runtime, pod) for pod in pods} == {2}
    if proxy_too:
        proxy.restart_after_kill()
    koordlet.start()
    proxy.wait_until(lambda: not proxy.healthz()["unmanaged"], "not repaired")
    assert {_shares(runtime, pod) for pod in pods} == {512}
    assert _shares(runtime, plain) == plain.plan.container.linux.resources.cpu_shares
    assert len(proxy.events("repaired")) >= len(pods)


def _shares(runtime: EmbeddedRuntime, pod: RunningPod) -> int:
    request = pb.ContainerStatusRequest(container_id=pod.container_id)
    status: Any = runtime.runtime.pods.container_status(request)
    shares: int = status.status.resources.linux.cpu_shares
    return shares


@pytest.mark.parametrize("first", ["proxy", "koordlet"])
def test_either_may_start_first(directory, runtime, koordlet, first):
    if first == "proxy":
        koordlet.stop()
    with Proxy(directory, runtime.address) as proxy, proxy.cri() as cri:
        if first == "proxy":
            koordlet.start()
            proxy.wait_for_server("koordlet")
        # With koordlet there first, the very first pod is hooked.
        assert _is_batch(cri, runtime)


def test_registration_lives_where_it_should(koordlet, directory):
    content = json.loads(koordlet.registration.read_text())
    assert Path(content["remote-endpoint"]) == directory / "koordlet.sock"
    assert set(content) <= {"remote-endpoint", "failure-policy", "runtime-hooks", "timeout"}
