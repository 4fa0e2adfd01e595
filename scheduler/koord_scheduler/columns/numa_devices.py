"""The devices of rows as whoever chooses among NUMA nodes sees them. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.devices.candidates import DeviceRejection
from koord_scheduler.devices.device_allocation import MISSING_DEVICE, allocate
from koord_scheduler.devices.device_needs import PodDeviceNeeds
from koord_scheduler.devices.device_numa_hints import device_numa_hints
from koord_scheduler.devices.device_scores import DeviceScorer
from koord_scheduler.devices.node_device_state import NodeDeviceState
from koord_scheduler.numa.topology_hints import Mask, ProviderHints


@dataclass(frozen=True)
class NUMADevices:
    """What nodes can give a pod of devices, by NUMA node: a ``NUMAProvider``."""

    needs: PodDeviceNeeds
    nodes: NodeColumns
    scorer: DeviceScorer

    def hints(self, row: int) -> ProviderHints:
        """Near which NUMA nodes of a row's node all of it could be."""
        state = self.nodes.node_devices.state(row)
        if state is None:
            return tuple((one.type, ()) for one in self.needs.needs)
        return _numa_hints(self.needs, state, self.scorer)

    def rejection(self, row: int, mask: Mask) -> str:
        """Why it could not be near these; "" if it could."""
        state = self.nodes.node_devices.state(row)
        found = MISSING_DEVICE if state is None else allocate(self.needs, state, self.scorer, mask)
        return found.text if isinstance(found, DeviceRejection) else ""


@lru_cache(maxsize=1 << 12)
def _numa_hints(
    needs: PodDeviceNeeds, state: NodeDeviceState, scorer: DeviceScorer
) -> ProviderHints:
    found = device_numa_hints(needs, state, scorer)
    if isinstance(found, DeviceRejection):
        return tuple((one.type, ()) for one in needs.needs)
    return tuple((kind, tuple(hints)) for kind, hints in found.items())
