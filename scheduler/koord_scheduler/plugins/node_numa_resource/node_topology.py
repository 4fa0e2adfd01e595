"""A node's CPUs and NUMA nodes, as its NodeResourceTopology and its Node have them. No IO.

koordlet writes the first. Koordinator reads it in ``plugins/nodenumaresource/topology_options.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

import msgspec
from koord_kube.views.pod import Quantities
from koord_model import cpuset
from koord_model.demand import Amounts, amounts
from koord_model.fields import Fields, cpu_list
from koord_model.keys import (
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_POD_CPU_ALLOCS,
    ANNOTATION_SYSTEM_QOS_RESOURCE,
    CPU,
)

from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.plugins.node_numa_resource.object_annotations import ObjectAnnotations, Ratios
from koord_scheduler.plugins.node_numa_resource.policies import NUMATopologyPolicy
from koord_scheduler.plugins.node_numa_resource.topology_object import NodeResourceTopology

_MOST = (1 << 31) - 1
_MOST_NUMA_NODES = 64
_Number = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
_ZONE = re.compile(r"node-([0-9]{1,9})")
_KUBELET_POLICIES = {
    "BestEffort": NUMATopologyPolicy.BEST_EFFORT,
    "Restricted": NUMATopologyPolicy.RESTRICTED,
    "SingleNUMANodePodLevel": NUMATopologyPolicy.SINGLE_NUMA_NODE,
}


@dataclass(frozen=True)
class NodeTopology:
    """A node's report about itself.

    ``reserved`` CPUs go to no pod. ``zones`` are the NUMA nodes by number, with what they have for
    pods, in the order of their numbers. ``ratios`` are ``None`` where the zones are not amplified.
    """

    cpus: CPUTopology = field(default_factory=CPUTopology)
    reserved: frozenset[int] = frozenset()
    is_full_pcpus_only: bool = False
    policy: NUMATopologyPolicy = NUMATopologyPolicy.NONE
    zones: Mapping[int, Amounts] = field(default_factory=dict)
    ratios: Ratios | None = None
    ignored: tuple[str, ...] = ()


def node_topology(node_resource_topology: NodeResourceTopology) -> NodeTopology:
    """Read the object; each annotation or zone that cannot be used costs a line."""
    ignored: list[str] = []
    owner = f"NodeResourceTopology {node_resource_topology.metadata.name}"
    annotations = ObjectAnnotations(owner, node_resource_topology.metadata.annotations, ignored)
    text = (node_resource_topology.metadata.annotations or {}).get(ANNOTATION_CPU_TOPOLOGY)
    cpus = _cpu_topology(text, annotations)
    kubelet = annotations.decoded(ANNOTATION_CPU_MANAGER_POLICY)
    options = kubelet.of("options")
    reserved = _kept_by_kubelet(annotations) | _cpu_set(kubelet, "reservedCPUs")
    reserved |= _cpu_set(annotations.decoded(ANNOTATION_NODE_RESERVATION), "reservedCPUs")
    system = annotations.decoded(ANNOTATION_SYSTEM_QOS_RESOURCE)
    if system.flag("cpusetExclusive", default=True):
        reserved |= _cpu_set(system, "cpuset")
    return NodeTopology(
        cpus=cpus,
        reserved=reserved,
        is_full_pcpus_only=kubelet.text("policy") == "static"
        and options.text("full-pcpus-only") == "true",
        policy=_kubelet_policy(node_resource_topology.topology_policies or ()),
        zones=_zones(node_resource_topology, cpus, reserved, ignored),
        ratios=annotations.ratios(),
        ignored=tuple(ignored),
    )


def _kubelet_policy(words: Iterable[str]) -> NUMATopologyPolicy:
    known = (_KUBELET_POLICIES[word] for word in words if word in _KUBELET_POLICIES)
    return next(known, NUMATopologyPolicy.NONE)


def _zones(
    node_resource_topology: NodeResourceTopology,
    cpus: CPUTopology,
    reserved: frozenset[int],
    ignored: list[str],
) -> Mapping[int, Amounts]:
    found: dict[int, Amounts] = {}
    for zone in node_resource_topology.zones or ():
        match = _ZONE.fullmatch(zone.name)
        if zone.type != "Node" or match is None:
            continue
        number = int(match[1])
        if number >= _MOST_NUMA_NODES:
            where = f"NodeResourceTopology {node_resource_topology.metadata.name}"
            expected = f"less than {_MOST_NUMA_NODES} (zone left out)"
            ignored.append(f"{where} zone {zone.name}: number is {number}; expected {expected}")
            continue
        listed: Quantities = {each.name: each.allocatable for each in zone.resources or ()}
        here = dict(amounts(listed))
        if here.get(CPU):
            here[CPU] -= 1000 * len(reserved & cpus.in_node(number))
        found[number] = here
    return dict(sorted(found.items()))


class _CPU(msgspec.Struct, frozen=True, gc=False):
    id: _Number = 0
    core: _Number = 0
    node: _Number = 0
    socket: _Number = 0


class _CPUTopology(msgspec.Struct, frozen=True):
    detail: list[_CPU] | None = None


_CPU_DECODER = msgspec.json.Decoder(_CPUTopology)


@lru_cache(maxsize=256)
def _known_topology(text: str) -> CPUTopology:
    """Machines of one kind have the same text, and share what is made of it.

    Raises:
        msgspec.MsgspecError: it is not as koordlet writes it.
    """
    listed = _CPU_DECODER.decode(text).detail or ()
    return CPUTopology(LogicalCPU(one.id, one.core, one.node, one.socket) for one in listed)


def _cpu_topology(text: str | None, annotations: ObjectAnnotations) -> CPUTopology:
    try:
        return _known_topology(text or "{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return CPUTopology(_cpus(annotations.decoded(ANNOTATION_CPU_TOPOLOGY)))


def _cpus(topology: Fields) -> list[LogicalCPU]:
    def number(fields: Fields, name: str) -> int:
        return fields.number(name, 0, 0, _MOST)

    return [
        LogicalCPU(*(number(one, name) for name in ("id", "core", "node", "socket")))
        for one in topology.objects("detail", cpuset.MAX_CPU)
    ]


def _kept_by_kubelet(annotations: ObjectAnnotations) -> frozenset[int]:
    """The CPUs that the kubelet gave to pods."""
    found: frozenset[int] = frozenset()
    for one in annotations.listed(ANNOTATION_POD_CPU_ALLOCS):
        if one.flag("managedByKubelet", default=False) and one.text("uid"):
            found |= _cpu_set(one, "cpuset")
    return found


def _cpu_set(given: Fields, name: str) -> frozenset[int]:
    return cpuset.parse(given.take(name, "", cpu_list, "a CPU list", "left out"))
