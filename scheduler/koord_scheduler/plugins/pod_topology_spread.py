"""PodTopologySpread: pods are spread evenly over the domains of a label of nodes. No IO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Codes, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.pod_counts import PodCounter, SpreadSelector
from koord_scheduler.framework.plugin import MAX_SCORE, AcrossNodes, Limit, Plugin
from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.spread import SpreadConstraint

_HOSTNAME = "kubernetes.io/hostname"


class PodTopologySpread(Plugin):
    """Kubernetes' plugin of that name, for the constraints that pods have themselves."""

    name: ClassVar[str] = "PodTopologySpread"

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        return _Spread(pod, nodes) if pod.spread else None

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        return _Spread(pod, nodes).limits(rows)


class _Constraint(NamedTuple):
    """A constraint as it is for one class.

    ``self_match`` is 1 if a pod of the class counts itself. ``selector`` and ``counter`` are
    ``None`` where no pod counts.
    """

    spread: SpreadConstraint
    self_match: int
    selector: SpreadSelector | None = None
    counter: PodCounter | None = None

    def counts(self, usage: PodUsage) -> float:
        """1 for a pod that counts."""
        return float(self.selector is not None and self.selector.matches(usage.labels))


class _Spread:
    """Constraints of one class."""

    def __init__(self, pod: PodClass, nodes: NodeColumns) -> None:
        self._pod = pod
        self._nodes = nodes
        constraints = [_constraint(one, pod, nodes) for one in pod.spread]
        self._hard = [one for one in constraints if one.spread.is_hard]
        self._soft = [one for one in constraints if not one.spread.is_hard]
        self._version = -1
        # Of each constraint, the nodes whose pods count.
        self._counted_hard: list[Mask] = []
        self._counted_soft: list[Mask] = []

    def filter(self, rows: Rows) -> Mask | None:
        if not self._hard:
            return None
        self._refresh()
        found = np.ones(len(rows), np.bool_)
        for constraint, counted in zip(self._hard, self._counted_hard, strict=True):
            spread, codes = constraint.spread, self._codes(constraint)
            counts = self._counts(constraint, counted)
            domains = counts[np.unique(codes[counted])]
            least = domains.min() if len(domains) >= max(1, spread.min_domains) else 0.0
            here = codes[rows]
            skew = counts[here] + constraint.self_match - least
            found &= (here >= 0) & (skew <= spread.max_skew)
        return found

    def limits(self, rows: Rows) -> Sequence[Limit]:
        self._refresh()
        both = zip(self._hard, self._counted_hard, strict=True)
        return [Limit(one.counts, self._room(one, counted, rows)) for one, counted in both]

    def _room(self, constraint: _Constraint, counted: Mask, rows: Rows) -> Amounts:
        """How many pods more there may be in the domains of rows.

        A domain may have as many as the least of the others, and ``max_skew`` more. Where it has
        the least itself, that allows more than it has.
        """
        spread, codes = constraint.spread, self._codes(constraint)
        counts = self._counts(constraint, counted)
        here = codes[rows]
        least = self._least_of_others(counts, np.unique(codes[counted]), spread.min_domains)
        room = least[here] + spread.max_skew - constraint.self_match - counts[here]
        # The pods of a node that does not count change nothing.
        room = np.where(counted[rows], room, np.where(room < 0, -np.inf, np.inf))
        return np.where(here < 0, -np.inf, room)

    def _least_of_others(self, counts: Amounts, domains: Codes, min_domains: int) -> Amounts:
        """For each domain the least of ``counts`` of all ``domains`` but itself."""
        if len(domains) < max(1, min_domains):
            return np.zeros(len(counts))
        ascending = domains[np.argsort(counts[domains])]
        found = np.full(len(counts), counts[ascending[0]])
        found[ascending[0]] = counts[ascending[1]] if len(domains) > 1 else np.inf
        return found

    def score(self, rows: Rows) -> Amounts | None:
        if not self._soft or not len(rows):
            return None
        self._refresh()
        has_all = self._has_keys(self._soft)[rows]
        left = rows[has_all]
        if not len(left):
            return np.zeros(len(rows))
        raw = np.zeros(len(left))
        for constraint, counted in zip(self._soft, self._counted_soft, strict=True):
            raw += self._raw_score(constraint, counted, left)
        scores = np.floor(raw + 0.5)
        most, least = scores.max(), scores.min()
        found = np.zeros(len(rows))
        if most == 0:
            found[has_all] = MAX_SCORE
        else:
            found[has_all] = np.floor(MAX_SCORE * (most + least - scores) / most)
        return found

    def _raw_score(self, constraint: _Constraint, counted: Mask, rows: Rows) -> Amounts:
        """More pods in a domain make it worse, by the more the more domains there are."""
        spread, codes = constraint.spread, self._codes(constraint)
        here = codes[rows]
        if spread.key != _HOSTNAME:
            size = len(np.unique(here))
            counts = self._counts(constraint, counted)[here]
        else:
            size = len(rows)
            counts = np.zeros(size) if constraint.counter is None else constraint.counter.rows[rows]
        found: Amounts = counts * math.log(size + 2) + (spread.max_skew - 1)
        return found

    def _counts(self, constraint: _Constraint, counted: Mask) -> Amounts:
        """How many pods count in each domain; one more at the end, for nodes without the label."""
        column = self._nodes.labels.column(constraint.spread.key)
        if constraint.counter is None:
            return np.zeros(len(column.values) + 1)
        return column.sums(constraint.counter.rows, counted)

    def _codes(self, constraint: _Constraint) -> Codes:
        return self._nodes.labels.column(constraint.spread.key).codes

    def _refresh(self) -> None:
        """Which nodes' pods count, for each constraint; that changes with nodes alone."""
        if self._version != self._nodes.version:
            self._version = self._nodes.version
            self._counted_hard = self._counted_nodes(self._hard)
            self._counted_soft = self._counted_nodes(self._soft)

    def _counted_nodes(self, constraints: Sequence[_Constraint]) -> list[Mask]:
        has_keys = self._has_keys(constraints)
        return [self._counted(one.spread, has_keys) for one in constraints]

    def _has_keys(self, constraints: Sequence[_Constraint]) -> Mask:
        found = self._nodes.is_node.copy()
        for one in constraints:
            found &= self._codes(one) >= 0
        return found

    def _counted(self, spread: SpreadConstraint, has_keys: Mask) -> Mask:
        rows = np.flatnonzero(has_keys)
        found = has_keys.copy()
        if spread.honors_affinity and self._pod.required != RequiredNodes():
            found[rows] &= self._nodes.matches(self._pod.required, rows)
        if spread.honors_taints:
            found[rows] &= self._nodes.tolerates(self._pod.tolerations, rows)
        return found


def _constraint(spread: SpreadConstraint, pod: PodClass, nodes: NodeColumns) -> _Constraint:
    labels = dict(pod.labels.labels)
    selector = spread.selects(labels)
    if selector is None:
        return _Constraint(spread, 0)
    if not selector.requirements:
        # As Kubernetes has it: such a selector means this pod, and counts no other.
        return _Constraint(spread, 1)
    counted = SpreadSelector(pod.labels.namespace, selector)
    self_match = int(selector.matches(labels))
    return _Constraint(spread, self_match, counted, nodes.pods.counter(counted))
