"""Workloads of every feature that come and go."""

from __future__ import annotations

import time
from random import Random

import anyio
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    Resource,
)

from tests.apiserver.scheduler_cluster import NAMESPACE, ScheduledCluster, for_all
from tests.chaos_scheduler.cluster_state import ClusterState, node_of, phase, uid
from tests.chaos_scheduler.report import Feature
from tests.chaos_scheduler.workloads import FEATURES, Workload, quotas
from tests.support.listing import listed


class Population:
    """``figures`` are of each feature."""

    def __init__(self, cluster: ScheduledCluster, figures: dict[str, Feature], rng: Random) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._figures = figures
        self._rng = rng
        self._number = 0
        self._there: list[Workload] = []

    async def begin(self, each: int) -> None:
        """Quotas, and so many workloads of each feature."""
        for one in quotas(4 * each):
            await self._client.create(ELASTIC_QUOTAS, one, NAMESPACE)
        for _ in range(each):
            for kind in range(len(FEATURES)):
                await self._create(kind)

    async def change(self, seconds: float) -> None:
        """Workloads go, and others come."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self._end(self._rng.randrange(len(self._there)))
            await self._create(self._rng.randrange(len(FEATURES)))
            await anyio.sleep(self._rng.uniform(0.1, 0.8))

    async def make_room(self) -> None:
        """Half of all go, so that there is room for the others."""
        for _ in range(len(self._there) // 2):
            await self._end(self._rng.randrange(len(self._there)))

    def count(self, state: ClusterState) -> None:
        """Add to the figures what became of the pods."""
        bound = {one["metadata"]["name"] for one in state.pods if node_of(one)}
        for one in self._there:
            names = [pod["metadata"]["name"] for pod in one.pods]
            self._figures[one.feature].bound += len(bound.intersection(names))
            self._figures[one.feature].waiting += len(set(names) - bound)

    async def _create(self, kind: int) -> None:
        self._number += 1
        made = FEATURES[kind](f"w{self._number}", self._rng)
        for resource, one in made.objects:
            await self._client.create(resource, one, NAMESPACE if resource.namespaced else "")
        for one in made.pods:
            await self._client.create(PODS, one, NAMESPACE)
        self._there.append(made)
        figures = self._figures.setdefault(made.feature, Feature())
        figures.created += len(made.pods)

    async def _end(self, place: int) -> None:
        gone = self._there.pop(place)
        await for_all(self._cluster.end, [one["metadata"]["name"] for one in gone.pods])
        for resource, one in gone.objects:
            namespace = NAMESPACE if resource.namespaced else ""
            await self._client.delete(resource, one["metadata"]["name"], namespace)
        self._figures[gone.feature].ended += len(gone.pods)


async def cluster_state(cluster: ScheduledCluster) -> ClusterState:
    """What the API says. Reservations are those that held their room while pods were listed."""

    async def all_of(resource: Resource, namespace: str = "") -> list[Object]:
        found, _ = await listed(cluster.client, resource, namespace)
        return found

    before = {uid(one): phase(one) for one in await all_of(RESERVATIONS)}
    pods = await all_of(PODS, NAMESPACE)
    reservations = [one for one in await all_of(RESERVATIONS) if before.get(uid(one)) == phase(one)]
    return ClusterState(
        pods,
        await all_of(NODES),
        await all_of(DEVICES),
        await all_of(NODE_TOPOLOGIES),
        await all_of(ELASTIC_QUOTAS, NAMESPACE),
        await all_of(POD_GROUPS, NAMESPACE),
        reservations,
    )
