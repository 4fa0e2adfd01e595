"""Fifty pods at once, as a node gets them after its reboot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.cgroups import container_values
from tests.support.containerd import requires_containerd
from tests.support.cri import RunningPod, batch_pod_config, remove_pod, run_pod
from tests.support.proxy import connect

PODS = 50
EACH = 120.0
"""Seconds a call may take: there are fifty at a time."""


@requires_containerd
def test_none_lost_none_unhooked(containerd, koordlet, real_proxy):
    real_proxy.wait_for_server("koordlet")
    # Each pod has values of its own, so that none can have another's.
    plans = [
        batch_pod_config(
            cgroup_root=containerd.cgroup_root,
            batch_cpu=100 + 10 * number,
            batch_memory=(32 + number) << 20,
        )
        for number in range(PODS)
    ]
    with (
        real_proxy.cri() as cri,
        connect(containerd.address) as direct,
        ThreadPoolExecutor(PODS) as kubelet,
    ):

        def run(number: int) -> RunningPod:
            return run_pod(cri, plans[number], timeout=EACH)

        pods = list(kubelet.map(run, range(PODS)))
        assert {one.id for one in direct.list_pod_sandbox()} == {pod.sandbox_id for pod in pods}
        for number, pod in enumerate(pods):
            values = container_values(direct, pod.container_id)
            assert values.cpu_quota == (100 + 10 * number) * 100
            assert values.memory_limit == (32 + number) << 20
        shown = real_proxy.containers()
        assert shown.keys() == {pod.container_id for pod in pods}
        assert all(record["managed"] for record in shown.values())
        results = ("missed", "refused", "unknown", "unreadable", "error", "abandoned")
        for result in results:
            assert real_proxy.metric("intercepted_calls_total", result=result) == 0
        list(kubelet.map(lambda pod: remove_pod(cri, pod, timeout=EACH), pods))
        assert direct.list_pod_sandbox() == []
    assert real_proxy.pods() == []
    assert real_proxy.healthz()["status"] == "ok"
