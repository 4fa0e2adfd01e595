"""Allocation of a node's devices to a pod, of all types that it needs. No IO.

Koordinator's ``deviceshare/device_allocator.go``.
"""

from __future__ import annotations

from functools import lru_cache

from koord_model.device_allocated import PodDevices

from koord_scheduler.plugins.device_share.candidates import (
    NONE_PREFERRED,
    Candidates,
    DeviceRejection,
    Mask,
    Preferred,
    candidates,
    needed,
    switches_of,
    take_devices,
)
from koord_scheduler.plugins.device_share.device_needs import DeviceNeed, PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_allocation import take_gpus, with_memory
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

MISSING_DEVICE = DeviceRejection("node(s) missing Device", resolvable=False)
NOT_JOINT = "node(s) Device Joint-Allocate rules violation"
NO_TEMPLATE = "no matched GPU shared resource template"
NO_ISOLATION = "GPUIsolationProviderHAMICore not found on the node"


@lru_cache(maxsize=1 << 13)
def allocate(
    needs: PodDeviceNeeds,
    state: NodeDeviceState,
    scorer: DeviceScorer,
    mask: Mask | None = None,
    card: int | None = None,
    preferred: Preferred = NONE_PREFERRED,
) -> PodDevices | DeviceRejection:
    """Allocate a pod's devices, without their ids; or return why it gets none.

    With a ``mask``, only devices of these NUMA nodes; with a ``card``, of GPUs this one alone. It
    is remembered: nodes that are alike in ``state`` give the same. Devices that are ``preferred``
    come first.
    """
    return _Allocation(needs, state, scorer, mask, card, preferred).run()


def rejection_before(needs: PodDeviceNeeds, state: NodeDeviceState) -> DeviceRejection | None:
    """Return why a node cannot be used whatever is free there."""
    if needs.shares_gpus and needs.isolation and needs.isolation != state.labels.isolation:
        return DeviceRejection(NO_ISOLATION, resolvable=False)
    for need in needs.needs:
        if not state.devices.get(need.type) or not needed(need, state):
            return DeviceRejection(f"Insufficient {need.type} devices", resolvable=False)
    for need in needs.needs:
        if need.hint.functions is not None and not any(
            device.device.groups for device in state.devices[need.type].values()
        ):
            text = f"Insufficient {need.type} VirtualFunctions"
            return DeviceRejection(text, resolvable=False)
    for need in needs.needs:
        if state.templates.apply_to(need) and not state.templates.name_for(need):
            return DeviceRejection(NO_TEMPLATE, resolvable=False)
    return None


class _Allocation:
    """The steps for one pod on one node."""

    def __init__(
        self,
        needs: PodDeviceNeeds,
        state: NodeDeviceState,
        scorer: DeviceScorer,
        mask: Mask | None,
        card: int | None,
        preferred: Preferred,
    ) -> None:
        self._needs = needs
        self._state = state
        self._scorer = scorer
        self._preferred = preferred
        self._found = {need.type: candidates(need, state, mask) for need in needs.needs}
        if card is not None:
            gpus = self._found[GPU_TYPE]
            self._found[GPU_TYPE] = {minor: gpus[minor] for minor in gpus if minor == card}

    def run(self) -> PodDevices | DeviceRejection:
        rejection = rejection_before(self._needs, self._state)
        if rejection is not None:
            return rejection
        taken: dict[str, PodDevices] = {}
        if self._needs.joint is not None and len(self._needs.needs) > 1:
            joint = self._take_joint(self._needs.joint.types)
            if isinstance(joint, DeviceRejection):
                return joint
            taken = joint
        for need in self._needs.needs:
            if need.type not in taken:
                devices = self._take(need, self._found[need.type])
                if isinstance(devices, DeviceRejection):
                    return devices
                taken[need.type] = devices
        if GPU_TYPE in taken:
            taken[GPU_TYPE] = self._described(taken[GPU_TYPE])
        return tuple(one for need in self._needs.needs for one in taken[need.type])

    def _described(self, gpus: PodDevices) -> PodDevices:
        """GPUs with their memory in both units, and with the template by which they are given."""
        found = with_memory(gpus, self._state.devices[GPU_TYPE])
        need, templates = self._needs.by_type[GPU_TYPE], self._state.templates
        if not templates.apply_to(need):
            return found
        return tuple(one._replace(template=templates.name_for(need)) for one in found)

    def _take(self, need: DeviceNeed, found: Candidates) -> PodDevices | DeviceRejection:
        if need.type == GPU_TYPE:
            partitions, state = self._needs.partitions, self._state
            return take_gpus(need, partitions, state, found, self._scorer, self._preferred)
        return self._take_others(need, needed(need, self._state), found)

    def _take_others(
        self,
        need: DeviceNeed,
        count: int,
        found: Candidates,
        switches: frozenset[str] = frozenset(),
    ) -> PodDevices | DeviceRejection:
        return take_devices(need, count, found, self._scorer, switches, self._preferred)

    def _take_joint(self, types: tuple[str, ...]) -> dict[str, PodDevices] | DeviceRejection:
        """The first type decides under which PCIe switches the others are looked for.

        If these have too little there, it is tried under those switches alone that have enough.
        """
        primary = self._needs.by_type[types[0]]
        found = self._found[primary.type]
        taken = self._take_near(types, found)
        if isinstance(taken, DeviceRejection) and self._is_same_pcie:
            better = self._take_near(types, self._with_all_types(types[1:], found))
            return taken if isinstance(better, DeviceRejection) else better
        return taken

    @property
    def _is_same_pcie(self) -> bool:
        joint = self._needs.joint
        return joint is not None and joint.is_same_pcie

    def _take_near(
        self, types: tuple[str, ...], found: Candidates
    ) -> dict[str, PodDevices] | DeviceRejection:
        first = self._take(self._needs.by_type[types[0]], found)
        if isinstance(first, DeviceRejection):
            return first
        taken, switches = {types[0]: first}, switches_of(first, self._state)
        for kind in types[1:]:
            need = self._needs.by_type[kind]
            count = needed(need, self._state)
            if self._is_same_pcie:
                count = max(count, len(switches))
            devices = self._take_secondary(need, count, switches)
            if isinstance(devices, DeviceRejection):
                return devices
            if self._is_same_pcie and switches_of(devices, self._state) != switches:
                return DeviceRejection(NOT_JOINT, note=_not_under(devices, switches))
            taken[kind] = devices
        return taken

    def _take_secondary(
        self, need: DeviceNeed, count: int, switches: frozenset[str]
    ) -> PodDevices | DeviceRejection:
        found = self._found[need.type]
        if need.type == GPU_TYPE:
            return self._take(need, found)
        return self._take_others(need, count, found, switches)

    def _with_all_types(self, types: tuple[str, ...], found: Candidates) -> Candidates:
        """Those under whose PCIe switch something of each of the other types has room."""
        switches = [self._switches_with_room(self._needs.by_type[kind]) for kind in types]
        return {
            minor: one
            for minor, one in found.items()
            if one.device.topology is not None
            and all(one.device.topology.pcie in there for there in switches)
        }

    def _switches_with_room(self, need: DeviceNeed) -> frozenset[str]:
        rooms = (one for one in self._found[need.type].values() if one.has_room(need.amounts))
        return frozenset(room.device.topology.pcie for room in rooms if room.device.topology)


def _not_under(devices: PodDevices, switches: frozenset[str]) -> str:
    names = ", ".join(f"{device.type} {device.minor}" for device in devices)
    return f"{names} are not under the PCIe switches {', '.join(sorted(switches))}"
