"""A kubelet's requests for the pods of the demo, the tests and the benchmarks."""

from __future__ import annotations

import dataclasses
import itertools
import json
import uuid
from collections.abc import Mapping, Sequence

from koord_model import keys

from koord_demo import cri_client_pb2 as pb
from koord_demo.cri_client import TIMEOUT, Cri
from koord_demo.oci_image import IMAGE, SLEEP_FOREVER

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class PodPlan:
    """A pod's sandbox and its one container, ready to be asked for."""

    sandbox: pb.PodSandboxConfig
    container: pb.ContainerConfig


@dataclasses.dataclass(frozen=True)
class RunningPod:
    """Ids of a pod that runs."""

    sandbox_id: str
    container_id: str
    plan: PodPlan


def burstable_pod_config(
    name: str = "",
    *,
    cgroup_root: str = "/kubepods",
    cpu_milli: int = 100,
    memory: int = 64 << 20,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    envs: Mapping[str, str] | None = None,
    command: Sequence[str] = SLEEP_FOREVER,
    container_name: str = "main",
    namespace: str = "default",
) -> PodPlan:
    """A plain pod of class Burstable: requests ``cpu_milli``, limits ``memory`` (bytes)."""
    name, uid = _identity(name)
    resources = pb.LinuxContainerResources(
        cpu_period=100_000,
        cpu_shares=max(2, cpu_milli * 1024 // 1000),
        memory_limit_in_bytes=memory,
        oom_score_adj=999,
    )
    sandbox = _sandbox(name, uid, namespace, f"{cgroup_root}/burstable/pod{uid}")
    sandbox.labels.update(labels or {})
    sandbox.annotations.update(annotations or {})
    return PodPlan(sandbox, _container(container_name, resources, command, envs, sandbox))


def batch_pod_config(
    name: str = "",
    *,
    cgroup_root: str = "/kubepods",
    batch_cpu: int | None = 500,
    batch_memory: int | None = 128 << 20,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    envs: Mapping[str, str] | None = None,
    command: Sequence[str] = SLEEP_FOREVER,
    container_name: str = "main",
    namespace: str = "default",
) -> PodPlan:
    """A Koordinator batch pod: BestEffort to the kubelet, its real requests in an annotation.

    ``batch_cpu`` in thousandths of a CPU, ``batch_memory`` in bytes, both
    requested and limited; None leaves one out.
    """
    name, uid = _identity(name)
    amounts = {keys.BATCH_CPU: batch_cpu, keys.BATCH_MEMORY: batch_memory}
    quantities = {key: str(value) for key, value in amounts.items() if value is not None}
    spec = {"containers": {container_name: {"limits": quantities, "requests": quantities}}}
    resources = pb.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=1000)
    sandbox = _sandbox(name, uid, namespace, f"{cgroup_root}/besteffort/pod{uid}")
    sandbox.labels.update({keys.LABEL_QOS: "BE", **(labels or {})})
    sandbox.annotations[keys.ANNOTATION_EXTENDED_RESOURCE_SPEC] = json.dumps(spec)
    sandbox.annotations.update(annotations or {})
    return PodPlan(sandbox, _container(container_name, resources, command, envs, sandbox))


def run_pod(cri: Cri, plan: PodPlan, *, timeout: float = TIMEOUT) -> RunningPod:
    """Do what a kubelet does: sandbox, container, start. ``timeout`` is for each call."""
    sandbox_id = cri.run_pod_sandbox(plan.sandbox, timeout=timeout)
    container_id = cri.create_container(sandbox_id, plan.container, plan.sandbox, timeout=timeout)
    cri.start_container(container_id, timeout=timeout)
    return RunningPod(sandbox_id, container_id, plan)


def remove_pod(cri: Cri, pod: RunningPod, *, timeout: float = TIMEOUT) -> None:
    """Do what a kubelet does when a pod goes."""
    cri.stop_container(pod.container_id, timeout=timeout)
    cri.stop_pod_sandbox(pod.sandbox_id, timeout=timeout)
    cri.remove_container(pod.container_id, timeout=timeout)
    cri.remove_pod_sandbox(pod.sandbox_id, timeout=timeout)


def _identity(name: str) -> tuple[str, str]:
    return name or f"pod-{next(_numbers)}", str(uuid.uuid4())


def _sandbox(name: str, uid: str, namespace: str, cgroup_parent: str) -> pb.PodSandboxConfig:
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, uid=uid, namespace=namespace),
        labels={
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.uid": uid,
        },
        annotations={"kubernetes.io/config.source": "api"},
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent,
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=_namespaces()),
        ),
    )


def _container(
    name: str,
    resources: pb.LinuxContainerResources,
    command: Sequence[str],
    envs: Mapping[str, str] | None,
    sandbox: pb.PodSandboxConfig,
) -> pb.ContainerConfig:
    given = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"} if envs is None else envs
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=name),
        image=pb.ImageSpec(image=IMAGE),
        command=command,
        envs=[pb.KeyValue(key=key, value=value.encode()) for key, value in given.items()],
        labels={
            "io.kubernetes.container.name": name,
            "io.kubernetes.pod.name": sandbox.metadata.name,
            "io.kubernetes.pod.namespace": sandbox.metadata.namespace,
            "io.kubernetes.pod.uid": sandbox.metadata.uid,
        },
        annotations={
            "io.kubernetes.container.hash": "3b8a6f5c",
            "io.kubernetes.container.restartCount": "0",
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "io.kubernetes.container.terminationMessagePolicy": "File",
            "io.kubernetes.pod.terminationGracePeriod": "30",
        },
        linux=pb.LinuxContainerConfig(
            resources=resources,
            security_context=pb.LinuxContainerSecurityContext(namespace_options=_namespaces()),
        ),
    )


def _namespaces() -> pb.NamespaceOption:
    """The host's network, so that no CNI is needed; a process namespace of its own."""
    return pb.NamespaceOption(network=pb.NODE, pid=pb.CONTAINER, ipc=pb.POD)
