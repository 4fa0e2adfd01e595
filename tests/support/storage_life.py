"""A cluster in which pods with volumes, nodes and storage objects come and go."""

from __future__ import annotations

import json
from random import Random

from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import PodInfo, read_pod
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import pod_class

from tests.support.clusters.storage import random_storage_cluster
from tests.support.storage_kinds import storage_objects

NAMES = [f"n{number}" for number in range(1, 7)]
CHANGES = [*["object"] * 6, "no object", "pod", "pod", "no pod", "node", "node", "no node"]


class StorageLife:
    """What two random clusters have, in columns; ``waiting`` are classes of their pods."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.columns = ClusterState(length=1)
        self.columns.use(VolumeColumns)
        clusters = [random_storage_cluster(rng) for _ in range(2)]
        self.pods = [_pod(one) for cluster in clusters for one in cluster["pods"]]
        self.nodes = [
            read_node(json.dumps(one).encode()) for cluster in clusters for one in cluster["nodes"]
        ]
        self.objects = [one for cluster in clusters for one in storage_objects(cluster)]
        self.waiting = [
            pod_class(_pod(cluster[name]), self.columns.features.values())
            for cluster in clusters
            for name in ("pod", "next")
        ]
        self.placed: list[PodInfo] = []

    def settle(self) -> None:
        """Have nodes, and most objects."""
        for node in self.nodes:
            self.columns.set(node)
        for one in self.objects:
            if self.rng.random() < 0.8:
                self.columns.use(VolumeColumns).objects.set(one)

    def change(self) -> None:
        """Something comes, goes or changes."""
        columns, rng = self.columns, self.rng
        match rng.choice(CHANGES):
            case "object":
                columns.use(VolumeColumns).objects.set(rng.choice(self.objects))
            case "no object":
                one = rng.choice(self.objects)
                if columns.use(VolumeColumns).objects.get(type(one), one.key) is not None:
                    columns.use(VolumeColumns).objects.remove(type(one), one.key)
            case "pod" if self.pods:
                pod = rng.choice(self.pods)
                self.placed.append(pod)
                columns.add_pod(pod.spec.node_name, placed_usage(pod, columns))
            case "no pod" if self.placed:
                self.remove_pod()
            case "node":
                columns.set(rng.choice(self.nodes))
            case "no node":
                name = rng.choice(NAMES)
                row = columns.row(name)
                if row is not None and columns.is_node[row]:
                    columns.remove(name)

    def remove_pod(self) -> None:
        """A placed pod is gone."""
        pod = self.placed.pop(self.rng.randrange(len(self.placed)))
        self.columns.remove_pod(pod.spec.node_name, placed_usage(pod, self.columns))


def _pod(document: dict[str, object]) -> PodInfo:
    return read_pod(json.dumps(document).encode())
