"""NRI's pods and containers as the model's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koord_model.pod import Container, Pod
from koord_model.resources import RESOURCE_FIELDS, LinuxResources, ResourceField
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
    found = {field.name: _value(linux, field) for field in RESOURCE_FIELDS}
    return LinuxResources(
        **{**found, "oom_score_adj": oom_score_adj},
        hugepage_limits={
            hugepage_limit.page_size: hugepage_limit.limit
            for hugepage_limit in linux.hugepage_limits
        },
        unified=dict(linux.unified),
    )


def _value(linux: pb.LinuxResources, field: ResourceField) -> Any:
    """One limit; of texts "" is unset, of numbers 0 is a value."""
    if field.oci is None:
        return None
    section, key = getattr(linux, field.oci[0]), field.oci[1]
    if field.text:
        return getattr(section, key) or None
    return getattr(section, key).value if section.HasField(key) else None
