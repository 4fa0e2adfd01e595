"""From the scheduler to the kernel: the CPUs and GPUs that it chose are the container's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_QOS,
)
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.device_share.plugin import DeviceShare
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit

from tests.support.cgroups import container_values
from tests.support.containerd import requires_containerd
from tests.support.cri import Cri, burstable_pod_config, run_pod
from tests.support.proxy import Koordlet, Proxy

pytestmark = pytest.mark.usefixtures("containerd")
CARD = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
LABELS = {LABEL_QOS: "LSR"}


@pytest.fixture
def koordlet(directory: Path) -> Iterator[Koordlet]:
    hooks = "--hook-plugins=cpusetallocator,gpuenvinject"
    with Koordlet(directory, directory / "hookserver.d", hooks) as instance:
        yield instance


@pytest.fixture
def kubelet(koordlet: Koordlet, real_proxy: Proxy) -> Iterator[Cri]:
    real_proxy.wait_for_server("koordlet")
    with real_proxy.cri() as client:
        yield client


def annotations_of(cpus: list[int]) -> dict[str, str]:
    """What is written for a pod on a node with these CPUs and two GPUs, the first of each taken."""
    plugins = (NodeResourcesFit(), NodeNUMAResource(), DeviceShare())
    profile = Profile("default-scheduler", tuple(EnabledPlugin(one) for one in plugins))
    scheduler = Scheduler([profile])
    kinds = (*cluster_kinds(scheduler), pod_kind(scheduler, lambda: 0.0))
    by_kind = {one.resource.kind: one for one in kinds}

    def put(kind: str, key: str, document: Mapping[str, Any]) -> None:
        by_kind[kind].put(key, by_kind[kind].read(json.dumps(document).encode()))

    amounts = {"cpu": str(len(cpus)), "memory": "16Gi", "pods": "110", GPU: "200"}
    put("Node", "n1", {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
    detail = [{"id": cpu, "core": cpu, "node": 0, "socket": 0} for cpu in cpus]
    topology = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    put("NodeResourceTopology", "n1", {"metadata": {"name": "n1", "annotations": topology}})
    cards = [
        {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": CARD}
        for minor in range(2)
    ]
    put("Device", "n1", {"metadata": {"name": "n1"}, "spec": {"devices": cards}})
    taken = {
        ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": str(cpus[0])}),
        ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 0, "resources": CARD}]}),
    }
    put("Pod", "shop/old", pod("old", {}, taken, "n1"))
    put("Pod", "shop/new", pod("new", {"cpu": "1", GPU: "50"}, {}))
    decision = scheduler.decide(0.0)
    assert isinstance(decision, Placement)
    written: dict[str, str] = {}
    for one in decision.reserved:
        written |= dict(one.annotations)  # type: ignore[attr-defined]
    return written


def pod(
    name: str, requests: Mapping[str, str], annotations: Mapping[str, str], node: str = ""
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": LABELS}
    spec = {"containers": [container], "priority": 9500, "nodeName": node}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": spec}


@requires_containerd
def test_chosen_cpus_and_cards_are_the_containers(containerd: Any, kubelet: Cri) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs, of which another pod has one")
    annotations = annotations_of(cpus)
    plan = burstable_pod_config(
        cgroup_root=containerd.cgroup_root, labels=LABELS, annotations=annotations
    )
    running = run_pod(kubelet, plan)
    assert container_values(kubelet, running.container_id).cpuset == str(cpus[1])
    script = "echo $NVIDIA_VISIBLE_DEVICES; grep Cpus_allowed_list /proc/self/status"
    said = kubelet.exec_sync(running.container_id, "sh", "-c", script)
    visible, allowed = said.stdout.decode().splitlines()
    assert visible == "1"
    assert allowed.split() == ["Cpus_allowed_list:", str(cpus[1])]
