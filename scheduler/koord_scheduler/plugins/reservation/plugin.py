"""Reservation: pods use room that is kept for them, and reservations get nodes. No IO.

Which reservations pods may use, ``matching`` decides. All plugins are
asked about a class as if these reservations were not there (``reserved_scores``);
this one then says whether one of them, and its node, have room for a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from koord_model.quantity import quantity_texts
from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller, PreBinding
from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom
from koord_scheduler.plugin import (
    ANOTHER_POD,
    AcrossNodes,
    CannotReserve,
    HeldRoom,
    Limit,
    LookUp,
    Plugin,
    PreFilterResult,
    Service,
)
from koord_scheduler.plugins.reservation.allocation import (
    NO_ALLOCATION_LEFT,
    PreAllocatedOwners,
    ReservationAllocation,
    reservation_allocation,
)
from koord_scheduler.plugins.reservation.binder import OwnerAnnotator
from koord_scheduler.plugins.reservation.class_reservations import ClassReservations
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.controller import ReservationController
from koord_scheduler.plugins.reservation.fit import NO_AFFINITY, NOTHING, Offer
from koord_scheduler.plugins.reservation.matching_reservations import MatchingReservations
from koord_scheduler.plugins.reservation.pod_needs import ReservationNeeds
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION, RESERVATION_NEEDS
from koord_scheduler.plugins.reservation.pre_allocatable_pods import PreAllocatablePods
from koord_scheduler.plugins.reservation.pre_allocation import NO_POD_ANYWHERE
from koord_scheduler.plugins.reservation.pre_allocations import (
    PreAllocatingReservations,
    PreAllocations,
)
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.plugins.reservation.reservation_metrics import ReservationMetrics
from koord_scheduler.plugins.reservation.reservation_users import (
    NewReservations,
    ReservationUsers,
    UnplaceablePods,
)
from koord_scheduler.plugins.reservation.settings import ReservationSettings
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage

CLUSTER_MODE_DISABLED = (
    "reservation requires cluster mode pre-allocation which is disabled; "
    "set preAllocationConfig.enableClusterMode of the plugin Reservation"
)


class ReservationPlugin(Plugin):
    """Koordinator's plugin Reservation."""

    name: ClassVar[str] = "Reservation"
    helped_by: ClassVar[str] = "reservations that are made for it, or have more room"
    reads_labels: ClassVar[bool] = False
    across_pods: ClassVar[bool] = False
    serves_stand_ins: ClassVar[bool] = True

    def __init__(self, settings: ReservationSettings | None = None) -> None:
        self._settings = settings or ReservationSettings()
        self._classes: WeakValueDictionary[PodClass, ClassReservations] = WeakValueDictionary()
        self._pre_allocations: WeakValueDictionary[PodClass, PreAllocations] = WeakValueDictionary()
        self._checking: list[Plugin] = []

    def join(self, plugins: Sequence[Plugin]) -> None:
        self._checking = [
            plugin
            for plugin in plugins
            if type(plugin).kept_room_check is not Plugin.kept_room_check
        ]

    def prepare(self, nodes: ClusterState) -> None:
        columns = nodes.use(ReservationColumns)
        columns.preempt |= self._settings.preempts
        columns.pre_allocatable = self._settings.pre_allocatable
        columns.enough_candidates = self._settings.enough_candidates

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding:
        return OwnerAnnotator(api.bind_write)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        yield ReservationController(api.scheduler, api.write, self._settings.keep_seconds)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        yield ReservationMetrics(nodes.use(ReservationColumns).objects)

    def held_room(self, pod: PodClass, nodes: ClusterState) -> HeldRoom:
        reserve = pod.of(RESERVATION_NEEDS).reserve
        if reserve is None or reserve.takes_over is None:
            return MatchingReservations(pod, nodes)
        return PreAllocatablePods(reserve.takes_over, nodes)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        needs = pod.of(RESERVATION_NEEDS)
        if problem := self._problem(needs):
            return PreFilterResult(problem, cure=ANOTHER_POD if needs.problem else "")
        if needs.reserve is not None and needs.reserve.takes_over is not None:
            found = self._pre_allocating(pod, nodes, needs.reserve.takes_over)
            if found.is_required and not found.pods.held():
                return PreFilterResult(NO_POD_ANYWHERE)
        requires = needs.affinity is not None and needs.reserve is None
        if requires and not self._of(pod, nodes).exist():
            return PreFilterResult(NO_AFFINITY)
        return PreFilterResult()

    def across(self, pod: PodClass, nodes: ClusterState) -> AcrossNodes | None:
        needs = pod.of(RESERVATION_NEEDS)
        if problem := self._problem(needs):
            return UnplaceablePods(problem)
        if needs.reserve is not None:
            made = NewReservations(needs.reserve, nodes)
            takes_over = needs.reserve.takes_over
            if takes_over is None:
                return made
            return PreAllocatingReservations(self._pre_allocating(pod, nodes, takes_over), made)
        return None if needs.ignores else ReservationUsers(self._of(pod, nodes), nodes)

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        needs = pod.of(RESERVATION_NEEDS)
        if self._problem(needs) or needs.ignores:
            return ()
        if needs.reserve is not None:
            takes_over = needs.reserve.takes_over
            return () if takes_over is None else None
        found = self._of(pod, nodes)
        if not found.exist():
            return ()
        if found.are_checked(rows):
            return None  # there is more to it than amounts
        base = -np.inf if found.demand.requires else np.inf
        rooms = {name: np.full(len(rows), base) for name in found.resources}
        for place, answer in found.answers(rows):
            for name, room in rooms.items():
                asked = found.demand.requests.get(name, 1)
                room[place] = answer.room[name] - asked if answer.fits else -np.inf
        return [Limit(name, room) for name, room in rooms.items()]

    def reserve(
        self, pod: PodClass, nodes: ClusterState, row: int
    ) -> ReservationAllocation | PreAllocatedOwners | None:
        needs = pod.of(RESERVATION_NEEDS)
        if needs.reserve is not None:
            takes_over = needs.reserve.takes_over
            return self._take_over(pod, nodes, row, takes_over) if takes_over is not None else None
        nominated = None if needs.ignores else self._of(pod, nodes).nominated_on(row)
        if nominated is not None:
            return reservation_allocation(nominated.reservation.name, nominated.reservation.uid)
        if needs.affinity is not None and not needs.ignores:
            raise CannotReserve(NO_AFFINITY)
        return NO_ALLOCATION_LEFT if needs.has_allocation else None

    def kept_room(self, pod: PodClass, nodes: ClusterState, row: int) -> KeptRoom:
        if pod.of(RESERVATION_NEEDS).reserve is not None:
            return NO_ROOM
        found = self._of(pod, nodes)
        if pod.of(RESERVATION_NEEDS).ignores:
            return KeptRoom(tuple(offer.left for offer in found.offers(row)[1]))
        nominated = found.nominated_on(row)
        return nominated.kept if nominated is not None else NO_ROOM

    def _take_over(
        self, pod: PodClass, nodes: ClusterState, row: int, reservation: Reservation
    ) -> PreAllocatedOwners | None:
        """The room of pods counts as that of the reservation from now on."""
        found = self._pre_allocating(pod, nodes, reservation)
        pods, node = found.answer(row).pods, nodes.name(row)
        if not pods:
            return None
        chosen = {pod.key for pod in pods}
        taken = [usage for usage in found.pods.usages(row) if usage.key in chosen]
        nodes.use(ReservationColumns).pre_allocate(reservation.name, node, taken)
        owners = tuple((pod.key, pod.uid) for pod in pods)
        return PreAllocatedOwners(reservation.name, reservation.uid, node, owners)

    def usage(
        self, reservation: ReservationAllocation | PreAllocatedOwners, pod: PodUsage
    ) -> PodUsage:
        if isinstance(reservation, PreAllocatedOwners):
            return NOTHING  # its owners and the reservation have its room already
        return pod.with_part(RESERVATION, reservation.uid)

    def unreserve(
        self, reservation: ReservationAllocation | PreAllocatedOwners, nodes: ClusterState
    ) -> None:
        if isinstance(reservation, PreAllocatedOwners):
            nodes.use(ReservationColumns).undo_pre_allocation(
                reservation.name, reservation.node, reservation.uid
            )

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/nodeReservations/:node``: what a node's reservations have, and what is allocated."""

        def node(given: Mapping[str, str]) -> dict[str, Any]:
            columns = nodes.use(ReservationColumns)
            items = columns.on(given["node"])
            return {"items": [_item(columns.offer(reservation.key)) for reservation in items]}

        return {"/nodeReservations/:node": node}

    def _problem(self, needs: ReservationNeeds) -> str:
        takes_over = needs.reserve.takes_over if needs.reserve is not None else None
        policy = takes_over.pre_allocation if takes_over is not None else None
        if needs.problem or policy is None or not policy.cluster or self._settings.cluster_mode:
            return needs.problem
        return CLUSTER_MODE_DISABLED

    def _pre_allocating(
        self, pod: PodClass, nodes: ClusterState, reservation: Reservation
    ) -> PreAllocations:
        found = self._pre_allocations.get(pod)
        if found is None:
            ignored = self._settings.ignored(pod)
            prefers_none = self._settings.prefers_free_room
            found = PreAllocations(reservation, nodes, ignored, prefers_none=prefers_none)
            self._pre_allocations[pod] = found
        return found

    def _of(self, pod: PodClass, nodes: ClusterState) -> ClassReservations:
        found = self._classes.get(pod)
        if found is None:
            found = ClassReservations(pod, nodes, self._settings.ignored(pod), self._checking)
            self._classes[pod] = found
        return found


def _item(offer: Offer) -> dict[str, Any]:
    reservation = offer.reservation
    return {
        "name": reservation.name,
        "uid": reservation.uid,
        "namespace": reservation.namespace,
        "kind": "Pod" if reservation.namespace else "Reservation",
        "available": reservation.is_available,
        "allocateOnce": reservation.allocate_once,
        "allocatePolicy": reservation.policy,
        "allocatable": quantity_texts(reservation.allocatable),
        "allocated": quantity_texts(
            {
                name: amount
                for name, amount in offer.allocated.items()
                if name in reservation.allocatable
            }
        ),
        "assignedPods": offer.owners,
    }
