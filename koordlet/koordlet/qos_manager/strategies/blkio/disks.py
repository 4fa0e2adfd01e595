"""Disk of a device, a volume group or a pod's volume. No IO.

Limits are of whole disks: the kernel takes no partition, and knows a logical volume's disk
better than its volume. What lies on several disks is limited itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from koord_model.blkio_qos import BlockQoS, BlockType
from koord_model.node_info import LocalStorage

# Wherever the kubelet's directory is: "…/pods/<uid>/volumes/kubernetes.io~csi/<name>/mount".
_VOLUME = re.compile(r".*/pods/([^/]+)/volumes/[^/]+/([^/]+?)(?:/mount)?")


@dataclass(frozen=True)
class Disks:
    """The node's disks; ``volumes`` are paths of devices by pod UID and volume name.

    A volume's name is that of its directory: of a persistent one the PersistentVolume's.
    """

    storage: LocalStorage
    volumes: Mapping[tuple[str, str], str]

    def number(self, block: BlockQoS, uid: str = "") -> str | None:
        """The number ("253:16") of the disk that a block names; ``None``: there is none.

        ``uid`` is of the pod whose volumes are meant.
        """
        if block.type is BlockType.VOLUME_GROUP:
            path = self.storage.volume_groups.get(block.name)
        elif block.type is BlockType.POD_VOLUME:
            path = self.volumes.get((uid, block.name))
        else:
            path = block.name
        if path is None:
            return None
        return self.storage.numbers.get(self.storage.parents.get(path, path))


def disks(storage: LocalStorage) -> Disks:
    """The disks of a node."""
    paths = {number: path for path, number in storage.numbers.items()}
    volumes = {}
    for point, number in storage.mounts.items():
        match = _VOLUME.fullmatch(point)
        if match is not None and number in paths:
            volumes[match[1], match[2]] = paths[number]
    return Disks(storage, volumes)
