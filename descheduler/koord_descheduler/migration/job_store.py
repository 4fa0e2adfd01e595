"""Jobs and their Reservations as the API has them, and changes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from koord_kube.core.events import reference
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS

from koord_descheduler.migration.core.job import JobOrigin, MigrationJob, read_migration_job
from koord_descheduler.migration.core.job_reservation import (
    NO_RESERVATION,
    JobReservation,
    read_job_reservation,
)
from koord_descheduler.migration.core.soft_eviction import ANNOTATION_SOFT_EVICTION
from koord_descheduler.migration.core.step import JobEvent, JobStep
from koord_descheduler.migration.job_index import JobIndex
from koord_descheduler.objects.observed_pod import ObservedPod


class JobStore:
    """Follows jobs and Reservations; ``on_change`` gets the name of each job to look at.

    Jobs whose ``created_by`` is one of ``signatures`` are its own.
    """

    def __init__(
        self,
        api: Api,
        recorder: EventRecorder,
        signatures: Iterable[str],
        on_change: Callable[[str], None],
        *,
        on_warning: Callable[[str], None],
        pace: ReflectorTiming | None = None,
    ) -> None:
        self.api = api
        self._recorder = recorder
        self._signatures = frozenset(signatures)
        self._on_change = on_change
        self._index = JobIndex()
        self._made: defaultdict[str, dict[str, JobReservation]] = defaultdict(dict)
        """Reservations by the job that they were made for."""
        self._superseded: dict[str, str] = {}
        self.begun: dict[str, JobOrigin] = {}
        """Jobs that began, until that is seen."""
        self._jobs: Informer[MigrationJob] = Informer(
            api,
            POD_MIGRATION_JOBS,
            decode=read_migration_job,
            on_change=self._job_changed,
            on_warning=on_warning,
            optional=True,
            timing=pace,
        )
        self._reservations: Informer[JobReservation] = Informer(
            api,
            RESERVATIONS,
            decode=read_job_reservation,
            on_change=self._reservation_changed,
            on_warning=on_warning,
            optional=True,
            timing=pace,
        )

    @property
    def problem(self) -> str:
        """Reason why this may not be the true state, in a line; "" while there is none.

        Who makes no jobs does not need their definition.
        """
        if self._jobs.absent and any(self._signatures):
            return "PodMigrationJobs are not installed: nothing moves (koordctl crds install)"
        return self._jobs.problem or self._reservations.problem

    @property
    def jobs(self) -> Mapping[str, MigrationJob]:
        """All jobs by name, those of others too."""
        return self._jobs.objects

    @property
    def informers(self) -> tuple[Informer[MigrationJob], Informer[JobReservation]]:
        """Those that have to run."""
        return self._jobs, self._reservations

    def own(self) -> list[MigrationJob]:
        """The jobs that this program carries out."""
        return [job for job in self.jobs.values() if self.is_own(job)]

    def is_own(self, job: MigrationJob) -> bool:
        """True if this program carries out the job."""
        return job.created_by in self._signatures

    def is_stale(self, job: MigrationJob) -> bool:
        """True if it was changed from here, and what is known is what it was before."""
        return self._superseded.get(job.name) == job.version

    def origin(self, job: MigrationJob) -> JobOrigin:
        """The pod of a job as it was when the job began."""
        return self.begun.get(job.name, job.origin)

    def group(self, job: MigrationJob) -> list[MigrationJob]:
        """The other jobs that move together with a job; ones that just began are among them."""
        name = job.group or self.origin(job).gang
        if not name:
            return []
        names = set(self._index.of_group(name))
        names.update(key for key, origin in self.begun.items() if origin.gang == name)
        names.discard(job.name)
        found = (self.jobs.get(key) for key in sorted(names))
        return [other for other in found if other is not None and self.is_own(other)]

    def of_pod(self, key: str) -> frozenset[str]:
        """The names of jobs whose pod, old or new, has this key."""
        return self._index.of_pod(key)

    def made_for(self, name: str) -> list[JobReservation]:
        """The Reservations that were made for jobs of this name."""
        return list(self._made.get(name, {}).values())

    def reservation(self, job: MigrationJob) -> JobReservation:
        """The Reservation that a job refers to, or that was made for it, as far as is known."""
        known = self._reservations.objects.get(job.reservation)
        made = (found for found in self.made_for(job.name) if found.job_uid == job.uid)
        return known or next(made, NO_RESERVATION)

    # ---- changes from here

    async def patch(self, job: MigrationJob, patch: Mapping[str, Any]) -> Object:
        """Change a job, as long as it is as it was read.

        Raises:
            ConflictError: it is not.
        """
        made = await self.api.patch(POD_MIGRATION_JOBS, job.name, patch, version=job.version)
        return self._supersede(job, made)

    async def write_status(self, job: MigrationJob, step: JobStep) -> None:
        """Change the status of a job in the same way, and report the step."""
        patch = {"status": step.status}
        made = await self.api.patch(
            POD_MIGRATION_JOBS, job.name, patch, subresource="status", version=job.version
        )
        self._supersede(job, made)
        if step.event is not None:
            self.record(job, step.event)

    def record(self, job: MigrationJob, event: JobEvent) -> None:
        """Report something of a job."""
        about = reference(POD_MIGRATION_JOBS, job.name, uid=job.uid)
        self._recorder.record(about, event.reason, event.message, warning=event.is_warning)

    async def free(self, reservation: JobReservation) -> None:
        """Delete a Reservation, and none that has its name after it."""
        try:
            await self.api.delete(RESERVATIONS, reservation.name, uid=reservation.uid)
        except (NotFoundError, ConflictError):
            return

    async def take_back(self, pod: ObservedPod) -> None:
        """Remove the notice of a pod, unless another job wrote its own meanwhile."""
        try:
            found = (await self.api.get(PODS, pod.name, pod.namespace))["metadata"]
            notice = (found.get("annotations") or {}).get(ANNOTATION_SOFT_EVICTION)
            if notice != pod.annotations[ANNOTATION_SOFT_EVICTION]:
                return
            change = {"metadata": {"uid": pod.uid, "annotations": {ANNOTATION_SOFT_EVICTION: None}}}
            version = found["resourceVersion"]
            await self.api.patch(PODS, pod.name, change, pod.namespace, version=version)
        except (NotFoundError, ConflictError):
            return  # what changed is on its way

    def _supersede(self, job: MigrationJob, made: Object) -> Object:
        if made["metadata"].get("resourceVersion") != job.version:
            self._superseded[job.name] = job.version
        return made

    # ---- changes from elsewhere

    def _job_changed(self, key: str, before: MigrationJob | None, now: MigrationJob | None) -> None:
        self._index.change(before, now)
        if now is None:
            self._superseded.pop(key, None)
        if now is None or not now.is_waiting:
            self.begun.pop(key, None)
        self._on_change(key)
        if _standing(before) != _standing(now):
            for group in {job.group for job in (before, now) if job is not None} - {""}:
                for name in self._index.of_group(group) - {key}:
                    self._on_change(name)

    def _reservation_changed(
        self, key: str, before: JobReservation | None, now: JobReservation | None
    ) -> None:
        if before is not None and before.job:
            self._made[before.job].pop(key, None)
            if not self._made[before.job]:
                del self._made[before.job]
            self._on_change(before.job)
        if now is not None and now.job:
            self._made[now.job][key] = now
            self._on_change(now.job)
        for name in self._index.of_reservation(key):
            self._on_change(name)


def _standing(job: MigrationJob | None) -> tuple[object, ...]:
    """The part of a job that others of its group wait for."""
    if job is None:
        return ()
    eviction = job.condition("Eviction")
    return job.phase, bool(job.node), eviction and eviction.status
