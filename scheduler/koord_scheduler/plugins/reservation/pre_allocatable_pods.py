"""The pods that a reservation without a node may take over, by row. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.owners import OwnedPod
from koord_scheduler.plugins.reservation.pod_parts import PRE_ALLOCATABLE, RESERVATION
from koord_scheduler.plugins.reservation.pre_allocatable import may_be_taken_over, may_take_over
from koord_scheduler.plugins.reservation.pre_allocation import PreAllocatablePod
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage

_MOST_USAGES = 1 << 14
"""They are kept with what is known of them, so that no other one has their id."""


class PreAllocatablePods:
    """Looked up again on rows that changed."""

    def __init__(self, reservation: Reservation, nodes: ClusterState) -> None:
        self._reservation = reservation
        self._nodes = nodes
        self._found: dict[int, list[PlacedPod]] = {}
        self._usages: dict[int, tuple[PodUsage, bool]] = {}
        self._generation = -1
        self._seen = 0

    def on(self, row: int) -> list[PreAllocatablePod]:
        """Those of a row's node, in no order."""
        return [
            PreAllocatablePod(
                usage.key, usage.uid, self._requests(usage.usage), _priority(usage.usage)
            )
            for usage in self.usages(row)
        ]

    def usages(self, row: int) -> Sequence[PlacedPod]:
        """The same with what they take."""
        self._look()
        return self._found.get(row, ())

    def has(self, rows: Rows) -> Mask:
        """Of each of these rows, whether there are any."""
        self._look()
        return np.isin(rows, [*self._found])

    def held(self, rows: Rows | None = None) -> Sequence[tuple[str, PodUsage]]:
        """Return their usage of their nodes: of ``rows``, or of all."""
        self._look()
        if not self._found:
            return ()
        some = self._found if rows is None else [row for row in rows.tolist() if row in self._found]
        return list(chain.from_iterable(map(self._held_on, some)))

    def holders_on(self, node: str) -> Collection[str]:
        """No uid: it uses no other reservation."""
        return ()

    def have_room(self, rows: Rows) -> Mask:
        """Nowhere."""
        return np.zeros(len(rows), np.bool_)

    def enough_candidates(self, nodes: int) -> float:
        """The number of rows with such pods that preemption looks at."""
        return self._nodes.use(ReservationColumns).enough_candidates.of(nodes)

    def _held_on(self, row: int) -> Iterator[tuple[str, PodUsage]]:
        name = self._nodes.name(row)
        return ((name, pod.usage) for pod in self._found[row])

    def _look(self) -> None:
        nodes = self._nodes
        changed: Iterable[int] | None = None
        if nodes.generation == self._generation:
            rows = nodes.journal.changed_since(self._seen)
            changed = rows.tolist() if rows is not None else None
        if changed is None:
            self._found.clear()
            changed = range(len(nodes))
        for row in changed:
            found = [pod for pod in nodes.pods_on(row) if self._may_take(pod, row)]
            if found:
                self._found[row] = found
            else:
                self._found.pop(row, None)
        self._generation, self._seen = nodes.generation, nodes.journal.position

    def _may_take(self, pod: PlacedPod, row: int) -> bool:
        """Not if it has something of another reservation: its room would count for both."""
        usage, reservation = pod.usage, self._reservation
        given = usage.of(PRE_ALLOCATABLE)
        if given is None or not self._may_be_taken(usage):
            return False
        if self._nodes.use(ReservationColumns).taker(pod.uid) not in ("", reservation.uid):
            return False
        namespace, _, name = pod.key.partition("/")
        owners = given.needs.owners
        owned = OwnedPod(namespace, dict(usage.labels.labels), owners, name, pod.uid)
        labels = self._nodes.labels.of(row)
        return may_take_over(reservation, given, owned, self._requests(usage), labels)

    def _may_be_taken(self, usage: PodUsage) -> bool:
        """Asked once about pods that share their usage."""
        known = self._usages.get(id(usage))
        if known is None:
            if len(self._usages) > _MOST_USAGES:
                self._usages.clear()
            found, reservation = usage.of(PRE_ALLOCATABLE), self._reservation
            may_be = (
                found is not None
                and usage.of(RESERVATION) in ("", reservation.uid)
                and may_be_taken_over(reservation, found, dict(usage.labels.labels))
            )
            known = self._usages[id(usage)] = usage, may_be
        return known[1]

    def _requests(self, usage: PodUsage) -> dict[str, int]:
        return {name: int(amount) for name, amount in usage.request}


def _priority(usage: PodUsage) -> int:
    given = usage.of(PRE_ALLOCATABLE)
    return given.priority if given is not None else 0
