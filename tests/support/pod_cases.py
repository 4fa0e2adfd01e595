"""What pods get on a node that koordlet keeps: the table to extend, and the node's rules.

A row is what the API server says of a pod, and what must be found once it runs. Files
(cgroup v1) that a row does not name are not judged. The node has CPUs 0 and 1.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from koord_model import keys
from koord_model.qos import KubeQoS

MIB = 1 << 20

RULES = """\
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    lsrClass: {cpuQOS: {enable: true, groupIdentity: 2}}
    lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
---
kind: Node
metadata:
  annotations:
    node.koordinator.sh/cpu-normalization-ratio: "1.25"
---
kind: NodeResourceTopology
metadata:
  annotations:
    node.koordinator.sh/cpu-shared-pools: '[{"socket": 0, "node": 0, "cpuset": "0-1"}]'
    node.koordinator.sh/system-qos-resource: '{"cpuset": "1"}'
"""
"""All classes have an identity; LS and plain pods' quotas, and BE's, are divided by 1.25."""


@dataclasses.dataclass(frozen=True)
class PodCase:
    """A pod of one container, named main."""

    name: str
    kube_qos: KubeQoS
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # What its spec asks of the kubelet: thousandths of a CPU, bytes; 0 is nothing.
    cpu_request: int = 0
    cpu_limit: int = 0
    memory_limit: int = 0
    envs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    container: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """What is expected in the container's group, by file."""
    pod: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """What is expected in the pod's group, by file."""
    process: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """What is expected of the container's first process: its score, and its environment."""
    reported: tuple[str, ...] = ()
    """What koordlet has to say of each annotation that cannot be used."""

    def like(self, name: str, **changes: object) -> PodCase:
        return dataclasses.replace(self, name=name, **changes)


def qos(name: str) -> dict[str, str]:
    return {keys.LABEL_QOS: name}


def own_cpus(cpus: str) -> dict[str, str]:
    """What the scheduler writes for a pod that gets CPUs of its own."""
    return {keys.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}


def batch(**containers: tuple[int, int]) -> dict[str, str]:
    """What the webhook writes for a batch pod: thousandths of a CPU and bytes, by container."""
    asked = {
        name: {keys.BATCH_CPU: str(cpu), keys.BATCH_MEMORY: str(memory)}
        for name, (cpu, memory) in containers.items()
    }
    spec = {"containers": {name: {"requests": one, "limits": one} for name, one in asked.items()}}
    return {keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(spec)}


def devices(**listed: object) -> dict[str, str]:
    """What the scheduler writes for a pod with devices."""
    return {keys.ANNOTATION_DEVICE_ALLOCATED: json.dumps(listed)}


def gpu(minor: int) -> dict[str, object]:
    """Half of a GPU."""
    part = {keys.GPU_CORE: "50", keys.GPU_MEMORY: "8Gi", keys.GPU_MEMORY_RATIO: "50"}
    return {"minor": minor, "resources": part}


_ALL = {"cpuset.cpus": "0-1"}
_UNLIMITED = {"cpu.cfs_quota_us": -1}

