"""PodTopologySpread: pods are spread evenly over the domains of a label of nodes. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from koord_model.label_selector import LabelSelector

from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.spread import SpreadConstraint
from koord_scheduler.plugin import (
    MAX_SCORE,
    AcrossNodes,
    Limit,
    Plugin,
    Reason,
    first_reasons,
)
from koord_scheduler.state.arrays import Amounts, Codes, Mask, Rows, both, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.domains import Domains, NodeScope
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_counts import PodCounter, SpreadSelector
from koord_scheduler.state.pod_usage import PodUsage

_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_SYSTEM = (
    SpreadConstraint(_HOSTNAME, 3, is_hard=False, selector=None),
    SpreadConstraint(_ZONE, 5, is_hard=False, selector=None),
)
_UNEVEN = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_UNEVEN} (missing required label)"


@dataclass(frozen=True)
class PodTopologySpreadSettings:
    """``default_constraints`` are those of pods without any; their selectors do not matter.

    ``None`` are Kubernetes' own (``defaultingType: System``), by which also nodes are scored that
    lack one of the labels.
    """

    default_constraints: tuple[SpreadConstraint, ...] | None = None


class PodTopologySpread(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "PodTopologySpread"
    helped_by: ClassVar[str] = "pods that come or end in other domains of its spread constraints"
    helped_by_nodes: ClassVar[str] = "nodes with the labels of its spread constraints"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: PodTopologySpreadSettings | None = None) -> None:
        default = (settings or PodTopologySpreadSettings()).default_constraints
        self._default = _SYSTEM if default is None else default
        self._needs_all_keys = default is not None

    def across(self, pod: PodClass, nodes: ClusterState) -> AcrossNodes | None:
        return self._spread(pod, nodes)

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        spread = self._spread(pod, nodes)
        return spread.limits(rows) if spread is not None else ()

    def _spread(self, pod: PodClass, nodes: ClusterState) -> _Spread | None:
        if pod.spread:
            return _Spread(pod, nodes, pod.spread)
        if self._default:
            return _DefaultSpread(pod, nodes, self._default, needs_all_keys=self._needs_all_keys)
        return None


class _Constraint(NamedTuple):
    """A constraint as it is for one class.

    ``self_match`` is 1 if a pod of the class counts itself. ``selector`` and ``counter`` are
    ``None`` where no pod counts. ``domains`` are those of the nodes that count.
    """

    spread: SpreadConstraint
    self_match: int
    selector: SpreadSelector | None
    counter: PodCounter | None
    domains: Domains

    def means(self, usage: PodUsage) -> float:
        """1 for a pod that counts."""
        return float(self.selector is not None and self.selector.matches(usage.labels))

    def counts(self) -> Amounts:
        """Count the pods in each domain; one more at the end, for nodes without one."""
        if self.counter is None:
            return np.zeros(self.domains.number + 1)
        return self.counter.in_domains(self.domains).by_code

    def fits(self) -> Mask | None:
        """Of each domain, and at the end of nodes without one, whether a pod can run there.

        ``None``: on all nodes. Plain numbers are faster where there are few domains.
        """
        spread, domains = self.spread, self.domains
        if not domains.few_present or self.counter is None:
            found = self.has_room()
            found[-1] = False
            return found
        counts = self.counter.in_domains(domains).by_code.tolist()
        is_counted = len(domains.few_present) >= spread.min_domains
        least = min([counts[code] for code in domains.few_present]) if is_counted else 0.0
        most = least + spread.max_skew - self.self_match
        if domains.are_of_all and max(counts) <= most:
            return None
        return np.array([*[count <= most for count in counts[:-1]], False])

    def has_room(self) -> Mask:
        """Of each domain, and at the end of nodes without one, whether a pod more is not uneven."""
        spread, counts = self.spread, self.counts()
        counted = counts[self.domains.present]
        least = counted.min() if len(counted) >= max(1, spread.min_domains) else 0.0
        found: Mask = counts + self.self_match - least <= spread.max_skew
        return found


class _Spread:
    """Constraints of one class."""

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        constraints: Sequence[SpreadConstraint],
        *,
        needs_all_keys: bool = True,
    ) -> None:
        self._pod = pod
        self._nodes = nodes
        self._spread = constraints
        self._needs_all_keys = needs_all_keys
        self._version = -1
        self._hard: list[_Constraint] = []
        self._soft: list[_Constraint] = []
        self._scored: Mask = np.zeros(0, np.bool_)
        self._all_are_scored = False

    @property
    def size(self) -> int:
        """Bytes that its counters keep."""
        counters = (one.counter for one in (*self._hard, *self._soft))
        return sum(counter.size for counter in counters if counter is not None)

    def filter(self, rows: Rows) -> Mask | None:
        self._refresh()
        found: Mask | None = None
        for constraint in self._hard:
            fits = constraint.fits()
            if fits is not None:
                found = both(found, constraint.domains.rows_where(fits, rows))
        return found

    def reasons(self, rows: Rows) -> list[Reason]:
        self._refresh()
        return first_reasons(self._rejections(rows))

    def _rejections(self, rows: Rows) -> Iterator[Reason]:
        for constraint in self._hard:
            here = constraint.domains.codes[rows]
            yield Reason(_NO_LABEL, here < 0, resolvable=False)
            yield Reason(_UNEVEN, ~constraint.has_room()[here])

    def limits(self, rows: Rows) -> Sequence[Limit]:
        self._refresh()
        return [Limit(one.means, self._room(one, rows)) for one in self._hard]

    def _room(self, constraint: _Constraint, rows: Rows) -> Amounts:
        """Return the number of additional pods that the domains of rows may take.

        A domain may have as many as the least of the others, and ``max_skew`` more. Where it has
        the least itself, that allows more than it has.
        """
        spread, domains, counts = constraint.spread, constraint.domains, constraint.counts()
        here = domains.codes[rows]
        least = _least_of_others(counts, domains.present, spread.min_domains)
        room = least[here] + spread.max_skew - constraint.self_match - counts[here]
        # The pods of a node that does not count change nothing.
        is_counted = domains.is_counted[rows]
        room = np.where(is_counted, room, np.where(room < 0, -np.inf, np.inf))
        return np.where(here < 0, -np.inf, room)

    def score(self, rows: Rows) -> Amounts | None:
        self._refresh()
        if not self._soft or not len(rows):
            return None
        if self._all_are_scored:
            return self._score(rows)
        is_scored, found = self._scored[rows], np.zeros(len(rows))
        if is_scored.any():
            found[is_scored] = self._score(rows[is_scored])
        return found

    def _score(self, rows: Rows) -> Amounts:
        at = span(rows)
        scores = self._raw_score(self._soft[0], rows, at)
        for constraint in self._soft[1:]:
            scores += self._raw_score(constraint, rows, at)
        scores += 0.5
        np.floor(scores, out=scores)
        most, least = np.maximum.reduce(scores), np.minimum.reduce(scores)
        if most == 0:
            return np.full(len(rows), MAX_SCORE)
        # In place: thousands of numbers, a dozen times over.
        np.subtract(most + least, scores, out=scores)
        scores *= MAX_SCORE
        scores /= most
        return np.floor(scores, out=scores)

    def _raw_score(self, constraint: _Constraint, rows: Rows, at: Rows | slice) -> Amounts:
        """More pods in a domain make it worse, by the more the more domains there are."""
        spread, counter, domains = constraint.spread, constraint.counter, constraint.domains
        if spread.key == _HOSTNAME:
            counts = np.zeros(len(rows)) if counter is None else counter.rows[at]
            found = _weighed(counts, len(rows), spread)
        else:
            weighed = _weighed(constraint.counts(), domains.number_among(rows), spread)
            found = weighed.take(domains.codes[at], mode="wrap")  # -1 is the last, as elsewhere
        if not self._needs_all_keys and domains.lacking is not None:
            found[domains.lacking[at]] = 0.0
        return found

    # ---- what changes with nodes alone

    def _refresh(self) -> None:
        nodes = self._nodes
        if self._version == nodes.version:
            return
        self._version = nodes.version
        hard = [one for one in self._spread if one.is_hard]
        soft = [one for one in self._spread if not one.is_hard]
        soft_keys = tuple(one.key for one in soft) if self._needs_all_keys else None
        self._hard = [self._constraint(one, tuple(one.key for one in hard)) for one in hard]
        self._soft = [self._constraint(one, soft_keys) for one in soft]
        self._scored = nodes.with_labels(soft_keys or ())
        self._all_are_scored = bool((self._scored == nodes.is_node).all())

    def _constraint(self, spread: SpreadConstraint, keys: tuple[str, ...] | None) -> _Constraint:
        """Only pods on nodes with all of these labels count; ``None``: with any."""
        pod, nodes = self._pod, self._nodes
        labels, meant = dict(pod.labels.labels), None
        selector = spread.selects(labels)
        if selector is not None and selector.requirements:
            # As Kubernetes has it: one without means this pod, and counts no other.
            meant = SpreadSelector(pod.labels.namespace, selector)
        counter = None if meant is None else nodes.pods.counter(meant)
        self_match = int(selector is not None and selector.matches(labels))
        honors_affinity = spread.honors_affinity and pod.required != RequiredNodes()
        scope = NodeScope(
            keys,
            pod.required if honors_affinity else None,
            pod.tolerations if spread.honors_taints else None,
        )
        return _Constraint(spread, self_match, meant, counter, nodes.domains(spread.key, scope))


def _weighed(counts: Amounts, domains: int, spread: SpreadConstraint) -> Amounts:
    found: Amounts = counts * math.log(domains + 2)
    found += spread.max_skew - 1
    return found


class _DefaultSpread(_Spread):
    """Constraints that a class has by default, with the selector of its Services and controller.

    Without such a selector there are none.
    """

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        constraints: Sequence[SpreadConstraint],
        *,
        needs_all_keys: bool,
    ) -> None:
        super().__init__(pod, nodes, (), needs_all_keys=needs_all_keys)
        self._default = constraints
        self._selector = LabelSelector()
        self._workloads_version = -1

    def _refresh(self) -> None:
        workloads = self._nodes.workloads
        if self._workloads_version != workloads.version:
            self._workloads_version = workloads.version
            selector = workloads.selector(self._pod.labels, self._pod.controller)
            if selector != self._selector:
                self._selector = selector
                self._spread = [
                    replace(one, selector=selector, match_keys=())
                    for one in (self._default if selector.requirements else ())
                ]
                self._version = -1
        super()._refresh()


def _least_of_others(counts: Amounts, domains: Codes, min_domains: int) -> Amounts:
    """For each domain the least of ``counts`` of all ``domains`` but itself."""
    if len(domains) < max(1, min_domains):
        return np.zeros(len(counts))
    ascending = domains[np.argsort(counts[domains])]
    found = np.full(len(counts), counts[ascending[0]])
    found[ascending[0]] = counts[ascending[1]] if len(domains) > 1 else np.inf
    return found
