"""Evicts through the API server, which respects PodDisruptionBudgets."""

from __future__ import annotations

from koord_kube.core.evictions import EvictedPod, EvictionOutcome
from koord_kube.pod_evictor import PodEvictor

from koordlet.states_informer.state.pod_inventory import PodRecord

FORCED_GRACE = 1
"""Seconds. 0 would have the server forget a pod whose containers still run."""


class EvictionApiBackend:
    """The Eviction API, policy/v1."""

    name = "the Eviction API"
    pod_stays = False

    def __init__(self, evictor: PodEvictor) -> None:
        self._evictor = evictor

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        """Request the eviction."""
        pod = EvictedPod(record.pod.namespace, record.pod.name, record.pod.uid)
        return await self._evictor.evict(pod, grace_seconds=FORCED_GRACE if forced else None)

    async def close(self) -> None:
        """The API is another's."""
