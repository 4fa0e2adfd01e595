"""The CPUs and NUMA nodes of nodes, and what pods have of them, by row. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from koord_kube.protocol.resources import NODE_TOPOLOGIES

from koord_scheduler.objects.annotations import NO_ANNOTATIONS
from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine, numa_machine
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NO_ALLOCATION,
    NodeAllocation,
    NUMAAllocation,
)
from koord_scheduler.plugins.node_numa_resource.node_topology import NodeTopology, node_topology
from koord_scheduler.plugins.node_numa_resource.occupied_machine import (
    OccupiedMachine,
    OccupiedMachines,
)
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_ALLOCATION, NUMA_NEEDS
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    may_bind_cpus,
    numa_requirements,
    placed_allocation,
)
from koord_scheduler.plugins.node_numa_resource.topology_object import (
    NodeResourceTopology,
    read_node_resource_topology,
)
from koord_scheduler.state.arrays import Mask, Rows, lengthened
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_usage import PodUsage

_UNKNOWN = NodeTopology()
_PLAIN = NUMAMachine()


class NUMAColumns(FeatureState):
    """State of nodes, by their NodeResourceTopologies (by name) and Nodes (by row).

    ``has_rules`` says of which nodes labels, annotations or kubelets concern pods that say nothing
    of CPUs or NUMA nodes themselves, ``rules`` how many these are.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        length = len(nodes)
        self.has_rules: Mask = np.zeros(length, np.bool_)
        self.rules = 0
        self._reported: dict[str, NodeTopology] = {}
        self._annotations: dict[int, Mapping[str, str]] = {}
        self._machines: dict[int, NUMAMachine] = {}
        self._ignored: dict[int, tuple[str, ...]] = {}
        self._allocations: defaultdict[int, NodeAllocation] = defaultdict(NodeAllocation)
        self._shared = OccupiedMachines()
        self._occupied: dict[int, OccupiedMachine] = {}
        self._numbers: Rows = np.zeros(length, np.intp)  # of these; 0 where it is not known

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.has_rules = lengthened(self.has_rules, length, fill=False)
        self._numbers = lengthened(self._numbers, length, fill=0)

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            NODE_TOPOLOGIES,
            NodeResourceTopology,
            read_node_resource_topology,
            self.set_topology,
            lambda name: self.set_topology(name, None),
            is_optional=True,
        )

    def signature(self, pod: PodInfo) -> object:
        metadata, spec = pod.metadata, pod.spec
        priority = spec.priority if may_bind_cpus(metadata.labels or {}) else None
        return metadata.annotations, bool(spec.node_name), priority

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        metadata = pod.metadata
        annotations = metadata.annotations or NO_ANNOTATIONS
        labels = metadata.labels or {}
        yield NUMA_NEEDS, numa_requirements(annotations, labels, pod.spec.priority)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        if pod.spec.node_name:
            yield NUMA_ALLOCATION, numa_allocation(pod)

    def set_topology(self, name: str, topology: NodeResourceTopology | None) -> None:
        """The NodeResourceTopology of a node is there, has changed, or (``None``) is gone."""
        if topology is None:
            self._reported.pop(name, None)
        else:
            self._reported[name] = node_topology(topology)
        row = self._nodes.row(name)
        if row is not None:
            if self._nodes.is_node[row]:
                self._describe(row)
            self._nodes.journal.add(row)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        if node is None:
            self._annotations.pop(row, None)
            self.clear(row)
            return False
        annotations = node.metadata.annotations or NO_ANNOTATIONS
        if is_moved or annotations != self._annotations.get(row, {}):
            self._annotations[row] = annotations
            self._describe(row)
        return False

    def _describe(self, row: int) -> None:
        """Take over what the Node in a row says, in place of what it said."""
        name, labels = self._nodes.name(row), self._nodes.labels.of(row)
        annotations = self._annotations.get(row, {})
        reported = self._reported.get(name, _UNKNOWN)
        ignored: list[str] = list(reported.ignored)
        machine = numa_machine(reported, labels, annotations, ignored)
        has_rules = machine.topology_policy or machine.bind_policy or machine.cpu_ratio > 1
        self._set_rules(row, bool(has_rules))
        self._machines[row] = self._shared.machine(machine)
        self._numbers[row] = 0
        self._ignored[row] = tuple(ignored)
        if reported is _UNKNOWN and not self.has_rules[row] and not ignored:
            self.clear(row)

    def clear(self, row: int) -> None:
        """Nothing is said of a row's node."""
        self._set_rules(row, False)
        self._numbers[row] = 0
        self._occupied.pop(row, None)
        self._machines.pop(row, None)
        self._ignored.pop(row, None)

    def _set_rules(self, row: int, has_rules: bool) -> None:
        self.rules += has_rules - bool(self.has_rules[row])
        self.has_rules[row] = has_rules

    def machine(self, row: int) -> NUMAMachine:
        """The CPUs and NUMA nodes of a row's node; none where they are not known."""
        return self._machines.get(row, _PLAIN)

    def allocation(self, row: int) -> NodeAllocation:
        """Return the pods' allocations of them."""
        return self._allocations.get(row) or NodeAllocation()

    def occupied(self, rows: Rows) -> tuple[list[OccupiedMachine], Rows]:
        """The different machines of some rows with what pods have, and which of them each row has.

        What rows have in common is the same object, as long as they have.
        """
        for row in rows[self._numbers[rows] == 0].tolist():
            found = self._shared.occupied(self.machine(row), self.allocation(row))
            self._occupied[row], self._numbers[row] = found, found.number
        if len(rows) == 1:
            return [self._occupied[int(rows[0])]], np.zeros(1, np.intp)
        _, first, which = np.unique(self._numbers[rows], return_index=True, return_inverse=True)
        return [self._occupied[row] for row in rows[first].tolist()], which

    def ignored(self, row: int) -> tuple[str, ...]:
        """Lines about what could not be used of what a row's node says."""
        return self._ignored.get(row, ())

    def count(self, row: int, usage: PodUsage) -> None:
        if allocation := usage.of(NUMA_ALLOCATION):
            self._allocations[row].add(allocation)
            self._numbers[row] = 0

    def uncount(self, row: int, usage: PodUsage) -> None:
        if allocation := usage.of(NUMA_ALLOCATION):
            self._allocations[row].remove(allocation)
            self._numbers[row] = 0
            if not len(self._allocations[row]):
                del self._allocations[row]


def numa_allocation(pod: PodInfo) -> NUMAAllocation:
    """The CPUs and NUMA nodes of a pod with a node; none where the annotation cannot be used.

    koordlet says that it cannot.
    """
    annotations = pod.metadata.annotations
    if annotations is None:
        return NO_ALLOCATION
    try:
        return placed_allocation(annotations)
    except ValueError:
        return NO_ALLOCATION
