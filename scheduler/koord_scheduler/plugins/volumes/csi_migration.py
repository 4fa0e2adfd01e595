"""Volumes of drivers that were part of Kubernetes once, as CSI drivers serve them now. No IO."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from koord_scheduler.objects.node_selector import NodeRequirement
from koord_scheduler.objects.pod_volume import AzureDisk, PodVolume
from koord_scheduler.plugins.volumes.objects import PersistentVolume, VolumeSpec
from koord_scheduler.plugins.volumes.topology import Topology, label_keys

GCE_PD, AWS_EBS = "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"
AZURE_DISK, CINDER = "kubernetes.io/azure-disk", "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"
CSI_DRIVERS = {
    GCE_PD: "pd.csi.storage.gke.io",
    AWS_EBS: "ebs.csi.aws.com",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""The CSI drivers that serve volumes of in-tree plugins."""
NOT_COUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Plugins that can be migrated, too, but whose volumes Kubernetes does not count."""
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES_DELIMITER = "__"
_ZONE_KEYS = {
    GCE_PD: "topology.gke.io/zone",
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_AWS_VOLUME = re.compile(r"vol-[^/]*")


class CSIVolume(NamedTuple):
    """An attached volume: a volume of a driver."""

    driver: str
    handle: str


def in_tree_plugin(spec: VolumeSpec | PodVolume) -> str | None:
    """The in-tree plugin that a volume is of; ``None`` where it is of none that was migrated."""
    sources = {
        GCE_PD: spec.gce_persistent_disk,
        AWS_EBS: spec.aws_elastic_block_store,
        AZURE_DISK: spec.azure_disk,
        CINDER: spec.cinder,
        PORTWORX: spec.portworx_volume,
    }
    return next((name for name, source in sources.items() if source is not None), None)


def inline_volume(volume: PodVolume) -> CSIVolume | None:
    """Return the volume that a pod's own volume attaches, if any."""
    return _translated(volume, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{_disk(volume)}")


def volume_source(volume: PersistentVolume) -> CSIVolume | None:
    """Return a volume's attachment; ``None`` for none, or if CSI cannot serve it."""
    csi = volume.spec.csi
    if csi is not None:
        return (
            CSIVolume(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
        )
    return _translated(volume.spec, _gce_handle(volume))


def _translated(spec: VolumeSpec | PodVolume, gce_handle: str | None) -> CSIVolume | None:
    plugin = in_tree_plugin(spec)
    if plugin is None:
        return None
    handle: str | None = gce_handle
    if spec.aws_elastic_block_store is not None:
        handle = _aws_handle(spec.aws_elastic_block_store.volume_id)
    elif spec.azure_disk is not None:
        handle = spec.azure_disk.disk_uri if _is_managed(spec.azure_disk) else None
    elif spec.cinder is not None:
        handle = spec.cinder.volume_id
    elif spec.portworx_volume is not None:
        handle = spec.portworx_volume.volume_id
    return CSIVolume(CSI_DRIVERS[plugin], handle) if handle else None


def _disk(spec: VolumeSpec | PodVolume) -> str:
    return spec.gce_persistent_disk.pd_name if spec.gce_persistent_disk is not None else ""


def _gce_handle(volume: PersistentVolume) -> str | None:
    labels = volume.metadata.labels or {}
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "UNSPECIFIED").split(ZONES_DELIMITER)
    disk = _disk(volume.spec)
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0]}/disks/{disk}"
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1 or any(len(part) != 3 for part in parts):
        return None
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{disk}"


def _aws_handle(volume_id: str) -> str | None:
    """The volume of aws://zone/volume, or of a plain volume."""
    if not volume_id.startswith("aws://"):
        return volume_id
    name = urlsplit(volume_id).path.strip("/")
    return name if _AWS_VOLUME.fullmatch(name) else None


def _is_managed(disk: AzureDisk) -> bool:
    return disk.kind is None or disk.kind.lower() == "managed"


def migrated_topology(volume: PersistentVolume, topology: Topology | None) -> Topology | None:
    """The nodes that can use an in-tree volume through its CSI driver; ``None``: all of them."""
    key = _ZONE_KEYS.get(in_tree_plugin(volume.spec) or "")
    if key is None:
        return topology
    zone, region = _topology_labels(volume, topology)
    if _has_values(topology, zone):
        topology = _renamed(topology, zone, key)
    else:
        zones = (volume.metadata.labels or {}).get(zone, "").split(ZONES_DELIMITER)
        values = tuple(sorted({one.strip() for one in zones} - {""}))
        if values:
            within = NodeRequirement(key, "In", values)
            topology = tuple((*term, within) for term in topology or ((),))
    if region == BETA_REGION and _has_values(topology, region):
        topology = _renamed(topology, region, REGION)
    return topology


def _topology_labels(volume: PersistentVolume, topology: Topology | None) -> tuple[str, str]:
    """The labels of nodes that a volume speaks of: today's, or those of before Kubernetes 1.17."""
    for known in (label_keys(topology), (volume.metadata.labels or {}).keys()):
        if ZONE in known:
            return ZONE, REGION
        if BETA_ZONE in known:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(topology: Topology | None, key: str) -> bool:
    return any(one.values for term in topology or () for one in term if one.key == key)


def _renamed(topology: Topology | None, before: str, after: str) -> Topology:
    def rename(node_requirement: NodeRequirement) -> NodeRequirement:
        key = after if node_requirement.key == before else node_requirement.key
        return NodeRequirement(key, node_requirement.operator, node_requirement.values)

    return tuple(tuple(map(rename, term)) for term in topology or ())
