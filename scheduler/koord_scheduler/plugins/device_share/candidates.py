"""Devices of a node that come into question for a pod, and which of them it gets. No IO.

Koordinator's ``defaultAllocateDevices`` and ``filterNodeDevice``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from koord_model.device_allocated import PodDevice, PodDevices, VirtualFunction
from koord_model.quantity import quantity_text

from koord_scheduler.plugins.device_share.device_needs import DeviceNeed
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import FreeDevice, NodeDeviceState

Mask = int
"""NUMA nodes as bits."""
Candidates = Mapping[int, FreeDevice]
Preferred = frozenset[tuple[str, int]]
"""Devices by type and minor that a pod gets before others."""
NONE_PREFERRED: Preferred = frozenset()


class DeviceRejection(NamedTuple):
    """Reason why a node cannot give a pod its devices; ``note`` has the nearest in numbers.

    It is ``resolvable`` where other pods have what it lacks.
    """

    text: str
    resolvable: bool = True
    note: str = ""


def candidates(need: DeviceNeed, state: NodeDeviceState, mask: Mask | None = None) -> Candidates:
    """The devices of a type that the hint means, near the NUMA nodes of ``mask``.

    Of a device whose NUMA node is not known any is near; one without a place is nowhere.
    """
    found = {
        minor: device
        for minor, device in state.devices.get(need.type, {}).items()
        if _is_near(device, mask) and _is_selected(device, need)
    }
    return _alone_on_switch(found, state, need.type) if need.hint.keeps_pcie else found


def _is_near(free_device: FreeDevice, mask: Mask | None) -> bool:
    if mask is None:
        return True
    place = free_device.device.topology
    return place is not None and (place.numa_node < 0 or bool(mask >> place.numa_node & 1))


def _is_selected(free_device: FreeDevice, need: DeviceNeed) -> bool:
    selector = need.hint.selector
    return selector is None or selector.matches(dict(free_device.device.labels))


def _alone_on_switch(found: Candidates, state: NodeDeviceState, kind: str) -> Candidates:
    """Those on whose PCIe switch nobody has anything of a device of this type."""
    busy = {
        place_of(device)
        for device in state.devices.get(kind, {}).values()
        if device.total and not device.is_idle
    }
    return {minor: one for minor, one in found.items() if place_of(one) not in busy}


def place_of(free_device: FreeDevice) -> tuple[int, str] | None:
    """The PCIe switch of a device, ``None`` where its place is not known."""
    place = free_device.device.topology
    return None if place is None else (place.numa_node, place.pcie)


def needed(need: DeviceNeed, state: NodeDeviceState) -> int:
    """Return the number of devices that a pod needs of a node."""
    if need.count:
        return need.count
    return sum(_is_selected(device, need) for device in state.devices.get(need.type, {}).values())


def take_devices(
    need: DeviceNeed,
    count: int,
    found: Candidates,
    scorer: DeviceScorer,
    switches: frozenset[str] = frozenset(),
    preferred: Preferred = NONE_PREFERRED,
) -> PodDevices | DeviceRejection:
    """The best ``count`` devices; one for each of ``switches`` if there are more of these.

    Devices under these PCIe switches come first, by turns; of equally placed ones those that are
    ``preferred``.
    """
    taken: list[PodDevice] = []
    most = max(count, len(switches))
    for one in _in_order(need, found, scorer, switches, preferred):
        device = _taken(need, one)
        if device is not None:
            taken.append(device)
        if len(taken) == most:
            break
    if len(taken) >= count:
        return tuple(taken)
    text = f"Insufficient {need.type} devices"
    return DeviceRejection(text, note=nearest_miss(need, count, found))


def _in_order(
    need: DeviceNeed,
    found: Candidates,
    scorer: DeviceScorer,
    switches: frozenset[str],
    preferred: Preferred,
) -> Iterator[FreeDevice]:
    fitting = [one for one in found.values() if one.has_room(need.amounts)]
    scores = {one.device.minor: scorer.of_device(need.amounts, one) for one in fitting}

    def rank(free_device: FreeDevice) -> tuple[bool, int, int]:
        minor = free_device.device.minor
        return (need.type, minor) not in preferred, -scores[minor], minor

    fitting.sort(key=rank)
    near: defaultdict[str, list[FreeDevice]] = defaultdict(list)
    others: list[FreeDevice] = []
    for one in fitting:
        place = one.device.topology
        if place is not None and place.pcie in switches:
            near[place.pcie].append(one)
        else:
            others.append(one)
    for turn in zip_longest(*near.values()):
        yield from sorted((one for one in turn if one is not None), key=rank)
    yield from others


def _taken(need: DeviceNeed, free_device: FreeDevice) -> PodDevice | None:
    """``None``: a virtual function is needed, and there is none."""
    device = PodDevice(need.type, free_device.device.minor, need.each)
    if need.hint.functions is None:
        return device
    function = min(_functions(need, free_device), default=None)
    return None if function is None else device._replace(functions=(function,))


def _functions(need: DeviceNeed, free_device: FreeDevice) -> Iterator[VirtualFunction]:
    selector = need.hint.functions
    for group in free_device.device.groups:
        if selector is None or selector.matches(dict(group.labels)):
            yield from (vf for vf in group.functions if vf.bus not in free_device.taken_functions)


def switches_of(devices: Iterable[PodDevice], state: NodeDeviceState) -> frozenset[str]:
    """The PCIe switches of devices that a pod gets."""
    places = (state.devices[device.type][device.minor].device.topology for device in devices)
    return frozenset(place.pcie for place in places if place is not None)


def nearest_miss(need: DeviceNeed, count: int, found: Candidates) -> str:
    """Describe the device that lacks least: "gpu 1 has 30 of 50 koordinator.sh/gpu-core"."""
    lacking = [one for one in found.values() if one.total and not one.has_room(need.amounts)]
    enough = sum(one.has_room(need.amounts) for one in found.values())
    begin = f"{enough} of {count} needed {need.type} devices have room"
    if not lacking:
        return begin

    def lacks(free_device: FreeDevice) -> list[tuple[str, int, int]]:
        wanted = sorted(free_device.with_memory(need.amounts).items())
        amounts = ((name, free_device.free.get(name, 0), amount) for name, amount in wanted)
        return [(name, free, amount) for name, free, amount in amounts if free < amount]

    def lack(free_device: FreeDevice) -> float:
        return max((amount - free) / amount for _, free, amount in lacks(free_device))

    nearest = min(lacking, key=lambda one: (lack(one), one.device.minor))
    parts = ", ".join(
        f"{quantity_text(name, free)} of {quantity_text(name, amount)} {name}"
        for name, free, amount in lacks(nearest)
    )
    return f"{begin}; {need.type} {nearest.device.minor} has {parts}"
