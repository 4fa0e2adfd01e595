"""One replica of the descheduler: its parts, and their life."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import anyio
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.component_program import lease_settings
from koord_kube.core.events import EventSource
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.event_recorder import EventRecorder
from koord_kube.leadership import Leadership
from koord_kube.pod_evictor import PodEvictor
from koord_kube.program import ControlPlaneProgram, settle_for_ever
from koord_kube.protocol.api import NotLeadingError
from koord_model import duration
from koord_scheduler.config.scheduler_config import SchedulerConfig
from koord_service.feature_gates import report_unknown
from koord_service.log_limits import SECONDS_OF_PROBLEMS, LogLimiter
from koord_service.logs import get_log
from koord_service.status import MakePage, StatusServer, metrics_page
from prometheus_client import CollectorRegistry

from koord_descheduler.config.descheduler_config import DeschedulerConfig
from koord_descheduler.drain.controller import DrainController
from koord_descheduler.framework.round import RoundSettings
from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.io.direct_evictor import DirectEvictor
from koord_descheduler.io.pod_annotator import PodAnnotator
from koord_descheduler.migration.controller import MigrationController
from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.migration.workload_reader import WorkloadReader
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.budgets import MoveLimit, of_target
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import Move, RoundPlan
from koord_descheduler.planner.move_memory import PastMove
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_descheduler.plugins.migration_controller.who_may_move import (
    lasting_obstacle,
    workload_state,
)
from koord_descheduler.program.gates import DEFAULTS, TIDE, gates_of
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.metrics import DeschedulerMetrics, DeschedulerStatus
from koord_descheduler.program.pages import DeschedulerPageSources, pages
from koord_descheduler.program.plan_document import (
    Document,
    job_document,
    plan_document,
    plan_overview,
)
from koord_descheduler.program.round_loop import MoveExecutor, RoundLoop
from koord_descheduler.program.round_planner import RoundPlanner
from koord_descheduler.program.settings import DeschedulerSettings
from koord_descheduler.tide.controller import TideController
from koord_descheduler.tide.tide_metrics import TideMetrics

log = get_log("descheduler")

_RESULTS = {
    EvictionResult.EVICTED: "success",
    EvictionResult.GONE: "success",
    EvictionResult.REFUSED: "refused",
}
"""Labels of the metric; "error" for all else."""
_MOST_NOTES = 20


class DeschedulerProgram:
    """One run of it; ``identity`` is this run's alone. It observes its rounds."""

    def __init__(
        self,
        settings: DeschedulerSettings,
        config: DeschedulerConfig,
        scheduler: SchedulerConfig,
        client: Client,
        identity: str,
    ) -> None:
        self._settings = settings
        self._config = config
        self._warn = LogLimiter(log, SECONDS_OF_PROBLEMS).problem
        gates, others = gates_of(settings.feature_gates)
        report_unknown(log, others, DEFAULTS)
        self.registry = CollectorRegistry()
        self._tide_metrics = TideMetrics(self.registry) if gates[TIDE] else None
        lease = lease_settings(settings, config.leader_election)
        self._leadership = Leadership(client, identity, lease, on_warning=self._warn)
        self._cluster = ClusterModel(scheduler)
        self._follower = ClusterFollower(
            client, self._cluster, self._changed, on_warning=self._warn
        )
        self._history = RoundHistory()
        self._migrations: dict[str, MigrationController] = {}
        self._migration_plugins = _migration_plugins(config)
        self._controllers: list[DrainController | MigrationController | TideController] = []
        self._nodes_version = -1
        self._metrics = DeschedulerMetrics(self.registry, self._status)
        self._planner = self._make_planner()
        self._loop = RoundLoop(
            self._planner,
            self._history,
            self,
            interval=_interval(settings, config),
            silence=self._follower.silence,
            jobs=self._jobs,
            past=self._past,
            dry_run=settings.dry_run or config.dry_run,
        )
        self._program = ControlPlaneProgram(
            "descheduler",
            self._leadership,
            self._lead,
            parts=(
                partial(settle_for_ever, self._follower.wait_synced),
                self._follower.run,
            ),
            not_ready=lambda: next(self._follower.problems(), ""),
            log=log,
        )

    def _make_planner(self) -> RoundPlanner:
        settings, most = self._settings, self._settings.max_pods_per_target
        pace, interval = self._config.pace, _interval(settings, self._config)
        targets = [MoveLimit("--max-pods-per-target", most, of_target)] if most else []
        return RoundPlanner(
            self._cluster,
            [profile.profile for profile in self._config.profiles],
            [*self._config.limits, *targets],
            RoundSettings(settings.cool_down, settings.move_memory),
            pace.bucket(interval) if pace is not None and interval else None,
        )

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT; then hand over.

        Raises:
            OSError: an address cannot be listened at.
        """
        await self._program.run(self._status_servers())

    def _changed(self) -> None:
        """Nodes came, went, or have other labels or taints: pods may be better off elsewhere."""
        version = self._cluster.nodes_version
        if version != self._nodes_version:
            self._nodes_version = version
            self._loop.trigger()

    # ---- leading

    async def _lead(self, api: Client, _term: int) -> None:
        """Plan and carry out rounds in one term."""
        try:
            await self._lead_term(api)
        except* NotLeadingError:
            pass  # a write came too late
        await anyio.sleep_forever()  # until the end of the term, which is known soon

    async def _lead_term(self, api: Client) -> None:
        await self._follower.wait_synced()
        await self._follower.catch_up()
        submitter = TaskSubmitter(api.write)
        events = BackgroundWriter(
            submitter.submit,
            api.backoff,
            on_warning=lambda line: self._warn(f"{line} (not reported)"),
        )
        source = EventSource("koord-descheduler", self._settings.pod_name)
        recorder = EventRecorder(events, source)
        silence = self._follower.silence
        drains = DrainController(
            api,
            self._cluster,
            recorder,
            on_warning=self._warn,
            silence=silence,
            forbids=self._forbids,
            dry_run=self._loop.is_dry_run,
        )
        self._migrations = self._make_migrations(api, recorder)
        tides = self._make_tides(api, recorder)
        self._controllers = [drains, *tides, *self._migrations.values()]
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(recorder.run)
                group.start_soon(WorkloadReader(api, self._cluster.workloads).run)
                for controller in self._controllers:
                    group.start_soon(controller.run)
                annotator = PodAnnotator(api.write, self._warn)
                await self._loop.run(self._executors(api, recorder), annotator.write)
                await self._end()
                group.cancel_scope.cancel()
        finally:
            self._migrations, self._controllers = {}, []
            with anyio.CancelScope(shield=True):
                await submitter.close()

    def _make_tides(self, api: Client, recorder: EventRecorder) -> Iterator[TideController]:
        """The controller of TideNodePools, where its gate is on."""
        if self._tide_metrics is not None:
            yield TideController(
                api,
                self._cluster,
                recorder,
                self._tide_metrics,
                on_warning=self._warn,
                silence=self._follower.silence,
                forbids=self._forbids,
                dry_run=self._loop.is_dry_run,
            )

    def _make_migrations(
        self, api: Client, recorder: EventRecorder
    ) -> dict[str, MigrationController]:
        """The controllers of PodMigrationJobs, by the names of their profiles."""
        if self._loop.is_dry_run:
            return {}  # jobs that somebody makes by hand wait
        return {
            name: MigrationController(
                api,
                api.write,
                self._cluster,
                plugin,
                recorder,
                created_by=name,
                on_warning=self._warn,
                takes_unsigned=place == 0,
            )
            for place, (name, plugin) in enumerate(self._migration_plugins.items())
        }

    def _forbids(self, pod: ObservedPod) -> str:
        """Return why jobs of drains never move a pod."""
        plugin = next(iter(self._migration_plugins.values()))
        return lasting_obstacle(pod, plugin.rules, workload_state(pod, self._cluster))

    def _executors(self, api: Client, recorder: EventRecorder) -> dict[str, MoveExecutor]:
        """The executors of moves by profile."""
        grace = self._config.grace_seconds
        direct = DirectEvictor(PodEvictor(api.write, api.backoff), recorder, grace_seconds=grace)
        names = (profile.profile.name for profile in self._config.profiles)
        return {name: self._migrations.get(name, direct) for name in names}

    async def _end(self) -> None:
        """There is one round alone: this program ends once its jobs are over."""
        while any(self._jobs()):  # noqa: ASYNC110 - of several controllers, each with its own
            await anyio.sleep(1.0)
        log.info("the round is over; deschedulingInterval is 0")
        self._program.stop()

    def _past(self) -> Iterator[PastMove]:
        for migrations in self._migrations.values():
            yield from migrations.past()

    def _jobs(self) -> Iterator[Move]:
        for migrations in self._migrations.values():
            yield from migrations.under_way()

    # ---- what became of rounds

    def planned(self, plan: RoundPlan, seconds: float) -> None:
        """Count a round, and log what is in it."""
        self._metrics.round_seconds.observe(seconds)
        for name, note in plan.notes.items():
            if name.endswith("/defect"):
                log.error("a plugin failed", plugin=name.removesuffix("/defect"), error=note)
        if plan.moves:
            log.info("round planned", moves=len(plan.moves), stay=len(plan.refusals))

    def not_planned(self, reason: str) -> None:
        """Count a round that could not be planned."""
        self._metrics.failed_rounds.labels("not ready").inc()
        self._warn(f"no round: {reason}")

    def executed(self, move: Move, outcome: EvictionOutcome) -> None:
        """Count a move, log it, and report it to the pod's owner."""
        pod, result = move.pod, _RESULTS.get(outcome.end, "error")
        self._metrics.evicted.labels(result, move.plugin, pod.namespace, move.source).inc()
        log.info(
            "move",
            pod=pod.key,
            source=move.source,
            target=move.target or "any",
            plugin=move.plugin,
            reason=move.reason,
            result=outcome.end.value,
            why=outcome.reason,
        )

    # ---- status

    def _status(self) -> DeschedulerStatus:
        """Called in threads, of what changes in the event loop."""
        return self._program.health.look_up(self._present)

    def _present(self) -> DeschedulerStatus:
        plan = self._history.last
        return DeschedulerStatus(
            self._leadership.leads,
            len(plan.moves) if plan is not None else 0,
            Counter(refusal.rule for refusal in plan.refusals) if plan is not None else {},
            self._under_way(),
        )

    def _under_way(self) -> int:
        moves = (*self._planner.under_way(time.time()), *self._jobs())
        return len({move.pod.uid for move in moves})

    def _status_document(self) -> Document:
        now = self._present()
        return {
            "identity": self._leadership.identity,
            "leads": now.leads,
            "leader": self._leadership.leader,
            "dry_run": self._loop.is_dry_run,
            "profiles": [profile.profile.name for profile in self._config.profiles],
            "problems": list(self._problems()),
            "obstacle": self._follower.silence() or self._planner.obstacle(),
            "nodes": len(self._cluster.nodes),
            "pods": len(self._cluster.pods),
            "under_way": now.under_way,
            "rounds": self._history.rounds(),
            "results": list(islice(self._history.results(), _MOST_NOTES)),
        }

    def _overview_document(self) -> Document:
        plan = self._history.last
        status = {**self._status_document(), "rounds": self._history.rounds()[-_MOST_NOTES:]}
        return {**status, "plan": plan_overview(plan) if plan is not None else None}

    def _problems(self) -> Iterator[str]:
        yield from self._follower.problems()
        for controller in self._controllers:
            if controller.problem:
                yield controller.problem

    def _plan_document(self) -> Document:
        reason = self._follower.silence() or self._planner.obstacle()
        if reason:
            return {"reason": reason}
        return plan_document(self._loop.plan())

    def _last_document(self) -> Document:
        plan = self._history.last
        return plan_document(plan) if plan is not None else {"reason": "no round was planned yet"}

    def _why(self, pod: str) -> Document:
        if pod not in self._cluster.pods and not self._history.knows(pod):
            return {"pod": pod, "state": "unknown", "reason": f"there is no pod {pod}"}
        jobs = [job_document(job) for job in self._jobs_of(pod)]
        return {**self._history.why(pod), "jobs": jobs}

    def _jobs_of(self, pod: str) -> Iterator[MigrationJob]:
        """The PodMigrationJobs about a pod, each once."""
        every = (migrations.jobs for migrations in self._migrations.values())
        for job in next(every, {}).values():
            if pod in (job.pod.key, job.new_pod.key if job.new_pod is not None else ""):
                yield job

    def _status_servers(self) -> Sequence[StatusServer]:
        settings = self._settings
        if not settings.port:
            return []
        look_up = self._program.health.look_up
        sources = DeschedulerPageSources(
            status=lambda: look_up(self._status_document),
            overview=lambda: look_up(self._overview_document),
            plan=lambda: look_up(self._plan_document),
            last=lambda: look_up(self._last_document),
            why=lambda pod: look_up(lambda: self._why(pod)),
        )
        shown: dict[str, MakePage] = {
            "/metrics": lambda _: metrics_page(self.registry, "koord-descheduler"),
            **pages(sources),
            **self._program.probes,
        }
        address = f"{settings.bind_address}:{settings.port}"
        return [StatusServer(address, shown, network=True)]


def _interval(settings: DeschedulerSettings, config: DeschedulerConfig) -> float:
    text = settings.descheduling_interval
    return duration.seconds(text) if text else config.interval


def _migration_plugins(config: DeschedulerConfig) -> dict[str, MigrationControllerPlugin]:
    """The plugins of profiles whose moves are PodMigrationJobs, by the profiles' names.

    Without such a profile, one for the jobs of drains and people alone, "".
    """
    found = {
        profile.profile.name: profile.evictor
        for profile in config.profiles
        if isinstance(profile.evictor, MigrationControllerPlugin)
    }
    return found or {"": MigrationControllerPlugin(MigrationControllerArgs())}
