"""Number of devices of a class on nodes, for scores. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import DeviceClass
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode, PoolDevice
from koord_scheduler.plugins.dynamic_resources.selectors import SelectorError


class DeviceCount(NamedTuple):
    """Devices that a node can use, and how many of them claims have."""

    there: int
    allocated: int


def count_devices(
    device_class: DeviceClass, node: ClaimingNode, objects: DeviceObjects
) -> DeviceCount:
    """The devices of a class, also of pools that are being updated, as kube-scheduler counts them.

    None where a selector fails.
    """
    try:
        found = [
            device
            for piece in objects.slices(node)
            for device in piece.devices
            if piece.concerns(node) and device.is_usable_on(node) and _is_of(device_class, device)
        ]
    except SelectorError:
        return DeviceCount(0, 0)
    return DeviceCount(len(found), sum(device.id in objects.used for device in found))


def _is_of(device_class: DeviceClass, device: PoolDevice) -> bool:
    selectors = (each.cel for each in device_class.spec.selectors)
    return all(device.matches(cel.expression) for cel in selectors if cel is not None)
