"""What is left of a reservation's devices, for pods that may use it. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from koord_scheduler.devices.pod_devices import NO_DEVICES
from koord_scheduler.devices.reserved_devices import ReservedDevices
from koord_scheduler.reservations.fit import Offer
from koord_scheduler.reservations.reservation import RESTRICTED

NO_RESERVED = ReservedDevices(NO_DEVICES)


def reserved_by(offer: Offer) -> ReservedDevices:
    """The devices of one reservation."""
    return ReservedDevices(offer.devices, offer.reservation.policy == RESTRICTED)


def reserved_by_all(offers: Iterable[Offer]) -> ReservedDevices:
    """Those of all of them, for pods that ignore reservations."""
    return ReservedDevices(tuple(chain.from_iterable(one.devices for one in offers)))
