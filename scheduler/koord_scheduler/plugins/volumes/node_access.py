"""Nodes that can use a volume, and nodes for which one can be provisioned. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_kube.views.pod import Quantities
from koord_model import label_selector
from koord_model.quantity import nano

from koord_scheduler.objects.node_selector import NodeRequirement, required_nodes
from koord_scheduler.plugins.volumes.csi_migration import in_tree_plugin, migrated_topology
from koord_scheduler.plugins.volumes.objects import (
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
)
from koord_scheduler.plugins.volumes.topology import Topology

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def volume_topology(
    volume: PersistentVolume, migrated_plugins: frozenset[str] = frozenset()
) -> Topology | None:
    """The nodes that can use a volume; ``migrated_plugins`` are those of the node in question."""
    found = _own_topology(volume)
    if in_tree_plugin(volume.spec) in migrated_plugins:
        return migrated_topology(volume, found)
    return found


def _own_topology(volume: PersistentVolume) -> Topology | None:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    terms = required_nodes(None, {"nodeAffinity": {_REQUIRED: affinity.required}}).terms or ()
    # As in Kubernetes: names of nodes are no matter to volumes, and an empty term means no node.
    return tuple(term.labels for term in terms if term.labels or term.names)


def allowed_topology(storage_class: StorageClass) -> Topology | None:
    """The nodes for which volumes of a class can be provisioned."""
    if not storage_class.allowed_topologies:
        return None
    terms = [
        tuple(
            NodeRequirement(one.key, "In", tuple(one.values or ()))
            for one in term.match_label_expressions or ()
        )
        for term in storage_class.allowed_topologies
    ]
    return tuple(term for term in terms if term)


class AccessibleCapacity(NamedTuple):
    """The largest volume, in billionths of a byte, that can be had for some nodes."""

    limit: int
    key: str
    topology: Topology

    @property
    def order(self) -> tuple[int, str]:
        """The largest first."""
        return -self.limit, self.key


def accessible_capacity(given: CSIStorageCapacity) -> AccessibleCapacity | None:
    """Return a driver's rest of capacity; ``None`` if its amount or its nodes are missing.

    Raises:
        ValueError: a quantity or the selector is not one.
    """
    limit = given.capacity if given.maximum_volume_size is None else given.maximum_volume_size
    if limit is None or given.node_topology is None:
        return None
    selector = label_selector.parse(given.node_topology, "nodeTopology")
    term = tuple(
        NodeRequirement(requirement.key, requirement.operator, tuple(sorted(requirement.values)))
        for requirement in selector.requirements
    )
    return AccessibleCapacity(nano(limit), given.key, (term,))


def storage_size(quantities: Quantities | None) -> int:
    """Return the existing or requested storage, in billionths of a byte.

    Raises:
        ValueError: it is not a quantity.
    """
    return nano((quantities or {}).get("storage") or 0)
