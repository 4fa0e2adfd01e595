"""Ends the pods of jobs: by the way that each asks for, at a pace, with patience."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from koord_kube.core.evictions import (
    DisruptionTarget,
    EvictedPod,
    EvictionOutcome,
    EvictionResult,
    outcome_of,
)
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.protocol.pod_requests import annotations_patch
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import SharedBackoff

from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.migration.core.situation import JobSituation
from koord_descheduler.migration.core.soft_eviction import soft_eviction
from koord_descheduler.planner.move import DISRUPTION_REASON
from koord_descheduler.plugins.migration_controller.args import (
    EvictionPolicy,
    MigrationControllerArgs,
)

_REFUSED_SECONDS = 5.0
"""Pause after a refusal that says nothing."""
_ENDING_SECONDS = 30.0
"""Time for a pod to be seen ending before it is evicted once more."""


class JobEvictor:
    """Evicts; a refusal, an error and a lack of turns are pauses, never failures."""

    def __init__(
        self,
        write: Callable[[Request], Awaitable[bytes]],
        backoff: SharedBackoff,
        args: MigrationControllerArgs,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._evictor = PodEvictor(write, backoff, wall=wall)
        self._turns = TokenBucket(args.evictions_per_second, args.evict_burst)
        self._pause = 1 / args.evictions_per_second
        self._wall = wall
        self._monotonic = monotonic
        self._not_before: dict[str, float] = {}

    def wait(self, job: MigrationJob) -> float:
        """Seconds until something may be sent for a job (again)."""
        return max(0.0, self._not_before.get(job.name, 0.0) - self._monotonic())

    def forget(self, name: str) -> None:
        """A job is gone."""
        self._not_before.pop(name, None)

    async def evict(self, situation: JobSituation) -> EvictionOutcome | None:
        """Send what ends the pod of a job; ``None``: it is not its turn.

        Raises:
            NotLeadingError: this program may not write.
        """
        job = situation.job
        if not self._turns.allow(self._monotonic()):
            self._not_before[job.name] = self._monotonic() + self._pause
            return None
        is_first = job.name not in self._not_before
        outcome = await self._send(situation, is_first=is_first)
        again = outcome.again_after or _REFUSED_SECONDS
        if outcome.end is EvictionResult.EVICTED:
            again = _ENDING_SECONDS
        self._not_before[job.name] = self._monotonic() + again
        return outcome

    async def _send(self, situation: JobSituation, *, is_first: bool) -> EvictionOutcome:
        job = situation.job
        pod = EvictedPod(job.pod.namespace, job.pod.name, job.pod.uid)
        if situation.policy is EvictionPolicy.SOFT_EVICTION:
            return await self._notify(job)
        why = DisruptionTarget(DISRUPTION_REASON, job.eviction_reason) if is_first else None
        grace = job.delete_options.get("gracePeriodSeconds")
        way = self._evictor.evict
        if situation.policy is EvictionPolicy.DELETE:
            way = self._evictor.delete
        return await way(pod, why, grace_seconds=grace)

    async def _notify(self, job: MigrationJob) -> EvictionOutcome:
        request = annotations_patch(job.pod.key, job.pod.uid, soft_eviction(job, self._wall()))
        try:
            await self._write(request)
        except NotLeadingError:
            raise
        except ApiError as error:
            return outcome_of(error)
        return EvictionOutcome(EvictionResult.EVICTED)
