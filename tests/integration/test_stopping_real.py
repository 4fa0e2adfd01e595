"""Evicting by stopping, on a real containerd."""

from __future__ import annotations

from koord_kube.core.evictions import EvictionResult
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend

from tests.support.containerd import Containerd, requires_containerd
from tests.support.cri import RunningPod, burstable_pod_config, pb, run_pod
from tests.support.proxy import connect
from tests.support.views import pod_view


def _pod(containerd: Containerd, name: str) -> RunningPod:
    with connect(containerd.address) as cri:
        return run_pod(cri, burstable_pod_config(name, cgroup_root=containerd.cgroup_root))


def _state(containerd: Containerd, pod: RunningPod) -> int:
    with connect(containerd.address) as cri:
        return cri.container_status(pod.container_id).status.state


@requires_containerd
async def test_a_pod_s_containers_are_gone_and_its_neighbour_s_run(containerd: Containerd) -> None:
    pod, neighbour = _pod(containerd, "goes"), _pod(containerd, "stays")
    record = pod_view("goes", uid=pod.plan.sandbox.metadata.uid).record
    way = ContainerStopBackend(f"unix://{containerd.address}")
    try:
        # Its init ignores SIGTERM, as many do: after the second it is killed.
        assert (await way.evict(record, 1, forced=False)).end is EvictionResult.EVICTED
        assert (await way.evict(record, 1, forced=True)).end is EvictionResult.GONE
    finally:
        await way.close()
        states = _state(containerd, pod), _state(containerd, neighbour)
        containerd.remove_all_pods()
    assert states == (pb.CONTAINER_EXITED, pb.CONTAINER_RUNNING)
