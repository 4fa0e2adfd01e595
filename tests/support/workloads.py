"""Services and controllers in a scheduler's columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from koord_model.label_selector import LabelSelector
from koord_scheduler.objects.workload import (
    read_replica_set,
    read_replication_controller,
    read_service,
    read_stateful_set,
)
from koord_scheduler.state.cluster_state import ClusterState

from tests.support.clusters.selectors import HOSTNAME, ZONE, chance, pod_labels
from tests.support.clusters.workloads import NAMES, selector_of, workload

READERS: dict[str, tuple[str, Callable[[bytes], LabelSelector]]] = {
    "services": ("Service", read_service),
    "replicationControllers": ("ReplicationController", read_replication_controller),
    "replicaSets": ("ReplicaSet", read_replica_set),
    "statefulSets": ("StatefulSet", read_stateful_set),
}
"""The kind of each of a document's lists, and its reader."""
LIST_DEFAULTS = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": HOSTNAME, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
}
"""Arguments of PodTopologySpread by which pods of a Service may be kept off nodes."""


def set_workloads(nodes: ClusterState, document: Mapping[str, Any]) -> None:
    for plural, (kind, _) in READERS.items():
        for one in document.get(plural, ()):
            key = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            nodes.workloads.set(kind, key, read_workload(plural, one))


def read_workload(plural: str, document: Mapping[str, Any]) -> LabelSelector:
    return READERS[plural][1](json.dumps(document).encode())


def change_workload(rng: Random, nodes: ClusterState, there: set[tuple[str, str]]) -> None:
    """As ``workload_change``, in columns."""
    kind, key, document = workload_change(rng, there)
    if document is None:
        nodes.workloads.remove(kind, key)
    else:
        [read] = [read for other, read in READERS.values() if other == kind]
        nodes.workloads.set(kind, key, read(json.dumps(document).encode()))


def workload_change(
    rng: Random, there: set[tuple[str, str]]
) -> tuple[str, str, Mapping[str, Any] | None]:
    """The kind, the key and what becomes of a Service or a controller; ``None``: it goes.

    ``there`` says which are there.
    """
    if there and chance(rng, 0.4):
        gone = rng.choice(sorted(there))
        there.remove(gone)
        return *gone, None
    plural = rng.choice(["services", "services", *READERS])
    namespace = rng.choice(["default", "default", "prod"])
    made = workload(rng.choice(NAMES), namespace, selector_of(rng, plural, pod_labels(rng)))
    kind, key = READERS[plural][0], f"{namespace}/{made['metadata']['name']}"
    there.add((kind, key))
    return kind, key, made
