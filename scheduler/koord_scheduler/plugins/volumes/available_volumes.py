"""The volumes of a class that claims can be bound to, the smallest first. No IO."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from koord_scheduler.plugins.volumes.node_access import storage_size, volume_topology
from koord_scheduler.plugins.volumes.objects import PersistentVolume
from koord_scheduler.plugins.volumes.topology import LabelIndex, Topology


class AvailableVolume(NamedTuple):
    """A volume with its size in billionths of a byte, and the nodes that can use it."""

    size: int
    topology: Topology | None
    volume: PersistentVolume

    @property
    def order(self) -> tuple[int, str]:
        """By size, and by name among equals."""
        return self.size, self.volume.name


class AvailableVolumes:
    """Volumes of one class: ``free`` ones, and by a claim's key those that are meant for it."""

    def __init__(self) -> None:
        self.free: LabelIndex[AvailableVolume] = LabelIndex()
        self.prebound: dict[str, dict[str, PersistentVolume]] = defaultdict(dict)

    def add(self, volume: PersistentVolume) -> None:
        """A volume is there.

        Raises:
            ValueError: its capacity is not a quantity.
        """
        self._change(volume, add=True)

    def remove(self, volume: PersistentVolume) -> None:
        """A volume is gone, or about to change."""
        self._change(volume, add=False)

    def _change(self, volume: PersistentVolume, *, add: bool) -> None:
        if volume.metadata.deletion_timestamp is not None:
            return
        claim = volume.spec.claim_ref
        if claim is not None:
            self._prebind(f"{claim.namespace}/{claim.name}", volume, add=add)
        elif volume.status.phase == "Available":
            size = storage_size(volume.spec.capacity)
            one = AvailableVolume(size, volume_topology(volume), volume)
            (self.free.add if add else self.free.remove)(one)

    def _prebind(self, claim: str, volume: PersistentVolume, *, add: bool) -> None:
        if add:
            self.prebound[claim][volume.name] = volume
            return
        del self.prebound[claim][volume.name]
        if not self.prebound[claim]:
            del self.prebound[claim]
