"""A pod's volumes as the scheduler reads them: claims, images and disks. No IO."""

from __future__ import annotations

import msgspec


class ClaimSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A PersistentVolumeClaim of the pod's namespace."""

    claim_name: str = ""


class EphemeralSource(msgspec.Struct, frozen=True, gc=False):
    """A claim that is made for the pod; what it asks for stands in the claim itself."""


class ImageSource(msgspec.Struct, frozen=True, gc=False):
    """A container image as a volume."""

    reference: str = ""


class GCEPersistentDisk(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(msgspec.Struct, frozen=True, gc=False):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(msgspec.Struct, frozen=True, gc=False):
    """A disk of Azure; migration to CSI supports the kind Managed alone."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderVolume(msgspec.Struct, frozen=True, gc=False):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSIVolume(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A disk that iSCSI serves."""

    iqn: str = ""
    read_only: bool = False


class RBDVolume(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An image of Ceph."""

    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class PodVolume(msgspec.Struct, frozen=True, rename="camel"):
    """A volume by its source; other sources do not decide where a pod runs.

    The ``name`` is kept of an ephemeral volume only, as its claim is named after it. Names of
    service account tokens are unique, and would make each pod another one.
    """

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    image: ImageSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: ISCSIVolume | None = None
    rbd: RBDVolume | None = None

    def __post_init__(self) -> None:
        if self.ephemeral is None:
            msgspec.structs.force_setattr(self, "name", "")
