"""Pods' usage of volumes, and the number of volumes attached to each node. No IO."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np
from koord_kube.protocol.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    Resource,
)
from koord_kube.protocol.resources import VOLUMES as VOLUME_OBJECTS

from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.volumes.csi_migration import CSIVolume
from koord_scheduler.plugins.volumes.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from koord_scheduler.plugins.volumes.usage import (
    NO_VOLUMES,
    VOLUMES,
    UsedDisk,
    VolumeUsage,
    volume_usage,
)
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects, read_valid_storage_object
from koord_scheduler.state.arrays import Amounts, Mask, lengthened
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_usage import PodUsage

_Key = TypeVar("_Key", int, bool)
_STORAGE: Mapping[Resource, type[StorageObject]] = {
    VOLUME_OBJECTS: PersistentVolume,
    VOLUME_CLAIMS: PersistentVolumeClaim,
    STORAGE_CLASSES: StorageClass,
    CSI_NODES: CSINode,
    CSI_DRIVERS: CSIDriver,
    CSI_STORAGE_CAPACITIES: CSIStorageCapacity,
    VOLUME_ATTACHMENTS: VolumeAttachment,
}


class VolumeColumns(FeatureState):
    """Storage ``objects`` of the cluster; claims and disks by the rows whose pods use them.

    ``attached[d]`` is how many volumes of driver d each row has, each once: those of its pods, and
    those that VolumeAttachments name. ``limits[d]`` is how many it may have. ``migrated[p]`` is
    where nodes have said that a CSI driver serves the volumes of the in-tree plugin p.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.attached: dict[str, Amounts] = {}
        self._number: Counter[str] = Counter()
        self.limits: dict[str, Amounts] = {}
        self.migrated: dict[str, Mask] = {}
        self._length = len(nodes)
        self.objects = VolumeObjects(self._claim_changed, self._volumes_of_node_changed)
        self._claims: dict[str, Counter[int]] = {}
        self._volume_of: dict[str, CSIVolume | None] = {}
        self._disks: dict[tuple[str, str], dict[int, Counter[bool]]] = defaultdict(dict)
        self._by_pods: dict[CSIVolume, Counter[int]] = defaultdict(Counter)
        self._by_attachments: dict[int, frozenset[CSIVolume]] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have nothing yet."""
        self._length = length
        self.attached = {name: lengthened(one, length, 0) for name, one in self.attached.items()}
        self.limits = {
            name: lengthened(limit, length, np.inf) for name, limit in self.limits.items()
        }
        self.migrated = {
            name: lengthened(one, length, fill=False) for name, one in self.migrated.items()
        }

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        for resource, kind in _STORAGE.items():
            yield ClusterKind(
                resource,
                kind,
                partial(read_valid_storage_object, kind),
                lambda _, found: self.objects.set(found),
                partial(self.objects.remove, kind),
                has_decisions=resource in (VOLUME_OBJECTS, VOLUME_CLAIMS),
            )

    def signature(self, pod: PodInfo) -> object:
        # The claim of an ephemeral volume is the pod's own.
        has_own = any(volume.ephemeral is not None for volume in pod.spec.volumes or ())
        return (pod.metadata.name, pod.metadata.uid) if has_own else ()

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield VOLUMES, volume_usage(pod)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        yield VOLUMES, volume_usage(pod)

    def set_row(self, row: int, name: str) -> None:
        self._set_node(row, name)

    def _claim_changed(self, claim: str) -> None:
        for row in self._set_claim(claim):
            self._nodes.journal.add(row)

    def _volumes_of_node_changed(self, name: str) -> None:
        row = self._nodes.row(name)
        if row is not None:
            self._set_node(row, name)
            self._nodes.journal.add(row)

    def count(self, row: int, usage: PodUsage) -> None:
        volumes = usage.of(VOLUMES)
        if volumes is not NO_VOLUMES:
            self._add(row, volumes)

    def uncount(self, row: int, usage: PodUsage) -> None:
        volumes = usage.of(VOLUMES)
        if volumes is not NO_VOLUMES:
            self._remove(row, volumes)

    def _add(self, row: int, usage: VolumeUsage) -> None:
        """A pod uses volumes on a row's node."""
        for claim in usage.claims:
            if claim.key not in self._claims:
                self._claims[claim.key] = Counter()
                self._volume_of[claim.key] = self.objects.attached_by(claim.key)
            self._claims[claim.key][row] += 1
            self._attach(row, self._volume_of[claim.key], 1)
        for volume in usage.attached:
            self._attach(row, volume, 1)
        for kind, name, is_read_only in usage.disks:
            self._disks[kind, name].setdefault(row, Counter())[is_read_only] += 1

    def _remove(self, row: int, usage: VolumeUsage) -> None:
        """A pod does not use volumes on a row's node any more."""
        for claim in usage.claims:
            self._attach(row, self._volume_of[claim.key], -1)
            _decrement(self._claims[claim.key], row)
            if not self._claims[claim.key]:
                del self._claims[claim.key], self._volume_of[claim.key]
        for volume in usage.attached:
            self._attach(row, volume, -1)
        for kind, name, is_read_only in usage.disks:
            rows = self._disks[kind, name]
            _decrement(rows[row], is_read_only)
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._disks[kind, name]

    def _set_node(self, row: int, name: str) -> None:
        """A row has a node of this name, or its drivers or VolumeAttachments have changed."""
        before = self._by_attachments.pop(row, frozenset())
        now = self.objects.attached_to(name)
        for volume in before | now:
            was_there = volume in before or row in self._by_pods.get(volume, ())
            is_there = volume in now or row in self._by_pods.get(volume, ())
            self._count(volume.driver, row, is_there - was_there)
        if now:
            self._by_attachments[row] = now
        for limits in self.limits.values():
            limits[row] = np.inf
        for migrated in self.migrated.values():
            migrated[row] = False
        node = self.objects.get(CSINode, name)
        if node is None:
            return
        for plugin in node.migrated_plugins:
            self.migrated.setdefault(plugin, np.zeros(self._length, np.bool_))[row] = True
        for driver in node.spec.drivers or ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self._limits(driver.name)[row] = driver.allocatable.count

    def _set_claim(self, claim: str) -> Iterable[int]:
        """Update a claim whose volume may have changed; return the rows where that matters."""
        if claim not in self._claims:
            return ()
        before, now = self._volume_of[claim], self.objects.attached_by(claim)
        if before == now:
            return ()
        self._volume_of[claim] = now
        for row, pods in self._claims[claim].items():
            self._attach(row, before, -pods)
            self._attach(row, now, pods)
        return [*self._claims[claim]]

    def rows_using(self, claim: str) -> Iterable[int]:
        """The rows with pods that use a claim."""
        return self._claims.get(claim, ())

    def rows_with(self, volume: CSIVolume) -> list[int]:
        """The rows with pods that have a volume attached."""
        return [*self._by_pods.get(volume, ())]

    def rows_in_conflict(self, disk: UsedDisk) -> list[int]:
        """The rows where a disk is in use, unless that and this use only read it."""
        rows = self._disks.get((disk.kind, disk.name), {})
        return [row for row, used in rows.items() if used[False] or not disk.is_read_only]

    def _attach(self, row: int, volume: CSIVolume | None, pods: int) -> None:
        if volume is None:
            return
        rows = self._by_pods[volume]
        was_there = row in rows
        rows[row] += pods
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._by_pods[volume]
        if volume not in self._by_attachments.get(row, ()):
            self._count(volume.driver, row, (row in rows) - was_there)

    def _count(self, driver: str, row: int, more: int) -> None:
        """So many volumes of a driver more are attached; pods may name any driver."""
        if not more:
            return
        if driver not in self.attached:
            self.attached[driver] = np.zeros(self._length)
        self.attached[driver][row] += more
        self._number[driver] += more
        if not self._number[driver]:
            del self.attached[driver], self._number[driver]

    def _limits(self, driver: str) -> Amounts:
        if driver not in self.limits:
            self.limits[driver] = np.full(self._length, np.inf)
        return self.limits[driver]


def _decrement(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def claim_stamps(pod: PodClass, nodes: ClusterState) -> Callable[[], Hashable] | None:
    """Something that becomes another when anything behind a pod's claims changes."""
    keys = [claim.key for claim in pod.of(VOLUMES).claims]
    return partial(nodes.use(VolumeColumns).objects.stamps, keys) if keys else None
