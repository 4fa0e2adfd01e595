"""Lets waiting jobs begin, or says why they do not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import anyio
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.resources import PRIORITY_CLASSES

from koord_descheduler.migration.core.arbitration import (
    Arbitration,
    ArbitrationResult,
    WaitingJob,
)
from koord_descheduler.migration.core.documents import begin_patch
from koord_descheduler.migration.core.job import JobOrigin, JobPhase, MigrationJob
from koord_descheduler.migration.core.step import FORBIDDEN, JobStep, fail
from koord_descheduler.migration.job_store import JobStore
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_descheduler.plugins.migration_controller.who_may_move import workload_state

_REASON_SECONDS = 30.0
"""Between two changes of what a waiting job says: numbers in it change all the time."""


class JobArbitrator:
    """Arbitrates each interval while jobs wait, since ``wake`` was called."""

    def __init__(
        self,
        store: JobStore,
        cluster: ClusterModel,
        plugin: MigrationControllerPlugin,
        *,
        on_warning: Callable[[str], None],
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._plugin = plugin
        self._on_warning = on_warning
        self._wall = wall
        self._has_waiting = anyio.Event()
        self._said: dict[str, float] = {}

    def wake(self) -> None:
        """There are jobs that wait."""
        self._has_waiting.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._has_waiting.wait()
            self._has_waiting = anyio.Event()
            try:
                await self._arbitrate()
            except NotLeadingError:
                raise
            except ApiError as error:
                self._on_warning(f"arbitration: {error}; tried again")
                self.wake()
            await anyio.sleep(self._plugin.args.arbitration_seconds)

    def pod_of(self, job: MigrationJob) -> ObservedPod:
        """The pod of a job, as it is, or as it was when the job began."""
        known = self._cluster.pods.get(job.pod.key)
        if known is not None and job.pod.uid in ("", known.view.uid):
            return known.view
        return self._store.origin(job).pod(job.pod)

    async def _arbitrate(self) -> None:
        await self._find_threshold()
        waiting = list(self._waiting())
        if not waiting:
            self._said.clear()
            return
        self.wake()  # until all began, or are over
        moving = [self.pod_of(job) for job in self._store.own() if self._moves(job)]
        evicting = [pod for pod in moving if self._is_there(pod)]
        arbitration = Arbitration(self._cluster, self._plugin.rules, moving, evicting)
        gangs: dict[str, str] = {}
        for result in arbitration.decide(waiting):
            try:
                await self._settle(result, gangs)
            except (ConflictError, NotFoundError):
                continue  # it has changed: next time

    def _waiting(self) -> Iterator[WaitingJob]:
        for job in self._store.own():
            known = self._cluster.pods.get(job.pod.key)
            is_waiting = job.is_waiting and not job.is_paused and job.name not in self._store.begun
            if known is None or not is_waiting or self._wall() >= job.deadline:
                continue
            if job.pod.uid in ("", known.view.uid):
                yield WaitingJob(job, known.view, self._together(job))

    def _together(self, job: MigrationJob) -> int:
        """The number of jobs of its set that have not begun; 1 for a job of none."""
        if job.move_set is None:
            return 1
        others = self._store.group(job)
        return job.move_set.size - sum(map(self._moves, others))

    def _moves(self, job: MigrationJob) -> bool:
        return job.phase == JobPhase.RUNNING or job.name in self._store.begun

    def _is_there(self, pod: ObservedPod) -> bool:
        """True if its eviction will spend a budget that does not know of it yet."""
        known = self._cluster.pods.get(pod.key)
        return known is not None and known.view.uid == pod.uid and known.view.deleted is None

    async def _find_threshold(self) -> None:
        rules = self._plugin.rules
        if rules.threshold is None and rules.threshold_name:
            found = await self._store.api.get(PRIORITY_CLASSES, rules.threshold_name)
            rules.threshold = int(found["value"])

    async def _settle(self, result: ArbitrationResult, gangs: dict[str, str]) -> None:
        job = result.waiting.job
        if result.failed:
            message = (
                f'Pod "{job.pod.key}" is forbidden to migrate because it does not meet the'
                f" requirements: {result.failed}"
            )
            await self._store.write_status(job, fail(job, FORBIDDEN, message))
        elif result.waits:
            await self._say(job, result.waits)
        else:
            await self._begin(result.waiting, gangs)

    async def _say(self, job: MigrationJob, why: str) -> None:
        now = self._wall()
        if job.message == why or now - self._said.get(job.name, 0.0) < _REASON_SECONDS:
            return
        self._said[job.name] = now
        status = {"phase": JobPhase.PENDING.value, "message": why}
        await self._store.write_status(job, JobStep(status=status))

    async def _begin(self, waiting: WaitingJob, gangs: dict[str, str]) -> None:
        """Note it in the job, then its phase, which alone counts."""
        job, pod = waiting.job, waiting.pod
        self._store.begun[job.name] = origin = self._origin(pod, gangs)
        try:
            made = await self._store.patch(job, begin_patch(job, pod.uid, origin))
            begun = job._replace(version=made["metadata"]["resourceVersion"])
            running = {"phase": JobPhase.RUNNING.value, "reason": "", "message": ""}
            await self._store.write_status(begun, JobStep(status=running))
        except BaseException:
            self._store.begun.pop(job.name, None)
            raise

    def _origin(self, pod: ObservedPod, gangs: dict[str, str]) -> JobOrigin:
        gang = gang_group(self._cluster, pod.key)
        tag = gangs.setdefault(gang.group_id, str(uuid.uuid4())) if gang.others else ""
        workload = workload_state(pod, self._cluster)
        replicas = workload.replicas.desired if workload is not None else None
        return JobOrigin(pod.node, pod.owner, pod.template.workload, replicas, tag)
