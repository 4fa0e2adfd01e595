"""Evicts the pods of moves by the Eviction API: the evict plugin DefaultEvictor."""

from __future__ import annotations

from koord_kube.core.events import reference
from koord_kube.core.evictions import (
    DisruptionTarget,
    EvictedPod,
    EvictionOutcome,
    EvictionResult,
)
from koord_kube.event_recorder import EventRecorder
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.resources import PODS

from koord_descheduler.planner.move import DISRUPTION_REASON, Move


class DirectEvictor:
    """Sends an eviction for each move; ``grace_seconds`` is ``None`` where the pod's own counts.

    A pod that was evicted has an Event ``Descheduled`` then.
    """

    keeps_track = False

    def __init__(
        self,
        evictor: PodEvictor,
        recorder: EventRecorder,
        *,
        grace_seconds: int | None = None,
    ) -> None:
        self._evictor = evictor
        self._recorder = recorder
        self._grace_seconds = grace_seconds

    async def execute(self, move: Move) -> EvictionOutcome:
        """Evict the pod of a move, and none that has its name after it."""
        pod = EvictedPod(move.pod.namespace, move.pod.name, move.pod.uid)
        target = DisruptionTarget(DISRUPTION_REASON, f"{move.plugin}: {move.reason}")
        outcome = await self._evictor.evict(pod, target, grace_seconds=self._grace_seconds)
        if outcome.end is EvictionResult.EVICTED:
            about = reference(PODS, pod.name, pod.namespace, pod.uid)
            message = f'Pod evicted from node "{move.source}" by the reason "{move.reason}"'
            self._recorder.record(about, "Descheduled", message)
        return outcome
