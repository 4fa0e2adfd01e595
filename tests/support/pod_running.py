"""A scheduler and a kubelet in small: they bind pods of the API server's double, and run them.

The scheduler knows batch resources only, and one node. The kubelet runs pods of one container,
Burstable or BestEffort, through whatever CRI socket it is given, and tells the API server and its
own list what runs. As the real ones it knows nothing of batch resources but their amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import NODES, PODS
from koord_model.keys import BATCH_CPU, BATCH_MEMORY
from koord_model.qos import KubeQoS
from koord_model.quantity import milli, whole

from tests.support.cri import PodPlan, RunningPod, burstable_pod_config, pb, run_pod
from tests.support.kernel_use import processes
from tests.support.kube_api import KubeApi
from tests.support.kubelet_server import KubeletServer
from tests.support.kubepods import CGROUPS, Kubepods
from tests.support.processes import until
from tests.support.stress_ng import StressNg

_OOM_SCORES = {KubeQoS.BURSTABLE: 999, KubeQoS.BEST_EFFORT: 1000}
_UID = "io.kubernetes.pod.uid"
_STARTED = "2026-01-01T00:00:00Z"


class DoesNotFitError(Exception):
    """The node does not offer what a pod asks for."""


@dataclass(frozen=True)
class BoundPod:
    """A pod that runs; ``group`` is its cgroup."""

    name: str
    group: str
    running: RunningPod

    @property
    def container_group(self) -> str:
        return f"{self.group}/{self.running.container_id}"

    def freeze(self) -> None:
        """Let it use no CPU."""
        self._set("FROZEN")

    def thaw(self) -> None:
        """Let it run again."""
        self._set("THAWED")

    def _set(self, word: str) -> None:
        state = CGROUPS / "freezer" / self.container_group / "freezer.state"

        def done() -> bool:
            state.write_text(word)  # again and again: who forks meanwhile is missed
            return state.read_text().strip() == word

        until(done, f"{self.name} is {word}")


def bind(api: KubeApi, pod: Object, node: str) -> Object:
    """What the scheduler does; the pod as it is kept then.

    Raises:
        DoesNotFitError: the node's batch resources do not suffice.
    """
    offered = api.get(NODES, node)["status"]["allocatable"]
    pods = [one for key, one in api.objects.items() if key.resource == PODS]
    others = [one for one in pods if one["spec"].get("nodeName") == node]
    for name in (BATCH_CPU, BATCH_MEMORY):
        asked = requested([pod, *others], name)
        if requested([pod], name) and asked > whole(offered.get(name, 0)):
            raise DoesNotFitError(f"{name}: {asked} asked for, {offered.get(name)} offered")
    pod["spec"]["nodeName"] = node
    return api.put(PODS, pod, pod["metadata"]["namespace"])


def requested(pods: Iterable[Object], resource: str) -> int:
    """What containers ask for together, in whole units."""
    return sum(
        whole(container.get("resources", {}).get("requests", {}).get(resource, 0))
        for pod in pods
        for container in pod["spec"]["containers"]
    )


class PodRunner:
    """The kubelet of a node; its pods run stress-ng, and are listed at ``server``."""

    def __init__(self, groups: Kubepods, server: KubeletServer, address: Path) -> None:
        self._groups = groups
        self._server = server
        self._address = address
        self.pods: list[BoundPod] = []

    def start(self, pod: Object, *stress: str) -> BoundPod:
        """Run a pod that is bound here; blocks as CRI does."""
        qos, plan = kube_qos(pod), _plan(pod)
        limits = plan.container.linux.resources
        group = self._groups.make_pod(
            qos,
            pod["metadata"]["uid"],
            shares=limits.cpu_shares,
            quota=limits.cpu_quota or -1,
            memory=limits.memory_limit_in_bytes or -1,
        )
        plan.sandbox.linux.cgroup_parent = f"/{group}"
        with StressNg(self._address, *stress) as cri:
            running = run_pod(cri, plan)
        started = BoundPod(pod["metadata"]["name"], group, running)
        self.pods.append(started)
        # One that is frozen before it is the program that was asked for cannot even be killed.
        until(lambda: len(processes(started.container_group)) > 1, f"{started.name} works")
        return started

    async def tell(self, api: Api, pod: Object, started: BoundPod) -> None:
        """Say that it runs: to the API server, and to who asks the kubelet."""
        meta = pod["metadata"]
        status = _status(pod, started)
        reported = await api.patch(
            PODS, meta["name"], {"status": status}, meta["namespace"], subresource="status"
        )
        self._server.pods.append(reported)

    def thaw_all(self) -> None:
        """Let all run again: what is frozen cannot be ended."""
        for pod in self.pods:
            pod.thaw()


def kube_qos(pod: Object) -> KubeQoS:
    """The pod's class to Kubernetes, for which only CPU and memory count."""
    given = _resources(pod)
    named = {name for amounts in given.values() for name in amounts}
    return KubeQoS.BURSTABLE if named & {"cpu", "memory"} else KubeQoS.BEST_EFFORT


def _plan(pod: Object) -> PodPlan:
    meta, given = pod["metadata"], _resources(pod)
    plan = burstable_pod_config(
        meta["name"],
        labels=meta.get("labels"),
        annotations=meta.get("annotations"),
        container_name=pod["spec"]["containers"][0]["name"],
        namespace=meta["namespace"],
    )
    plan.sandbox.metadata.uid = meta["uid"]
    for labels in (plan.sandbox.labels, plan.container.labels):
        labels[_UID] = meta["uid"]
    of_container = _limits(pod, given)
    plan.container.linux.resources.CopyFrom(of_container)
    of_pod = pb.LinuxContainerResources()
    of_pod.CopyFrom(of_container)
    of_pod.oom_score_adj = 0
    plan.sandbox.linux.resources.CopyFrom(of_pod)
    return plan


def _limits(pod: Object, given: Mapping[str, Mapping[str, str]]) -> pb.LinuxContainerResources:
    requests, limits = given.get("requests", {}), given.get("limits", {})
    return pb.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=milli(limits.get("cpu", 0)) * 100,
        cpu_shares=max(2, milli(requests.get("cpu", 0)) * 1024 // 1000),
        memory_limit_in_bytes=whole(limits.get("memory", 0)),
        oom_score_adj=_OOM_SCORES[kube_qos(pod)],
    )


def _resources(pod: Object) -> dict[str, Any]:
    [container] = pod["spec"]["containers"]
    return dict(container.get("resources", {}))


def _status(pod: Object, started: BoundPod) -> Object:
    container = {
        "name": pod["spec"]["containers"][0]["name"],
        "containerID": f"containerd://{started.running.container_id}",
        "state": {"running": {"startedAt": _STARTED}},
    }
    return {
        "phase": "Running",
        "qosClass": kube_qos(pod).value,
        "startTime": _STARTED,
        "containerStatuses": [container],
    }
