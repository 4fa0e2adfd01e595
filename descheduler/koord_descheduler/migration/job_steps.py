"""Carries out the steps of jobs, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import anyio
from koord_kube.core.events import reference
from koord_kube.core.evictions import EvictionResult
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.resources import PODS, RESERVATIONS

from koord_descheduler.migration.core.documents import (
    reservation_document,
    reservation_order,
    reservation_reference,
)
from koord_descheduler.migration.core.group_progress import progress_of
from koord_descheduler.migration.core.job import (
    JobCondition,
    MigrationJob,
    PodReference,
)
from koord_descheduler.migration.core.job_reservation import (
    NO_RESERVATION,
    JobReservation,
    read_job_reservation,
)
from koord_descheduler.migration.core.situation import JobSituation
from koord_descheduler.migration.core.state_machine import next_step
from koord_descheduler.migration.core.step import JobAction, JobEvent, JobStep, fail, note
from koord_descheduler.migration.job_evictor import JobEvictor
from koord_descheduler.migration.job_store import JobStore
from koord_descheduler.objects.observed_pod import ObservedPod, ObservedPodReader
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin

_SOON_SECONDS = 1.0
_FAILED_CREATE = "FailedCreateReservation"
_LASTING = (400, 409, 422)
"""Refusals of a Reservation that come again however often it is made."""


class JobSteps:
    """Looks at a job and all that it is about, and does what comes next."""

    def __init__(
        self,
        store: JobStore,
        cluster: ClusterModel,
        plugin: MigrationControllerPlugin,
        evictor: JobEvictor,
        recorder: EventRecorder,
        *,
        wake_arbitrator: Callable[[], None],
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._api = store.api
        self._cluster = cluster
        self._plugin = plugin
        self._evictor = evictor
        self._recorder = recorder
        self._wake_arbitrator = wake_arbitrator
        self._wall = wall
        self._reader = ObservedPodReader()
        self._deciding = anyio.Lock()

    async def take(self, job: MigrationJob) -> float | None:
        """Do the next step; returns in how many seconds time alone may change something."""
        situation = await self._situation(job)
        return await self._carry_out(situation, next_step(situation))

    # ---- what there is

    async def _situation(self, job: MigrationJob) -> JobSituation:
        args = self._plugin.args
        found = JobSituation(
            job,
            self._wall(),
            reservation=await self._reservation(job),
            default_mode=args.default_job_mode,
            default_policy=args.eviction_policy,
            eviction_wait=self._evictor.wait(job),
        )
        if job.is_over:
            known = self._cluster.pods.get(job.pod.key)
            return found if known is None else replace(found, pod=known.view)
        if not found.has_evicted:
            group = progress_of(job, self._store.group(job))
            # One that stops must not have been evicted just now.
            is_asked = found.is_evicting and bool(group.failed or group.missing)
            pod = await self._pod(job.pod.key, is_asked=is_asked)
            found = replace(found, pod=pod, group=group)
        if found.is_before_eviction and found.pod is not None:
            found = replace(found, limiter_wait=self._limiter_wait(job, found.pod))
        successor = job.new_pod or (found.successor if found.has_evicted else None)
        return found if successor is None else await self._with_new_pod(found, successor)

    async def _with_new_pod(self, found: JobSituation, successor: PodReference) -> JobSituation:
        pod = await self._pod(successor.key)
        is_it = pod is not None and pod.uid == successor.uid
        return replace(found, new_pod=pod if is_it else None)

    def _limiter_wait(self, job: MigrationJob, pod: ObservedPod) -> float:
        """Seconds until it, and those of its set that are not decided, may all be evicted."""
        others = self._store.group(job) if job.move_set is not None else ()
        undecided = [
            self._store.origin(other).pod(other.pod)
            for other in others
            if not other.is_over and other.condition("Eviction") is None
        ]
        return self._plugin.limiters.wait(pod, self._wall(), undecided)

    async def _reservation(self, job: MigrationJob) -> JobReservation:
        """The one that it refers to is asked for before it is missed."""
        known = self._store.reservation(job)
        if not job.reservation or job.is_over or known.name == job.reservation:
            return known
        try:
            document = await self._api.get(RESERVATIONS, job.reservation)
        except NotFoundError:
            return NO_RESERVATION
        return read_job_reservation(json.dumps(document).encode())

    async def _pod(self, key: str, *, is_asked: bool = False) -> ObservedPod | None:
        """A pod as it is known; it is asked for before it is missed, or if it ``is_asked``."""
        known = self._cluster.pods.get(key)
        if known is not None and not is_asked:
            return known.view
        namespace, _, name = key.partition("/")
        if not (namespace and name):
            return None
        try:
            document = await self._api.get(PODS, name, namespace)
        except NotFoundError:
            return None
        return self._reader.read(json.dumps(document).encode())

    # ---- what is done

    async def _carry_out(self, situation: JobSituation, step: JobStep) -> float | None:
        job, reservation = situation.job, situation.reservation
        match step.action:
            case JobAction.ARBITRATE:
                self._wake_arbitrator()
            case JobAction.RESERVE:
                return await self._reserve(situation)
            case JobAction.LINK:
                await self._link(job, reservation.name, reservation.uid)
            case JobAction.SET_ORDER:
                labels = {"metadata": {"labels": reservation_order(situation.now)}}
                await self._api.patch(RESERVATIONS, reservation.name, labels)
            case JobAction.EVICT:
                return await self._evict(situation)
            case JobAction.FREE:
                await self._store.free(reservation)
            case JobAction.TAKE_BACK if situation.pod is not None:
                await self._store.take_back(situation.pod)
            case JobAction.NOTHING if step.status:
                return await self._write(situation, step)
        return step.again

    async def _write(self, situation: JobSituation, step: JobStep) -> float | None:
        """Write a step; of two jobs of a workload the second one sees that the first evicts."""
        job, pod = situation.job, situation.pod
        decides = situation.is_before_eviction and step.status.get("status") == "Eviction"
        if pod is None or not decides:
            await self._store.write_status(job, step)
            return step.again
        async with self._deciding:
            wait = 0.0 if situation.bypasses_limiters else self._limiter_wait(job, pod)
            if wait:
                return wait
            await self._store.write_status(job, step)
            replicas = self._store.origin(job).replicas
            self._plugin.limiters.spend(pod.owner, pod.namespace, replicas, situation.now)
        return step.again

    async def _evict(self, situation: JobSituation) -> float | None:
        job, pod = situation.job, situation.pod
        outcome = await self._evictor.evict(situation)
        wait = self._evictor.wait(job)
        if outcome is None or pod is None:
            return wait
        eviction = job.condition("Eviction") or JobCondition()
        if outcome.end is EvictionResult.EVICTED:
            self._store.record(job, JobEvent("Evicting", eviction.message))
            message = f'Pod evicted from node "{pod.node}" by the reason "{job.eviction_reason}"'
            about = reference(PODS, pod.name, pod.namespace, pod.uid)
            self._recorder.record(about, "Descheduled", message)
        elif outcome.pod_stays and outcome.reason != eviction.message:
            refused = JobCondition("Eviction", "False", "Evicting", outcome.reason)
            await self._store.write_status(job, note(situation, refused))
        return wait

    async def _reserve(self, situation: JobSituation) -> float | None:
        job = situation.job
        pod = await self._api.get(PODS, job.pod.name, job.pod.namespace)
        if pod["metadata"].get("uid") != job.pod.uid:
            return 0.0  # another one of its name by now
        try:
            made = await self._create(job, reservation_document(job, pod, situation.now))
        except ValueError as error:
            await self._store.write_status(job, fail(job, _FAILED_CREATE, str(error)))
            return 0.0
        except NotLeadingError:
            raise
        except ApiError as error:
            return await self._report_failed_create(situation, error)
        name = made["metadata"]["name"]
        await self._link(job, name, made["metadata"].get("uid", ""))
        message = f'Successfully create Reservation "{name}"'
        self._store.record(job, JobEvent("ReservationCreated", message))
        return None

    async def _create(self, job: MigrationJob, document: Object) -> Object:
        try:
            return await self._api.create(RESERVATIONS, document)
        except ConflictError:
            found = await self._api.get(RESERVATIONS, document["metadata"]["name"])
            owners = found["metadata"].get("ownerReferences") or ()
            if any(owner.get("uid") == job.uid for owner in owners):
                return found
            raise

    async def _report_failed_create(self, situation: JobSituation, error: ApiError) -> float:
        job, message = situation.job, f"Failed to create Reservation caused by {error}"
        if error.status in _LASTING:
            await self._store.write_status(job, fail(job, _FAILED_CREATE, message))
            return 0.0
        if job.message != message:
            condition = JobCondition("ReservationCreated", "False", _FAILED_CREATE, message)
            event = JobEvent(_FAILED_CREATE, message, is_warning=True)
            await self._store.write_status(job, note(situation, condition, event=event))
        return max(_SOON_SECONDS, error.retry_after)

    async def _link(self, job: MigrationJob, name: str, uid: str) -> None:
        await self._store.patch(job, reservation_reference(name, uid))
