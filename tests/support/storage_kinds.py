"""The storage objects of a random cluster, by where they are in its document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

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

STORAGE_KINDS: Mapping[str, type[StorageObject]] = {
    "pvcs": PersistentVolumeClaim,
    "pvs": PersistentVolume,
    "storageClasses": StorageClass,
    "csiNodes": CSINode,
    "csiDrivers": CSIDriver,
    "csiStorageCapacities": CSIStorageCapacity,
    "volumeAttachments": VolumeAttachment,
}


def storage_objects(cluster: Mapping[str, Any]) -> Iterator[StorageObject]:
    """All of them."""
    for name, kind in STORAGE_KINDS.items():
        for one in cluster.get(name, ()):
            yield read_storage_object(kind, json.dumps(one).encode())
