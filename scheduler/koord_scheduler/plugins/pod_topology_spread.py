"""PodTopologySpread: pods are spread evenly over the domains of a label of nodes. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from koord_model.label_selector import LabelSelector

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Codes, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.pod_counts import PodCounter, SpreadSelector
from koord_scheduler.framework.plugin import (
    MAX_SCORE,
    AcrossNodes,
    Limit,
    Plugin,
    Reason,
    first_reasons,
    without_reason,
)
from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.spread import SpreadConstraint

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

    def __init__(self, settings: PodTopologySpreadSettings | None = None) -> None:
        default = (settings or PodTopologySpreadSettings()).default_constraints
        self._default = _SYSTEM if default is None else default
        self._needs_all_keys = default is not None

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        return self._spread(pod, nodes)

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        spread = self._spread(pod, nodes)
        return spread.limits(rows) if spread is not None else ()

    def _spread(self, pod: PodClass, nodes: NodeColumns) -> _Spread | None:
        if pod.spread:
            return _Spread(pod, nodes, pod.spread)
        if self._default:
            return _DefaultSpread(pod, nodes, self._default, needs_all_keys=self._needs_all_keys)
        return None


class _Constraint(NamedTuple):
    """A constraint as it is for one class.

    ``self_match`` is 1 if a pod of the class counts itself. ``selector`` and ``counter`` are
    ``None`` where no pod counts. ``counted`` are the rows of the nodes whose pods count,
    ``present`` their domains. ``domains`` has the code of the domain of each row, below
    ``number``; where nodes without the label are scored, they are those of value "".
    """

    spread: SpreadConstraint
    self_match: int
    selector: SpreadSelector | None
    counter: PodCounter | None
    counted: Rows
    present: Codes
    domains: Codes
    number: int

    def means(self, usage: PodUsage) -> float:
        """1 for a pod that counts."""
        return float(self.selector is not None and self.selector.matches(usage.labels))

    def counts(self) -> Amounts:
        """How many pods count in each domain; one more at the end, for nodes without one."""
        length = self.number + 1
        if self.counter is None:
            return np.zeros(length)
        pods = self.counter.rows[self.counted]
        return np.bincount(self.domains[self.counted], pods, length).astype(np.float64, copy=False)


class _Spread:
    """Constraints of one class."""

    def __init__(
        self,
        pod: PodClass,
        nodes: NodeColumns,
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

    def filter(self, rows: Rows) -> Mask | None:
        self._refresh()
        return without_reason(self._rejections(rows), rows) if self._hard else None

    def reasons(self, rows: Rows) -> list[Reason]:
        self._refresh()
        return first_reasons(self._rejections(rows))

    def _rejections(self, rows: Rows) -> Iterator[Reason]:
        for constraint in self._hard:
            spread, domains = constraint.spread, constraint.domains
            counts = constraint.counts()
            counted = counts[constraint.present]
            least = counted.min() if len(counted) >= max(1, spread.min_domains) else 0.0
            here = domains[rows]
            skew = counts[here] + constraint.self_match - least
            yield Reason(_NO_LABEL, here < 0, resolvable=False)
            yield Reason(_UNEVEN, skew > spread.max_skew)

    def limits(self, rows: Rows) -> Sequence[Limit]:
        self._refresh()
        return [Limit(one.means, self._room(one, rows)) for one in self._hard]

    def _room(self, constraint: _Constraint, rows: Rows) -> Amounts:
        """How many pods more there may be in the domains of rows.

        A domain may have as many as the least of the others, and ``max_skew`` more. Where it has
        the least itself, that allows more than it has.
        """
        spread, here = constraint.spread, constraint.domains[rows]
        counts = constraint.counts()
        least = _least_of_others(counts, constraint.present, spread.min_domains)
        room = least[here] + spread.max_skew - constraint.self_match - counts[here]
        # The pods of a node that does not count change nothing.
        is_counted = np.isin(rows, constraint.counted)
        room = np.where(is_counted, room, np.where(room < 0, -np.inf, np.inf))
        return np.where(here < 0, -np.inf, room)

    def score(self, rows: Rows) -> Amounts | None:
        self._refresh()
        if not self._soft or not len(rows):
            return None
        is_scored = self._scored[rows]
        left = rows[is_scored]
        if not len(left):
            return np.zeros(len(rows))
        raw = np.zeros(len(left))
        for constraint in self._soft:
            raw += self._raw_score(constraint, left)
        scores = np.floor(raw + 0.5)
        most, least = scores.max(), scores.min()
        found = np.zeros(len(rows))
        if most == 0:
            found[is_scored] = MAX_SCORE
        else:
            found[is_scored] = np.floor(MAX_SCORE * (most + least - scores) / most)
        return found

    def _raw_score(self, constraint: _Constraint, rows: Rows) -> Amounts:
        """More pods in a domain make it worse, by the more the more domains there are."""
        spread, counter = constraint.spread, constraint.counter
        if spread.key != _HOSTNAME:
            here = constraint.domains[rows]
            size = int(np.count_nonzero(np.bincount(here)))
            counts = constraint.counts()[here]
        else:
            size = len(rows)
            counts = np.zeros(size) if counter is None else counter.rows[rows]
        found: Amounts = counts * math.log(size + 2) + (spread.max_skew - 1)
        if not self._needs_all_keys:
            found[self._codes(spread)[rows] < 0] = 0.0
        return found

    def _codes(self, spread: SpreadConstraint) -> Codes:
        return self._nodes.labels.column(spread.key).codes

    # ---- what changes with nodes alone

    def _refresh(self) -> None:
        if self._version != self._nodes.version:
            self._version = self._nodes.version
            hard = [one for one in self._spread if one.is_hard]
            soft = [one for one in self._spread if not one.is_hard]
            has_keys = self._has_keys(hard)
            self._hard = [self._constraint(one, has_keys) for one in hard]
            self._scored = self._has_keys(soft) if self._needs_all_keys else self._nodes.is_node
            self._soft = [self._constraint(one, self._scored) for one in soft]

    def _has_keys(self, constraints: Sequence[SpreadConstraint]) -> Mask:
        found = self._nodes.is_node.copy()
        for one in constraints:
            found &= self._codes(one) >= 0
        return found

    def _constraint(self, spread: SpreadConstraint, among: Mask) -> _Constraint:
        pod, domains = self._pod, self._codes(spread)
        if not spread.is_hard and not self._needs_all_keys:
            absent = self._nodes.labels.column(spread.key).code("")
            domains = np.where(domains < 0, absent, domains)
        labels, meant = dict(pod.labels.labels), None
        selector = spread.selects(labels)
        if selector is not None and selector.requirements:
            # As Kubernetes has it: one without means this pod, and counts no other.
            meant = SpreadSelector(pod.labels.namespace, selector)
        counter = None if meant is None else self._nodes.pods.counter(meant)
        self_match = int(selector is not None and selector.matches(labels))
        counted, number = self._counted(spread, among), int(domains.max(initial=-1)) + 1
        present = np.flatnonzero(np.bincount(domains[counted]))
        return _Constraint(spread, self_match, meant, counter, counted, present, domains, number)

    def _counted(self, spread: SpreadConstraint, among: Mask) -> Rows:
        """The rows of those nodes whose pods count."""
        rows = np.flatnonzero(among)
        if spread.honors_affinity and self._pod.required != RequiredNodes():
            rows = rows[self._nodes.matches(self._pod.required, rows)]
        if spread.honors_taints:
            rows = rows[self._nodes.untolerated(self._pod.tolerations).of(rows) == 0]
        return rows


class _DefaultSpread(_Spread):
    """Constraints that a class has by default, with the selector of its Services and controller.

    Without such a selector there are none.
    """

    def __init__(
        self,
        pod: PodClass,
        nodes: NodeColumns,
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
