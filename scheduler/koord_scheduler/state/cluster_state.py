"""The nodes of the cluster, as columns. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from koord_model.demand import amounts
from koord_model.device_allocated import NO_DEVICES, PodDevices

from koord_scheduler.objects.metadata import NO_ANNOTATIONS
from koord_scheduler.objects.node import Node, Taint
from koord_scheduler.objects.node_selector import NodeSelectorTerm, RequiredNodes
from koord_scheduler.objects.pod import Toleration
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.objects.tolerations import first_untolerated
from koord_scheduler.plugins.coscheduling.gangs import Gangs
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.tree import NetworkNode, NetworkTree
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_object import DeviceReport
from koord_scheduler.plugins.device_share.gpu_templates import GPUTemplates
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.node_answers import NodeAnswers
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.pod_load import NO_LOAD, PodLoad
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.node_allocation import NO_ALLOCATION, NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.topology_object import NodeResourceTopology
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.pre_allocatable import PreAllocatable
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.plugins.volumes.usage import NO_VOLUMES, VolumeUsage
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened
from koord_scheduler.state.coded_sets import SetColumn, SetValues
from koord_scheduler.state.domains import DomainCache, Domains, NodeScope
from koord_scheduler.state.held_terms import HeldTerm, HeldTerms
from koord_scheduler.state.images import ImageColumns
from koord_scheduler.state.journal import RowJournal
from koord_scheduler.state.labels import LabelColumns
from koord_scheduler.state.namespaces import Namespaces
from koord_scheduler.state.pod_counts import PodCounts
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.ports import HostPort, HostPortColumns
from koord_scheduler.state.resources import PODS, Request, ResourceColumns
from koord_scheduler.state.selected_labels import SelectedLabels
from koord_scheduler.state.workload_selectors import WorkloadSelectors

_SHORTEST = 64
_TIES = 1 << 20
_MOST_BYTES_OF_DOMAINS = 64 << 20


class PodUsage(NamedTuple):
    """What a pod takes of its node, in numbers of columns; ``scored`` as in ``PodRequests``.

    ``reservation`` is the uid of the one that it has this of, "" if of none; ``pre_allocatable``
    says which ones may take it over.
    """

    request: Request
    scored: tuple[float, float]
    ports: tuple[HostPort, ...]
    labels: PodLabels
    terms: tuple[HeldTerm, ...] = ()
    volumes: VolumeUsage = NO_VOLUMES
    load: PodLoad = NO_LOAD
    numa: NUMAAllocation = NO_ALLOCATION
    devices: PodDevices = NO_DEVICES
    reservation: str = ""
    pre_allocatable: PreAllocatable | None = None


class ClusterState:
    """Nodes by row: labels, taints, resources, and which rows changed.

    ``journal`` has all rows that changed, ``node_journal`` those where something else did than
    pods and amounts. ``version`` changes with the labels and taints of nodes, with those that come
    and go, and with ``generation``, which says how often there were more rows than before.
    ``is_node`` says which rows have a node, ``unschedulable`` which nodes are cordoned.
    ``tie_break`` is a fraction in [0, 1), another one
    for each node: added to scores, which are whole numbers, it lets equal scores go to one node
    of them, the same for the same ``seed``.
    """

    def __init__(self, seed: int = 0, length: int = _SHORTEST) -> None:
        self.generation = 0
        self.version = 0
        self.journal = RowJournal()
        self.node_journal = RowJournal()
        self.labels = LabelColumns(length)
        self.taints = SetColumn[Taint](length)
        self.features = SetColumn[str](length)
        self.resources = ResourceColumns(length)
        self.ports = HostPortColumns()
        self.images = ImageColumns()
        self.pods = PodCounts(length)
        self.selected_labels = SelectedLabels()
        self.terms = HeldTerms(length, self.selected_labels.add)
        self.namespaces = Namespaces()
        self.workloads = WorkloadSelectors(self.selected_labels.add)
        self.volumes = VolumeObjects(self._claim_changed, self._volumes_of_node_changed)
        self.pod_volumes = VolumeColumns(length, self.volumes)
        self.devices = DeviceObjects(self._devices_of_node_changed)
        self.device_answers = NodeAnswers(self.devices)
        self.loads = NodeLoads(length, self.journal.add)
        self.numa = NUMAColumns(length)
        self.node_devices = DeviceColumns(length)
        self.gangs = Gangs()
        self.network = ClusterNetwork()
        self.reservations = ReservationColumns(
            self.resources,
            self.add_pod,
            self.remove_pod,
            self._touch,
            self.selected_labels.add,
        )
        self.quotas = QuotaColumns(self.resources, lambda: self.is_node)
        self.is_node: Mask = np.zeros(length, np.bool_)
        self.unschedulable: Mask = np.zeros(length, np.bool_)
        self.tie_break: Amounts = np.zeros(length)
        self._seed = str(seed).encode()
        self._names: list[str] = [""] * length
        self._pods_on = [0] * length
        self._annotations: dict[int, dict[str, str]] = {}
        self._row_of: dict[str, int] = {}
        self._free = list(range(length - 1, -1, -1))
        self._ties: set[float] = set()
        self._domains = DomainCache(0)
        self._lacking: set[int] = set()

    def __len__(self) -> int:
        """How many rows there are, with a node or without."""
        return len(self._names)

    def row(self, name: str) -> int | None:
        """The row of a node; ``None`` if there is no such node, and no pod on it."""
        return self._row_of.get(name)

    def row_of_pods(self, name: str) -> int:
        """The row of a node that has pods, known or not."""
        return self._row_of[name]

    def name(self, row: int) -> str:
        """The name of the node in a row, "" if the row is free."""
        return self._names[row]

    def matches(self, required: RequiredNodes, rows: Rows) -> Mask:
        """Of each of these rows, whether a pod that requires such nodes may run there."""
        found = self.labels.matches(required.selector, rows)
        if required.terms is not None:
            alternatives = [self.matches_term(term, rows) for term in required.terms]
            found &= np.logical_or.reduce(alternatives, axis=0)
        return found

    def untolerated(self, tolerations: Sequence[Toleration]) -> SetValues[Taint]:
        """1 for nodes with a taint that forbids, and that none of these tolerations is for."""
        return SetValues(
            self.taints, lambda taints: first_untolerated(taints, tolerations) is not None
        )

    def matches_term(self, term: NodeSelectorTerm, rows: Rows) -> Mask:
        """Of each of these rows, whether a term means it; one that says nothing means none."""
        if not term.labels and not term.names:
            return np.zeros(len(rows), np.bool_)
        found = self.labels.matches(term.labels, rows)
        for one in term.names:
            named = [row for row in map(self.row, one.values) if row is not None]
            found &= np.isin(rows, named, invert=one.operator != "In")
        return found

    def set(self, node: Node) -> int:
        """Add a node, or take over what changed in one; returns its row."""
        row = self._row_for(node.name)
        self._describe(row, node, is_node=True)
        self.journal.add(row)
        return row

    def remove(self, name: str) -> None:
        """Forget a node; its row stays for as long as pods are on it."""
        row = self._row_of[name]
        self._describe(row, Node(), is_node=False)
        self._changed(row)

    def _describe(self, row: int, node: Node, *, is_node: bool) -> None:
        """Most changes of nodes are of amounts, or of what schedulers do not look at."""
        spec, status = node.spec, node.status
        was = bool(self.is_node[row]), bool(self.unschedulable[row])
        self.is_node[row], self.unschedulable[row] = is_node, spec.unschedulable
        self.resources.set_allocatable(row, amounts(status.allocatable))
        self.quotas.nodes_changed()
        self.loads.set_node(row, node if is_node else None)
        is_moved = self.labels.set(row, node.labels)
        is_moved |= self.taints.set(row, spec.taints or ())
        is_moved |= was[0] != is_node
        if self.numa.is_used:
            annotations = (node.metadata.annotations or NO_ANNOTATIONS).by_key()
            if is_moved or annotations != self._annotations.get(row, {}):
                self._annotations[row] = annotations
                self._describe_numa(row)
        if self.node_devices.is_used and is_moved:
            self._describe_devices(row)
        has_changed = self.features.set(row, status.declared_features or ())
        has_changed |= self.images.set(row, status.images or ())
        has_changed |= was[1] != spec.unschedulable
        self.version += is_moved
        if is_moved or has_changed:
            self.node_journal.add(row)

    def set_topology(self, name: str, topology: NodeResourceTopology | None) -> None:
        """The NodeResourceTopology of a node is there, has changed, or (``None``) is gone."""
        if topology is None:
            self.numa.forget_report(name)
        else:
            self.numa.report(topology)
        row = self._row_of.get(name)
        if row is not None:
            self._describe_numa(row)
            self.journal.add(row)

    def _describe_numa(self, row: int) -> None:
        if self.is_node[row]:
            labels, annotations = self.labels.of(row), self._annotations.get(row, {})
            self.numa.describe(row, self._names[row], labels, annotations)
        else:
            self._annotations.pop(row, None)
            self.numa.clear(row)

    def network_tree(self) -> NetworkTree | None:
        """Where nodes are in the network; ``None``: nobody says."""
        rows = np.flatnonzero(self.is_node).tolist()
        nodes = (NetworkNode(row, self._names[row], self.labels.of(row)) for row in rows)
        return self.network.tree(self.version, nodes)

    def set_device_report(self, name: str, report: DeviceReport | None) -> None:
        """The Device of a node is there, has changed, or (``None``) is gone."""
        if report is None:
            self.node_devices.forget_report(name)
        else:
            self.node_devices.report(name, report)
        row = self._row_of.get(name)
        if row is not None:
            self._describe_devices(row)
            self.journal.add(row)

    def set_gpu_templates(self, templates: GPUTemplates) -> None:
        """Parts in which cards are given are there, or have changed."""
        for row in self.node_devices.set_templates(templates):
            self.journal.add(row)

    def _describe_devices(self, row: int) -> None:
        if self.is_node[row]:
            self.node_devices.describe(row, self._names[row], self.labels.of(row))
        else:
            self.node_devices.clear(row)

    def domains(self, key: str, scope: NodeScope) -> Domains:
        """The domains of a label, shared by all who ask while nodes stay as they are."""
        known = self._known_domains()
        found = known.domains.get((key, scope))
        if found is None:
            found = known.domains[key, scope] = self._make_domains(key, scope)
        return found

    def with_labels(self, keys: tuple[str, ...]) -> Mask:
        """The rows of nodes that have all these labels; for reading only."""
        known = self._known_domains()
        found = known.with_labels.get(keys)
        if found is None:
            found = known.with_labels[keys] = self.is_node.copy()
            for key in keys:
                found &= self.labels.column(key).codes >= 0
        return found

    def _known_domains(self) -> DomainCache:
        known = self._domains
        if known.version != self.version or known.size > _MOST_BYTES_OF_DOMAINS:
            known = self._domains = DomainCache(self.version)
        return known

    def _make_domains(self, key: str, scope: NodeScope) -> Domains:
        column, is_counted = self.labels.column(key), self.with_labels(scope.keys or ())
        codes, lacking = column.codes, self.is_node & (column.codes < 0)
        if scope.keys is None:
            codes = np.where(codes < 0, column.code(""), codes)
        rows = np.flatnonzero(is_counted)
        if scope.required is not None:
            rows = rows[self.matches(scope.required, rows)]
        if scope.tolerations is not None:
            rows = rows[self.untolerated(scope.tolerations).of(rows) == 0]
        counted = np.zeros(len(self), np.bool_)
        counted[rows] = True
        return Domains(self.version, codes, counted, is_node=self.is_node, lacking=lacking)

    def usage(
        self,
        pod: PodRequests,
        ports: tuple[HostPort, ...],
        labels: PodLabels,
        terms: tuple[HeldTerm, ...] = (),
        volumes: VolumeUsage = NO_VOLUMES,
        load: PodLoad = NO_LOAD,
        numa: NUMAAllocation = NO_ALLOCATION,
        devices: PodDevices = NO_DEVICES,
    ) -> PodUsage:
        """What a pod takes, as columns have it."""
        request = self.resources.request({**pod.amounts, PODS: 1})
        scored = float(pod.scored_cpu), float(pod.scored_memory)
        return PodUsage(request, scored, ports, labels, terms, volumes, load, numa, devices)

    def add_pod(self, node: str, usage: PodUsage) -> int:
        """A pod is on a node, which need not be known yet; returns the node's row."""
        row = self._row_for(node)
        self._pods_on[row] += 1
        self._add(row, usage)
        self.journal.add(row)
        if usage.reservation:
            self.reservations.add_owner(node, usage)
        return row

    def remove_pod(self, node: str, usage: PodUsage) -> None:
        """A pod is not on a node any more."""
        row = self._row_of[node]
        self.reservations.leave(node, usage)
        self._pods_on[row] -= 1
        self._subtract(row, usage)
        self._changed(row)

    @contextmanager
    def without(self, pods: Sequence[tuple[str, PodUsage]]) -> Iterator[None]:
        """The columns as if these pods were not on their nodes, to ask something; no row changes.

        None of them has anything of a reservation. ``lacks_pods`` says of which nodes.
        """
        found = [(self._row_of[node], usage) for node, usage in pods]
        for row, usage in found:
            self._subtract(row, usage)
        self._lacking.update(row for row, _ in found)
        try:
            yield
        finally:
            self._lacking.clear()
            for row, usage in found:
                self._add(row, usage)

    @contextmanager
    def without_labels(self, pods: Sequence[tuple[str, PodUsage]]) -> Iterator[None]:
        """The same for what pods are counted by, and say of each other: not for their room."""
        found = [(self._row_of[node], usage) for node, usage in pods]
        for row, usage in found:
            self.pods.add(row, usage.labels, -1)
            self.terms.add(row, usage.terms, -1)
        try:
            yield
        finally:
            for row, usage in found:
                self.pods.add(row, usage.labels)
                self.terms.add(row, usage.terms)

    def lacks_pods(self, row: int) -> bool:
        """Whether the columns are ``without`` pods of a row."""
        return row in self._lacking

    def _add(self, row: int, usage: PodUsage) -> None:
        self.resources.add(row, usage.request, usage.scored)
        self.ports.add(row, usage.ports)
        self.pods.add(row, usage.labels)
        self.terms.add(row, usage.terms)
        self.pod_volumes.add(row, usage.volumes)
        self.numa.add(row, usage.numa)
        self.node_devices.add(row, usage.devices)

    def _subtract(self, row: int, usage: PodUsage) -> None:
        self.resources.add(row, usage.request, usage.scored, -1)
        self.ports.remove(row, usage.ports)
        self.pods.add(row, usage.labels, -1)
        self.terms.add(row, usage.terms, -1)
        self.pod_volumes.remove(row, usage.volumes)
        self.numa.remove(row, usage.numa)
        self.node_devices.remove(row, usage.devices)

    def _touch(self, node: str) -> None:
        row = self._row_of.get(node)
        if row is not None:
            self.journal.add(row)

    def _row_for(self, name: str) -> int:
        row = self._row_of.get(name)
        if row is None:
            if not self._free:
                self._lengthen(2 * len(self))
            row = self._row_of[name] = self._free.pop()
            self._names[row] = name
            self.tie_break[row] = self._tie(name)
            self.pod_volumes.set_node(row, name)
        return row

    def _claim_changed(self, claim: str) -> None:
        for row in self.pod_volumes.set_claim(claim):
            self.journal.add(row)

    def _volumes_of_node_changed(self, name: str) -> None:
        row = self._row_of.get(name)
        if row is not None:
            self.pod_volumes.set_node(row, name)
            self.journal.add(row)

    def _devices_of_node_changed(self, name: str) -> None:
        row = self._row_of.get(name)
        if row is not None:
            self.journal.add(row)

    def _changed(self, row: int) -> None:
        """Give the row free if neither a node nor a pod is in it."""
        self.journal.add(row)
        if not self.is_node[row] and not self._pods_on[row]:
            del self._row_of[self._names[row]]
            self._names[row] = ""
            self._ties.discard(float(self.tie_break[row]))
            self._free.append(row)

    def _tie(self, name: str) -> float:
        # A CRC would order names of one length alike for all seeds, but for a few bits.
        digest = blake2b(name.encode(), digest_size=4, key=self._seed).digest()
        place = int.from_bytes(digest) % _TIES
        while (tie := place / _TIES) in self._ties:
            place = (place + 1) % _TIES
        self._ties.add(tie)
        return tie

    def _lengthen(self, length: int) -> None:
        before = len(self)
        self.labels.lengthen(length)
        self.taints.lengthen(length)
        self.features.lengthen(length)
        self.resources.lengthen(length)
        self.pods.lengthen(length)
        self.terms.lengthen(length)
        self.pod_volumes.lengthen(length)
        self.loads.lengthen(length)
        self.numa.lengthen(length)
        self.node_devices.lengthen(length)
        self.is_node = lengthened(self.is_node, length, fill=False)
        self.unschedulable = lengthened(self.unschedulable, length, fill=False)
        self.tie_break = lengthened(self.tie_break, length, 0)
        self._names += [""] * (length - before)
        self._pods_on += [0] * (length - before)
        self._free = list(range(length - 1, before - 1, -1))
        self.generation += 1
        self.version += 1
