"""Allocations by resource plugins: limits, environment and annotations of containers.

Resource plugins are those of Katalyst's ``resourceplugin.v1alpha1``. A limit has the name of its
field in CRI's Go types: "CpusetCpus", "MemoryLimitInBytes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from koord_model import cpuset
from koord_model.excerpt import excerpt
from koord_model.katalyst import LEVEL
from koord_model.patch import Patch, merge
from koord_model.pod import Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resources import RESOURCE_FIELDS, LinuxResources

DEDICATED_CORES, SYSTEM_CORES = "dedicated_cores", "system_cores"
"""Katalyst's classes of pods that run on CPUs of their own, and of the system's."""
_EXCLUSIVE = (QoSClass.LSE, QoSClass.LSR)
_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """NUMA nodes that a resource could come from, as bits; ``None``: from any."""

    nodes: int | None = None
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class ResourceAllocation:
    """One resource of a container.

    ``limit`` is the name of what is to be limited, "" for nothing, and ``result`` its value.
    ``quantity`` is how much was allocated, in the resource's unit. ``hints`` are where it lies.
    """

    limit: str = ""
    result: str = ""
    quantity: float = 0.0
    scalar: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    hints: tuple[TopologyHint, ...] = ()


ContainerAllocation = Mapping[str, ResourceAllocation]
"""By resource."""
PodAllocation = Mapping[str, ContainerAllocation]
"""By container."""
Allocations = Mapping[str, PodAllocation]
"""By pod UID."""

_FIELDS = {
    "".join(word.capitalize() for word in field.cri.split("_")): field for field in RESOURCE_FIELDS
}
"""Limits by the names that plugins use."""


def allocated_patch(allocation: ContainerAllocation, online: str) -> Patch:
    """The changes that an allocation makes to its container.

    ``online`` are the node's CPUs ("": not known). What cannot be used is left out, with a line in
    ``ignored``, as is what two resources want set to different values.
    """
    patches = [(name, _patch(name, given, online)) for name, given in allocation.items()]
    patch, conflicts = merge(patches, Patch)
    lines = (f"resource plugins disagree, left alone: {conflict}" for conflict in conflicts)
    return replace(patch, ignored=(*patch.ignored, *lines))


def exclusive_cpus(allocations: Allocations, pods: Iterable[Pod]) -> Mapping[str, frozenset[int]]:
    """The CPUs of pods, by UID, that plugins gave to these alone: dedicated_cores, LSE, LSR."""
    found: dict[str, frozenset[int]] = {}
    for pod in [pod for pod in pods if pod.uid in allocations]:
        dedicated = pod.annotations.get(LEVEL) == DEDICATED_CORES
        if dedicated or qos_class(pod.labels) in _EXCLUSIVE:
            given = allocations[pod.uid].values()
            cpus = (allocated_patch(allocation, "").resources.cpuset_cpus for allocation in given)
            found[pod.uid] = frozenset().union(*(cpuset.parse(listed or "") for listed in cpus))
    return found


def _patch(name: str, given: ResourceAllocation, online: str) -> Patch:
    patch = Patch(env=given.env, annotations=given.annotations)
    if not given.limit or not given.result:
        return patch
    try:
        limits = _limits(given, online)
    except ValueError as error:
        line = f"resource plugin of {name}, {excerpt(given.limit)}: {error}"
        return replace(patch, ignored=(line,))
    return replace(patch, resources=limits, why=f"{given.limit} {given.result}")


def _limits(given: ResourceAllocation, online: str) -> LinuxResources:
    """The limit.

    Raises:
        ValueError: no container can have it.
    """
    known = _FIELDS.get(given.limit)
    if known is None:
        raise ValueError(
            f"{excerpt(given.limit)} is no limit; expected one of {', '.join(_FIELDS)}"
        )
    if not known.text:
        shown = f"{given.limit} is {excerpt(given.result)}; expected a whole number"
        if not given.result.removeprefix("-").isdecimal() or len(given.result) > 20:
            raise ValueError(shown)
        value = int(given.result)
        if not -_INT64 <= value < _INT64:
            raise ValueError(f"{shown} of 64 bits")
        return _with_limit(known.name, value)
    listed = cpuset.parse(given.result)
    strange = listed - cpuset.parse(online) if online and known.name == "cpuset_cpus" else ()
    if strange:
        there = f"CPUs that this node does not have: {cpuset.render(strange)}"
        raise ValueError(f"{given.limit} {given.result} names {there}; expected some of {online}")
    return _with_limit(known.name, cpuset.render(listed))


def _with_limit(name: str, value: Any) -> LinuxResources:
    return LinuxResources(**{name: value})
