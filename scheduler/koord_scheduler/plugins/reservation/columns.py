"""What reservations keep of their nodes, and what pods have of them. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from koord_model.keys import LABEL_PRE_ALLOCATABLE

from koord_scheduler.plugins.reservation.allocations import AllocatedRoom
from koord_scheduler.plugins.reservation.fit import Offer
from koord_scheduler.plugins.reservation.named_pods import NamedPods
from koord_scheduler.plugins.reservation.objects import PENDING, WAITING
from koord_scheduler.plugins.reservation.owner_index import OwnerIndex
from koord_scheduler.plugins.reservation.pre_allocated_pods import PreAllocatedPods
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.resources import ResourceColumns
from koord_scheduler.state.selected_labels import Select, nobody

if TYPE_CHECKING:
    from koord_scheduler.state.cluster_state import PodUsage


class CandidateCount(NamedTuple):
    """How many nodes to preempt on are enough: the larger of both, a percentage and a number."""

    percentage: int = 10
    absolute: int = 100

    def of(self, nodes: int) -> int:
        """Of so many nodes."""
        return max(nodes * self.percentage // 100, self.absolute, 1)


DEFAULT_CANDIDATES = CandidateCount()


class PlacedUsage(NamedTuple):
    """A pod of a node, by its key and uid, and what it takes there."""

    key: str
    uid: str
    usage: PodUsage


class _Known(NamedTuple):
    """A reservation, and what it would take of its node if no pod had anything of it."""

    reservation: Reservation
    whole: PodUsage


class ReservationColumns:
    """Reservations by their keys; what is left of them counts on their nodes as if it were a pod.

    ``hold`` and ``release`` put that on a node and take it off, ``touch`` says that something else
    changed there, ``select`` hears by which labels owners are selected. ``version`` changes with
    the reservations, but not with what pods have of them; ``changes`` with both.
    Unless it ``is_used``, which is decided before there are pods, nothing is known of owners. With
    ``preempt`` a reservation that is to get a node may take the place of pods. Those of the
    mode Cluster may take over pods with the label ``pre_allocatable``; ``pods_on`` says which pods
    a row has. Of rows with reservations that a pod may use no more are looked at for preemption
    once there are ``enough_candidates``.
    """

    def __init__(
        self,
        resources: ResourceColumns,
        hold: Callable[[str, PodUsage], object],
        release: Callable[[str, PodUsage], object],
        touch: Callable[[str], object],
        select: Select = nobody,
    ) -> None:
        self.is_used = False
        self.preempt = False
        self.enough_candidates = DEFAULT_CANDIDATES
        self.pre_allocatable = LABEL_PRE_ALLOCATABLE
        self.pods_on: Callable[[int], Iterable[PlacedUsage]] = lambda row: ()
        self.version = self.changes = 0
        self._resources = resources
        self._hold = hold
        self._release = release
        self._touch = touch
        self._select = select
        self._known: dict[str, _Known] = {}
        self._held: dict[str, PodUsage] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._allocations: dict[tuple[str, str], AllocatedRoom] = {}
        self._used: set[tuple[str, str]] = set()
        self._pre_allocated = PreAllocatedPods()
        self._left: list[tuple[str, PodUsage]] | None = None
        self._warnings: list[str] = []
        self.named = NamedPods()
        self._index: OwnerIndex | None = None
        self._indexed = 0

    def __len__(self) -> int:
        """How many reservations take room, or have it allocated."""
        return len(self._names)

    def known(self) -> Iterable[str]:
        """The keys of all reservations, in any phase."""
        return self._known.keys()

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
            self._warnings.append(f"reservation {reservation.key}: {reservation.problem}")
        self.named.add(reservation.matchers)
        self._select([one.selector for one in reservation.matchers])
        if reservation.holds_room:
            was_there = before is not None and before.uid == at[0] and before.holds_room
            if at in self._allocations and not was_there:
                self._used.add(at)  # nobody could be given it before: these pods are bound
            self._names[at] = reservation.key
            self._on.setdefault(reservation.node, {})[reservation.key] = None
            self._put(reservation.key)
            self._touch(reservation.node)
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
        key = pod.reservation, node
        found = self._allocations.setdefault(key, AllocatedRoom())
        found.add(pod, sign)
        if not found.owners:
            del self._allocations[key]
        name = self._names.get(key)
        if name is not None:
            self._take_off(self._known[name].reservation)
            self._put(name)
            self.changes += 1

    def pre_allocate(self, name: str, node: str, pods: Iterable[PlacedUsage]) -> None:
        """A reservation is to get a node, and pods that are there count as its owners."""
        known = self._known[name]
        one = replace(known.reservation, node=node, phase=WAITING)
        self.set(one, known.whole)
        for pod in pods:
            self._pre_allocated.take(pod.uid, one.uid)
            if not pod.usage.reservation:
                owner = pod.usage._replace(reservation=one.uid)
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

    def leave(self, node: str, pod: PodUsage) -> None:
        """A pod leaves a node; what it has of a reservation goes back to that."""
        if pod.reservation:
            self.add_owner(node, pod, -1)
        elif (owner := self._pre_allocated.pop(node, pod)) is not None:
            self.add_owner(node, owner, -1)
            if self._left is not None:
                self._left.append((node, owner))

    @contextmanager
    def keep_pre_allocated(self) -> Iterator[None]:
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
        """Whether some pod was bound with something of it, which may have ended since."""
        return (reservation.uid, reservation.node) in self._used

    def _take_off(self, reservation: Reservation) -> None:
        """Nothing of a reservation counts; a pod that acts as one is counted as a pod."""
        held = self._held.pop(reservation.key, None)
        self._touch(reservation.node)
        if held is not None and not reservation.namespace:
            self._release(reservation.node, held)

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
            self._hold(reservation.node, left)

    def held(self, name: str) -> PodUsage | None:
        """What a reservation takes of its node now; ``None`` if nothing."""
        return self._held.get(name)

    def held_on(self, node: str) -> list[PodUsage]:
        """What reservations take of a node that are no pods."""
        return [self._held[one.key] for one in self.on(node) if not one.namespace]

    def on(self, node: str) -> Iterable[Reservation]:
        """The reservations on a node that are not used up."""
        return [self._known[name].reservation for name in self._on.get(node, ()) if self.has(name)]

    def objects(self) -> list[Reservation]:
        """All that are objects of their own, and not pods, in any phase."""
        known = (one.reservation for one in self._known.values())
        return [one for one in known if not one.namespace]

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
        """Whether a reservation is there that is not used up."""
        return name in self._held

    def owns_held(self, node: str, uid: str) -> bool:
        """Whether what a pod of a node has of a reservation goes back to that, not to the node."""
        name = self._names.get((uid, node))
        if name is None:
            return False
        one = self._known[name].reservation
        return not one.namespace and not (one.allocate_once and self.was_bound(one))

    def offer(self, name: str) -> Offer:
        """A reservation that is not used up, with what is left of it."""
        reservation = self._known[name].reservation
        allocation = self._allocations.get((reservation.uid, reservation.node)) or AllocatedRoom()
        return Offer(
            reservation,
            dict(allocation.request),
            allocation.owners,
            {resource: int(amount) for resource, amount in self._held[name].request},
            self._held[name].devices,
            self._held[name].numa,
        )

    def take_warnings(self) -> list[str]:
        """Lines about reservations that cannot be used, each once."""
        found, self._warnings = self._warnings, []
        return found
