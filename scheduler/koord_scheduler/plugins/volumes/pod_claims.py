"""A pod's claims, and why they may keep it off all nodes. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from koord_scheduler.plugins.volumes.objects import PersistentVolumeClaim, StorageClass
from koord_scheduler.plugins.volumes.usage import UsedClaim
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects


class PodVolumeClaims(NamedTuple):
    """The claims of a pod: those that have their volume, and those that wait for its node."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]


def unusable_claim(claims: Sequence[UsedClaim], objects: VolumeObjects) -> str:
    """Return why a pod with these claims can run nowhere; "" if nothing rules out all nodes."""
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
    """Return Kubernetes' message about a claim that is not there."""
    return f'persistentvolumeclaim "{claim.name}" not found'


def not_owned(claim: UsedClaim) -> str:
    """Return Kubernetes' message where the claim of an ephemeral volume is somebody else's."""
    return f"PVC {claim.key} was not created for pod {claim.pod} (pod is not owner)"


def is_for_pod(used: UsedClaim, claim: PersistentVolumeClaim) -> bool:
    """True if the claim of an ephemeral volume was made for this pod."""
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
