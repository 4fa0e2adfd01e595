"""Binding a pod's claims to volumes: what is assumed, written, and waited for. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from koord_scheduler.plugins.volumes.csi_migration import in_tree_plugin, volume_source
from koord_scheduler.plugins.volumes.node_access import volume_topology
from koord_scheduler.plugins.volumes.objects import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageMeta,
    StorageObject,
)
from koord_scheduler.plugins.volumes.pod_volumes import PodVolumes
from koord_scheduler.plugins.volumes.topology import Labels, is_reachable
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects

_Object = TypeVar("_Object", bound=StorageObject)


class VolumeWrite(NamedTuple):
    """A volume or a claim as it is assumed to be, and the merge patch that makes it so.

    The patch names the resource version: it fails if the object has changed meanwhile.
    """

    assumed: PersistentVolume | PersistentVolumeClaim
    patch: dict[str, Any]


class AssumedVolumes(NamedTuple):
    """Assumed bindings of a pod's volumes, and the writes to the API for them.

    If ``volumes`` has anything in it, the pod may be bound once ``check_bindings`` says that its
    claims are.
    """

    volumes: PodVolumes
    writes: tuple[VolumeWrite, ...]


class BindingProgress(NamedTuple):
    """Progress of claims' bindings; with ``failure`` the pod has to be placed anew."""

    is_complete: bool
    failure: str = ""


def reserve_volumes(volumes: PodVolumes, node: str, objects: VolumeObjects) -> AssumedVolumes:
    """Take a pod's claims for bound, or for those of its node: no other pod gets its volumes."""
    writes: list[VolumeWrite] = []
    for claim, volume in volumes.static_bindings:
        bound, patch = _bound_volume(volume, claim)
        if patch:
            writes.append(VolumeWrite(bound, patch))
    for claim in volumes.dynamic_provisions:
        annotations = {SELECTED_NODE: node}
        patch = {"metadata": {**_version(claim), "annotations": annotations}}
        writes.append(VolumeWrite(_annotated(claim, annotations), patch))
    for write in writes:
        objects.assume(write.assumed)
    return AssumedVolumes(volumes, tuple(writes))


def unreserve_volumes(reservation: AssumedVolumes, objects: VolumeObjects) -> None:
    """Undo what was assumed for a pod, as far as the API does not say otherwise already."""
    for write in reservation.writes:
        kind, key = type(write.assumed), write.assumed.key
        if objects.get(kind, key) is write.assumed:
            objects.restore(kind, key)


def check_bindings(
    volumes: PodVolumes,
    versions: Mapping[str, str],
    node: str,
    labels: Labels,
    objects: VolumeObjects,
) -> BindingProgress:
    """Check the claims of a pod on a node with these labels, after all was written.

    ``versions`` are the resource versions that the writes returned, by key.
    """
    csi_node = objects.get(CSINode, node)
    migrated = csi_node.migrated_plugins if csi_node is not None else frozenset[str]()

    def can_use(volume: PersistentVolume) -> bool:
        if in_tree_plugin(volume.spec) in migrated and volume_source(volume) is None:
            return False
        return is_reachable(volume_topology(volume, migrated), labels)

    for claim, volume in volumes.static_bindings:
        progress = _static_progress(claim, volume, versions, can_use, objects)
        if not progress.is_complete:
            return progress
    for claim in volumes.dynamic_provisions:
        progress = _provision_progress(claim, versions, node, can_use, objects)
        if not progress.is_complete:
            return progress
    return BindingProgress(is_complete=True)


_WAITING = BindingProgress(is_complete=False)


def _failed(why: str) -> BindingProgress:
    return BindingProgress(is_complete=False, failure=why)


def _static_progress(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    versions: Mapping[str, str],
    can_use: Callable[[PersistentVolume], bool],
    objects: VolumeObjects,
) -> BindingProgress:
    now = objects.stored(PersistentVolume, volume.key)
    claim_now = objects.stored(PersistentVolumeClaim, claim.key)
    if now is None or claim_now is None:
        return _failed(f"{(claim if now else volume).key} is gone")
    if _is_outdated(now, versions):
        return _WAITING
    if not can_use(now):
        return _failed(f"volume {now.name} cannot be used on the node")
    if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
        return _failed(f"volume {now.name} is not for the claim any more")
    return BindingProgress(claim_now.is_bound)


def _provision_progress(
    claim: PersistentVolumeClaim,
    versions: Mapping[str, str],
    node: str,
    can_use: Callable[[PersistentVolume], bool],
    objects: VolumeObjects,
) -> BindingProgress:
    now = objects.stored(PersistentVolumeClaim, claim.key)
    if now is None:
        return _failed(f"claim {claim.key} is gone")
    if _is_outdated(now, versions):
        return _WAITING
    if now.metadata.annotation(SELECTED_NODE) != node:
        # How a provisioner says that it cannot.
        return _failed(f"no volume could be provisioned for claim {claim.key}")
    if now.spec.volume_name:
        volume = objects.stored(PersistentVolume, now.spec.volume_name)
        if volume is None:
            return _WAITING
        if not can_use(volume):
            return _failed(f"volume {volume.name} cannot be used on the node")
    return BindingProgress(now.is_bound)


def _bound_volume(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, dict[str, Any]]:
    """The volume as it is once it is bound to the claim, and a patch that says so if needed."""
    metadata, before = claim.metadata, volume.spec.claim_ref
    wanted = ClaimReference(metadata.namespace, metadata.name, metadata.uid)
    # A user may have bound it beforehand.
    by_user = before is not None and _with_uid(before, metadata.uid) == wanted
    is_annotated = by_user or volume.metadata.annotation(BOUND_BY_CONTROLLER) is not None
    patch: dict[str, Any] = {}
    if not is_annotated:
        annotations = {BOUND_BY_CONTROLLER: "yes"}
        volume = _annotated(volume, annotations)
        patch["metadata"] = {"annotations": annotations}
    if before != wanted:
        volume = msgspec.structs.replace(
            volume, spec=msgspec.structs.replace(volume.spec, claim_ref=wanted)
        )
        patch["spec"] = {"claimRef": _claim_reference(claim)}
    if patch:
        patch["metadata"] = {**_version(volume), **patch.get("metadata", {})}
    return volume, patch


def _with_uid(reference: ClaimReference, uid: str) -> ClaimReference:
    return ClaimReference(reference.namespace, reference.name, reference.uid or uid)


def _claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }


def _version(storage_object: StorageObject) -> dict[str, str]:
    return {"resourceVersion": storage_object.metadata.resource_version}


def _annotated(one: _Object, annotations: Mapping[str, str]) -> _Object:
    metadata: StorageMeta = one.metadata
    both = {**(metadata.annotations or {}), **annotations}
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(metadata, annotations=both)
    )


def _is_outdated(storage_object: StorageObject, versions: Mapping[str, str]) -> bool:
    """True if the API had a newer version of it when it was written."""
    written = versions.get(storage_object.key)
    return written is not None and int(storage_object.metadata.resource_version) < int(written)
