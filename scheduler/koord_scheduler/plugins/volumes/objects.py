"""The storage objects of the API, with what decides where pods run. No IO."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import Quantities

from koord_scheduler.objects.metadata import ObjectMeta
from koord_scheduler.objects.pod_volume import (
    AWSElasticBlockStore,
    AzureDisk,
    CinderVolume,
    GCEPersistentDisk,
    PortworxVolume,
)

Document = dict[str, Any]

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class StorageMeta(ObjectMeta, frozen=True, rename="camel", gc=False):
    """Metadata of a storage object."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None

    def annotation(self, key: str) -> str | None:
        """An annotation; ``None`` if there is no such."""
        return (self.annotations or {}).get(key)


class StorageObject(msgspec.Struct, frozen=True):
    """Common part of all storage objects."""

    metadata: StorageMeta = StorageMeta()

    @property
    def name(self) -> str:
        """The name."""
        return self.metadata.name

    @property
    def key(self) -> str:
        """The namespace/name, or the name where there is no namespace."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is for; without ``uid`` a user has said so beforehand."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSISource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True):
    """The nodes that can use a volume, as the API has it."""

    required: Document | None = None


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Specification of a volume."""

    capacity: Quantities | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None


class VolumePhase(msgspec.Struct, frozen=True, gc=False):
    """Phase of a volume or a claim: Available, Pending, Bound, Lost."""

    phase: str = ""


class PersistentVolume(StorageObject, frozen=True):
    """A volume of the cluster."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumePhase = VolumePhase()

    @property
    def storage_class(self) -> str:
        """The name of its class, "" for none."""
        beta = self.metadata.annotation(_BETA_CLASS)
        return self.spec.storage_class_name if beta is None else beta


class ResourceRequests(msgspec.Struct, frozen=True):
    """Requests of a claim."""

    requests: Quantities | None = None


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Specification of a claim, and its volume."""

    access_modes: list[str] | None = None
    resources: ResourceRequests = ResourceRequests()
    selector: Document | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(StorageObject, frozen=True):
    """A claim of a pod to a volume."""

    spec: ClaimSpec = ClaimSpec()
    status: VolumePhase = VolumePhase()

    @property
    def storage_class(self) -> str:
        """The name of its class, "" for none."""
        beta = self.metadata.annotation(_BETA_CLASS)
        return (self.spec.storage_class_name or "") if beta is None else beta

    @property
    def is_bound(self) -> bool:
        """True if it has its volume for good."""
        return bool(self.spec.volume_name) and self.metadata.annotation(BIND_COMPLETED) is not None

    def is_controlled_by(self, uid: str) -> bool:
        """True if an object with this uid manages it."""
        return any(
            one.controller and one.uid == uid for one in self.metadata.owner_references or ()
        )


class TopologyRequirement(msgspec.Struct, frozen=True):
    """A label of nodes, and the values that it may have."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(msgspec.Struct, frozen=True, rename="camel"):
    """Requirements that have to hold together; none mean no node."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(StorageObject, frozen=True, rename="camel"):
    """Provisioning of a class's volumes; the topologies are alternatives."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None

    @property
    def is_delayed(self) -> bool:
        """True if its claims wait for a pod with a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


class NodeDriverResources(msgspec.Struct, frozen=True, gc=False):
    """Limit of a driver's volumes on a node; ``None``: none."""

    count: int | None = None


class NodeDriver(msgspec.Struct, frozen=True, gc=False):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: NodeDriverResources | None = None


class CSINodeSpec(msgspec.Struct, frozen=True):
    """The drivers on a node."""

    drivers: list[NodeDriver] | None = None


class CSINode(StorageObject, frozen=True):
    """CSI drivers of the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """The in-tree plugins whose volumes CSI drivers serve on this node."""
        names = self.metadata.annotation(MIGRATED_PLUGINS)
        return frozenset(names.split(",")) if names else frozenset()


class CSIDriverSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Features of a driver."""

    storage_capacity: bool = False


class CSIDriver(StorageObject, frozen=True):
    """A CSI driver; with ``storage_capacity`` it says how much it can provision where."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(StorageObject, frozen=True, rename="camel"):
    """Capacity of a class that can be provisioned for the nodes that a label selector selects."""

    storage_class_name: str = ""
    node_topology: Document | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Attached volume."""

    persistent_volume_name: str | None = None


class AttachmentSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Attachment: its volume, node and driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(StorageObject, frozen=True):
    """A volume that is attached to a node, or is to be."""

    spec: AttachmentSpec = AttachmentSpec()


_T = TypeVar("_T", bound=StorageObject)
_DECODERS: dict[type[StorageObject], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in StorageObject.__subclasses__()
}


def read_storage_object(kind: type[_T], text: bytes) -> _T:
    """The object of a kind (PersistentVolume, StorageClass, …) in a JSON document.

    Raises:
        ValueError: it is not one.
    """
    found: _T = decode_view(_DECODERS[kind], text, f"a valid {kind.__name__}")
    return found
