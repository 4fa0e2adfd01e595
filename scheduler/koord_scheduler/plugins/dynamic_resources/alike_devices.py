"""Devices that are alike for some claims: where one of them does not help, none does. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from koord_scheduler.plugins.dynamic_resources.constraints import AttributeConstraint
from koord_scheduler.plugins.dynamic_resources.pool_devices import DeviceId, PoolDevice
from koord_scheduler.plugins.dynamic_resources.requests import AllocationError, ClaimRequests


class AlikeDevices:
    """Kinds of devices that no claim has yet, by what a search for some claims looks at.

    Of two devices of a kind, a search that failed with the first fails with the second: wherever
    it takes one it could take the other. Devices that claims share, or that a selector fails for,
    are of a kind of their own. So are all if a request has admin access, which ignores claims, or
    if one asks for all devices: which device breaks a constraint then depends on their order.
    """

    def __init__(
        self,
        requests: Iterable[ClaimRequests],
        constraints: Iterable[Sequence[AttributeConstraint]],
    ) -> None:
        self._asking = [one for claim in requests for each in claim for one in each]
        self._names = sorted({one.name for claim in constraints for one in claim})
        self._differ = any(one.request.admin_access or one.is_all for one in self._asking)
        self._kinds: dict[DeviceId, Hashable] = {}

    def kind(self, device: PoolDevice) -> Hashable:
        """Equal for devices that are alike."""
        found = self._kinds.get(device.id)
        if found is None:
            found = self._kinds[device.id] = self._kind(device)
        return found

    def _kind(self, device: PoolDevice) -> Hashable:
        plain = device.device
        if self._differ or plain.allow_multiple_allocations:
            return device.id
        try:
            meant = tuple(one.means(device) and one.tolerates(device) for one in self._asking)
        except AllocationError:
            return device.id
        return (
            meant,
            tuple(device.attribute(name) for name in self._names),
            msgspec.json.encode((plain.capacity, plain.consumes_counters)),
            device.id[:2] if plain.consumes_counters else None,
        )
