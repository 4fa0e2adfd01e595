"""Ends reservations, says in their status who has them, and removes those that ended long ago."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from koord_kube.protocol.request import Request
from koord_model.quantity import quantity_texts

from koord_scheduler.extension_points.api_services import Write
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.lifecycle import Owners, Removal, next_step, sorted_owners
from koord_scheduler.plugins.reservation.objects import CurrentOwner
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.plugins.reservation.reservation_reader import reservation_key
from koord_scheduler.plugins.reservation.reservation_requests import removal, status_patch


class ReservationController:
    """Runs while this scheduler leads; all that it needs to know the scheduler knows.

    ``keep_seconds`` are those for which a reservation is kept that has ended; ``None``: for ever.
    """

    name = "reservations"
    every = 3.0
    """As soon as Koordinator looks at one again."""

    def __init__(
        self,
        scheduler: Scheduler,
        write: Write,
        keep_seconds: float | None,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._reservations = scheduler.nodes.use(ReservationColumns)
        self._write = write
        self._keep_seconds = keep_seconds
        self._wall = wall

    def due(self) -> Iterable[str]:
        """Return the keys of those of which there is something to say."""
        return [
            reservation.key
            for reservation in self._reservations.objects()
            if self._request(reservation) is not None
        ]

    async def reconcile(self, key: str) -> None:
        """Write what there is to say of one."""
        found = self._reservations.get(key)
        request = self._request(found) if found is not None else None
        if request is not None:
            await self._write(request)

    def _request(self, reservation: Reservation) -> Request | None:
        if reservation.is_leaving or reservation_key(reservation.name) in self._scheduler.assumed:
            return None
        step = next_step(
            reservation.phase,
            reservation.life,
            self._owners(reservation),
            node_is_gone=bool(reservation.node) and not self._has_node(reservation.node),
            is_for_one=reservation.allocate_once,
            was_bound=self._reservations.was_bound(reservation),
            now=self._wall(),
            keep_seconds=self._keep_seconds,
        )
        if isinstance(step, Removal):
            return removal(reservation)
        return None if step is None else status_patch(reservation, step.status)

    def _has_node(self, name: str) -> bool:
        nodes = self._scheduler.nodes
        row = nodes.row(name)
        return row is not None and bool(nodes.is_node[row])

    def _owners(self, reservation: Reservation) -> Owners:
        """The pods with something of a reservation whose node the API knows."""
        scheduler, found = self._scheduler, list[CurrentOwner]()
        row = scheduler.nodes.row(reservation.node) if reservation.node else None
        allocated = dict.fromkeys(reservation.allocatable, 0)
        for pod in scheduler.placed.on(row) if row is not None else ():
            if pod.usage.of(RESERVATION) != reservation.uid or pod.key in scheduler.assumed:
                continue
            namespace, _, name = pod.key.partition("/")
            found.append(CurrentOwner(namespace, name, pod.uid))
            for resource, amount in pod.usage.request:
                if resource in allocated:
                    allocated[resource] += int(amount)
        return Owners(sorted_owners(found), allocated, quantity_texts(allocated))
