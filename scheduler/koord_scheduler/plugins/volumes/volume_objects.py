"""The storage objects of the cluster, by what the scheduler asks about them. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from koord_scheduler.plugins.volumes.assume_cache import AssumeCache
from koord_scheduler.plugins.volumes.available_volumes import AvailableVolumes
from koord_scheduler.plugins.volumes.csi_migration import (
    CSI_DRIVERS,
    NOT_COUNTED,
    CSIVolume,
    volume_source,
)
from koord_scheduler.plugins.volumes.node_access import (
    AccessibleCapacity,
    accessible_capacity,
    storage_size,
)
from koord_scheduler.plugins.volumes.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
    read_storage_object,
)
from koord_scheduler.plugins.volumes.topology import LabelIndex

_Object = TypeVar("_Object", bound=StorageObject)
_Changed = Callable[[str], None]


def _nobody(name: str) -> None:
    pass


class VolumeObjects:
    """Objects by kind and key, what is assumed of them, and indexes; ``version`` changes with each.

    ``claim_changed`` gets the key of a claim that may stand for another volume than before,
    ``node_changed`` the name of a node of which drivers or attached volumes changed.
    """

    def __init__(self, claim_changed: _Changed = _nobody, node_changed: _Changed = _nobody) -> None:
        self.version = 0
        self._claim_changed = claim_changed
        self._node_changed = node_changed
        self._objects = AssumeCache()
        # The version in which an object, or anything about a class, changed last.
        self._stamps: dict[tuple[type[StorageObject], str], int] = {}
        self._class_stamps: dict[str, int] = {}
        self._available: dict[str, AvailableVolumes] = defaultdict(AvailableVolumes)
        self._capacities: dict[str, LabelIndex[AccessibleCapacity]] = defaultdict(LabelIndex)
        # Claims by their volume, and attachments by volume and by node.
        self._claims_of: dict[str, set[str]] = defaultdict(set)
        self._attachments_of: dict[str, set[str]] = defaultdict(set)
        self._attachments_on: dict[str, set[str]] = defaultdict(set)

    def set(self, storage_object: StorageObject) -> None:
        """An object of the API that was read, in place of the one with its key."""
        before = self.get(type(storage_object), storage_object.key)
        self._change(before, self._objects.set(storage_object))

    def remove(self, kind: type[StorageObject], key: str) -> None:
        """The API does not have an object any more."""
        before = self.get(kind, key)
        self._objects.remove(kind, key)
        self._change(before, None)

    def assume(self, storage_object: StorageObject) -> None:
        """An object that the API has will be so."""
        before = self.get(type(storage_object), storage_object.key)
        self._objects.assume(storage_object)
        self._change(before, storage_object)

    def restore(self, kind: type[StorageObject], key: str) -> None:
        """Nothing is assumed of an object any more."""
        before, after = self.get(kind, key), self._objects.restore(kind, key)
        if after is not before:
            self._change(before, after)

    def get(self, kind: type[_Object], key: str) -> _Object | None:
        """An object, as it is assumed if it is; ``None`` if there is no such."""
        return self._objects.get(kind, key)

    def stored(self, kind: type[_Object], key: str) -> _Object | None:
        """An object as the API has it; ``None`` if there is no such."""
        return self._objects.stored(kind, key)

    def available(self, storage_class: str) -> AvailableVolumes:
        """The volumes of a class that claims can be bound to."""
        return self._available[storage_class]

    def capacities(self, storage_class: str) -> LabelIndex[AccessibleCapacity]:
        """Return the rest of a class's capacities, the most first."""
        return self._capacities[storage_class]

    def attached_by(self, claim: str) -> CSIVolume | None:
        """Return the volume that a pod with a claim attaches; ``None``: none that counts.

        A claim without its volume yet counts as one volume of the driver of its class.
        """
        found = self.get(PersistentVolumeClaim, claim)
        if found is None:
            return None
        volume = self.get(PersistentVolume, found.spec.volume_name)
        if volume is not None:
            return volume_source(volume)
        storage_class = self.get(StorageClass, found.storage_class)
        if storage_class is None or storage_class.provisioner in NOT_COUNTED:
            return None
        driver = CSI_DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        return CSIVolume(driver, f"claim {claim}") if driver else None

    def attached_to(self, node: str) -> frozenset[CSIVolume]:
        """The volumes that VolumeAttachments say are on a node."""
        found = []
        for name in self._attachments_on.get(node, ()):
            one = self.get(VolumeAttachment, name)
            if one is None or not one.spec.attacher:
                continue
            volume = self.get(PersistentVolume, one.spec.source.persistent_volume_name or "")
            if volume is not None and volume.spec.csi is not None:
                found.append(CSIVolume(one.spec.attacher, volume.spec.csi.volume_handle))
        return frozenset(found)

    def stamps(self, claims: Iterable[str]) -> Hashable:
        """Something that becomes another when anything behind these claims changes."""
        return tuple(map(self._stamp, claims))

    def _stamp(self, claim: str) -> Hashable:
        found = self.get(PersistentVolumeClaim, claim)
        if found is None:
            return None
        of_volume = self._stamps.get((PersistentVolume, found.spec.volume_name))
        of_class = None if of_volume else self._class_stamps.get(found.storage_class)
        return self._stamps[PersistentVolumeClaim, claim], of_volume, of_class

    def _change(self, before: StorageObject | None, after: StorageObject | None) -> None:
        one = before if after is None else after
        if one is None:
            return
        self.version += 1
        if after is None:
            self._stamps.pop((type(one), one.key), None)
        else:
            self._stamps[type(one), one.key] = self.version
        if before is not None:
            self._index(before, add=False)
        if after is not None:
            self._index(after, add=True)
        self._notify(one)
        if isinstance(before, VolumeAttachment):  # another of its name may be elsewhere
            self._node_changed(before.spec.node_name)

    def _index(self, storage_object: StorageObject, *, add: bool) -> None:
        match storage_object:
            case PersistentVolumeClaim():
                _put(self._claims_of, storage_object.spec.volume_name, storage_object.key, add=add)
            case PersistentVolume():
                available = self._available[storage_object.storage_class]
                (available.add if add else available.remove)(storage_object)
                self._class_stamps[storage_object.storage_class] = self.version
            case CSIStorageCapacity():
                capacity = accessible_capacity(storage_object)
                if capacity is not None:
                    capacities = self._capacities[storage_object.storage_class_name]
                    (capacities.add if add else capacities.remove)(capacity)
                self._class_stamps[storage_object.storage_class_name] = self.version
            case VolumeAttachment():
                volume = storage_object.spec.source.persistent_volume_name or ""
                _put(self._attachments_of, volume, storage_object.key, add=add)
                _put(
                    self._attachments_on, storage_object.spec.node_name, storage_object.key, add=add
                )

    def _notify(self, storage_object: StorageObject) -> None:
        match storage_object:
            case PersistentVolumeClaim():
                self._claim_changed(storage_object.key)
            case PersistentVolume():
                for claim in self._claims_of.get(storage_object.name, ()):
                    self._claim_changed(claim)
                for name in self._attachments_of.get(storage_object.name, ()):
                    attachment = self.get(VolumeAttachment, name)
                    if attachment is not None:
                        self._node_changed(attachment.spec.node_name)
            case StorageClass():
                self._notify_class(storage_object.name)
            case CSIDriver():
                self._notify_driver(storage_object.name)
            case CSINode():
                self._node_changed(storage_object.name)
            case VolumeAttachment():
                self._node_changed(storage_object.spec.node_name)

    def _notify_class(self, name: str) -> None:
        """Seldom, so that claims by class need no index."""
        self._class_stamps[name] = self.version
        for claim in self._objects.all_of(PersistentVolumeClaim):
            if claim.storage_class == name:
                self._claim_changed(claim.key)

    def _notify_driver(self, name: str) -> None:
        for one in self._objects.all_of(StorageClass):
            if one.provisioner == name:
                self._class_stamps[one.name] = self.version


def _put(index: dict[str, set[str]], key: str, value: str, *, add: bool) -> None:
    """Put a value in an index or out of it; nothing is under "" ."""
    if add and key:
        index[key].add(value)
    elif key in index:
        index[key].discard(value)
        if not index[key]:
            del index[key]


def read_valid_storage_object(kind: type[_Object], text: bytes) -> _Object:
    """As ``read_storage_object``, of which quantities and selectors can be used, too.

    Raises:
        ValueError: it is not one, or one of them is not.
    """
    found = read_storage_object(kind, text)
    match found:
        case PersistentVolume():
            storage_size(found.spec.capacity)
        case PersistentVolumeClaim():
            storage_size(found.spec.resources.requests)
        case CSIStorageCapacity():
            accessible_capacity(found)
    return found
