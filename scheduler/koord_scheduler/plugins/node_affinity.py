"""NodeAffinity: nodes that a pod requires or prefers by their labels and names. No IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import Filter, Plugin, Score, normalized
from koord_scheduler.objects.node_selector import NodeSelectorTerm


class NodeAffinity(Plugin):
    """Kubernetes' plugin of that name."""

    normalizes: ClassVar[bool] = True
    name: ClassVar[str] = "NodeAffinity"

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        required = pod.required
        if not required.selector and required.terms is None:
            return None

        def can_run(rows: Rows) -> Mask:
            found = nodes.labels.matches(required.selector, rows)
            if required.terms is not None:
                any_term = np.zeros(len(rows), np.bool_)
                for term in required.terms:
                    any_term |= _matches(term, nodes, rows)
                found &= any_term
            return found

        return can_run

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        if not pod.preferred.terms:
            return None

        def score(rows: Rows) -> Amounts:
            found = np.zeros(len(rows))
            for weight, term in pod.preferred.terms:
                found += weight * _matches(term, nodes, rows)
            return found

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores)


def _matches(term: NodeSelectorTerm, nodes: NodeColumns, rows: Rows) -> Mask:
    if not term.labels and not term.names:
        return np.zeros(len(rows), np.bool_)
    found = nodes.labels.matches(term.labels, rows)
    for one in term.names:
        named = [row for row in map(nodes.row, one.values) if row is not None]
        found &= np.isin(rows, named, invert=one.operator != "In")
    return found
