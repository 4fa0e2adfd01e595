"""Reservation: pods use room that is kept for them, and reservations get nodes. No IO.

Which reservations pods may use is decided in ``koord_scheduler.reservations``. All plugins are
asked about a class as if these reservations were not there (``framework/reserved_scores.py``);
this one then says whether one of them, and its node, have room for a pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.resources import quantity_of
from koord_scheduler.framework.class_reservations import ClassReservations
from koord_scheduler.framework.plugin import (
    AcrossNodes,
    Limit,
    Plugin,
    PreFilterResult,
)
from koord_scheduler.framework.reservation_users import (
    NewReservations,
    ReservationUsers,
    UnplaceablePods,
)
from koord_scheduler.framework.service_provider import Service
from koord_scheduler.reservations.allocation import (
    NO_ALLOCATION_LEFT,
    ReservationAllocation,
    reservation_allocation,
)
from koord_scheduler.reservations.fit import NO_AFFINITY, Offer
from koord_scheduler.reservations.kept_room import NO_ROOM, KeptRoom, kept_by


@dataclass(frozen=True)
class ReservationSettings:
    """With ``preempts`` reservations may take the place of pods.

    ``ignored_resources`` and ``ignored_groups`` (the part of a name before "/") are extended
    resources that others see to.
    """

    preempts: bool = False
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()

    def ignored(self, pod: PodClass) -> frozenset[str]:
        """Those that a class asks for."""
        names = (name for name, _ in pod.amounts if "/" in name)
        return frozenset(
            name
            for name in names
            if name in self.ignored_resources or name.partition("/")[0] in self.ignored_groups
        )


class ReservationPlugin(Plugin):
    """Koordinator's plugin Reservation."""

    name: ClassVar[str] = "Reservation"

    def __init__(self, settings: ReservationSettings | None = None) -> None:
        self._settings = settings or ReservationSettings()
        self._classes: WeakValueDictionary[PodClass, ClassReservations] = WeakValueDictionary()
        self._checking: list[Plugin] = []

    def join(self, plugins: Sequence[Plugin]) -> None:
        self._checking = [
            one for one in plugins if type(one).reservation_check is not Plugin.reservation_check
        ]

    def prepare(self, nodes: NodeColumns) -> None:
        nodes.reservations.is_used = True
        nodes.reservations.preempt |= self._settings.preempts

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        needs = pod.reservation
        if needs.problem:
            return PreFilterResult(needs.problem)
        requires = needs.affinity is not None and needs.reserve is None
        if requires and not self._of(pod, nodes).exist():
            return PreFilterResult(NO_AFFINITY)
        return PreFilterResult()

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        needs = pod.reservation
        if needs.problem:
            return UnplaceablePods(needs.problem)
        if needs.reserve is not None:
            return NewReservations(needs.reserve, nodes)
        return None if needs.ignores else ReservationUsers(self._of(pod, nodes), nodes)

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        needs = pod.reservation
        if needs.problem or needs.reserve is not None or needs.ignores:
            return ()
        found = self._of(pod, nodes)
        if not found.exist():
            return ()
        if found.are_checked(rows):
            return None  # there is more to it than amounts
        base = -np.inf if found.demand.requires else np.inf
        rooms = {name: np.full(len(rows), base) for name in found.numbers}
        for place, answer in found.answers(rows):
            for name, room in rooms.items():
                asked = found.demand.requests.get(name, 1)
                room[place] = answer.room[name] - asked if answer.fits else -np.inf
        return [Limit(found.numbers[name], room) for name, room in rooms.items()]

    def reserve(self, pod: PodClass, nodes: NodeColumns, row: int) -> ReservationAllocation | None:
        needs = pod.reservation
        if needs.reserve is not None:
            return None
        nominated = None if needs.ignores else self._of(pod, nodes).nominated_on(row)
        if nominated is not None:
            return reservation_allocation(nominated.reservation.name, nominated.reservation.uid)
        if needs.affinity is not None and not needs.ignores:
            raise ValueError(f"{nodes.name(row)}: {NO_AFFINITY}")
        return NO_ALLOCATION_LEFT if needs.has_allocation else None

    def kept_room(self, pod: PodClass, nodes: NodeColumns, row: int) -> KeptRoom:
        if pod.reservation.reserve is not None:
            return NO_ROOM
        found = self._of(pod, nodes)
        if pod.reservation.ignores:
            return KeptRoom(tuple(found.offers(row)[1]))
        return kept_by(found.nominated_on(row))

    def usage(self, reservation: ReservationAllocation, pod: PodUsage) -> PodUsage:
        return pod._replace(reservation=reservation.uid)

    def services(self, nodes: NodeColumns) -> Mapping[str, Service]:
        """``/nodeReservations/:node``: what a node's reservations have, and what is allocated."""

        def node(given: Mapping[str, str]) -> dict[str, Any]:
            items = nodes.reservations.on(given["node"])
            return {"items": [_item(nodes.reservations.offer(one.key)) for one in items]}

        return {"/nodeReservations/:node": node}

    def _of(self, pod: PodClass, nodes: NodeColumns) -> ClassReservations:
        found = self._classes.get(pod)
        if found is None:
            found = ClassReservations(pod, nodes, self._settings.ignored(pod), self._checking)
            self._classes[pod] = found
        return found


def _item(offer: Offer) -> dict[str, Any]:
    one = offer.reservation
    return {
        "name": one.name,
        "uid": one.uid,
        "namespace": one.namespace,
        "kind": "Pod" if one.namespace else "Reservation",
        "available": one.is_available,
        "allocateOnce": one.allocate_once,
        "allocatePolicy": one.policy,
        "allocatable": _quantities(one.allocatable),
        "allocated": _quantities(
            {name: amount for name, amount in offer.allocated.items() if name in one.allocatable}
        ),
        "assignedPods": offer.owners,
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity_of(name, amount) for name, amount in sorted(amounts.items())}
