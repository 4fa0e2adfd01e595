"""DynamicResources: nodes with devices for a pod's ResourceClaims. No IO.

What a claim gets is decided node by node, in ``koord_scheduler.claims``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.claims.availability import (
    ClaimDeallocation,
    find_deallocation,
    is_available,
)
from koord_scheduler.claims.devices import ClaimingNode
from koord_scheduler.claims.node_answers import AnswerFor
from koord_scheduler.claims.objects import ResourceClaim
from koord_scheduler.claims.pod_claims import known_claims, unusable_claim
from koord_scheduler.claims.reservation import (
    ClaimReservation,
    alternatives_score,
    release_claims,
    reserve_claims,
    without_devices,
)
from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import (
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    filter_by_reasons,
    normalized,
)

NOT_AVAILABLE = "resourceclaim not available on the node"


class DynamicResources(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "DynamicResources"
    normalizes: ClassVar[bool] = True
    resolvable: ClassVar[bool] = False

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        return PreFilterResult(unusable_claim(pod.claims, nodes.devices))

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        return filter_by_reasons(self, pod, nodes) if pod.claims.claims else None

    def reasons(self, pod: PodClass, nodes: NodeColumns, rows: Rows) -> list[Reason]:
        if not pod.claims.claims:
            return []
        rejection = self.pre_filter(pod, nodes).rejection
        if rejection:
            return [Reason(rejection, np.ones(len(rows), np.bool_), resolvable=False)]
        allocated, answers = _allocated(pod, nodes), _answers(pod, nodes)
        texts = np.array(
            [_rejection(allocated, answers, _node(nodes, row)) for row in rows], object
        )
        return [
            Reason(text, texts == text, resolvable=False)
            for text in sorted(set(texts.tolist()))
            if text
        ]

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        if not pod.claims.claims:
            return None

        def score(rows: Rows) -> Amounts:
            answers = _answers(pod, nodes)
            before = sum(map(_score_of_allocation, _allocated(pod, nodes)))
            found = [answers.on(_node(nodes, row)).score + before for row in rows]
            return np.array(found, np.float64)

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores)

    def post_filter(
        self, pod: PodClass, nodes: NodeColumns, rows: Callable[[], Rows]
    ) -> ClaimDeallocation | None:
        if not any(one.status.allocation for one in known_claims(pod.claims, nodes.devices)):
            return None
        here = (_node(nodes, row) for row in rows())
        return find_deallocation(pod.claims, here, nodes.devices)

    def reserve(self, pod: PodClass, nodes: NodeColumns, row: int) -> ClaimReservation | None:
        if not pod.claims.claims:
            return None
        return reserve_claims(pod.claims, _node(nodes, row), nodes.devices)

    def unreserve(self, reservation: ClaimReservation, nodes: NodeColumns) -> None:
        release_claims(reservation, nodes.devices)

    def depends_on(self, pod: PodClass, nodes: NodeColumns) -> Hashable:
        if not pod.claims.claims:
            return None
        return nodes.devices.claim_stamps(pod.claims.keys), nodes.devices.shared_version


def _node(nodes: NodeColumns, row: int) -> ClaimingNode:
    return ClaimingNode(nodes.name(row), nodes.labels.of(row))


def _allocated(pod: PodClass, nodes: NodeColumns) -> list[ResourceClaim]:
    known = known_claims(pod.claims, nodes.devices)
    return [one for one in known if one.status.allocation is not None]


def _answers(pod: PodClass, nodes: NodeColumns) -> AnswerFor:
    return nodes.device_answers.of(without_devices(pod.claims, nodes.devices))


def _rejection(allocated: list[ResourceClaim], answers: AnswerFor, node: ClaimingNode) -> str:
    return answers.on(node).reason or (
        "" if all(is_available(one, node) for one in allocated) else NOT_AVAILABLE
    )


def _score_of_allocation(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return alternatives_score(claim, {one.request for one in results})
