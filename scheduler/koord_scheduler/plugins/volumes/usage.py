"""A pod's usage of volumes: claims, and disks that it names itself. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.pod_volume import PodVolume
from koord_scheduler.plugins.volumes.csi_migration import CSIVolume, inline_volume
from koord_scheduler.state.pod_parts import PodPart


class UsedClaim(NamedTuple):
    """A claim by namespace/name; of an ephemeral volume also its pod, by namespace/name and uid."""

    key: str
    pod: str = ""
    uid: str = ""

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return self.key.partition("/")[2]


class UsedDisk(NamedTuple):
    """A disk that pods of one node cannot share, unless all of them only read it."""

    kind: str
    name: str
    is_read_only: bool = False


class VolumeUsage(NamedTuple):
    """The volumes of a pod: its claims in its own order, disks, and what those attach."""

    claims: tuple[UsedClaim, ...] = ()
    disks: tuple[UsedDisk, ...] = ()
    attached: tuple[CSIVolume, ...] = ()


NO_VOLUMES = VolumeUsage()
VOLUMES: PodPart[VolumeUsage] = PodPart("volumes", NO_VOLUMES)


def volume_usage(pod: PodInfo) -> VolumeUsage:
    """Return a pod's usage of volumes."""
    volumes = pod.spec.volumes
    if not volumes:
        return NO_VOLUMES
    claims = (_claim(pod, volume) for volume in volumes)
    disks = (disk for volume in volumes for disk in _disks(volume))
    attached = {inline_volume(volume) for volume in volumes} - {None}
    return VolumeUsage(
        tuple(claim for claim in claims if claim is not None),
        tuple(sorted(set(disks))),
        tuple(sorted(one for one in attached if one is not None)),
    )


def _claim(pod: PodInfo, volume: PodVolume) -> UsedClaim | None:
    metadata = pod.metadata
    if volume.persistent_volume_claim is not None:
        return UsedClaim(f"{metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
    if volume.ephemeral is not None:
        key = f"{metadata.namespace}/{metadata.name}"
        return UsedClaim(f"{key}-{volume.name}", key, metadata.uid)
    return None


def _disks(volume: PodVolume) -> Iterator[UsedDisk]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield UsedDisk("gce", gce.pd_name, gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield UsedDisk("aws", aws.volume_id)
    if (iscsi := volume.iscsi) is not None:
        yield UsedDisk("iscsi", iscsi.iqn, iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        # Images are one if they have a monitor in common.
        for monitor in rbd.monitors or ():
            yield UsedDisk("rbd", f"{monitor}/{rbd.pool}/{rbd.image}", rbd.read_only)
