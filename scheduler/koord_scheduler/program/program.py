"""One replica of the scheduler: its parts, and their life."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
import msgspec
from koord_kube.client import Client
from koord_kube.core.election import ElectionTiming
from koord_kube.http2_writer import Http2Writer
from koord_kube.leadership import Leadership, LeaseSettings
from koord_kube.program import ControlPlaneProgram
from koord_kube.program_start import WarningLog, settle_for_ever
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import PODS
from koord_service.logs import get_log
from koord_service.status import MakePage, StatusServer, metrics_page
from prometheus_client import CollectorRegistry

from koord_scheduler.binder import Binder, Write
from koord_scheduler.cluster_cache import ClusterCache
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.config.leader_election import LeaderElectionSettings
from koord_scheduler.config.scheduler_config import SchedulerConfig
from koord_scheduler.framework.decisions import Decision, Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import SelfCheck
from koord_scheduler.pod_reporter import PodReporter
from koord_scheduler.program.explanation import (
    Document,
    Now,
    explain_placed,
    explain_waiting,
    read_as_pending,
    unexplained,
)
from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from koord_scheduler.program.pages import SchedulerPageSources, pages
from koord_scheduler.program.settings import SchedulerSettings
from koord_scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.scheduling_loop import SchedulingLoop
from koord_scheduler.victim_evictor import VictimEvictor
from koord_scheduler.volume_binder import VolumeBinder

log = get_log("scheduler")

T = TypeVar("T")

_BUSY = 32
"""Bindings on their way from which reports wait."""


class SchedulerProgram:
    """One run of it; ``identity`` is this run's alone."""

    def __init__(
        self, settings: SchedulerSettings, config: SchedulerConfig, client: Client, identity: str
    ) -> None:
        self._settings = settings
        self._client = client
        self._warn = WarningLog(log)
        self.registry = CollectorRegistry()
        self._leadership = Leadership(
            client, identity, _lease(settings, config.leader_election), on_warning=self._warn
        )
        self._scheduler = Scheduler(
            [one.guarded() for one in config.profiles],
            nodes=NodeColumns(seed=settings.tie_break_seed),
            queue=SchedulingQueue(config.pod_initial_backoff, config.pod_max_backoff),
        )
        # Kubernetes has it by profile; the longest of them is enough for all.
        self._bind_timeout = float(
            max(one.args.volume_binding.bind_timeout_seconds for one in config.profiles)
        )
        self._check = SelfCheck(self._scheduler.nodes, self._scheduler.placed)
        self._loop = SchedulingLoop(self._scheduler, lambda: self._cache.silence(), self)
        self._cache = ClusterCache(
            client, self._scheduler, on_change=self._loop.notice_change, on_warning=self._warn
        )
        self._binder: Binder | None = None
        self._reporter: PodReporter | None = None
        self._metrics = SchedulerMetrics(self.registry, self._status)
        self._program = ControlPlaneProgram(
            "scheduler",
            self._leadership,
            self._lead,
            parts=(settle_for_ever, self._cache.run, self._check_columns),
            not_ready=lambda: next(self._cache.troubles(), ""),
            log=log,
        )

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT; then hand over.

        Raises:
            OSError: an address cannot be listened at.
        """
        await self._program.run(self._status_servers())

    # ---- leading

    async def _lead(self, api: Client, term: int) -> None:
        """Decide and bind in one term."""
        await self._cache.wait_synced()
        leadership = self._leadership
        writer = _http2_writer(api, lambda: leadership.leads and leadership.term == term)
        write: Write = writer.write if writer is not None else api.write
        self._binder = binder = Binder(
            write, partial(api.get, PODS), self._loop, on_warning=self._warn
        )
        self._reporter = reporter = PodReporter(
            write,
            lambda: binder.unsent > _BUSY,
            instance=self._settings.pod_name,
            on_warning=self._warn,
        )
        evictor = VictimEvictor(write, reporter.preempted, on_warning=self._warn)
        volumes = VolumeBinder(write, self._scheduler.nodes, self._bind_timeout)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(binder.run)
                group.start_soon(reporter.run)
                group.start_soon(evictor.run)
                await self._loop.run(binder, volumes, evictor)
        finally:
            self._binder = self._reporter = None
            self._scheduler.forget_all(time.monotonic())
            if writer is not None:
                with anyio.CancelScope(shield=True):
                    await writer.close()

    async def _check_columns(self) -> None:
        await self._cache.wait_synced()
        while True:
            await anyio.sleep(1.0)
            for name in self._check.check_some():
                log.error("columns of a node were wrong, a defect; they are repaired", node=name)

    # ---- what became of decisions

    def decided(self, decision: Decision, seconds: float) -> None:
        """Count a decision, and say why a pod waits."""
        result = "scheduled" if isinstance(decision, Placement) else "unschedulable"
        if isinstance(decision, PreemptionPlan):
            self._metrics.victims.observe(len(decision.preemption.victims))
            decision = Refusal(decision.pod, (decision.pod,))
        if isinstance(decision, Refusal) and decision.defect:
            result = "error"
        labels = result, decision.pod.waiting.scheduler_name
        self._metrics.attempts.labels(*labels).inc()
        self._metrics.attempt_seconds.labels(*labels).observe(seconds)
        if isinstance(decision, Refusal) and self._reporter is not None:
            self._refused(decision, self._reporter)

    def _refused(self, decision: Refusal, reporter: PodReporter) -> None:
        defect, message = decision.defect, ""
        if decision.untold and not defect:
            try:
                diagnosis = diagnose(self._scheduler.scores(decision.pod))
                message = fit_error_message(diagnosis, decision.preemption)
            except Exception as error:  # a plugin that cannot say why
                defect = f"{type(error).__name__}: {error}"
        if defect:
            log.error("a plugin failed", pod=decision.pod.key, error=defect)
            message = f"a plugin of the scheduler failed: {defect}"
        reporter.unschedulable(decision.untold, message)

    def bound(self, placement: Placement) -> None:
        """Say that a pod has its node."""
        self._metrics.sli_seconds.observe(time.monotonic() - placement.pod.added)
        if self._reporter is not None:
            self._reporter.scheduled(placement)

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """Count a failure."""
        self._metrics.attempts.labels("error", pod.waiting.scheduler_name).inc()

    # ---- status

    def _status(self) -> SchedulerStatus:
        """Called in threads, of what changes in the event loop."""
        return self._program.health.look_up(self.status)

    def status(self) -> SchedulerStatus:
        """How it stands now."""
        scheduler = self._scheduler
        return SchedulerStatus(
            self._leadership.leads,
            scheduler.queue.counts(),
            {
                "nodes": len(self._cache.nodes),
                "pods": len(scheduler.placed.by_key),
                "assumed_pods": len(scheduler.assumed),
            },
            self._binder.unsent if self._binder is not None else 0,
            self._reporter.dropped if self._reporter is not None else 0,
            self._check.repaired,
        )

    def _status_document(self) -> Document:
        now = self.status()
        return {
            "identity": self._leadership.identity,
            "leads": now.leads,
            "leader": self._leadership.leader,
            "paused": self._loop.paused,
            "troubles": list(self._cache.troubles()),
            "pending": now.pending,
            "cached": now.cached,
            "unsent_bindings": now.unsent,
        }

    async def _why(self, key: str) -> Document:
        leadership = self._leadership
        if not leadership.leads:
            leader = f'"{leadership.leader}" does' if leadership.leader else "nobody does"
            reason = f'the scheduler "{leadership.identity}" does not lead; {leader}'
            return unexplained(key, "not leading", reason)
        pod = self._cache.pods.get(key)
        if pod is None:
            return unexplained(key, "unknown", f"there is no pod {key}, or it has ended")
        if key not in self._scheduler.placed.by_key:
            document = explain_waiting(self._scheduler, pod, _now())
            return {**document, "paused": self._loop.paused}
        return await self._why_placed(key)

    async def _why_placed(self, key: str) -> Document:
        """What it was before it had its node is not kept, but read again."""
        namespace, _, name = key.partition("/")
        try:
            raw = msgspec.json.encode(await self._client.get(PODS, name, namespace))
        except ApiError as error:
            return unexplained(key, "unknown", str(error))
        placed = self._scheduler.placed.by_key.get(key)
        if placed is None:
            return unexplained(key, "unknown", f"the pod {key} has ended just now")
        return explain_placed(self._scheduler, placed, read_as_pending(raw))

    def _status_servers(self) -> Sequence[StatusServer]:
        settings = self._settings
        if not settings.port:
            return []
        health = self._program.health
        sources = SchedulerPageSources(
            status=lambda: health.look_up(self._status_document),
            why=lambda key: health.look_up_async(lambda: self._why(key)),
        )
        shown: dict[str, MakePage] = {
            "/metrics": lambda _: metrics_page(self.registry),
            **pages(sources),
            **self._program.probes,
        }
        return [StatusServer(f"{settings.bind_address}:{settings.port}", shown, network=True)]


def _now() -> Now:
    return Now(time.monotonic(), time.time())


def _http2_writer(api: Client, leads: Callable[[], bool]) -> Http2Writer | None:
    """The fast way of writing; ``None`` where the API is reached without TLS or by a proxy."""
    cluster = api.cluster
    if cluster.new_context is None or cluster.proxy:
        return None
    return Http2Writer(cluster, leads=leads)


def _lease(settings: SchedulerSettings, configured: LeaderElectionSettings) -> LeaseSettings | None:
    """The Lease that schedulers compete for; flags count more than the file."""

    def chosen(flag: T | None, value: T) -> T:
        return value if flag is None else flag

    if not chosen(settings.leader_elect, configured.leader_elect):
        return None
    timing = ElectionTiming(
        int(chosen(settings.leader_elect_lease_duration, configured.lease_duration)),
        chosen(settings.leader_elect_renew_deadline, configured.renew_deadline),
        chosen(settings.leader_elect_retry_period, configured.retry_period),
    )
    return LeaseSettings(
        chosen(settings.leader_elect_resource_name, configured.resource_name),
        chosen(settings.leader_elect_resource_namespace, configured.resource_namespace),
        timing,
    )
