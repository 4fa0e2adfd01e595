"""Which nodes can use a volume, and where one can be provisioned, by labels of nodes. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.label_selector import LabelSelector
from koord_model.quantity import nano

from koord_scheduler.objects.node_selector import NodeRequirement, required_nodes
from koord_scheduler.volumes.csi_migration import Topology, in_tree_plugin, migrated_topology
from koord_scheduler.volumes.objects import (
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
)

Labels = Mapping[str, str]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def volume_topology(
    volume: PersistentVolume, migrated_plugins: frozenset[str] = frozenset()
) -> Topology | None:
    """The nodes that can use a volume; ``None``: all.

    ``migrated_plugins`` are those of the node in question.
    """
    found = _own_topology(volume)
    if in_tree_plugin(volume.spec) in migrated_plugins:
        return migrated_topology(volume, found)
    return found


def _own_topology(volume: PersistentVolume) -> Topology | None:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    terms = required_nodes(None, {"nodeAffinity": {_REQUIRED: affinity.required}}).terms or ()
    # As in Kubernetes, names of nodes are no matter to volumes; an empty term means no node.
    return tuple(term.labels for term in terms if term.labels or term.names)


def is_reachable(topology: Topology | None, labels: Labels) -> bool:
    """Whether a node with these labels can use a volume."""
    if topology is None:
        return True
    return any(all(one.allows(labels.get(one.key)) for one in term) for term in topology)


def label_keys(topology: Topology | None) -> Iterable[str]:
    """The labels that decide about a topology; with repetitions."""
    return (one.key for term in topology or () for one in term)


def allowed_topology(storage_class: StorageClass) -> Topology | None:
    """The nodes for which volumes of a class can be provisioned; ``None``: all."""
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


@dataclass(frozen=True, slots=True)
class AccessibleCapacity:
    """The largest volume, in billionths of a byte, that can be had on nodes with some labels."""

    limit: int
    nodes: LabelSelector


def accessible_capacity(given: CSIStorageCapacity) -> AccessibleCapacity | None:
    """What a driver says it has left; ``None`` where it is of no use to any node.

    Raises:
        ValueError: a quantity or the selector is not one.
    """
    limit = given.capacity if given.maximum_volume_size is None else given.maximum_volume_size
    if limit is None or given.node_topology is None:
        return None
    return AccessibleCapacity(nano(limit), label_selector.parse(given.node_topology, "nodeTopology"))
