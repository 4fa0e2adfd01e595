"""The controller of PodMigrationJobs: its parts, and when each works."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping

import anyio
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, ConflictError, NotFoundError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import POD_MIGRATION_JOBS
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of

from koord_descheduler.migration.core.documents import request_of
from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.migration.core.soft_eviction import notice_author
from koord_descheduler.migration.job_arbitrator import JobArbitrator
from koord_descheduler.migration.job_evictor import JobEvictor
from koord_descheduler.migration.job_steps import JobSteps
from koord_descheduler.migration.job_store import JobStore
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import Move
from koord_descheduler.planner.move_memory import PastMove
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin

_SCAVENGE_SECONDS = 60.0
_SOON_SECONDS = 1.0


class MigrationController:
    """The jobs of one profile, and those made by hand if ``takes_unsigned``.

    ``api`` and ``write`` must write only while this program leads. ``cluster`` has to be known
    when it runs. ``created_by`` is the name in its jobs: with the same name it goes on with them
    after a restart; one without a name makes none.
    """

    keeps_track = True
    """As the executor of moves: ``under_way`` has them."""

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
        self._created_by = created_by
        self._wall = wall
        backoff = backoff_of(api)
        self.loop = ReconcileLoop(
            "migration",
            self._reconcile,
            workers=plugin.args.max_concurrent_reconciles,
            on_warning=on_warning,
            backoff=backoff,
            due=self._worn,
            every=_SCAVENGE_SECONDS,
            monotonic=monotonic,
        )
        self._store = JobStore(
            api,
            recorder,
            {created_by, ""} if takes_unsigned else {created_by},
            self.loop.add,
            on_warning=on_warning,
            pace=pace,
        )
        self._arbitrator = JobArbitrator(
            self._store, cluster, plugin, on_warning=on_warning, wall=wall
        )
        self._evictor = JobEvictor(write, backoff, plugin.args, wall=wall, monotonic=monotonic)
        self._notices: dict[str, str] = {}
        """Pods by the names of the jobs whose notices they have, or had."""
        self._steps = JobSteps(
            self._store,
            cluster,
            plugin,
            self._evictor,
            recorder,
            wake_arbitrator=self._arbitrator.wake,
            wall=wall,
        )

    @property
    def problem(self) -> str:
        """Reason why jobs may not go on, in a line; "" while there is none."""
        return self._store.problem or self.loop.problem

    @property
    def jobs(self) -> Mapping[str, MigrationJob]:
        """All jobs by name, those of others too."""
        return self._store.jobs

    async def run(self) -> None:
        """Until cancelled."""
        unsubscribe = self._cluster.subscribe(self._pod_changed)
        try:
            async with anyio.create_task_group() as group:
                for informer in self._store.informers:
                    group.start_soon(informer.run)
                for informer in self._store.informers:
                    await informer.wait_known()
                self._remember_evictions()
                for key in self._cluster.pods:
                    self._look_for_notice(key)
                group.start_soon(self.loop.run)
                group.start_soon(self._arbitrator.run)
        finally:
            unsubscribe()

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
        for job in self._store.own():
            if not job.is_over:
                pod, target = self._arbitrator.pod_of(job), job.node or job.planned_node
                yield Move(pod, target, self._created_by, job.trigger, job.eviction_reason)

    def past(self) -> Iterator[PastMove]:
        """The evictions of all jobs that there are: a restart forgets none of them."""
        for job in self._store.own():
            if job.eviction_began is not None:
                yield PastMove(job.eviction_began, job.origin.controller, job.origin.node)

    def _remember_evictions(self) -> None:
        """Spend what the limiters spent before a restart, or while another program led."""
        limiters = self._plugin.limiters
        limiters.clear()
        for job in sorted(self._store.own(), key=lambda job: job.eviction_began or 0.0):
            if job.eviction_began is not None:
                origin, namespace = job.origin, job.pod.namespace
                limiters.spend(origin.controller, namespace, origin.replicas, job.eviction_began)

    def _pod_changed(self, key: str) -> None:
        for name in self._store.of_pod(key):
            self.loop.add(name)
        self._look_for_notice(key)

    def _look_for_notice(self, key: str) -> None:
        pod = self._cluster.pods.get(key)
        author = notice_author(pod.view) if pod is not None else None
        if author is not None:
            self._notices[author.name] = key
            self.loop.add(author.name)

    async def _take_back_notice(self, name: str, job: MigrationJob | None) -> None:
        """Take back the notice of a job of this name that was deleted."""
        pod = self._cluster.pods.get(self._notices.get(name, ""))
        author = notice_author(pod.view) if pod is not None else None
        is_of_name = author is not None and author.name == name
        if pod and author and is_of_name and (job is None or author.uid != job.uid):
            await self._store.take_back(pod.view)
        if job is None:
            self._notices.pop(name, None)

    async def _reconcile(self, name: str) -> float | None:
        job = self.jobs.get(name)
        for found in self._store.made_for(name):
            if job is None or found.job_uid != job.uid:
                await self._store.free(found)  # its job was deleted
        await self._take_back_notice(name, job)
        if job is None or not self._store.is_own(job):
            self._evictor.forget(name)
            return None
        if self._store.is_stale(job):
            return _SOON_SECONDS
        try:
            if self._is_worn(job):
                await self._api.delete(POD_MIGRATION_JOBS, name, uid=job.uid)
                return None
            return await self._steps.take(job)
        except (NotFoundError, ConflictError):
            return _SOON_SECONDS  # what changed is on its way

    def _worn(self) -> list[str]:
        return [job.name for job in self._store.own() if self._is_worn(job)]

    def _is_worn(self, job: MigrationJob) -> bool:
        """True after its time, unless a limiter has to remember its eviction."""
        now, began = self._wall(), job.eviction_began
        is_needed = began is not None and now < began + self._plugin.limiters.longest
        return now >= job.kept_until and not is_needed
