from __future__ import annotations

import pytest
from koord_model.qos import QoSClass
from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.kubelet import Kubelet
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload

from tests.simulation.stories import BATCH, job, web

MACHINE = SimulatedMachine(cpus=8, memory=16 * GIB, cgroup_version=1)


def started(*pods: Workload, be_quota: bool = True) -> SimulatedCgroups:
    cgroups = SimulatedCgroups(MACHINE)
    kubelet = Kubelet(MACHINE, cgroups, be_quota=be_quota)
    for pod in pods:
        kubelet.start(pod, pod.view(MACHINE, 0.0))
    return cgroups


def test_groups_have_what_kubernetes_gives_them() -> None:
    cgroups = started(web(limits={"cpu": 3000, "memory": 4 * GIB}, containers=2))
    pod = "kubepods/burstable/poduid-default-web"
    assert cgroups.now("kubepods", "cpu.shares") == 8 * 1024
    assert cgroups.now("kubepods/burstable", "cpu.shares") == 2048
    assert cgroups.now(pod, "cpu.shares") == 2048
    assert cgroups.now(f"{pod}/web-c1", "cpu.shares") == 1024
    assert cgroups.now(pod, "cpu.cfs_quota_us") == 300_000
    assert cgroups.now(f"{pod}/web-c1", "cpu.cfs_quota_us") == 150_000
    assert cgroups.now(pod, "memory.limit_in_bytes") == 4 * GIB


@pytest.mark.parametrize(("be_quota", "quota"), [(True, 200_000), (False, -1)])
def test_batch_pods_have_what_the_hook_gives_them(be_quota: bool, quota: int) -> None:
    cgroups = started(job(limits=BATCH), be_quota=be_quota)
    pod = "kubepods/besteffort/poduid-default-job"
    assert cgroups.now("kubepods/besteffort", "cpu.shares") == 2
    assert cgroups.now(pod, "cpu.shares") == 2048
    assert cgroups.now(pod, "cpu.cfs_quota_us") == quota
    assert cgroups.now(pod, "memory.limit_in_bytes") == 2 * GIB


def test_pods_with_cpus_of_their_own_leave_the_rest_to_the_others() -> None:
    both = {"cpu": 2000, "memory": GIB}
    pinned = Workload("pin", QoSClass.LSR, requests=both, limits=both, cpus="0-1")
    cgroups = SimulatedCgroups(MACHINE)
    kubelet = Kubelet(MACHINE, cgroups, be_quota=True)
    ls, lsr = web().view(MACHINE, 0), pinned.view(MACHINE, 0)
    kubelet.start(web(), ls)
    assert cgroups.now(ls.containers[0].group, "cpuset.cpus") == "0-7"
    kubelet.start(pinned, lsr)
    assert cgroups.now(ls.containers[0].group, "cpuset.cpus") == "2-7"
    assert cgroups.now(lsr.containers[0].group, "cpuset.cpus") == "0-1"
    assert cgroups.now(lsr.group, "cpu.cfs_quota_us") == -1
    kubelet.end(lsr)
    assert cgroups.now(lsr.group, "cpu.shares") is None


@pytest.mark.parametrize(
    ("pod", "adj"),
    [
        (job(), 1000),
        (web(), 875),
        (web(requests={"cpu": 1}), 999),
        (Workload("g", limits={"cpu": 1000, "memory": GIB}), -997),
        (web(oom_score_adj=7), 7),
    ],
)
def test_oom_scores_are_kubernetes_s(pod: Workload, adj: int) -> None:
    kubelet = Kubelet(MACHINE, SimulatedCgroups(MACHINE), be_quota=True)
    assert [leaf.held.adj for leaf in kubelet.start(pod, pod.view(MACHINE, 0))] == [adj]
    assert kubelet.system().held.adj == -1000
