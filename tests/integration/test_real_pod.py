"""A pod on a real containerd, through the proxy, with koordlet's hooks: all a kubelet does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import grpc
import pytest

from tests.support.cgroups import UNLIMITED, container_values
from tests.support.containerd import V1ALPHA2, requires_containerd, skip_without_v1alpha2
from tests.support.cri import (
    Cri,
    RunningPod,
    batch_pod_config,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.oci_image import IMAGE
from tests.support.proxy import connect
from tests.support.streaming import ERROR, STDOUT, WebSocketStream

pytestmark = pytest.mark.usefixtures("containerd")


@pytest.fixture
def kubelet(koordlet, real_proxy) -> Iterator[Cri]:
    real_proxy.wait_for_server("koordlet")
    with real_proxy.cri() as client:
        yield client


@pytest.fixture
def pod(containerd, kubelet) -> RunningPod:
    """A plain pod that runs."""
    return run_pod(kubelet, burstable_pod_config(cgroup_root=containerd.cgroup_root))


def _is_batch(cri: Cri, container_id: str, *, cpu_milli: int, memory: int) -> bool:
    values = container_values(cri, container_id)
    shares = cpu_milli * 1024 // 1000
    return (values.cpu_quota, values.memory_limit) == (cpu_milli * 100, memory) and (
        values.cpu_shares == shares or values.cpu_weight == 1 + (shares - 2) * 9999 // 262142
    )


@requires_containerd
def test_batch_pod_gets_what_the_hooks_give(containerd, kubelet, real_proxy):
    plan = batch_pod_config(
        cgroup_root=containerd.cgroup_root, batch_cpu=700, batch_memory=96 << 20
    )
    pod = run_pod(kubelet, plan)
    with connect(containerd.address) as direct:
        assert _is_batch(direct, pod.container_id, cpu_milli=700, memory=96 << 20)
    assert real_proxy.containers()[pod.container_id]["managed"]
    assert real_proxy.metric("intercepted_calls_total", method="CreateContainer") == 1
    remove_pod(kubelet, pod)
    assert not kubelet.list_containers(sandbox_id=pod.sandbox_id)
    assert not kubelet.list_pod_sandbox(sandbox_id=pod.sandbox_id)
    assert real_proxy.pods() == []


@requires_containerd
def test_plain_pod_runs_on_the_shared_cpus_and_is_untouched_otherwise(containerd, kubelet):
    plan = burstable_pod_config(cgroup_root=containerd.cgroup_root)
    with connect(containerd.address) as direct:
        pod = run_pod(direct, plan)
        alone = container_values(direct, pod.container_id)
        seen_alone = _spec(direct, pod)
        remove_pod(direct, pod)
        pod = run_pod(kubelet, plan)
        assert container_values(direct, pod.container_id) == alone
        assert _spec(direct, pod) == seen_alone


@requires_containerd
def test_update_in_the_kubelets_view_keeps_the_hooks_values(containerd, kubelet):
    plan = batch_pod_config(
        cgroup_root=containerd.cgroup_root, batch_cpu=700, batch_memory=96 << 20
    )
    pod = run_pod(kubelet, plan)
    view = pb.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=1000)
    kubelet.update_container_resources(pod.container_id, view)
    assert _is_batch(kubelet, pod.container_id, cpu_milli=700, memory=96 << 20)
    # As its CPU manager does, which sends nothing else.
    kubelet.update_container_resources(
        pod.container_id, pb.LinuxContainerResources(cpuset_cpus="0")
    )
    assert _is_batch(kubelet, pod.container_id, cpu_milli=700, memory=96 << 20)


@requires_containerd
def test_cpus_from_a_static_kubelet_are_left_and_the_shared_ones_hold_otherwise(
    koordlet, kubelet, pod, containerd
):
    before = container_values(kubelet, pod.container_id).cpuset
    assigned = pb.LinuxContainerResources(cpuset_cpus="0")
    kubelet.update_container_resources(pod.container_id, assigned)
    assert container_values(kubelet, pod.container_id).cpuset == before
    koordlet.find_a_static_kubelet()
    other = run_pod(kubelet, burstable_pod_config(cgroup_root=containerd.cgroup_root))
    kubelet.update_container_resources(other.container_id, assigned)
    assert container_values(kubelet, other.container_id).cpuset == "0"


@requires_containerd
def test_plain_pods_update_reaches_the_kernel(kubelet, pod):
    kubelet.update_container_resources(
        pod.container_id,
        pb.LinuxContainerResources(cpu_quota=40_000, memory_limit_in_bytes=80 << 20),
    )
    values = container_values(kubelet, pod.container_id)
    assert (values.cpu_quota, values.memory_limit) == (40_000, 80 << 20)


@requires_containerd
def test_batch_pod_without_limits_has_none(containerd, kubelet):
    plan = batch_pod_config(
        cgroup_root=containerd.cgroup_root, batch_cpu=None, batch_memory=96 << 20
    )
    values = container_values(kubelet, run_pod(kubelet, plan).container_id)
    assert (values.cpu_quota, values.memory_limit) == (UNLIMITED, 96 << 20)


@requires_containerd
def test_exec_sync(kubelet, pod):
    said = kubelet.exec_sync(pod.container_id, "sh", "-c", "echo hi; echo oh >&2; exit 3")
    assert (said.stdout, said.stderr, said.exit_code) == (b"hi\n", b"oh\n", 3)


@requires_containerd
def test_exec_url_streams(kubelet, pod):
    url = kubelet.exec(pod.container_id, "sh", "-c", "echo hi")
    with WebSocketStream(url) as stream:
        assert "101 Switching Protocols" in stream.status
        said = list(stream.messages())
    assert b"".join(data for channel, data in said if channel == STDOUT) == b"hi\n"
    assert [json.loads(data)["status"] for channel, data in said if channel == ERROR] == ["Success"]


@requires_containerd
def test_attach_url_streams(containerd, kubelet):
    chatty = ("/bin/sh", "-c", "while :; do echo tick; sleep 0.1; done")
    plan = burstable_pod_config(cgroup_root=containerd.cgroup_root, command=chatty)
    url = kubelet.attach(run_pod(kubelet, plan).container_id)
    with WebSocketStream(url) as stream:
        assert "101 Switching Protocols" in stream.status
        heard = next(data for channel, data in stream.messages() if channel == STDOUT)
    assert b"tick" in heard


@requires_containerd
def test_image_service_passes(kubelet):
    assert [image.repo_tags for image in kubelet.list_images()] == [[IMAGE]]
    assert kubelet.image_status("nobody/knows:this") is None


@requires_containerd
def test_unknown_method_is_answered_by_the_runtime(containerd, kubelet):
    reported = []
    with connect(containerd.address) as direct:
        for cri in (direct, kubelet):
            with pytest.raises(grpc.RpcError) as failure:
                cri.call("MakeCoffee", pb.VersionRequest(), pb.VersionResponse)
            reported.append((failure.value.code(), failure.value.details()))
    assert reported[0] == reported[1]
    assert reported[0][0] is grpc.StatusCode.UNIMPLEMENTED


@requires_containerd
def test_errors_of_the_runtime_come_back_as_they_are(containerd, kubelet):
    reported = []
    with connect(containerd.address) as direct:
        for cri in (direct, kubelet):
            with pytest.raises(grpc.RpcError) as failure:
                cri.update_container_resources("no-such-container", pb.LinuxContainerResources())
            reported.append((failure.value.code(), failure.value.details()))
    assert reported[0] == reported[1]


@requires_containerd
def test_v1alpha2_is_hooked_too(containerd, koordlet, real_proxy):
    skip_without_v1alpha2(containerd)
    real_proxy.wait_for_server("koordlet")
    with real_proxy.cri(V1ALPHA2) as old:
        assert old.version().runtime_api_version == "v1alpha2"
        plan = batch_pod_config(
            cgroup_root=containerd.cgroup_root, batch_cpu=600, batch_memory=64 << 20
        )
        pod = run_pod(old, plan)
        assert _is_batch(old, pod.container_id, cpu_milli=600, memory=64 << 20)
        view = pb.LinuxContainerResources(cpu_shares=2)
        old.update_container_resources(pod.container_id, view)
        assert _is_batch(old, pod.container_id, cpu_milli=600, memory=64 << 20)
        remove_pod(old, pod)


@requires_containerd
def test_repeated_and_partial_removal(containerd, kubelet, real_proxy):
    pod = run_pod(kubelet, batch_pod_config(cgroup_root=containerd.cgroup_root))
    kubelet.stop_pod_sandbox(pod.sandbox_id)
    kubelet.remove_container(pod.container_id)
    for _ in range(2):
        kubelet.remove_pod_sandbox(pod.sandbox_id)
        # Containerd 1.6 says NOT_FOUND to the second; it is not ours to say.
        with contextlib.suppress(grpc.RpcError):
            kubelet.stop_pod_sandbox(pod.sandbox_id)
    assert real_proxy.pods() == []


def _spec(cri: Cri, pod: RunningPod) -> object:
    """What the runtime made of the container, without the ids and the CPUs."""
    info = json.loads(cri.container_status(pod.container_id, verbose=True).info["info"])
    spec = info["runtimeSpec"]
    resources = {
        key: value for key, value in spec["linux"]["resources"].items() if key != "devices"
    }
    resources["cpu"].pop("cpus", None)
    info["config"]["linux"]["resources"].pop("cpuset_cpus", None)
    return info["config"], spec["process"], resources
