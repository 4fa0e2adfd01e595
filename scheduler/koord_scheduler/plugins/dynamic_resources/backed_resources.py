"""Extended resources of a pod that DeviceClasses back, on nodes without a device plugin for them.

No IO.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.plugins.dynamic_resources.device_counts import count_devices
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState


def claiming_node(nodes: ClusterState, row: int) -> ClaimingNode:
    """The node of a row, for which devices are looked for."""
    return ClaimingNode(nodes.name(row), nodes.labels.of(row))


def backing_classes_of(pod: PodClass, nodes: ClusterState) -> dict[str, str]:
    """The classes behind a pod's resources, by resource."""
    known = nodes.devices.backing_classes
    return {name: known[name] for name in pod.extended_resources if name in known}


def devices_state(pod: PodClass, nodes: ClusterState) -> int | None:
    """What answers about a pod's resources depend on beside nodes and their own devices."""
    return nodes.devices.shared_version if pod.extended_resources else None


def add_devices(
    pod: PodClass,
    nodes: ClusterState,
    names: Sequence[str],
    rows: Rows,
    has: Amounts,
    taken: Amounts,
) -> None:
    """Where nodes have none of a resource, its devices count in ``has`` and ``taken``.

    Both are by resource, as ``names``, and row.
    """
    backed = backing_classes_of(pod, nodes)
    for place, name in enumerate(names):
        if name not in backed:
            continue
        one = nodes.devices.classes[backed[name]]
        for at in np.flatnonzero(has[place] == 0):
            count = count_devices(one, claiming_node(nodes, rows[at]), nodes.devices)
            if count.there:
                has[place, at], taken[place, at] = count
