"""Carries out PodMigrationJobs: what is decided is in ``core``, this is the way to the API."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import anyio
from koord_kube.core.events import reference
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import (
    Api,
    ApiError,
    ConflictError,
    NotFoundError,
    NotLeadingError,
    Object,
)
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import (
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
    RESERVATIONS,
)
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of

from koord_descheduler.migration.core.arbitration import (
    Arbitration,
    ArbitrationResult,
    WaitingJob,
)
from koord_descheduler.migration.core.documents import (
    begin_patch,
    request_of,
    reservation_document,
    reservation_order,
    reservation_reference,
)
from koord_descheduler.migration.core.job import (
    ANNOTATION_PREFERRED_NODE,
    ANNOTATION_REQUIRED_NODE,
    JobCondition,
    JobOrigin,
    JobPhase,
    MigrationJob,
    PodReference,
    read_migration_job,
)
from koord_descheduler.migration.core.job_reservation import (
    NO_RESERVATION,
    JobReservation,
    read_job_reservation,
)
from koord_descheduler.migration.core.situation import GangProgress, JobSituation
from koord_descheduler.migration.core.state_machine import next_step
from koord_descheduler.migration.core.step import (
    FORBIDDEN,
    JobAction,
    JobEvent,
    JobStep,
    fail,
    note,
)
from koord_descheduler.migration.job_evictor import JobEvictor
from koord_descheduler.migration.job_index import JobIndex
from koord_descheduler.objects.observed_pod import ObservedPod, ObservedPodReader
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.planner.move import Move
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_descheduler.plugins.migration_controller.who_may_move import workload_state

_SCAVENGE_SECONDS = 60.0
_SOON_SECONDS = 1.0
_REASON_SECONDS = 30.0
"""Between two changes of what a waiting job says."""
_FAILED_CREATE = "FailedCreateReservation"


class MigrationController:
    """The jobs of one profile, and those made by hand if ``takes_unsigned``.

    ``api`` and ``write`` must write only while this program leads. ``cluster`` has to be known
    when it runs. ``created_by`` is the name in its jobs: with the same name it goes on with them
    after a restart.
    """

    def __init__(
        self,
        api: Api,
        write: Callable[[Request], Awaitable[bytes]],
        cluster: ClusterModel,
        plugin: MigrationControllerPlugin,
        recorder: EventRecorder,
        *,
        created_by: str,
        on_warning: Callable[[str], None],
        takes_unsigned: bool = True,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._write = write
        self._cluster = cluster
        self._plugin = plugin
        self._recorder = recorder
        self._created_by = created_by
        self._signatures = {created_by, ""} if takes_unsigned else {created_by}
        self._on_warning = on_warning
        self._wall = wall
        backoff = backoff_of(api)
        self._evictor = JobEvictor(write, backoff, plugin.args, wall=wall, monotonic=monotonic)
        self._reader = ObservedPodReader()
        self._index = JobIndex()
        self._of_job: defaultdict[str, dict[str, JobReservation]] = defaultdict(dict)
        self._superseded: dict[str, str] = {}
        """Versions of jobs that were changed from here: what they say is over."""
        self._begun: dict[str, JobOrigin] = {}
        """Jobs that began, until that is seen."""
        self._said: dict[str, float] = {}
        self._deciding = anyio.Lock()
        self._has_waiting = anyio.Event()
        self.loop = ReconcileLoop(
            "migration",
            self._reconcile,
            workers=plugin.args.max_concurrent_reconciles,
            on_warning=on_warning,
            backoff=backoff,
            due=self._due,
            every=_SCAVENGE_SECONDS,
            monotonic=monotonic,
        )
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
        """Reason why jobs may not go on, in a line; "" while there is none."""
        if self._jobs.absent:
            return "PodMigrationJobs are not installed: nothing moves (koordctl crds install)"
        return self._jobs.problem or self._reservations.problem or self.loop.problem

    @property
    def jobs(self) -> Mapping[str, MigrationJob]:
        """All jobs by name, those of others too."""
        return self._jobs.objects

    async def run(self) -> None:
        """Until cancelled."""
        unsubscribe = self._cluster.subscribe(self._pod_changed)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._jobs.run)
                group.start_soon(self._reservations.run)
                await self._jobs.wait_known()
                await self._reservations.wait_known()
                self._remember_evictions()
                group.start_soon(self.loop.run)
                group.start_soon(self._arbitrate_for_ever)
        finally:
            unsubscribe()

    # ---- moves

    async def execute(self, move: Move) -> EvictionOutcome:
        """Make a job of a move.

        Raises:
            ApiError: it could not be made.
        """
        if self._plugin.args.dry_run:
            return EvictionOutcome(EvictionResult.EVICTED, "dry run: no job was made")
        if why := self._plugin.limiters.obstacle(move.pod, self._wall()):
            return EvictionOutcome(EvictionResult.REFUSED, why)
        name = str(uuid.uuid4())
        request = request_of(move, self._plugin.args, self._created_by, name)
        request.written_object(await self._write(request))
        return EvictionOutcome(EvictionResult.EVICTED, f"by PodMigrationJob {name}")

    def under_way(self) -> Iterator[Move]:
        """The moves of jobs that are not over; of pods that are gone as far as is known."""
        for job in self._own():
            if not job.is_over:
                target = (
                    job.node
                    or job.annotations.get(ANNOTATION_REQUIRED_NODE, "")
                    or job.annotations.get(ANNOTATION_PREFERRED_NODE, "")
                )
                pod = self._pod_of(job)
                yield Move(pod, target, self._created_by, job.trigger, job.eviction_reason)

    def _own(self) -> list[MigrationJob]:
        return [job for job in self._jobs.objects.values() if self._is_own(job)]

    def _is_own(self, job: MigrationJob) -> bool:
        return job.created_by in self._signatures

    def _pod_of(self, job: MigrationJob) -> ObservedPod:
        """The pod of a job, as it is or as it was."""
        known = self._cluster.pods.get(job.pod.key)
        if known is not None and job.pod.uid in ("", known.view.uid):
            return known.view
        return self._origin(job).pod(job.pod)

    def _origin(self, job: MigrationJob) -> JobOrigin:
        return self._begun.get(job.name, job.origin)

    def _remember_evictions(self) -> None:
        """Spend what the limiters spent before a restart, or another one that led."""
        limiters = self._plugin.limiters
        limiters.clear()
        began = [(job.eviction_began, job) for job in self._own()]
        for at, job in sorted((at, job) for at, job in began if at is not None):
            limiters.spend(job.origin.controller, job.pod.namespace, job.origin.replicas, at)

    # ---- changes

    def _job_changed(self, key: str, before: MigrationJob | None, now: MigrationJob | None) -> None:
        self._index.change(before, now)
        if now is None:
            self._superseded.pop(key, None)
            self._said.pop(key, None)
            if before is not None:
                self._evictor.forget(before.uid)
        if now is None or not now.is_waiting:
            self._begun.pop(key, None)
        self.loop.add(key)

    def _reservation_changed(
        self, key: str, before: JobReservation | None, now: JobReservation | None
    ) -> None:
        if before is not None and before.job:
            self._of_job[before.job].pop(key, None)
            if not self._of_job[before.job]:
                del self._of_job[before.job]
        if now is not None and now.job:
            self._of_job[now.job][key] = now
        for found in (before, now):
            if found is not None and found.job:
                self.loop.add(found.job)
        for name in self._index.of_reservation(key):
            self.loop.add(name)

    def _pod_changed(self, key: str) -> None:
        for name in self._index.of_pod(key):
            self.loop.add(name)

    def _due(self) -> list[str]:
        now = self._wall()
        return [job.name for job in self._own() if now >= job.kept_until]

    # ---- arbitration

    async def _arbitrate_for_ever(self) -> None:
        while True:
            await self._has_waiting.wait()
            self._has_waiting = anyio.Event()
            try:
                await self._arbitrate()
            except NotLeadingError:
                raise
            except ApiError as error:
                self._on_warning(f"arbitration: {error}; tried again")
            await anyio.sleep(self._plugin.args.arbitration_seconds)

    async def _arbitrate(self) -> None:
        await self._find_threshold()
        waiting = list(self._waiting())
        if not waiting:
            return
        self._has_waiting.set()  # until all began, or are over
        moving = [(job, self._pod_of(job)) for job in self._own() if self._moves(job)]
        arbitration = Arbitration(
            self._cluster,
            self._plugin.rules,
            [pod for _, pod in moving],
            [pod for job, pod in moving if self._is_to_be_evicted(job)],
        )
        gangs: dict[str, str] = {}
        for result in arbitration.decide(waiting):
            await self._settle(result, gangs)

    def _waiting(self) -> Iterator[WaitingJob]:
        for job in self._own():
            known = self._cluster.pods.get(job.pod.key)
            if job.is_paused or not job.is_waiting or job.name in self._begun or known is None:
                continue
            if job.pod.uid in ("", known.view.uid) and self._wall() < job.deadline:
                yield WaitingJob(job, known.view)

    def _moves(self, job: MigrationJob) -> bool:
        return job.phase == JobPhase.RUNNING or job.name in self._begun

    def _is_to_be_evicted(self, job: MigrationJob) -> bool:
        """True if its eviction will spend a budget that does not know of it yet."""
        known = self._cluster.pods.get(job.pod.key)
        is_there = known is not None and known.view.uid == job.pod.uid
        return is_there and known is not None and known.view.deleted is None

    async def _find_threshold(self) -> None:
        rules = self._plugin.rules
        if rules.threshold is None and rules.threshold_name:
            found = await self._api.get(PRIORITY_CLASSES, rules.threshold_name)
            rules.threshold = int(found["value"])

    async def _settle(self, result: ArbitrationResult, gangs: dict[str, str]) -> None:
        job = result.waiting.job
        try:
            if result.failed:
                message = (
                    f'Pod "{job.pod.key}" is forbidden to migrate because it does not meet the'
                    f" requirements: {result.failed}"
                )
                await self._write_status(job, fail(job, FORBIDDEN, message))
            elif result.waits:
                await self._say(job, result.waits)
            else:
                await self._begin(result.waiting, gangs)
        except (ConflictError, NotFoundError):
            self.loop.add(job.name)  # it has changed: it is looked at anew

    async def _say(self, job: MigrationJob, why: str) -> None:
        """Say why a job waits, now and then: numbers in it change."""
        now = self._wall()
        if job.message == why or now - self._said.get(job.name, 0.0) < _REASON_SECONDS:
            return
        self._said[job.name] = now
        await self._write_status(
            job, JobStep(status={"phase": JobPhase.PENDING.value, "message": why})
        )

    async def _begin(self, waiting: WaitingJob, gangs: dict[str, str]) -> None:
        job, pod = waiting
        gang = gang_group(self._cluster, pod.key)
        tag = gangs.setdefault(gang.group_id, str(uuid.uuid4())) if gang.others else ""
        workload = workload_state(pod, self._cluster)
        replicas = workload.replicas.desired if workload is not None else None
        origin = JobOrigin(pod.node, pod.owner, pod.template.workload, replicas, tag)
        self._begun[job.name] = origin
        try:
            patch = begin_patch(job, pod.uid, origin)
            made = await self._patch(job, patch)
            begun = job._replace(version=made["metadata"]["resourceVersion"])
            running = {"phase": JobPhase.RUNNING.value, "reason": "", "message": ""}
            await self._write_status(begun, JobStep(status=running))
        except BaseException:
            self._begun.pop(job.name, None)
            raise

    # ---- steps

    async def _reconcile(self, name: str) -> float | None:
        job = self._jobs.objects.get(name)
        await self._free_orphans(name, job.uid if job is not None else "")
        if job is None or not self._is_own(job):
            return None
        if self._superseded.get(name) == job.version:
            return _SOON_SECONDS  # its newer version is on its way
        try:
            if self._is_worn(job):
                await self._api.delete(POD_MIGRATION_JOBS, name, uid=job.uid)
                return None
            situation = await self._situation(job)
            return await self._carry_out(situation, next_step(situation))
        except NotFoundError:
            return _SOON_SECONDS
        except ConflictError:
            return _SOON_SECONDS

    def _is_worn(self, job: MigrationJob) -> bool:
        """True after its time, unless a limiter has to remember its eviction."""
        now, began = self._wall(), job.eviction_began
        is_needed = began is not None and now < began + self._plugin.limiters.longest
        return now >= job.kept_until and not is_needed

    async def _free_orphans(self, name: str, uid: str) -> None:
        """Free Reservations of a job that was deleted, or of an older one of its name."""
        for found in list(self._of_job.get(name, {}).values()):
            if found.job_uid != uid:
                await self._free(found)

    async def _free(self, reservation: JobReservation) -> None:
        try:
            await self._api.delete(RESERVATIONS, reservation.name, uid=reservation.uid)
        except (NotFoundError, ConflictError):
            return

    async def _situation(self, job: MigrationJob) -> JobSituation:
        args, now = self._plugin.args, self._wall()
        reservation = await self._reservation_of(job)
        if job.is_over:
            return JobSituation(job, now, reservation=reservation)
        has_evicted = (eviction := job.condition("Eviction")) is not None
        is_gone = eviction is not None and eviction.status == "True"
        pod = None if is_gone else await self._pod(job.pod, any_uid=True)
        found = JobSituation(
            job,
            now,
            pod,
            reservation,
            None,
            args.default_job_mode,
            args.eviction_policy,
            0.0 if has_evicted or pod is None else self._limiter_wait(pod),
            self._evictor.wait(job),
            GangProgress() if has_evicted else self._gang(job),
        )
        return await self._with_new_pod(found)

    async def _with_new_pod(self, found: JobSituation) -> JobSituation:
        successor = found.job.new_pod or (found.successor if found.has_evicted else None)
        if successor is None:
            return found
        return JobSituation(**{**found.__dict__, "new_pod": await self._pod(successor)})

    def _limiter_wait(self, pod: ObservedPod) -> float:
        return self._plugin.limiters.wait(pod.owner, pod.namespace, self._wall())

    def _gang(self, job: MigrationJob) -> GangProgress:
        tag = self._origin(job).gang
        if not tag:
            return GangProgress()
        others = [
            other
            for other in self._own()
            if other.name != job.name and self._origin(other).gang == tag
        ]
        return GangProgress(
            tuple(
                other.pod.key
                for other in others
                if not other.is_over and not other.node and other.condition("Eviction") is None
            ),
            tuple(other.pod.key for other in others if other.phase == JobPhase.FAILED),
        )

    async def _reservation_of(self, job: MigrationJob) -> JobReservation:
        """The one that it refers to, or that was made for it; asked for before it is missed."""
        made = next(
            (one for one in self._of_job.get(job.name, {}).values() if one.job_uid == job.uid),
            NO_RESERVATION,
        )
        if not job.reservation:
            return made
        known = self._reservations.objects.get(job.reservation)
        if known is not None or job.is_over:
            return known or made
        try:
            document = await self._api.get(RESERVATIONS, job.reservation)
        except NotFoundError:
            return NO_RESERVATION
        return read_job_reservation(json.dumps(document).encode())

    async def _pod(self, of: PodReference, *, any_uid: bool = False) -> ObservedPod | None:
        """A pod as it is known, or else as the API server says."""
        known = self._cluster.pods.get(of.key)
        view = known.view if known is not None else None
        if view is None and of.namespace and of.name:
            try:
                document = await self._api.get(PODS, of.name, of.namespace)
            except NotFoundError:
                return None
            view = self._reader.read(json.dumps(document).encode())
        return view if view is not None and (any_uid or view.uid == of.uid) else None

    async def _carry_out(self, situation: JobSituation, step: JobStep) -> float | None:
        job = situation.job
        match step.action:
            case JobAction.ARBITRATE:
                self._has_waiting.set()
            case JobAction.RESERVE:
                return await self._reserve(situation)
            case JobAction.LINK:
                await self._link(job, situation.reservation.name, situation.reservation.uid)
            case JobAction.SET_ORDER:
                labels = {"metadata": {"labels": reservation_order(self._wall())}}
                await self._api.patch(RESERVATIONS, situation.reservation.name, labels)
            case JobAction.EVICT:
                return await self._evict(situation)
            case JobAction.FREE:
                await self._free(situation.reservation)
            case JobAction.NOTHING if step.status.get("status") == "Eviction":
                return await self._decide(situation, step)
            case JobAction.NOTHING if step.status:
                await self._write_status(job, step)
        return step.again

    async def _decide(self, situation: JobSituation, step: JobStep) -> float | None:
        """Write the decision to evict; of two jobs of a workload the second one sees the first."""
        job, pod = situation.job, situation.pod
        if not situation.is_before_eviction or pod is None:
            await self._write_status(job, step)
            return step.again
        async with self._deciding:
            wait = 0.0 if situation.bypasses_limiters else self._limiter_wait(pod)
            if wait:
                return wait
            await self._write_status(job, step)
            origin = job.origin
            self._plugin.limiters.spend(pod.owner, pod.namespace, origin.replicas, situation.now)
        return step.again

    async def _evict(self, situation: JobSituation) -> float | None:
        job, pod = situation.job, situation.pod
        outcome = await self._evictor.evict(situation)
        wait = self._evictor.wait(job)
        if outcome is None or pod is None:
            return wait
        if outcome.end is EvictionResult.EVICTED:
            eviction = job.condition("Eviction") or JobCondition()
            self._record(job, JobEvent("Evicting", eviction.message))
            message = f'Pod evicted from node "{pod.node}" by the reason "{job.eviction_reason}"'
            about = reference(PODS, pod.name, pod.namespace, pod.uid)
            self._recorder.record(about, "Descheduled", message)
        elif outcome.pod_stays and outcome.reason != job.message:
            condition = JobCondition("Eviction", "False", "Evicting", outcome.reason)
            await self._write_status(job, note(situation, condition))
        return wait

    async def _reserve(self, situation: JobSituation) -> float | None:
        job = situation.job
        try:
            pod = await self._api.get(PODS, job.pod.name, job.pod.namespace)
            if pod["metadata"].get("uid") != job.pod.uid:
                return 0.0  # another one of its name by now
            document = reservation_document(job, pod, self._wall())
        except ValueError as error:
            await self._write_status(job, fail(job, _FAILED_CREATE, str(error)))
            return 0.0
        try:
            made = await self._create(job, document)
        except NotLeadingError:
            raise
        except ApiError as error:
            return await self._report_failed_create(situation, error)
        name = made["metadata"]["name"]
        await self._link(job, name, made["metadata"].get("uid", ""))
        self._record(
            job, JobEvent("ReservationCreated", f'Successfully create Reservation "{name}"')
        )
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

    async def _report_failed_create(self, situation: JobSituation, error: ApiError) -> float | None:
        job, message = situation.job, f"Failed to create Reservation caused by {error}"
        if error.status in (400, 409, 422):
            await self._write_status(job, fail(job, _FAILED_CREATE, message))
            return 0.0
        if job.message != message:
            condition = JobCondition("ReservationCreated", "False", _FAILED_CREATE, message)
            event = JobEvent(_FAILED_CREATE, message, is_warning=True)
            await self._write_status(job, note(situation, condition, event=event))
        return max(_SOON_SECONDS, error.retry_after)

    async def _link(self, job: MigrationJob, name: str, uid: str) -> None:
        await self._patch(job, reservation_reference(name, uid))

    async def _patch(self, job: MigrationJob, patch: Mapping[str, Any]) -> Object:
        made = await self._api.patch(POD_MIGRATION_JOBS, job.name, patch, version=job.version)
        return self._supersede(job, made)

    async def _write_status(self, job: MigrationJob, step: JobStep) -> None:
        made = await self._api.patch(
            POD_MIGRATION_JOBS,
            job.name,
            {"status": step.status},
            subresource="status",
            version=job.version,
        )
        self._supersede(job, made)
        if step.event is not None:
            self._record(job, step.event)

    def _supersede(self, job: MigrationJob, made: Object) -> Object:
        if made["metadata"].get("resourceVersion") != job.version:
            self._superseded[job.name] = job.version
        return made

    def _record(self, job: MigrationJob, event: JobEvent) -> None:
        about = reference(POD_MIGRATION_JOBS, job.name, uid=job.uid)
        self._recorder.record(about, event.reason, event.message, warning=event.is_warning)
