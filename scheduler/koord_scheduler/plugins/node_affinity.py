"""NodeAffinity: nodes that a pod requires or prefers by their labels and names. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.objects.node_selector import PreferredNodes, RequiredNodes
from koord_scheduler.plugin import (
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    first_reasons,
    normalized,
)
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
_NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
_CONFLICT = "pod affinity terms conflict"


class NodeAffinity(Plugin):
    """Kubernetes' plugin of that name; ``added`` and ``added_preferred`` hold for all pods."""

    normalizes: ClassVar[bool] = True
    name: ClassVar[str] = "NodeAffinity"
    helped_by: ClassVar[str] = "nodes with labels that its node affinity and selector allow"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def __init__(
        self, added: RequiredNodes | None = None, added_preferred: PreferredNodes | None = None
    ) -> None:
        self._added = added or RequiredNodes()
        self._added_preferred = added_preferred or PreferredNodes()

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        names = pod.required.node_names()
        return PreFilterResult(_CONFLICT) if names == frozenset() else PreFilterResult(nodes=names)

    def sign(self, pod: PodClass) -> Hashable:
        return (pod.required, pod.preferred)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        required = [one for one in (pod.required, self._added) if one != RequiredNodes()]
        if not required:
            return None

        def can_run(rows: Rows) -> Mask:
            found = np.ones(len(rows), np.bool_)
            for one in required:
                found &= nodes.matches(one, rows)
            return found

        return can_run

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        both = (_ENFORCED, self._added), (_NO_MATCH, pod.required)
        return first_reasons(
            Reason(text, ~nodes.matches(required, rows), resolvable=False)
            for text, required in both
        )

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        terms = (*pod.preferred.terms, *self._added_preferred.terms)
        if not terms:
            return None

        def score(rows: Rows) -> Amounts:
            found = np.zeros(len(rows))
            for weight, term in terms:
                found += weight * nodes.matches_term(term, rows)
            return found

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores)
