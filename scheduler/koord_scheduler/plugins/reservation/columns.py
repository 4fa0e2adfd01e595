"""Reservations' usage of their nodes, and pods' usage of them. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from koord_kube.protocol.resources import RESERVATIONS
from koord_model.keys import LABEL_DISABLE_PREEMPTIBLE, LABEL_PRE_ALLOCATABLE

from koord_scheduler.objects.annotations import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests, placed_requests
from koord_scheduler.plugins.reservation.allocations import AllocatedRoom
from koord_scheduler.plugins.reservation.fit import Offer
from koord_scheduler.plugins.reservation.named_pods import NamedPods
from koord_scheduler.plugins.reservation.objects import PENDING, WAITING, ReservationObject
from koord_scheduler.plugins.reservation.operating_pod import is_operating, operating_reservation
from koord_scheduler.plugins.reservation.owner_index import OwnerIndex
from koord_scheduler.plugins.reservation.owners import PodOwner, pod_owners
from koord_scheduler.plugins.reservation.pod_needs import allocated_reservation, reservation_needs
from koord_scheduler.plugins.reservation.pod_parts import (
    OPERATES,
    PRE_ALLOCATABLE,
    RESERVATION,
    RESERVATION_NEEDS,
)
from koord_scheduler.plugins.reservation.pre_allocatable import pre_allocatable
from koord_scheduler.plugins.reservation.pre_allocated_pods import PreAllocatedPods
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.plugins.reservation.reservation_reader import (
    ClusterReservation,
    ReservationReader,
    reservation_key,
)
from koord_scheduler.state.arrays import Mask
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, HasUid, MayUse, Parts
from koord_scheduler.state.placed_pods import PlacedPods, PodsByRow
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_reader import ClusterPod
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage

_KEPT = (LABEL_DISABLE_PREEMPTIBLE, "true")


class CandidateCount(NamedTuple):
    """Number of nodes to preempt on that is enough: the larger of a percentage and a number."""

    percentage: int = 10
    absolute: int = 100

    def of(self, nodes: int) -> int:
        """Of so many nodes."""
        return max(nodes * self.percentage // 100, self.absolute, 1)


DEFAULT_CANDIDATES = CandidateCount()


class _Known(NamedTuple):
    """A reservation, and what it would take of its node if no pod had anything of it."""

    reservation: Reservation
    whole: PodUsage


class ReservationColumns(FeatureState):
    """Reservations by their keys; what is left of them counts on their nodes as if it were a pod.

    ``version`` changes with the reservations, but not with what pods have of them; ``changes`` with
    both. With ``preempt`` a reservation that is to get a node may take the place of pods. Those of
    the mode Cluster may take over pods with the label ``pre_allocatable``. Of rows with
    reservations that a pod may use no more are looked at for preemption once there are
    ``enough_candidates``.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.preempt = False
        self.enough_candidates = DEFAULT_CANDIDATES
        self.pre_allocatable = LABEL_PRE_ALLOCATABLE
        self.version = self.changes = 0
        self._known: dict[str, _Known] = {}
        self._held: dict[str, PodUsage] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._allocations: dict[tuple[str, str], AllocatedRoom] = {}
        self._used: set[tuple[str, str]] = set()
        self._pre_allocated = PreAllocatedPods()
        self._left: list[tuple[str, PodUsage]] | None = None
        self.named = NamedPods()
        self._index: OwnerIndex | None = None
        self._indexed = 0

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            RESERVATIONS,
            ReservationObject,
            ReservationReader(self._nodes, self).read,
            lambda _, given: self._set_object(given, now()),
            self._remove_object,
            is_optional=True,
            has_decisions=True,
        )

    def _set_object(self, given: ClusterReservation, now: float) -> None:
        pod, reservation = given.pod, given.reservation

        def changed() -> None:
            self.set(reservation, given.whole)

        stand_ins, is_pending = self._nodes.stand_ins, reservation.is_pending
        if stand_ins is not None:
            stand_ins.set_stand_in(pod, changed, now, is_pending=is_pending)

    def _remove_object(self, name: str) -> None:
        if self._nodes.stand_ins is not None:
            key = reservation_key(name)
            self._nodes.stand_ins.remove_stand_in(key, lambda: self.remove(name))

    def signature(self, pod: PodInfo) -> object:
        metadata = pod.metadata
        return metadata.annotations, metadata.owner_references, bool(pod.spec.node_name)

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        annotations, labels, owners = _says(pod)
        yield RESERVATION_NEEDS, reservation_needs(annotations, labels, owners)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        if pod.spec.node_name:
            annotations, labels, owners = _says(pod)
            yield RESERVATION, allocated_reservation(annotations)
            given = pre_allocatable(self.pre_allocatable, annotations, labels, owners)
            yield PRE_ALLOCATABLE, given

    def pod_parts(self, pod: PodInfo) -> Parts:
        if pod.spec.node_name and is_operating(pod):
            yield OPERATES, operating_reservation(pod, placed_requests(pod).amounts)

    def class_of(self, made: PodClass, key: str, uid: str) -> PodClass:
        """The class of a pod by itself if a reservation is for this pod, and not for its like."""
        namespace, _, name = key.partition("/")
        needs = made.of(RESERVATION_NEEDS)
        named = (name, uid) if self.named.has(namespace, name, uid) else ("", "")
        if (needs.name, needs.uid) == named:
            return made
        return made.with_part(RESERVATION_NEEDS, needs._replace(name=named[0], uid=named[1]))

    def reclassified(self, waiting: Mapping[str, HasUid]) -> Iterable[str]:
        changed = self.named.take_changed()
        if not changed:
            return ()
        keys = {name.key for name in changed}
        for name in changed:
            for key, pod in waiting.items() if not name.key else ():
                if name.means(*key.partition("/")[::2], pod.uid):
                    keys.add(key)
        return [key for key in keys if key in waiting]

    def bound(self, pod: ClusterPod) -> None:
        """A pod is bound, perhaps with something of a reservation; it may act as one itself."""
        self.bind(pod.node, pod.usage.of(RESERVATION))
        operates = pod.parts.of(OPERATES)
        if operates is not None:
            self.set(operates, pod.usage)
        elif pod.key in self._known:
            self.remove(pod.key)

    def gave_up(self, key: str) -> None:
        self.remove(key)

    def arrived(self, node: str, usage: PodUsage) -> None:
        if usage.of(RESERVATION):
            self.add_owner(node, usage)

    def kept_pods(
        self, placed: PlacedPods, pods: PodsByRow, may_use: MayUse | None = None
    ) -> Mask | None:
        """Those that act as a reservation, or have their room of one that is for others.

        With ``enablePreemption`` a label keeps pods, too. A reservation gets back what pods have
        of it: that helps only those who may use it.
        """
        if not len(self) and not self.preempt:
            return None

        def is_kept(usage: PodUsage) -> float:
            return float(self.preempt and _KEPT in usage.labels.labels)

        kept = placed.amounts(is_kept, pods.slots) > 0
        acting = [slot for key in self._known if (slot := placed.slot(key)) is not None]
        kept |= np.isin(pods.slots, acting)
        owning = placed.amounts(_owns, pods.slots) > 0
        for at in np.flatnonzero(owning & ~kept).tolist():
            pod = placed.pod(int(pods.slots[at]))
            uid = pod.usage.of(RESERVATION)
            is_used = may_use is not None and may_use(pod.node, uid)
            kept[at] = self.owns_held(pod.node, uid) and not is_used
        return kept

    def __len__(self) -> int:
        """Number of reservations that use, or have allocated, anything."""
        return len(self._names)

    def get(self, name: str) -> Reservation | None:
        """A reservation, in any phase."""
        known = self._known.get(name)
        return known.reservation if known is not None else None

    def set(self, reservation: Reservation, whole: PodUsage) -> None:
        """A reservation is there, or has changed; ``whole`` is what it takes without owners."""
        known = self._known.get(reservation.key)
        self._known[reservation.key] = _Known(reservation, whole)
        if known is not None and known.whole == whole and reservation.is_like(known.reservation):
            return  # most changes are of what the status says for people
        before = known.reservation if known is not None else None
        at = reservation.uid, reservation.node
        if before is not None:
            self.named.add(before.matchers, -1)
            self._forget(before)
            if (before.uid, before.node) != at:
                self._used.discard((before.uid, before.node))
        if before is not None and (before.uid != reservation.uid or not reservation.holds_room):
            self._pre_allocated.let_go(before.uid)
        if reservation.problem and (before is None or before.problem != reservation.problem):
            self.warn(f"reservation {reservation.key}: {reservation.problem}")
        self.named.add(reservation.matchers)
        self._nodes.selected_labels.add([matcher.selector for matcher in reservation.matchers])
        if reservation.holds_room:
            was_there = before is not None and before.uid == at[0] and before.holds_room
            if at in self._allocations and not was_there:
                self._used.add(at)  # nobody could be given it before: these pods are bound
            self._names[at] = reservation.key
            self._on.setdefault(reservation.node, {})[reservation.key] = None
            self._put(reservation.key)
            self._nodes.touch(reservation.node)
        if reservation.holds_room or (before is not None and before.holds_room):
            self.version += 1
            self.changes += 1

    def remove(self, name: str) -> None:
        """A reservation is gone; what pods have of it they keep."""
        before = self.get(name)
        if before is not None:
            self._forget(before)
            self._used.discard((before.uid, before.node))
            self._pre_allocated.let_go(before.uid)
            del self._known[name]
            self.named.add(before.matchers, -1)
            self.version += 1
            self.changes += 1

    def _forget(self, before: Reservation) -> None:
        if self._names.pop((before.uid, before.node), None) is None:
            return
        names = self._on[before.node]
        del names[before.key]
        if not names:
            del self._on[before.node]
        self._take_off(before)

    def add_owner(self, node: str, pod: PodUsage, sign: int = 1) -> None:
        """A pod with something of a reservation is on a node, or with -1 not any more."""
        key = pod.of(RESERVATION), node
        found = self._allocations.setdefault(key, AllocatedRoom())
        found.add(pod, sign)
        if not found.owners:
            del self._allocations[key]
        name = self._names.get(key)
        if name is not None:
            self._take_off(self._known[name].reservation)
            self._put(name)
            self.changes += 1

    def pre_allocate(self, name: str, node: str, pods: Iterable[PlacedPod]) -> None:
        """A reservation is to get a node, and pods that are there count as its owners."""
        known = self._known[name]
        reservation = replace(known.reservation, node=node, phase=WAITING)
        self.set(reservation, known.whole)
        for pod in pods:
            self._pre_allocated.take(pod.uid, reservation.uid)
            if not pod.usage.of(RESERVATION):
                owner = pod.usage.with_part(RESERVATION, reservation.uid)
                self._pre_allocated.add(node, owner)
                self.add_owner(node, owner)

    def taker(self, pod: str) -> str:
        """The uid of the reservation that takes over a pod, before or after the API says so."""
        return self._pre_allocated.taker(pod)

    def undo_pre_allocation(self, name: str, node: str, uid: str) -> None:
        """The reservation did not get the node."""
        for owner in self._pre_allocated.pop_all(node, uid):
            self.add_owner(node, owner, -1)
        known = self._known.get(name)
        if known is not None and known.reservation.uid == uid:
            self.set(replace(known.reservation, node="", phase=PENDING), known.whole)

    def left(self, node: str, usage: PodUsage) -> None:
        """A pod leaves a node; what it has of a reservation goes back to that."""
        if usage.of(RESERVATION):
            self.add_owner(node, usage, -1)
        elif (owner := self._pre_allocated.pop(node, usage)) is not None:
            self.add_owner(node, owner, -1)
            if self._left is not None:
                self._left.append((node, owner))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Pods that leave their nodes for a look, and come back, are taken over as before."""
        before, self._left = self._left, []
        try:
            yield
        finally:
            left, self._left = self._left, before
            for node, owner in left:
                self._pre_allocated.add(node, owner)
                self.add_owner(node, owner)

    def bind(self, node: str, uid: str) -> None:
        """A pod is bound with something of a reservation: one that is for one pod has had it."""
        if (uid, node) in self._names:
            self._used.add((uid, node))

    def was_bound(self, reservation: Reservation) -> bool:
        """True if some pod was bound with something of it, which may have ended since."""
        return (reservation.uid, reservation.node) in self._used

    def _take_off(self, reservation: Reservation) -> None:
        """Nothing of a reservation counts; a pod that acts as one is counted as a pod."""
        held = self._held.pop(reservation.key, None)
        self._nodes.touch(reservation.node)
        if held is not None and not reservation.namespace:
            self._nodes.remove_pod(reservation.node, held)

    def _put(self, name: str) -> None:
        """Count what is left of a reservation; nothing once a pod has one that is for one pod."""
        reservation, whole = self._known[name]
        allocation = self._allocations.get((reservation.uid, reservation.node))
        if reservation.allocate_once and (allocation is not None or self.was_bound(reservation)):
            return
        left = whole
        if allocation is not None:
            left = allocation.what_is_left(whole)
        self._held[name] = left
        if not reservation.namespace:
            self._nodes.add_pod(reservation.node, left)

    def held(self, name: str) -> PodUsage | None:
        """Return a reservation's present usage of its node; ``None`` if there is none."""
        return self._held.get(name)

    def usable_on(self, node: str) -> list[PodUsage]:
        return [self._held[reservation.key] for reservation in self.on(node)]

    def holds_room(self) -> bool:
        return bool(self._names)

    def held_on(self, node: str) -> list[PodUsage]:
        """Return the usage of a node by reservations that are no pods."""
        return [
            self._held[reservation.key]
            for reservation in self.on(node)
            if not reservation.namespace
        ]

    def on(self, node: str) -> Iterable[Reservation]:
        """The reservations on a node that are not used up."""
        return [self._known[name].reservation for name in self._on.get(node, ()) if self.has(name)]

    def objects(self) -> list[Reservation]:
        """All that are objects of their own, and not pods, in any phase."""
        known = (entry.reservation for entry in self._known.values())
        return [reservation for reservation in known if not reservation.namespace]

    def candidates(self, labels: Mapping[str, str]) -> Iterable[Reservation]:
        """Those that pods may use and that may be for a pod with these labels."""
        if self._index is None or self._indexed != self.version:
            self._index, self._indexed = OwnerIndex(self.available()), self.version
        return self._index.candidates(labels)

    def available(self) -> Iterator[Reservation]:
        """Those that pods may use; some of them may be used up."""
        for name in self._names.values():
            reservation = self._known[name].reservation
            if reservation.is_available:
                yield reservation

    def has(self, name: str) -> bool:
        """True if a reservation is there that is not used up."""
        return name in self._held

    def owns_held(self, node: str, uid: str) -> bool:
        """True if a pod's part of a reservation goes back to that, not to the node."""
        name = self._names.get((uid, node))
        if name is None:
            return False
        reservation = self._known[name].reservation
        return not reservation.namespace and not (
            reservation.allocate_once and self.was_bound(reservation)
        )

    def offer(self, name: str) -> Offer:
        """A reservation that is not used up, with what is left of it."""
        reservation = self._known[name].reservation
        allocation = self._allocations.get((reservation.uid, reservation.node)) or AllocatedRoom()
        return Offer(
            reservation,
            dict(allocation.request),
            allocation.owners,
            {resource: int(amount) for resource, amount in self._held[name].request},
            self._held[name],
        )


def _owns(usage: PodUsage) -> float:
    """1 for a pod that has something of a reservation."""
    return float(bool(usage.of(RESERVATION)))


def _says(pod: PodInfo) -> tuple[Mapping[str, str], Mapping[str, str], tuple[PodOwner, ...]]:
    """Annotations, labels and owners of a pod."""
    metadata = pod.metadata
    annotations = metadata.annotations or NO_ANNOTATIONS
    return annotations, metadata.labels or {}, pod_owners(metadata.owner_references or ())