LSE = PodCase(
    "lse",
    KubeQoS.GUARANTEED,
    labels=qos("LSE"),
    annotations=own_cpus("0"),
    cpu_request=1000,
    cpu_limit=1000,
    memory_limit=64 * MIB,
    container={
        "cpu.shares": 1024,
        "cpu.cfs_quota_us": -1,
        "cpuset.cpus": "0",
        "memory.limit_in_bytes": 64 * MIB,
    },
    pod={
        "cpu.shares": 1024,
        "cpu.cfs_quota_us": -1,
        "cpu.idle": 0,
        "memory.limit_in_bytes": 64 * MIB,
    },
)
LSR = LSE.like(
    "lsr",
    labels=qos("LSR"),
    annotations=own_cpus("1"),
    container={**LSE.container, "cpuset.cpus": "1"},
)
LS = PodCase(
    "ls",
    KubeQoS.BURSTABLE,
    labels=qos("LS"),
    cpu_request=100,
    cpu_limit=500,
    memory_limit=64 * MIB,
    container={
        "cpu.shares": 102,
        "cpu.cfs_quota_us": 40_000,
        "cpuset.cpus": "0-1",
        "memory.limit_in_bytes": 64 * MIB,
    },
    pod={"cpu.shares": 102, "cpu.cfs_quota_us": 40_000, "cpu.idle": 0},
)
LS_BY_NUMA_NODE = LS.like(
    "ls-by-numa-node",
    annotations={
        keys.ANNOTATION_RESOURCE_STATUS: json.dumps(
            {"numaNodeResources": [{"node": 0, "resources": {"cpu": "100m"}}]}
        )
    },
)
LS_THAT_YIELDS = LS.like(
    "ls-that-yields",
    annotations={keys.ANNOTATION_CPU_QOS: '{"groupIdentity": -1}'},
    # An idle group has weights of its own.
    pod={"cpu.idle": 1, "cpu.cfs_quota_us": 40_000},
)
BE = PodCase(
    "be",
    KubeQoS.BEST_EFFORT,
    labels=qos("BE"),
    annotations=batch(main=(500, 128 * MIB)),
    container={
        "cpu.shares": 512,
        "cpu.cfs_quota_us": 40_000,
        "cpuset.cpus": "0-1",
        "memory.limit_in_bytes": 128 * MIB,
    },
    pod={
        "cpu.shares": 512,
        "cpu.cfs_quota_us": 40_000,
        "cpu.idle": 0,
        "memory.limit_in_bytes": 128 * MIB,
    },
    process={"oom_score_adj": 1000},
)
BE_OF_TWO = BE.like(
    "be-of-two",
    annotations=batch(main=(500, 128 * MIB), sidecar=(250, 64 * MIB)),
    pod={
        "cpu.shares": 768,
        "cpu.cfs_quota_us": 60_000,
        "cpu.idle": 0,
        "memory.limit_in_bytes": 192 * MIB,
    },
)
BE_TO_BE_SPARED = BE.like(
    "be-to-be-spared",
    annotations={
        **BE.annotations,
        keys.ANNOTATION_OOM_SCORE_ADJ: "900",
        keys.ANNOTATION_OOM_SCORE_ADJ_SPEC: '{"main": 950}',
    },
    process={"oom_score_adj": 950},
)
SYSTEM = LS.like(
    "system",
    labels=qos("SYSTEM"),
    container={**LS.container, "cpu.cfs_quota_us": 50_000, "cpuset.cpus": "1"},
    pod={"cpu.shares": 102, "cpu.cfs_quota_us": 50_000, "cpu.idle": 0},
)
PLAIN = LS.like("plain", labels={})
PLAIN_BEST_EFFORT = PodCase(
    "plain-best-effort",
    KubeQoS.BEST_EFFORT,
    container={"cpu.shares": 2, **_UNLIMITED, **_ALL},
    pod={"cpu.shares": 2, **_UNLIMITED, "cpu.idle": 0},
    process={"oom_score_adj": 1000},
)
GPUS = LS.like(
    "gpus",
    annotations=devices(gpu=[gpu(0), gpu(3)]),
    process={"NVIDIA_VISIBLE_DEVICES": "0,3", "LD_PRELOAD": None},
)
PART_OF_A_GPU = LS.like(
    "part-of-a-gpu",
    labels={**LS.labels, keys.LABEL_GPU_ISOLATION_PROVIDER: "HAMi-core"},
    annotations=devices(gpu=[gpu(1)]),
    envs={"LD_PRELOAD": "/own.so", "KEPT": "yes"},
    process={
        "NVIDIA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_MEMORY_LIMIT": str(8 << 30),
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": "/usr/local/vgpu/libvgpu.so:/own.so",
        "KEPT": "yes",
    },
)
BAD_BATCH = BE.like(
    "bad-batch",
    annotations={keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: '{"containers": 7}'},
    container={"cpu.shares": 2, **_UNLIMITED, **_ALL},
    pod={"cpu.shares": 2, **_UNLIMITED},
    reported=(keys.ANNOTATION_EXTENDED_RESOURCE_SPEC,),
)
BAD_IN_MANY_WAYS = LS.like(
    "bad-in-many-ways",
    labels={**LS.labels, keys.LABEL_GPU_ISOLATION_PROVIDER: "HAMi-core"},
    annotations={
        keys.ANNOTATION_CPU_QOS: '{"groupIdentity": 7}',
        keys.ANNOTATION_RESOURCE_STATUS: '{"cpuset": "0-999"}',
        keys.ANNOTATION_DEVICE_ALLOCATED: "{",
        keys.ANNOTATION_OOM_SCORE_ADJ: "many",
    },
    process={"NVIDIA_VISIBLE_DEVICES": None, "oom_score_adj": 999},
    reported=(
        keys.ANNOTATION_CPU_QOS,
        keys.ANNOTATION_RESOURCE_STATUS,
        keys.ANNOTATION_DEVICE_ALLOCATED,
        keys.ANNOTATION_OOM_SCORE_ADJ,
    ),
)

CASES = (
    *(LSE, LSR, LS, LS_BY_NUMA_NODE, LS_THAT_YIELDS),
    *(BE, BE_OF_TWO, BE_TO_BE_SPARED),
    *(SYSTEM, PLAIN, PLAIN_BEST_EFFORT),
    *(GPUS, PART_OF_A_GPU),
    *(BAD_BATCH, BAD_IN_MANY_WAYS),
)

CLASSES: Mapping[KubeQoS, Mapping[str, object]] = {
    KubeQoS.GUARANTEED: {"cpu.idle": 0},
    KubeQoS.BURSTABLE: {"cpu.idle": 0},
    KubeQoS.BEST_EFFORT: {"cpu.idle": 1},
}
"""What is expected of the groups of Kubernetes' classes, with ``--idle-besteffort``."""
