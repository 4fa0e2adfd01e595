"""Evicts the pods of moves by the Eviction API: the evict plugin DefaultEvictor."""

from __future__ import annotations

from koord_kube.core.evictions import DisruptionTarget, EvictedPod, EvictionOutcome
from koord_kube.pod_evictor import PodEvictor

from koord_descheduler.planner.move import DISRUPTION_REASON, Move


class DirectEvictor:
    """Sends an eviction for each move; ``grace_seconds`` is ``None`` where the pod's own counts."""

    def __init__(self, evictor: PodEvictor, *, grace_seconds: int | None = None) -> None:
        self._evictor = evictor
        self._grace_seconds = grace_seconds

    async def execute(self, move: Move) -> EvictionOutcome:
        """Evict the pod of a move, and none that has its name after it."""
        pod = EvictedPod(move.pod.namespace, move.pod.name, move.pod.uid)
        target = DisruptionTarget(DISRUPTION_REASON, f"{move.plugin}: {move.reason}")
        return await self._evictor.evict(pod, target, grace_seconds=self._grace_seconds)
