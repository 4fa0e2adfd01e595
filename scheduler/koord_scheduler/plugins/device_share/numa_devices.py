"""The devices of rows as whoever chooses among NUMA nodes sees them. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom
from koord_scheduler.extension_points.topology_hints import Mask, ProviderHints
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_allocation import MISSING_DEVICE
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_numa_hints import device_numa_hints
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.plugins.device_share.pod_parts import DEVICES
from koord_scheduler.plugins.device_share.reserved_devices import (
    ReservedDevices,
    allocate_reserved,
    with_devices,
)
from koord_scheduler.state.cluster_state import ClusterState


@dataclass(frozen=True)
class NUMADevices:
    """Devices of nodes for a pod, by NUMA node: a ``TopologyHintProvider``."""

    needs: PodDeviceNeeds
    nodes: ClusterState
    scorer: DeviceScorer

    def hints(self, row: int, kept: KeptRoom = NO_ROOM) -> ProviderHints:
        """Near which NUMA nodes of a row's node all of it could be."""
        state = self._state(row, kept)
        if state is None:
            return tuple((need.type, ()) for need in self.needs.needs)
        return _numa_hints(self.needs, state, self.scorer, kept_devices(kept))

    def rejection(self, row: int, mask: Mask, kept: KeptRoom = NO_ROOM) -> str:
        """Return why it could not be near these; "" if it could."""
        state = self._state(row, kept)
        if state is None:
            return MISSING_DEVICE.text
        found = allocate_reserved(self.needs, state, self.scorer, kept_devices(kept), mask)
        return found.text if isinstance(found, DeviceRejection) else ""

    def _state(self, row: int, kept: KeptRoom) -> NodeDeviceState | None:
        state = self.nodes.use(DeviceColumns).state(row)
        for usage in kept.missing if state is not None else ():
            state = with_devices(state, usage.of(DEVICES))
        return state


@lru_cache(maxsize=1 << 12)
def _numa_hints(
    needs: PodDeviceNeeds,
    state: NodeDeviceState,
    scorer: DeviceScorer,
    reserved: ReservedDevices,
) -> ProviderHints:
    found = device_numa_hints(needs, state, scorer, reserved)
    if isinstance(found, DeviceRejection):
        return tuple((need.type, ()) for need in needs.needs)
    return tuple((kind, tuple(hints)) for kind, hints in found.items())


def kept_devices(kept: KeptRoom) -> ReservedDevices:
    """The devices of room that is kept."""
    found = chain.from_iterable(usage.of(DEVICES) for usage in kept.kept)
    return ReservedDevices(tuple(found), kept.restricted)
