"""DynamicResources: nodes with devices for a pod's claims and extended resources. No IO.

What a claim gets is decided node by node, in ``koord_scheduler.plugins.dynamic_resources``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np
from koord_kube.protocol.resources import RESOURCE_CLAIMS

from koord_scheduler.extension_points.api_services import ApiServices, PreBinding
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import (
    Dependence,
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    filter_by_reasons,
    normalized,
)
from koord_scheduler.plugins.dynamic_resources.allocator import SearchBudget
from koord_scheduler.plugins.dynamic_resources.assumed_claims import (
    AssumedClaims,
    alternatives_score,
    release_claims,
    reserve_claims,
    without_devices,
)
from koord_scheduler.plugins.dynamic_resources.availability import (
    ClaimDeallocation,
    ClaimDeletion,
    find_deallocation,
    find_left_over,
    is_available,
)
from koord_scheduler.plugins.dynamic_resources.binder import ClaimBinder
from koord_scheduler.plugins.dynamic_resources.columns import (
    ClaimColumns,
    backed_classes,
    claiming_node,
    extended_resources,
)
from koord_scheduler.plugins.dynamic_resources.extended_resources import (
    EXTENDED,
    ExtendedClaim,
    extended_claim,
)
from koord_scheduler.plugins.dynamic_resources.node_answers import MOST_STEPS_AT_ONCE, AnswerFor
from koord_scheduler.plugins.dynamic_resources.objects import ResourceClaim
from koord_scheduler.plugins.dynamic_resources.pod_claims import (
    CLAIMS,
    PodClaims,
    known_claims,
    unusable_claim,
)
from koord_scheduler.plugins.dynamic_resources.shared_claims import with_shared
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

DEVICE_SECONDS = 600.0
"""For devices to be prepared: ``bindingTimeout`` of kube-scheduler's DynamicResources."""
NOT_AVAILABLE = "resourceclaim not available on the node"
NO_RESOURCE = "cannot fit resource"


class DynamicResources(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "DynamicResources"
    helped_by: ClassVar[str] = (
        "devices that become free, or the claims, slices and classes it needs"
    )
    reads_labels: ClassVar[bool] = False
    normalizes: ClassVar[bool] = True
    resolvable: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(ClaimColumns)

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding:
        return ClaimBinder(
            api.bind_write,
            api.reader(RESOURCE_CLAIMS),
            nodes.use(ClaimColumns).objects,
            DEVICE_SECONDS,
            on_warning=api.on_warning,
            backoff=api.client.backoff,
            gangs=nodes.find(Gangs),
        )

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        return PreFilterResult(unusable_claim(_claims(pod, nodes), nodes.use(ClaimColumns).objects))

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        return filter_by_reasons(self, pod, nodes) if _concerns(pod) else None

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        if not _concerns(pod):
            return []
        rejection = self.pre_filter(pod, nodes).rejection
        if rejection:
            return [Reason(rejection, np.ones(len(rows), np.bool_), resolvable=False)]
        claims = _ClaimsByRow(pod, nodes)
        if not claims.are_any:
            return []
        texts = np.array([claims.rejection(row) for row in rows], object)
        return [
            Reason(text, texts == text, resolvable=False)
            for text in sorted(set(texts.tolist()))
            if text
        ]

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        if not pod.of(CLAIMS).claims:
            return None

        def score(rows: Rows) -> Amounts:
            claims = _ClaimsByRow(pod, nodes)
            return np.array([claims.score(row) for row in rows], np.float64)

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores)

    def post_filter(
        self,
        pod: PodClass,
        nodes: ClusterState,
        rows: Callable[[], Rows],
        waiting: Iterable[str],
    ) -> ClaimDeallocation | ClaimDeletion | None:
        claims = _claims(pod, nodes)
        if any(
            claim.status.allocation
            for claim in known_claims(claims, nodes.use(ClaimColumns).objects)
        ):
            here = (claiming_node(nodes, row) for row in rows())
            found = find_deallocation(claims, here, nodes.use(ClaimColumns).objects)
            if found is not None:
                return found
        return (
            find_left_over(waiting, nodes.use(ClaimColumns).objects) if pod.of(EXTENDED) else None
        )

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> AssumedClaims | None:
        if not _concerns(pod):
            return None
        extended = _ClaimsByRow(pod, nodes).extended(row)
        if extended is None and not pod.of(CLAIMS).claims:
            return None
        node, namespace = claiming_node(nodes, row), pod.labels.namespace
        return reserve_claims(
            _claims(pod, nodes), node, nodes.use(ClaimColumns).objects, extended, namespace
        )

    def unreserve(self, reservation: AssumedClaims, nodes: ClusterState) -> None:
        release_claims(reservation, nodes.use(ClaimColumns).objects)

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        if not _concerns(pod):
            return None
        columns, keys = nodes.use(ClaimColumns), pod.of(CLAIMS).keys
        return lambda: (
            columns.objects.claim_stamps(keys),
            tuple(claim.group for claim in _claims(pod, nodes).claims),
            columns.objects.shared_version,
            columns.answers.postponed,
        )


