"""Volumes for a pod's claims on a node: kube-scheduler's volume binder. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koord_model import label_selector

from koord_scheduler.plugins.volumes.available_volumes import AvailableVolume
from koord_scheduler.plugins.volumes.node_access import (
    AccessibleCapacity,
    allowed_topology,
    storage_size,
    volume_topology,
)
from koord_scheduler.plugins.volumes.objects import (
    SELECTED_NODE,
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord_scheduler.plugins.volumes.topology import (
    LabelIndex,
    Labels,
    Topology,
    is_reachable,
    label_keys,
)
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects

NO_PROVISIONER = "kubernetes.io/no-provisioner"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"


class BindingInfo(NamedTuple):
    """A claim, and the volume that is there for it."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class PodVolumes(NamedTuple):
    """Steps for a pod's claims once it has a node.

    ``conflict`` is the reason why it cannot have this one, "" if it can.
    """

    static_bindings: tuple[BindingInfo, ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()
    conflict: str = ""


class DelayedClaims:
    """The claims of a pod that are bound once it has a node.

    Holds until something behind them changes (``VolumeObjects.stamps``).
    """

    def __init__(self, claims: Iterable[PersistentVolumeClaim], objects: VolumeObjects) -> None:
        all_claims = [_DelayedClaim(claim, objects) for claim in claims]
        self._selected = [claim for claim in all_claims if claim.selected is not None]
        others = (claim for claim in all_claims if claim.selected is None)
        self._others = sorted(others, key=lambda one: one.size)
        self.selected_nodes = {claim.selected for claim in all_claims if claim.selected is not None}
        """The nodes that claims were provisioned for, or are about to be."""
        self.label_keys: set[str] = set().union(*(claim.label_keys() for claim in all_claims))
        """The labels of nodes that decide what becomes of the claims."""

    def find(self, node: str, labels: Labels) -> PodVolumes:
        """Return the steps on a node, or why the pod cannot run there."""
        if not self.selected_nodes <= {node}:
            return PodVolumes(conflict=BIND_CONFLICT)
        provisions = [*self._selected]
        bindings: list[BindingInfo] = []
        taken: set[str] = set()
        for other in self._others:
            volume = other.matching_volume(labels, taken)
            if volume is None:
                provisions.append(other)
            else:
                taken.add(volume.name)
                bindings.append(BindingInfo(other.claim, volume))
        for provision in provisions:
            conflict = provision.provision_conflict(labels)
            if conflict:
                return PodVolumes(conflict=conflict)
        return PodVolumes(tuple(bindings), tuple(provision.claim for provision in provisions))


class _DelayedClaim:
    """A claim with all that does not depend on the node."""

    def __init__(self, claim: PersistentVolumeClaim, objects: VolumeObjects) -> None:
        self.claim = claim
        self.selected = claim.metadata.annotation(SELECTED_NODE)
        self.size = storage_size(claim.spec.resources.requests)
        selector = claim.spec.selector
        self._selector = None if selector is None else label_selector.parse(selector, "selector")
        available = objects.available(claim.storage_class)
        self._free: LabelIndex[AvailableVolume] = available.free
        self._prebound = _prebound(claim, available.prebound.get(claim.key, {}))
        storage_class = objects.get(StorageClass, claim.storage_class)
        provisioner = "" if storage_class is None else storage_class.provisioner
        self._is_provisioned = provisioner not in ("", NO_PROVISIONER)
        self._allowed = None if storage_class is None else allowed_topology(storage_class)
        driver = objects.get(CSIDriver, provisioner)
        is_measured = driver is not None and driver.spec.storage_capacity
        asks = "storage" in (claim.spec.resources.requests or {})
        self._capacities: LabelIndex[AccessibleCapacity] | None = (
            objects.capacities(claim.storage_class) if is_measured and asks else None
        )

    def label_keys(self) -> set[str]:
        """The labels of nodes that decide what becomes of it."""
        found = self._free.label_keys | label_keys(self._allowed)
        for _, topology in self._prebound:
            found |= label_keys(topology)
        return found if self._capacities is None else found | self._capacities.label_keys

    def matching_volume(self, labels: Labels, taken: set[str]) -> PersistentVolume | None:
        """The volume to bind it to on a node with these labels; ``None``: none fits.

        One that is meant for the claim already comes first, then the smallest; of equals the first
        by name, where Kubernetes takes any.
        """
        for volume, topology in self._prebound:
            if volume.name not in taken:
                return volume if is_reachable(topology, labels) else None
        for one in self._free.at(labels, self.size):
            volume = one.volume
            if volume.name not in taken and self._can_have(volume):
                return volume
        return None

    def provision_conflict(self, labels: Labels) -> str:
        """Return why no volume can be provisioned for a node with these labels; "" if one can."""
        if not self._is_provisioned or not is_reachable(self._allowed, labels):
            return BIND_CONFLICT
        if self._capacities is None:
            return ""
        most = next(self._capacities.at(labels), None)
        return "" if most is not None and most.limit >= self.size else NOT_ENOUGH_SPACE

    def _can_have(self, volume: PersistentVolume) -> bool:
        if self._selector is not None and not self._selector.matches(volume.metadata.labels or {}):
            return False
        modes = volume.spec.access_modes or ()
        return _fits(self.claim, volume) and all(
            one in modes for one in self.claim.spec.access_modes or ()
        )


def _prebound(
    claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume]
) -> list[tuple[PersistentVolume, Topology | None]]:
    """The volumes that are meant for a claim and large enough, and the nodes that can use them."""
    size, uids = storage_size(claim.spec.resources.requests), ("", claim.metadata.uid)
    return [
        (volume, volume_topology(volume))
        for _, volume in sorted(volumes.items())
        if (reference := volume.spec.claim_ref) is not None
        and reference.uid in uids
        and storage_size(volume.spec.capacity) >= size
        and _fits(claim, volume)
    ]


def _fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    asked, has = claim.spec, volume.spec
    if (asked.volume_attributes_class_name or "") != (has.volume_attributes_class_name or ""):
        return False
    return asked.volume_mode == has.volume_mode
