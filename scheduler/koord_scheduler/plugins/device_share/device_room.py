"""Free amounts of each device of each row, in arrays: for pods that take any devices. No IO."""

from __future__ import annotations

import numpy as np
from koord_model.keys import GPU_MEMORY, GPU_MEMORY_RATIO
from numpy.typing import NDArray

from koord_scheduler.plugins.device_share.device_hints import NO_HINT
from koord_scheduler.plugins.device_share.device_needs import DeviceNeed, PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.device_type_room import DeviceTypeRoom, of_rows
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened


def takes_any(needs: PodDeviceNeeds) -> bool:
    """True if only numbers and amounts of devices decide if a pod fits on a node.

    It still may not, where the node honors partitions, or has no template for the pod.
    """
    is_same_pcie = needs.joint is not None and needs.joint.is_same_pcie
    is_special = is_same_pcie or needs.partitions is not None
    if needs.shares_gpus and needs.isolation:
        return False
    return not is_special and all(need.hint == NO_HINT for need in needs.needs)


class DeviceRoom:
    """The devices of all rows by type. ``honors`` says which rows honor partitions of GPUs."""

    def __init__(self, length: int) -> None:
        self.honors: Mask = np.zeros(length, np.bool_)
        self._types: dict[str, DeviceTypeRoom] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.honors = lengthened(self.honors, length, fill=False)
        for one in self._types.values():
            one.lengthen(length)

    def set(self, rows: Rows, state: NodeDeviceState | None) -> None:
        """Replace the devices of these rows."""
        devices = {} if state is None else state.devices
        self.honors[rows] = state is not None and state.partitions[1]
        for kind in {*self._types, *devices}:
            if kind not in self._types:
                self._types[kind] = DeviceTypeRoom(len(self.honors))
            self._types[kind].set(rows, list(devices.get(kind, {}).values()))

    def fits(self, needs: PodDeviceNeeds, rows: Rows) -> Mask:
        """Of each of these rows, whether enough devices have room for a pod that takes any."""
        found: Mask = np.ones(len(rows), np.bool_)
        for need in needs.needs:
            found &= self._with_room(need, rows) >= need.count
        return found

    def _with_room(self, need: DeviceNeed, rows: Rows) -> Amounts:
        """Count the devices that have enough free; as ``FreeDevice.has_room``."""
        devices = self._types.get(need.type)
        if devices is None:
            return np.zeros(len(rows))
        has_room = of_rows(devices.is_healthy, rows)
        for name, amount in need.each:
            has_room = has_room & (devices.free(name, rows) >= amount)
        in_bytes, in_per_cent = need.amounts.get(GPU_MEMORY), need.amounts.get(GPU_MEMORY_RATIO)
        if (in_bytes is None) == (in_per_cent is None) or not devices.has(GPU_MEMORY):
            return _number(has_room)
        total = devices.total(GPU_MEMORY, rows)
        if in_bytes is None:
            needed = np.floor(total * (in_per_cent or 0) / 100)
            enough = devices.free(GPU_MEMORY, rows) >= needed
        else:
            needed = np.floor(in_bytes * 100 / np.maximum(total, 1))
            enough = (devices.free(GPU_MEMORY_RATIO, rows) >= needed) | (total == 0)
        return _number(has_room & enough)

    def scores(self, needs: PodDeviceNeeds, scorer: DeviceScorer, rows: Rows) -> Amounts:
        """Of each of these rows, as ``DeviceScorer.of_node``, summed over the types."""
        found = np.zeros(len(rows))
        for need in needs.needs:
            devices = self._types.get(need.type)
            if devices is not None:
                found += _scores(need, devices, scorer, rows)
        return found


def _number(has_room: NDArray[np.bool_]) -> Amounts:
    # Bytes are added four times as fast as booleans.
    found: Amounts = has_room.view(np.uint8).sum(axis=0, dtype=np.uint32)
    return found


def _scores(need: DeviceNeed, devices: DeviceTypeRoom, scorer: DeviceScorer, rows: Rows) -> Amounts:
    scores, weights = np.zeros(len(rows)), np.zeros(len(rows))
    for name, weight in scorer.weights:
        if not devices.has(name):
            continue
        has, free = devices.sums(name, rows)
        taken = has - free + need.amounts.get(name, 0)
        good = np.minimum(taken, has) if scorer.is_packing else np.maximum(has - taken, 0)
        here = weight * (has > 0)
        scores += here * np.floor(good * 100 / np.maximum(has, 1))
        weights += here
    found: Amounts = np.floor(scores / np.maximum(weights, 1))
    return found
