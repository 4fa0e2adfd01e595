"""The volumes of a class that claims can be bound to, the smallest first. No IO."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from koord_kube.views.pod import Quantities
from koord_model.quantity import nano

from koord_scheduler.volumes.csi_migration import Topology
from koord_scheduler.volumes.objects import PersistentVolume
from koord_scheduler.volumes.topology import Labels, is_reachable, label_keys, volume_topology

_ANYWHERE = ("", "")


class AvailableVolume(NamedTuple):
    """A volume, sorted by its size (billionths of a byte), and by name among equals."""

    capacity: int
    name: str
    topology: Topology | None
    volume: PersistentVolume


class AvailableVolumes:
    """Volumes of one class.

    ``prebound`` has, by the key of a claim, those that are meant for it. All others lie under each
    value of a label that a node needs to reach them: most volumes belong to one node or zone, and
    nobody looks at those of the others.
    """

    def __init__(self) -> None:
        self.prebound: dict[str, dict[str, AvailableVolume]] = defaultdict(dict)
        self.label_keys: Counter[str] = Counter()
        self._by_label: dict[tuple[str, str], list[AvailableVolume]] = {}
        self._keys: Counter[str] = Counter()

    def add(self, volume: PersistentVolume) -> None:
        """A volume is there.

        Raises:
            ValueError: its capacity is not a quantity.
        """
        self._change(volume, 1)

    def remove(self, volume: PersistentVolume) -> None:
        """A volume is gone, or about to change."""
        self._change(volume, -1)

    def at(self, labels: Labels, least: int) -> Iterator[AvailableVolume]:
        """The volumes of at least this size that a node with these labels can use, in order."""
        places = ((key, labels[key]) for key in self._keys if key in labels)
        lists = [self._by_label.get(place, ()) for place in (_ANYWHERE, *places)]
        parts = (one[bisect_left(one, (least,)) :] for one in lists if one)
        volumes = heapq.merge(*parts, key=_order)
        return (one for one in volumes if is_reachable(one.topology, labels))

    def _change(self, volume: PersistentVolume, number: int) -> None:
        if volume.metadata.deletion_timestamp is not None:
            return
        capacity = storage_size(volume.spec.capacity)
        one = AvailableVolume(capacity, volume.name, volume_topology(volume), volume)
        claim = volume.spec.claim_ref
        if claim is not None:
            self._prebind(f"{claim.namespace}/{claim.name}", one, number)
        elif volume.status.phase == "Available":
            for place in _places(one.topology):
                self._place(place, one, number)
        else:
            return
        self.label_keys.update({key: number for key in set(label_keys(one.topology))})
        self.label_keys += Counter()

    def _prebind(self, claim: str, one: AvailableVolume, number: int) -> None:
        if number > 0:
            self.prebound[claim][one.name] = one
            return
        del self.prebound[claim][one.name]
        if not self.prebound[claim]:
            del self.prebound[claim]

    def _place(self, place: tuple[str, str], one: AvailableVolume, number: int) -> None:
        volumes = self._by_label.setdefault(place, [])
        if number > 0:
            insort(volumes, one, key=_order)
        else:
            del volumes[bisect_left(volumes, _order(one), key=_order)]
        if place is not _ANYWHERE:
            self._keys[place[0]] += number
        if not volumes:
            del self._by_label[place]
        self._keys += Counter()


def storage_size(quantities: Quantities | None) -> int:
    """How much storage there is or is asked for, in billionths of a byte.

    Raises:
        ValueError: it is not a quantity.
    """
    return nano((quantities or {}).get("storage") or 0)


def _order(one: AvailableVolume) -> tuple[int, str]:
    return one.capacity, one.name


def _places(topology: Topology | None) -> set[tuple[str, str]]:
    """Labels, one of which each node has that can use a volume."""
    found: set[tuple[str, str]] = set()
    for term in (((),) if topology is None else topology):
        within = next((one for one in term if one.operator == "In"), None)
        if within is None:
            return {_ANYWHERE}
        found.update((within.key, value) for value in within.values)
    return found
