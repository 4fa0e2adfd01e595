"""What a kubelet asks of its runtime for a pod, and lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from koord_host.knobs.layout import Layout, ScopePrefix
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, LABEL_QOS
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koord_model.resources import LinuxResources
from koord_proto import cri_pb2 as cri

PERIOD = 100_000
_SCORES = {KubeQoS.GUARANTEED: -997, KubeQoS.BURSTABLE: 900, KubeQoS.BEST_EFFORT: 1000}


@dataclass(frozen=True)
class PodSpec:
    """A pod with one container, "main"; ``cpus`` are its limit, 0 for none."""

    name: str
    kube_qos: KubeQoS = KubeQoS.BURSTABLE
    qos: str = ""
    cpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    runtime_handler: str = ""

    @property
    def uid(self) -> str:
        """As of hexadecimal digits and hyphens as real ones are."""
        return f"{self.name.encode().hex()}-1"

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.labels, **({LABEL_QOS: self.qos} if self.qos else {})}

    @property
    def texts(self) -> dict[str, str]:
        """The annotations, objects as JSON."""
        return {
            key: one if isinstance(one, str) else json.dumps(one)
            for key, one in self.annotations.items()
        }

    def group(self, layout: Layout) -> str:
        return layout.pod_group(self.kube_qos, self.uid)

    def pod(self, layout: Layout, **more: Any) -> Pod:
        """The pod as hooks see it."""
        parent = f"/{self.group(layout)}"
        pod = Pod(self.name, "shop", self.uid, self.all_labels, self.texts, parent)
        return replace(pod, **more)

    def container(self, layout: Layout, **limits: Any) -> Container:
        """Its container as hooks see it."""
        resources = LinuxResources(**limits)
        return Container(self.pod(layout), "main", f"{self.name}-main", resources=resources)

    def container_group(self, layout: Layout) -> str:
        """The container's cgroup, as containerd names it."""
        ident = f"{self.name}-main"
        return layout.container_group(self.group(layout), ident, ScopePrefix.CONTAINERD)

    def sandbox_request(self, layout: Layout) -> cri.RunPodSandboxRequest:
        config = cri.PodSandboxConfig(labels=self.all_labels, annotations=self.texts)
        config.metadata.name, config.metadata.uid = self.name, self.uid
        config.metadata.namespace = "shop"
        config.linux.cgroup_parent = f"/{self.group(layout)}"
        _fill(config.linux.resources, self.cpus, oom_score_adj=0)
        return cri.RunPodSandboxRequest(config=config, runtime_handler=self.runtime_handler)

    def container_request(self, layout: Layout) -> cri.CreateContainerRequest:
        request = cri.CreateContainerRequest(pod_sandbox_id=f"{self.name}-sandbox")
        request.sandbox_config.CopyFrom(self.sandbox_request(layout).config)
        request.config.metadata.name = "main"
        request.config.envs.add(key="HOME", value=b"/root")
        _fill(request.config.linux.resources, self.cpus, _SCORES[self.kube_qos])
        return request


_AMOUNTS = {BATCH_CPU: 500}
JOB = PodSpec(
    "job",
    KubeQoS.BEST_EFFORT,
    "BE",
    annotations={
        ANNOTATION_EXTENDED_RESOURCE_SPEC: {
            "containers": {"main": {"requests": _AMOUNTS, "limits": _AMOUNTS}}
        }
    },
)
"""A batch pod; half a CPU is a quota of 50 ms."""
WEB = PodSpec("web", KubeQoS.BURSTABLE, "LS", 2)


def pod_list(pods: Iterable[PodSpec]) -> bytes:
    """The kubelet's list. The pods are on the host's network: the list has no address."""
    return json.dumps({"kind": "PodList", "items": [_item(pod) for pod in pods]}).encode()


def _item(pod: PodSpec) -> dict[str, Any]:
    limits = {"cpu": str(pod.cpus)} if pod.cpus else {}
    running = {
        "name": "main",
        "containerID": f"containerd://{pod.name}-main",
        "state": {"running": {}},
    }
    return {
        "metadata": {
            "name": pod.name,
            "namespace": "shop",
            "uid": pod.uid,
            "labels": pod.all_labels,
            "annotations": pod.texts,
        },
        "spec": {
            "hostNetwork": True,
            "runtimeClassName": pod.runtime_handler or None,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {
            "phase": "Running",
            "qosClass": pod.kube_qos.value,
            "containerStatuses": [running],
        },
    }


def _fill(limits: Any, cpus: int, oom_score_adj: int) -> None:
    """Limits as the kubelet computes them from a number of CPUs."""
    limits.cpu_period = PERIOD
    limits.cpu_shares = max(cpus * 1024, 2)
    limits.cpu_quota = cpus * PERIOD
    limits.oom_score_adj = oom_score_adj
