"""Ends reservations, says in their status who has them, and removes those that ended long ago."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_model.quantity import quantity_texts

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.lifecycle import Owners, Removal, next_step, sorted_owners
from koord_scheduler.plugins.reservation.objects import CurrentOwner
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.plugins.reservation.reservation_reader import reservation_key
from koord_scheduler.plugins.reservation.reservation_requests import removal, status_patch

PASS_SECONDS = 3.0
"""Between two looks at all reservations; as soon as Koordinator looks at one again."""


class ReservationController:
    """Runs while this scheduler leads; all that it needs to know the scheduler knows.

    ``keep_seconds`` are those for which a reservation is kept that has ended; ``None``: for ever.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        write: Write,
        keep_seconds: float | None,
        *,
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._write = write
        self._keep_seconds = keep_seconds
        self._on_warning = on_warning
        self._wall = wall

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await anyio.sleep(PASS_SECONDS)

    async def look(self) -> None:
        """Once at all of them."""
        for request in list(self._due()):
            try:
                await self._write(request)
            except (ConflictError, NotFoundError, NotLeadingError):
                continue  # it has changed meanwhile, which the watch will say
            except ApiError as error:
                self._on_warning(f"{error} (reservation {request.name})")

    def _due(self) -> Iterator[Request]:
        for one in self._scheduler.nodes.use(ReservationColumns).objects():
            if one.is_leaving or reservation_key(one.name) in self._scheduler.assumed:
                continue
            step = next_step(
                one.phase,
                one.life,
                self._owners(one),
                node_is_gone=bool(one.node) and not self._has_node(one.node),
                is_for_one=one.allocate_once,
                was_bound=self._scheduler.nodes.use(ReservationColumns).was_bound(one),
                now=self._wall(),
                keep_seconds=self._keep_seconds,
            )
            if isinstance(step, Removal):
                yield removal(one)
            elif step is not None:
                yield status_patch(one, step.status)

    def _has_node(self, name: str) -> bool:
        nodes = self._scheduler.nodes
        row = nodes.row(name)
        return row is not None and bool(nodes.is_node[row])

    def _owners(self, one: Reservation) -> Owners:
        """The pods with something of a reservation whose node the API knows."""
        scheduler, found = self._scheduler, list[CurrentOwner]()
        row = scheduler.nodes.row(one.node) if one.node else None
        allocated = dict.fromkeys(one.allocatable, 0)
        for pod in scheduler.placed.on(row) if row is not None else ():
            if pod.usage.of(RESERVATION) != one.uid or pod.key in scheduler.assumed:
                continue
            namespace, _, name = pod.key.partition("/")
            found.append(CurrentOwner(namespace, name, pod.uid))
            for resource, amount in pod.usage.request:
                if resource in allocated:
                    allocated[resource] += int(amount)
        return Owners(sorted_owners(found), allocated, quantity_texts(allocated))
