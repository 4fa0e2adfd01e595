"""NRI's pods and containers as the model's."""

from __future__ import annotations

from collections.abc import Iterable

from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_proto import nri_pb2 as pb


def to_pod(sandbox: pb.PodSandbox) -> Pod:
    """A pod. Its labels and annotations hold some that the runtime added."""
    return Pod(
        name=sandbox.name,
        namespace=sandbox.namespace,
        uid=sandbox.uid,
        labels=dict(sandbox.labels),
        annotations=dict(sandbox.annotations),
        cgroup_parent=sandbox.linux.cgroup_parent,
        runtime_handler=sandbox.runtime_handler,
        resources=to_resources(sandbox.linux.pod_resources),
        overhead=to_resources(sandbox.linux.pod_overhead),
        ip=sandbox.ips[0] if sandbox.ips else "",
    )


def to_container(sandbox: pb.PodSandbox, container: pb.Container) -> Container:
    """A container of a pod."""
    linux = container.linux
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    return Container(
        pod=to_pod(sandbox),
        name=container.name,
        id=container.id,
        annotations=dict(container.annotations),
        resources=to_resources(linux.resources, oom_score_adj=score),
        env=to_env(container.env),
    )


def to_env(variables: Iterable[str]) -> dict[str, str]:
    """Variables written NAME=value; of one named twice, the last counts."""
    parts = (variable.partition("=") for variable in variables)
    return {name: value for name, _, value in parts}


def to_resources(linux: pb.LinuxResources, *, oom_score_adj: int | None = None) -> LinuxResources:
    """Limits; what is not there is unset. NRI keeps the OOM score elsewhere."""
    cpu, memory = linux.cpu, linux.memory
    return LinuxResources(
        cpu_period=cpu.period.value if cpu.HasField("period") else None,
        cpu_quota=cpu.quota.value if cpu.HasField("quota") else None,
        cpu_shares=cpu.shares.value if cpu.HasField("shares") else None,
        memory_limit=memory.limit.value if memory.HasField("limit") else None,
        memory_swap_limit=memory.swap.value if memory.HasField("swap") else None,
        oom_score_adj=oom_score_adj,
        cpuset_cpus=cpu.cpus or None,
        cpuset_mems=cpu.mems or None,
        hugepage_limits={one.page_size: one.limit for one in linux.hugepage_limits},
        unified=dict(linux.unified),
    )
