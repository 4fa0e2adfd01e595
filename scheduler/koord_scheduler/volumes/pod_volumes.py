"""What becomes of a pod's claims on a node: kube-scheduler's volume binder. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from koord_model import label_selector
from koord_model.label_selector import LabelSelector

from koord_scheduler.volumes.available_volumes import AvailableVolume
from koord_scheduler.volumes.node_access import allowed_topology, storage_size
from koord_scheduler.volumes.objects import (
    SELECTED_NODE,
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord_scheduler.volumes.topology import Labels, is_reachable, label_keys
from koord_scheduler.volumes.usage import UsedClaim
from koord_scheduler.volumes.volume_objects import VolumeObjects

NO_PROVISIONER = "kubernetes.io/no-provisioner"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"


class PodVolumeClaims(NamedTuple):
    """The claims of a pod: those that have their volume, and those that wait for its node."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]


class BindingInfo(NamedTuple):
    """A claim, and the volume that is there for it."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class PodVolumes(NamedTuple):
    """What has to be done for a pod's claims once it has a node.

    ``conflict`` is the reason why it cannot have this one, "" if it can.
    """

    static_bindings: tuple[BindingInfo, ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()
    conflict: str = ""


def unusable_claim(claims: Sequence[UsedClaim], objects: VolumeObjects) -> str:
    """Why a pod with these claims can run nowhere; "" if nothing speaks against all nodes."""
    for used in claims:
        name, claim = used.name, objects.get(PersistentVolumeClaim, used.key)
        if claim is None and used.pod:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{name}"'
            )
        if claim is None:
            return not_found(used)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if not is_for_pod(used, claim):
            return not_owned(used)
    found = pod_volume_claims(claims, objects)
    return "" if found is not None else "pod has unbound immediate PersistentVolumeClaims"


def not_found(claim: UsedClaim) -> str:
    """What Kubernetes says of a claim that is not there."""
    return f'persistentvolumeclaim "{claim.name}" not found'


def not_owned(claim: UsedClaim) -> str:
    """What Kubernetes says where the claim of an ephemeral volume is somebody else's."""
    return f"PVC {claim.key} was not created for pod {claim.pod} (pod is not owner)"


def is_for_pod(used: UsedClaim, claim: PersistentVolumeClaim) -> bool:
    """Whether the claim of an ephemeral volume was made for this pod."""
    return not used.pod or claim.is_controlled_by(used.uid)


def pod_volume_claims(
    claims: Iterable[UsedClaim], objects: VolumeObjects
) -> PodVolumeClaims | None:
    """The claims of a pod; ``None`` if one should have been bound by now."""
    bound, delayed = [], []
    for used in claims:
        claim = objects.get(PersistentVolumeClaim, used.key)
        if claim is None:
            return None
        if claim.is_bound:
            bound.append(claim)
            continue
        storage_class = objects.get(StorageClass, claim.storage_class)
        if storage_class is None or not storage_class.is_delayed or claim.spec.volume_name:
            return None
        delayed.append(claim)
    return PodVolumeClaims(tuple(bound), tuple(delayed))


def deciding_labels(claims: Iterable[PersistentVolumeClaim], objects: VolumeObjects) -> set[str]:
    """The labels of nodes that decide what becomes of delayed claims."""
    found: set[str] = set()
    for claim in claims:
        available = objects.available(claim.storage_class)
        found.update(available.free.label_keys, objects.capacities(claim.storage_class).label_keys)
        for one in available.prebound.get(claim.key, {}).values():
            found |= label_keys(one.topology)
        storage_class = objects.get(StorageClass, claim.storage_class)
        if storage_class is not None:
            found |= label_keys(allowed_topology(storage_class))
    return found


def find_pod_volumes(
    claims: Sequence[PersistentVolumeClaim], node: str, labels: Labels, objects: VolumeObjects
) -> PodVolumes:
    """What has to be done for delayed claims on a node, or why they keep their pod off it."""
    selected = [claim.metadata.annotation(SELECTED_NODE) for claim in claims]
    if any(name not in (None, node) for name in selected):
        return PodVolumes(conflict=BIND_CONFLICT)
    provisions = [claim for claim, name in zip(claims, selected, strict=True) if name is not None]
    others = (claim for claim, name in zip(claims, selected, strict=True) if name is None)
    bindings: list[BindingInfo] = []
    taken: set[str] = set()
    for claim in sorted(others, key=lambda one: storage_size(one.spec.resources.requests)):
        volume = find_matching_volume(claim, labels, taken, objects)
        if volume is None:
            provisions.append(claim)
        else:
            taken.add(volume.name)
            bindings.append(BindingInfo(claim, volume))
    for claim in provisions:
        conflict = _provision_conflict(claim, labels, objects)
        if conflict:
            return PodVolumes(conflict=conflict)
    return PodVolumes(tuple(bindings), tuple(provisions))


def _provision_conflict(
    claim: PersistentVolumeClaim, labels: Labels, objects: VolumeObjects
) -> str:
    storage_class = objects.get(StorageClass, claim.storage_class)
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return BIND_CONFLICT
    if not is_reachable(allowed_topology(storage_class), labels):
        return BIND_CONFLICT
    driver = objects.get(CSIDriver, storage_class.provisioner)
    asked = (claim.spec.resources.requests or {}).get("storage")
    if asked is None or driver is None or not driver.spec.storage_capacity:
        return ""
    size = storage_size(claim.spec.resources.requests)
    most = next(objects.capacities(storage_class.name).at(labels), None)
    return "" if most is not None and most.limit >= size else NOT_ENOUGH_SPACE


def find_matching_volume(
    claim: PersistentVolumeClaim, labels: Labels, taken: set[str], objects: VolumeObjects
) -> PersistentVolume | None:
    """The volume to bind a claim to on a node with these labels; ``None``: none fits.

    One that is meant for the claim already comes first, then the smallest; of equals the first by
    name, where Kubernetes takes any.
    """
    size = storage_size(claim.spec.resources.requests)
    available = objects.available(claim.storage_class)
    uid = claim.metadata.uid
    for name in sorted(available.prebound.get(claim.key, ())):
        one = available.prebound[claim.key][name]
        meant_for = one.volume.spec.claim_ref
        if name in taken or meant_for is None or meant_for.uid not in ("", uid):
            continue
        if one.size >= size and _fits(claim, one.volume):
            return one.volume if is_reachable(one.topology, labels) else None
    for one in _selected(claim, available.free.at(labels, size)):
        if (
            one.volume.name not in taken
            and _fits(claim, one.volume)
            and _has_modes(claim, one.volume)
        ):
            return one.volume
    return None


def _selected(
    claim: PersistentVolumeClaim, volumes: Iterator[AvailableVolume]
) -> Iterator[AvailableVolume]:
    if claim.spec.selector is None:
        return volumes
    selector: LabelSelector = label_selector.parse(claim.spec.selector, "selector")
    return (one for one in volumes if selector.matches(one.volume.metadata.labels or {}))


def _fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    asked, has = claim.spec, volume.spec
    classes = asked.volume_attributes_class_name or "", has.volume_attributes_class_name or ""
    return asked.volume_mode == has.volume_mode and classes[0] == classes[1]


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
