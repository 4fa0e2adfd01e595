"""Devices that are reserved: what is left of them, and what a pod gets that may use them. No IO.

Koordinator's ``deviceshare/reservation.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from koord_model.device_allocated import PodDevice, PodDevices, ResourceAmounts, VirtualFunction

from koord_scheduler.plugins.device_share.candidates import DeviceRejection, Mask, Preferred
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import NodeDevice, NodeDevices
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import (
    NodeDeviceState,
    UsedDevice,
    used_devices,
)


class ReservedDevices(NamedTuple):
    """Reserved ``devices``, each with what is left of it, if anything.

    If they are ``restricted``, a pod gets nothing else of the types that are reserved.
    """

    devices: PodDevices = ()
    restricted: bool = False

    @property
    def preferred(self) -> Preferred:
        """Those of which something is left."""
        left = (device for device in self.devices if device.resources or device.functions)
        return frozenset((one.type, one.minor) for one in left)


NO_DEVICES_KEPT = ReservedDevices()


def what_is_left(reserved: PodDevices, owners: Iterable[PodDevices]) -> PodDevices:
    """Reserved devices, each without what owners have of it."""
    used = _by_device(used_devices(owners))
    return tuple(_left(one, used.get((one.type, one.minor))) for one in reserved)


def _left(pod_device: PodDevice, used: UsedDevice | None) -> PodDevice:
    if used is None:
        return pod_device
    functions = tuple(vf for vf in pod_device.functions if vf.bus not in used.functions)
    return pod_device._replace(
        resources=_less(pod_device.resources, used.resources), functions=functions
    )


@lru_cache(maxsize=1 << 12)
def with_devices(state: NodeDeviceState, devices: PodDevices) -> NodeDeviceState:
    """The state of a node when pods have these devices, too."""
    had = tuple(
        PodDevice(one.type, one.minor, one.resources, functions=_functions(one))
        for one in state.used
    )
    return replace(state, used=used_devices([had, devices]))


@lru_cache(maxsize=1 << 12)
def without_devices(state: NodeDeviceState, devices: PodDevices) -> NodeDeviceState:
    """The state of a node when nobody has these devices any more."""
    given = _by_device(used_devices([devices]))
    found = (_without(one, given.get((one.type, one.minor))) for one in state.used)
    return replace(state, used=tuple(one for one in found if one.resources or one.functions))


def _without(used_device: UsedDevice, given: UsedDevice | None) -> UsedDevice:
    if given is None:
        return used_device
    resources = _less(used_device.resources, given.resources)
    return used_device._replace(
        resources=resources, functions=used_device.functions - given.functions
    )


def allocate_reserved(
    needs: PodDeviceNeeds,
    state: NodeDeviceState,
    scorer: DeviceScorer,
    reserved: ReservedDevices,
    mask: Mask | None = None,
) -> PodDevices | DeviceRejection:
    """Allocate a pod's devices with its ``reserved`` ones, which ``state`` has as used.

    First it is looked for among reserved devices, and of other types anywhere. If that fails, and
    they are not restricted, everything is looked at that is reserved or free, and it gets as many
    of the reserved devices as it can use.
    """
    if not reserved.devices:
        return allocate(needs, state, scorer, mask)
    free = without_devices(state, reserved.devices)
    found = allocate(needs, _reserved_alone(free, reserved), scorer, mask)
    if isinstance(found, DeviceRejection) and not reserved.restricted:
        return allocate(needs, free, scorer, mask, preferred=reserved.preferred)
    return found


@lru_cache(maxsize=1 << 12)
def _reserved_alone(free: NodeDeviceState, reserved: ReservedDevices) -> NodeDeviceState:
    """The node without devices of the reserved types that are not reserved.

    Where they are restricted, no more of a device is free than what is left of it.
    """
    kinds = {device.type for device in reserved.devices}
    left = {(device.type, device.minor): device for device in reserved.devices}
    devices = tuple(
        device
        for device in free.has.devices
        if device.type not in kinds or (device.type, device.minor) in left
    )
    alone = replace(free, has=NodeDevices(devices, free.has.partitions, free.has.honors))
    if not reserved.restricted:
        return alone
    beyond = (
        _beyond(device, left[device.type, device.minor], alone)
        for device in devices
        if device.type in kinds
    )
    return with_devices(alone, tuple(beyond))


def _beyond(device: NodeDevice, left: PodDevice, state: NodeDeviceState) -> PodDevice:
    """Return the amounts of a device that are free, and not reserved."""
    free = state.devices[device.type][device.minor].free
    amounts = _less(tuple(sorted(free.items())), left.resources)
    return PodDevice(device.type, device.minor, amounts)


def _by_device(used: Iterable[UsedDevice]) -> Mapping[tuple[str, int], UsedDevice]:
    return {(one.type, one.minor): one for one in used}


def _less(amounts: ResourceAmounts, taken: ResourceAmounts) -> ResourceAmounts:
    """Return the rest of amounts, without empty ones."""
    other = dict(taken)
    left = ((name, amount - other.get(name, 0)) for name, amount in amounts)
    return tuple((name, amount) for name, amount in left if amount > 0)


def _functions(used_device: UsedDevice) -> tuple[VirtualFunction, ...]:
    return tuple(VirtualFunction(bus) for bus in sorted(used_device.functions))
