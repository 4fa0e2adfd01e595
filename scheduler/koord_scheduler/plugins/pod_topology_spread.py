"""PodTopologySpread: pods are spread evenly over the domains of a label of nodes. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Codes, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.pod_counts import PodCounter, SpreadSelector
from koord_scheduler.framework.plugin import (
    MAX_SCORE,
    AcrossNodes,
    Plugin,
    Reason,
    first_reasons,
    without_reason,
)
from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.spread import SpreadConstraint

_HOSTNAME = "kubernetes.io/hostname"
_UNEVEN = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_UNEVEN} (missing required label)"


class PodTopologySpread(Plugin):
    """Kubernetes' plugin of that name, for the constraints that pods have themselves."""

    name: ClassVar[str] = "PodTopologySpread"

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        return _Spread(pod, nodes) if pod.spread else None


class _Constraint(NamedTuple):
    """A constraint as it is for one class.

    ``self_match`` is 1 if a pod of the class counts itself. ``counter`` is ``None`` where no pod
    counts.
    """

    spread: SpreadConstraint
    self_match: int
    counter: PodCounter | None


class _CountedNodes(NamedTuple):
    """The nodes whose pods count for a constraint.

    ``codes`` has their domains, ``number`` for all other rows; ``domains`` are those there are.
    """

    codes: Codes
    number: int
    domains: Codes


class _Spread:
    """Constraints of one class."""

    def __init__(self, pod: PodClass, nodes: NodeColumns) -> None:
        self._pod = pod
        self._nodes = nodes
        constraints = [_constraint(one, pod, nodes) for one in pod.spread]
        self._hard = [one for one in constraints if one.spread.is_hard]
        self._soft = [one for one in constraints if not one.spread.is_hard]
        self._version = -1
        self._counted_hard: list[_CountedNodes] = []
        self._counted_soft: list[_CountedNodes] = []

    def filter(self, rows: Rows) -> Mask | None:
        return without_reason(self._rejections(rows), rows) if self._hard else None

    def reasons(self, rows: Rows) -> list[Reason]:
        return first_reasons(self._rejections(rows))

    def _rejections(self, rows: Rows) -> Iterator[Reason]:
        self._refresh()
        for constraint, counted in zip(self._hard, self._counted_hard, strict=True):
            spread = constraint.spread
            counts = self._counts(constraint, counted)
            domains = counts[counted.domains]
            least = domains.min() if len(domains) >= max(1, spread.min_domains) else 0.0
            here = self._codes(constraint)[rows]
            skew = counts[here] + constraint.self_match - least
            yield Reason(_NO_LABEL, here < 0, resolvable=False)
            yield Reason(_UNEVEN, skew > spread.max_skew)

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

    def _raw_score(self, constraint: _Constraint, counted: _CountedNodes, rows: Rows) -> Amounts:
        """More pods in a domain make it worse, by the more the more domains there are."""
        spread, codes = constraint.spread, self._codes(constraint)
        here = codes[rows]
        if spread.key != _HOSTNAME:
            size = int(np.count_nonzero(np.bincount(here)))
            counts = self._counts(constraint, counted)[here]
        else:
            size = len(rows)
            counts = np.zeros(size) if constraint.counter is None else constraint.counter.rows[rows]
        found: Amounts = counts * math.log(size + 2) + (spread.max_skew - 1)
        return found

    def _counts(self, constraint: _Constraint, counted: _CountedNodes) -> Amounts:
        """How many pods count in each domain; one more at the end, for nodes without the label."""
        if constraint.counter is None:
            return np.zeros(counted.number + 1)
        counts: Amounts = np.bincount(
            counted.codes, constraint.counter.rows, counted.number + 1
        ).astype(np.float64, copy=False)
        counts[-1] = 0
        return counts

    def _codes(self, constraint: _Constraint) -> Codes:
        return self._nodes.labels.column(constraint.spread.key).codes

    def _refresh(self) -> None:
        """Which nodes' pods count, for each constraint; that changes with nodes alone."""
        if self._version != self._nodes.version:
            self._version = self._nodes.version
            self._counted_hard = self._counted_nodes(self._hard)
            self._counted_soft = self._counted_nodes(self._soft)

    def _counted_nodes(self, constraints: Sequence[_Constraint]) -> list[_CountedNodes]:
        has_keys = self._has_keys(constraints)
        return [self._counted_by(one.spread, has_keys) for one in constraints]

    def _counted_by(self, spread: SpreadConstraint, has_keys: Mask) -> _CountedNodes:
        column = self._nodes.labels.column(spread.key)
        number = len(column.values)
        codes = np.where(self._counted(spread, has_keys), column.codes, number)
        return _CountedNodes(codes, number, np.flatnonzero(np.bincount(codes)[:number]))

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
            found[rows] &= self._nodes.untolerated(self._pod.tolerations).of(rows) == 0
        return found


def _constraint(spread: SpreadConstraint, pod: PodClass, nodes: NodeColumns) -> _Constraint:
    labels = dict(pod.labels.labels)
    selector = spread.selects(labels)
    if selector is None:
        return _Constraint(spread, 0, None)
    if not selector.requirements:
        # As Kubernetes has it: such a selector means this pod, and counts no other.
        return _Constraint(spread, 1, None)
    counter = nodes.pods.counter(SpreadSelector(pod.labels.namespace, selector))
    return _Constraint(spread, int(selector.matches(labels)), counter)
