"""What reservations keep of a node for a pod that may use them, beside amounts. No IO."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from koord_scheduler.plugins.device_share.reserved_devices import ReservedDevices
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import ReservedNUMA
from koord_scheduler.plugins.reservation.fit import Offer
from koord_scheduler.plugins.reservation.reservation import RESTRICTED


class KeptRoom(NamedTuple):
    """What one reservation offers, or all of a node to a pod that ignores what is reserved.

    If it is ``restricted``, the pod gets nothing else of the kinds that are reserved. What all
    reservations in ``missing`` keep counts as free in the columns at present, though it is not.
    """

    offers: tuple[Offer, ...] = ()
    restricted: bool = False
    missing: tuple[Offer, ...] = ()

    @property
    def has_more(self) -> bool:
        """Whether CPUs, NUMA nodes or devices are kept."""
        return any(one.has_more for one in self.offers)

    @property
    def devices(self) -> ReservedDevices:
        """The devices of it."""
        found = chain.from_iterable(one.devices for one in self.offers)
        return ReservedDevices(tuple(found), self.restricted)

    @property
    def numa(self) -> ReservedNUMA:
        """The CPUs and NUMA nodes of it."""
        return ReservedNUMA(tuple(one.numa for one in self.offers if one.numa), self.restricted)


NO_ROOM = KeptRoom()


def kept_by(offer: Offer | None) -> KeptRoom:
    """What one reservation keeps; nothing for ``None``."""
    return NO_ROOM if offer is None else KeptRoom((offer,), offer.reservation.policy == RESTRICTED)
