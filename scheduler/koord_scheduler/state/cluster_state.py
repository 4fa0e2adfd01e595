"""The state of the cluster: nodes as rows, and what pods take of them. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from koord_model.demand import amounts

from koord_scheduler.objects.node import Node, Taint
from koord_scheduler.objects.node_selector import NodeSelectorTerm, RequiredNodes
from koord_scheduler.objects.pod import Toleration
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.objects.tolerations import first_untolerated
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened
from koord_scheduler.state.coded_sets import SetColumn, SetValues
from koord_scheduler.state.domains import DomainCache, Domains, NodeScope
from koord_scheduler.state.feature_state import FeatureState
from koord_scheduler.state.held_terms import HeldTerm, HeldTerms
from koord_scheduler.state.journal import RowJournal
from koord_scheduler.state.labels import LabelColumns
from koord_scheduler.state.namespaces import Namespaces
from koord_scheduler.state.pod_counts import PodCounts
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_parts import NO_PARTS, PodParts
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage
from koord_scheduler.state.ports import HostPort, HostPortColumns
from koord_scheduler.state.resource_backing import NO_BACKING
from koord_scheduler.state.resources import PODS, ResourceColumns
from koord_scheduler.state.selected_labels import SelectedLabels
from koord_scheduler.state.stand_in import StandIns
from koord_scheduler.state.workload_selectors import WorkloadSelectors

NO_GATES: Mapping[str, bool] = MappingProxyType({})
_SHORTEST = 64
_TIES = 1 << 20
_MOST_BYTES_OF_DOMAINS = 64 << 20

if TYPE_CHECKING:
    from koord_scheduler.state.pod_class import PodClass

F = TypeVar("F", bound=FeatureState)
_OF_NODES = ("set_row", "set_node", "count", "arrived", "placed")
_PLAIN = {name: getattr(FeatureState, name) for name in _OF_NODES}


class ClusterState:
    """Nodes by row: labels, taints, resources, which rows changed, and what features keep.

    ``journal`` has all rows that changed, ``node_journal`` those where something else did than
    pods and amounts. ``version`` changes with the labels and taints of nodes, with those that come
    and go, and with ``generation``, which says how often there were more rows than before.
    ``is_node`` says which rows have a node, ``unschedulable`` which nodes are cordoned.
    ``gates`` are feature gates by name. ``tie_break`` is a fraction in [0, 1), another one
    for each node: added to scores, which are whole numbers, it lets equal scores go to one node
    of them, the same for the same ``seed``.
    """

    def __init__(
        self, seed: int = 0, length: int = _SHORTEST, gates: Mapping[str, bool] = NO_GATES
    ) -> None:
        self.gates = gates
        self.generation = 0
        self.version = 0
        self.journal = RowJournal()
        self.node_journal = RowJournal()
        self.labels = LabelColumns(length)
        self.taints = SetColumn[Taint](length)
        self.resources = ResourceColumns(length)
        self.ports = HostPortColumns()
        self.pods = PodCounts(length)
        self.selected_labels = SelectedLabels()
        self.terms = HeldTerms(length, self.selected_labels.add)
        self.namespaces = Namespaces()
        self.workloads = WorkloadSelectors(self.selected_labels.add)
        self.is_node: Mask = np.zeros(length, np.bool_)
        self.unschedulable: Mask = np.zeros(length, np.bool_)
        self.tie_break: Amounts = np.zeros(length)
        self._seed = str(seed).encode()
        self._names: list[str] = [""] * length
        self._pods_on = [0] * length
        self._row_of: dict[str, int] = {}
        self._free = list(range(length - 1, -1, -1))
        self._ties: set[float] = set()
        self._domains = DomainCache(0)
        self._lacking: set[int] = set()
        self.backing = NO_BACKING
        self.stand_ins: StandIns | None = None
        self.epoch = 0.0
        """The time, in seconds since the epoch."""
        self.features: dict[type[FeatureState], FeatureState] = {}
        self.pods_on: Callable[[int], Sequence[PlacedPod]] = lambda row: ()
        """The pods of a row's node, once there is somebody who knows."""
        self._find_hooks()

    def use(self, kind: type[F]) -> F:
        """The state of a feature, made when it is first asked for.

        Raises:
            RuntimeError: that is now, and there are nodes already of which it has to know.
        """
        found = self.features.get(kind)
        if found is None:
            if self._row_of and any(getattr(kind, hook) is not _PLAIN[hook] for hook in _OF_NODES):
                raise RuntimeError(f"{kind.__name__} is asked for after there are nodes")
            found = self.features[kind] = kind(self)
            self._find_hooks()
        return cast("F", found)

    def find(self, kind: type[F]) -> F | None:
        """The state of a feature; ``None`` if no plugin uses it."""
        return cast("F | None", self.features.get(kind))

    def hooks(self, name: str) -> tuple[Any, ...]:
        """A method of the features that override it."""
        plain = getattr(FeatureState, name)
        return tuple(
            getattr(feature, name)
            for feature in self.features.values()
            if getattr(type(feature), name) is not plain
        )

    def class_of(self, made: PodClass, key: str, uid: str) -> PodClass:
        """The class of one pod among those that are otherwise of one."""
        for class_of in self._classifying:
            made = class_of(made, key, uid)
        return made

    def set_epoch(self, epoch: float) -> None:
        """It is this late, in seconds since the epoch."""
        self.epoch = epoch
        for set_epoch in self._timing:
            set_epoch(epoch)

    def _find_hooks(self) -> None:
        """Most features override few methods, and calls of those that do nothing add up."""
        self._describing = self.hooks("set_node")
        self._counting, self._uncounting = self.hooks("count"), self.hooks("uncount")
        self._arriving, self._leaving = self.hooks("arrived"), self.hooks("left")
        self._naming, self._holding = self.hooks("set_row"), self.hooks("held_on")
        self._classifying = self.hooks("class_of")
        self._usable, self._holds = self.hooks("usable_on"), self.hooks("holds_room")
        self._trying, self._timing = self.hooks("trial"), self.hooks("set_epoch")

    def __len__(self) -> int:
        """Number of rows, with a node or without."""
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
        for name in term.names:
            named = [row for row in map(self.row, name.values) if row is not None]
            found &= np.isin(rows, named, invert=name.operator != "In")
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
        is_moved = self.labels.set(row, node.labels)
        is_moved |= self.taints.set(row, spec.taints or ())
        is_moved |= was[0] != is_node
        has_changed = was[1] != spec.unschedulable
        given = node if is_node else None
        for describe in self._describing:
            has_changed |= describe(row, given, is_moved=is_moved)
        self.version += is_moved
        if is_moved or has_changed:
            self.node_journal.add(row)

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
        parts: PodParts = NO_PARTS,
    ) -> PodUsage:
        """Return a pod's usage, as columns have it."""
        request = self.resources.request({**pod.amounts, PODS: 1})
        scored = float(pod.scored_cpu), float(pod.scored_memory)
        return PodUsage(request, scored, ports, labels, terms, parts)

    def add_pod(self, node: str, usage: PodUsage) -> int:
        """A pod is on a node, which need not be known yet; returns the node's row."""
        row = self._row_for(node)
        self._pods_on[row] += 1
        self._add(row, usage)
        self.journal.add(row)
        for arrived in self._arriving:
            arrived(node, usage)
        return row

    def remove_pod(self, node: str, usage: PodUsage) -> None:
        """A pod is not on a node any more."""
        row = self._row_of[node]
        for leaves in self._leaving:
            leaves(node, usage)
        self._pods_on[row] -= 1
        self._subtract(row, usage)
        self._changed(row)

    @contextmanager
    def without(self, pods: Sequence[tuple[str, PodUsage]]) -> Iterator[None]:
        """The columns as if these pods were not on their nodes, to ask something; no row changes.

        ``lacks_pods`` says of which nodes. None of them has room that something else holds.
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
        """True if the columns are ``without`` pods of a row."""
        return row in self._lacking

    def _add(self, row: int, usage: PodUsage) -> None:
        self.resources.add(row, usage.request, usage.scored)
        self.ports.add(row, usage.ports)
        self.pods.add(row, usage.labels)
        self.terms.add(row, usage.terms)
        for count in self._counting:
            count(row, usage)

    def _subtract(self, row: int, usage: PodUsage) -> None:
        self.resources.add(row, usage.request, usage.scored, -1)
        self.ports.remove(row, usage.ports)
        self.pods.add(row, usage.labels, -1)
        self.terms.add(row, usage.terms, -1)
        for uncount in self._uncounting:
            uncount(row, usage)

    def held_on(self, node: str) -> list[PodUsage]:
        """Room of a node that counts as taken and is no pod's."""
        return list(chain.from_iterable(held(node) for held in self._holding))

    def usable_on(self, node: str) -> list[PodUsage]:
        """Room of a node that counts as taken, though some pods may use it."""
        return list(chain.from_iterable(usable(node) for usable in self._usable))

    def holds_room(self) -> bool:
        """Return True if there is room that counts as taken, though some pods may use it."""
        return any(holds() for holds in self._holds)

    def feature_versions(self) -> tuple[int, ...]:
        """A value that changes with what features know and that is of no row."""
        return tuple(feature.version for feature in self.features.values())

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A time in which pods leave their nodes and come back, as if they had not."""
        with ExitStack() as stack:
            for trial in self._trying:
                stack.enter_context(trial())
            yield

    def touch(self, node: str) -> None:
        """Note that the row of a node has changed, if it has one."""
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
            for set_row in self._naming:
                set_row(row, name)
        return row

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
        self.resources.lengthen(length)
        self.pods.lengthen(length)
        self.terms.lengthen(length)
        for feature in self.features.values():
            feature.lengthen(length)
        self.is_node = lengthened(self.is_node, length, fill=False)
        self.unschedulable = lengthened(self.unschedulable, length, fill=False)
        self.tie_break = lengthened(self.tie_break, length, 0)
        self._names += [""] * (length - before)
        self._pods_on += [0] * (length - before)
        self._free = list(range(length - 1, before - 1, -1))
        self.generation += 1
        self.version += 1
