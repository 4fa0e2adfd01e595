"""The harness itself: a containerd comes up, runs a pod, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.support.cgroups import UNLIMITED, container_pid, container_values, oom_score_adj
from tests.support.containerd import (
    V1ALPHA2,
    Containerd,
    requires_containerd,
    skip_without_v1alpha2,
    why_not,
)
from tests.support.cri import (
    AsyncCri,
    Cri,
    batch_pod_config,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.oci_image import IMAGE


def _runs(pid: int) -> bool:
    """Whether a process runs; a dead one may wait for its new parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def own() -> Iterator[Containerd]:
    """One for this file: here it is killed."""
    with Containerd() as instance:
        yield instance
    assert instance.leftovers() == []


@pytest.fixture
def cri(own: Containerd) -> Iterator[Cri]:
    with own.cri() as client:
        yield client


@requires_containerd
def test_batch_pod_as_the_kubelet_sends_it_gets_next_to_nothing(own, cri):
    pod = run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root))
    values = container_values(cri, pod.container_id)
    assert (values.cpu_quota, values.memory_limit) == (UNLIMITED, UNLIMITED)
    assert values.cpu_shares == 2 or values.cpu_weight == 1
    assert oom_score_adj(container_pid(cri, pod.container_id)) == 1000
    remove_pod(cri, pod)
    assert not cri.list_containers(sandbox_id=pod.sandbox_id)
    assert not cri.list_pod_sandbox(sandbox_id=pod.sandbox_id)


@requires_containerd
def test_update_reaches_the_kernel(own, cri):
    pod = run_pod(cri, burstable_pod_config(cgroup_root=own.cgroup_root, memory=32 << 20))
    assert container_values(cri, pod.container_id).memory_limit == 32 << 20
    wanted = pb.LinuxContainerResources(
        cpu_shares=512, cpu_quota=50_000, memory_limit_in_bytes=64 << 20, cpuset_cpus="0"
    )
    cri.update_container_resources(pod.container_id, wanted)
    values = container_values(cri, pod.container_id)
    assert (values.cpu_quota, values.cpu_period) == (50_000, 100_000)
    assert (values.memory_limit, values.cpuset) == (64 << 20, "0")
    assert values.cpu_shares == 512 or values.cpu_weight == 20
    remove_pod(cri, pod)


@requires_containerd
def test_exec_and_stream_urls(own, cri):
    pod = run_pod(cri, burstable_pod_config(cgroup_root=own.cgroup_root, envs={"WHO": "you"}))
    said = cri.exec_sync(pod.container_id, "sh", "-c", "echo hi $WHO; exit 3")
    assert (said.stdout, said.exit_code) == (b"hi you\n", 3)
    assert cri.exec(pod.container_id, "sh").startswith("http://127.0.0.1:")
    assert cri.attach(pod.container_id).startswith("http://127.0.0.1:")
    remove_pod(cri, pod)


@requires_containerd
def test_v1alpha2(own):
    skip_without_v1alpha2(own)
    with own.cri(V1ALPHA2) as old:
        assert old.version().runtime_api_version == "v1alpha2"


@requires_containerd
def test_version_and_image_service(own, cri):
    assert cri.version().runtime_name == "containerd"
    assert cri.image_status("nobody/knows:this") is None
    assert [image.repo_tags for image in cri.list_images()] == [[IMAGE]]
    assert any(c.type == "RuntimeReady" and c.status for c in cri.status().status.conditions)


@requires_containerd
async def test_asyncio_client(own):
    async with AsyncCri(own.address) as cri:
        found = await cri.call("Version", pb.VersionRequest(), pb.VersionResponse)
    assert found.runtime_name == "containerd"


@requires_containerd
def test_pods_outlive_a_killed_daemon(own, cri):
    pod = run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root))
    pid = container_pid(cri, pod.container_id)
    own.kill()
    with pytest.raises(grpc.RpcError):
        cri.version(timeout=1)
    own.start()
    cri.wait_until_ready()
    assert container_pid(cri, pod.container_id) == pid
    own.restart()
    cri.wait_until_ready()
    assert container_pid(cri, pod.container_id) == pid
    remove_pod(cri, pod)


@requires_containerd
def test_close_takes_running_pods_away():
    with Containerd() as instance, instance.cri() as cri:
        pod = run_pod(cri, batch_pod_config(cgroup_root=instance.cgroup_root))
        pid = container_pid(cri, pod.container_id)
        assert instance.leftovers()
        instance.kill()
    assert instance.leftovers() == []
    assert not _runs(pid)


@requires_containerd
def test_what_the_daemon_can_no_longer_end_goes_too(monkeypatch):
    with Containerd() as instance, instance.cri() as cri:
        pod = run_pod(cri, batch_pod_config(cgroup_root=instance.cgroup_root))
        pid = container_pid(cri, pod.container_id)
        instance.kill()
        monkeypatch.setattr(instance, "start", lambda: None)
    assert instance.leftovers() == []
    assert not _runs(pid)


def test_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not() == "a real containerd needs root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("koord_demo.containerd._PATH", "/nowhere")
    assert str(why_not()).startswith("not installed: containerd, containerd-shim-runc-v2")