def _concerns(pod: PodClass) -> bool:
    return bool(pod.of(CLAIMS).claims or pod.of(EXTENDED))


def _claims(pod: PodClass, nodes: ClusterState) -> PodClaims:
    return with_shared(pod.of(CLAIMS), nodes.find(Gangs))


class _ClaimsByRow:
    """Devices for a class: its claims, and one for extended resources that nodes lack."""

    def __init__(self, pod: PodClass, nodes: ClusterState) -> None:
        self._pod = pod
        self._nodes = nodes
        devices = nodes.use(ClaimColumns).objects
        claims = _claims(pod, nodes)
        known = known_claims(claims, devices)
        self._allocated = [claim for claim in known if claim.status.allocation is not None]
        self._own = [without_device.spec for without_device in without_devices(claims, devices)]
        self._backed = dict(backed_classes(pod, nodes))
        self._resources = tuple(extended_resources(pod))
        self._budget = SearchBudget(MOST_STEPS_AT_ONCE)
        self._extended: dict[tuple[str, ...], ExtendedClaim | None] = {}
        self._answers: dict[tuple[str, ...], AnswerFor] = {}
        self._before = sum(map(_score_of_allocation, self._allocated))

    @property
    def are_any(self) -> bool:
        """True if the class needs devices at all, on some node."""
        return bool(self._pod.of(CLAIMS).claims or self._backed)

    def extended(self, row: int) -> ExtendedClaim | None:
        """The claim for the resources that the row's node does not have."""
        return self._extended_claim(self._lacking_backed(row))

    def rejection(self, row: int) -> str:
        """Return why the node of a row cannot be used, "" if it can."""
        if self._backed and not self._backed.keys() >= set(self._lacking(row)):
            return NO_RESOURCE
        node = claiming_node(self._nodes, row)
        return self._answer_for(row).on(node).reason or (
            "" if all(is_available(claim, node) for claim in self._allocated) else NOT_AVAILABLE
        )

    def score(self, row: int) -> int:
        """Score the order of the alternatives that claims get on the node of a row."""
        node = claiming_node(self._nodes, row)
        return self._before + self._answer_for(row).on(node, is_first=False).score

    def _lacking(self, row: int) -> list[str]:
        resources = self._nodes.resources
        has = resources.allocatable
        return [
            resource for resource in self._resources if not has[resources.column(resource), row]
        ]

    def _lacking_backed(self, row: int) -> tuple[str, ...]:
        return tuple(name for name in self._lacking(row) if name in self._backed)

    def _extended_claim(self, lacking: tuple[str, ...]) -> ExtendedClaim | None:
        if lacking not in self._extended:
            classes = {name: self._backed[name] for name in lacking}
            asked = self._pod.of(EXTENDED)
            self._extended[lacking] = extended_claim(asked, classes)
        return self._extended[lacking]

    def _answer_for(self, row: int) -> AnswerFor:
        lacking = self._lacking_backed(row)
        found = self._answers.get(lacking)
        if found is None:
            extended = self._extended_claim(lacking)
            claims = [*self._own, *([extended.spec] if extended is not None else [])]
            found = self._nodes.use(ClaimColumns).answers.of(claims, self._budget)
            self._answers[lacking] = found
        return found


def _score_of_allocation(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return alternatives_score(claim.spec, {result.request for result in results})
