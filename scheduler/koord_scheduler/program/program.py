"""One replica of the scheduler: its parts, and their life."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import anyio
import msgspec
from koord_kube.api_writer import ApiWriter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.component_program import lease_settings
from koord_kube.leadership import Leadership
from koord_kube.pod_evictor import PodEvictor
from koord_kube.program import ControlPlaneProgram, settle_for_ever
from koord_kube.protocol.api import ApiError, NotFoundError
from koord_kube.protocol.resources import PODS
from koord_service.feature_gates import report_unknown
from koord_service.log_limits import SECONDS_OF_PROBLEMS, LogLimiter
from koord_service.logs import get_log
from koord_service.status import MakePage, StatusServer, metrics_page
from koord_service.tracing import SpanRecorder
from prometheus_client import CollectorRegistry

from koord_scheduler.config.scheduler_config import SchedulerConfig
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.extension_points.api_services import ApiServices, Controller, PreBinding
from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderFailure,
    Placement,
    PreemptionPlan,
    Refusal,
)
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message, not_admitted_message
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.self_check import SelfCheck
from koord_scheduler.framework.stale_reasons import StaleReasons, texts_of
from koord_scheduler.io.binder import Binder
from koord_scheduler.io.cluster_cache import ClusterCache
from koord_scheduler.io.controller_loop import run_controller
from koord_scheduler.io.extender_client import ExtenderClient, tls_contexts
from koord_scheduler.io.limited_writer import LimitedWriter
from koord_scheduler.io.pod_reporter import PodReporter
from koord_scheduler.io.pre_binder import PreBinder
from koord_scheduler.io.recorder import Recorder
from koord_scheduler.io.scheduling_loop import SchedulingLoop
from koord_scheduler.io.victim_evictor import VictimEvictor
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.coscheduling.gangs_document import gangs_document, gangs_overview
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.controller import NetworkTopologyController
from koord_scheduler.program.debug_flags import DebugFlags, debug_updates
from koord_scheduler.program.explanation import (
    Document,
    Now,
    explain_placed,
    explain_queued,
    explain_waiting,
    read_as_pending,
    unexplained,
)
from koord_scheduler.program.gates import DEFAULTS, UNUSED, gates_of
from koord_scheduler.program.make_scheduler import make_scheduler
from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from koord_scheduler.program.overview import device_shares, nodes_overview, queue_overview
from koord_scheduler.program.pages import SchedulerPageSources, pages
from koord_scheduler.program.recent_rates import INTERVAL_SECONDS, RecentRates
from koord_scheduler.program.scheduling_traces import SchedulingTraces
from koord_scheduler.program.services import ServiceSources, service_pages
from koord_scheduler.program.settings import SchedulerSettings

log = get_log("scheduler")

SETTLE_SECONDS = 5.0
"""For bindings that are on their way when it is time to stop; a pod has 30 s to end."""
_BUSY = 32
"""Bindings on their way from which reports wait."""


class SchedulerProgram:
    """One run of it; ``identity`` is this run's alone. A ``recorder`` is run with it."""

    def __init__(
        self,
        settings: SchedulerSettings,
        config: SchedulerConfig,
        client: Client,
        identity: str,
        recorder: Recorder | None = None,
        tracing: SpanRecorder | None = None,
    ) -> None:
        """Raises a ValueError if the configuration cannot be honoured."""
        if recorder is not None and config.extenders:
            reason = "the configuration has extenders, whose answers are not recorded"
            raise ValueError(f"--record-to: {reason}; leave out one of the two")
        self._settings = settings
        self._client = client
        self._warn = LogLimiter(log, SECONDS_OF_PROBLEMS).problem
        self._gates, others = gates_of(settings.feature_gates)
        report_unknown(log, others, DEFAULTS, UNUSED)
        self.registry = CollectorRegistry()
        self._leadership = Leadership(
            client,
            identity,
            lease_settings(settings, config.leader_election),
            on_warning=self._warn,
        )
        self._scheduler = make_scheduler(
            config,
            settings.tie_break_seed,
            record=recorder.record if recorder else None,
            gates=self._gates,
        )
        if settings.enable_network_topology_manager:
            self._scheduler.nodes.use(ClusterNetwork)
        self._traces: SchedulingTraces | None = None
        if tracing is not None:
            tracing.register(self.registry)
            self._traces = SchedulingTraces(tracing, self._scheduler.nodes)
        self._documents = ApiDocuments(config.extenders)
        self._extenders = ExtenderClient(
            config.extenders,
            tls_contexts(config.extenders),
            self._documents,
            on_warning=self._warn,
        )
        self._enable_profiling = config.enable_profiling
        self._debug = DebugFlags(
            self._scheduler, settings.debug_scores, filters=settings.debug_filters
        )
        self._reasons = StaleReasons(self._scheduler)
        self._waits_for = ""
        self._check = SelfCheck(self._scheduler.nodes, self._scheduler.placed)
        self._loop = SchedulingLoop(self._scheduler, self._silence, self)
        self._cache = ClusterCache(
            client,
            self._scheduler,
            self._documents,
            on_change=self._loop.notice_change,
            record=recorder.record if recorder else None,
            on_warning=self._warn,
        )
        self._unsent: Callable[[], int] = _nothing
        self._stops = False
        self._reporter: PodReporter | None = None
        self._metrics = SchedulerMetrics(self.registry, self._status)
        self._rates = RecentRates()
        self._program = ControlPlaneProgram(
            "scheduler",
            self._leadership,
            self._lead,
            parts=(
                partial(settle_for_ever, self._cache.wait_synced),
                self._cache.run,
                self._check_columns,
                self._count_rates,
                *([recorder.run] if recorder else ()),
            ),
            settle=self._settle,
            not_ready=lambda: next(self._cache.problems(), ""),
            log=log,
        )
        for plugin in self._plugins():
            found = plugin.collectors(self._scheduler.nodes, self._program.health.look_up)
            for collector in found:
                self.registry.register(collector)

    def _plugins(self) -> list[Plugin]:
        """The plugins of all profiles, of each name the first."""
        found: dict[str, Plugin] = {}
        for profile in self._scheduler.profiles.values():
            for enabled in profile.plugins:
                found.setdefault(enabled.plugin.name, enabled.plugin)
        return list(found.values())

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT; then hand over.

        Raises:
            OSError: an address cannot be listened at.
        """
        await self._program.run(self._status_servers())

    # ---- leading

    async def _lead(self, api: Client, term: int) -> None:
        """Decide and bind in one term."""
        self._loop.paused = "what the leader before decided is not known yet"
        await self._cache.wait_synced()
        await self._cache.catch_up()
        leadership = self._leadership
        writer = ApiWriter(
            api,
            lambda: leadership.leads and leadership.term == term,
            on_warning=self._warn,
        )
        write = writer.write
        limited = LimitedWriter(writer.submit, backoff=api.backoff)
        pod_evictor = PodEvictor(write, api.backoff)
        services = ApiServices(self._scheduler, api, write, limited.write, pod_evictor, self._warn)
        pre_binder = PreBinder(self._pre_bindings(services), limited.write, on_warning=self._warn)
        binder = Binder(
            limited.submit,
            services.reader(PODS),
            self._loop,
            self._extenders,
            take_back=pre_binder.take_back,
            read_object=api.get,
            on_warning=self._warn,
            backoff=api.backoff,
        )

        def unsent() -> int:
            return binder.unsent + limited.unsent

        self._unsent = unsent
        reports = BackgroundWriter(
            writer.submit,
            api.backoff,
            busy=lambda: unsent() > _BUSY,
            on_warning=lambda line: self._warn(f"{line} (not reported)"),
        )
        self._reporter = reporter = PodReporter(reports, instance=self._settings.pod_name)
        evictor = VictimEvictor(write, pod_evictor, reporter.preempted, on_warning=self._warn)
        try:
            async with self._extenders, anyio.create_task_group() as group:
                group.start_soon(limited.run)
                group.start_soon(binder.run)
                group.start_soon(reports.run)
                group.start_soon(evictor.run)
                for controller in self._controllers(services):
                    group.start_soon(run_controller, controller, api.backoff, self._warn)
                await self._loop.run(binder, pre_binder, evictor, self._extenders, unsent)
        finally:
            self._reporter, self._unsent = None, _nothing
            self._scheduler.forget_all(time.monotonic())
            with anyio.CancelScope(shield=True):
                await writer.close()

    def _pre_bindings(self, services: ApiServices) -> dict[str, list[PreBinding]]:
        """Writers of what plugins reserve, by scheduler name."""
        nodes = self._scheduler.nodes
        found = {
            name: [plugin.plugin.pre_binding(nodes, services) for plugin in profile.plugins]
            for name, profile in self._scheduler.profiles.items()
        }
        return {
            name: [writer for writer in some if writer is not None] for name, some in found.items()
        }

    def _controllers(self, services: ApiServices) -> Iterator[Controller]:
        for plugin in self._plugins():
            yield from plugin.controllers(services)
        if self._scheduler.nodes.find(ClusterNetwork) is not None:
            nodes = self._scheduler.nodes
            yield NetworkTopologyController(nodes, services.write)

    def _silence(self) -> str:
        return "this scheduler stops" if self._stops else self._cache.silence()

    async def _settle(self) -> None:
        """Decide no more, and let what is decided be bound while this replica still leads."""
        self._stops = True
        with anyio.move_on_after(SETTLE_SECONDS):
            while self._unsent():  # noqa: ASYNC110 - a count of several parts, looked at once
                await anyio.sleep(0.01)

    async def _check_columns(self) -> None:
        await self._cache.wait_synced()
        if absent := self._cache.absent_kinds():
            log.info("kinds that the API server does not have", what=", ".join(absent))
        while True:
            await anyio.sleep(1.0)
            nodes = self._scheduler.nodes
            for feature in nodes.features.values():
                for line in feature.take_warnings():
                    self._warn(line)
            if self._reporter is not None:
                self._reasons.refresh(time.monotonic())
            self._log_leader()
            for name in self._check.check_some():
                log.error("columns of a node were wrong, a defect; they are repaired", node=name)

    def _log_leader(self) -> None:
        """Log once that another replica leads."""
        holder = "" if self._leadership.leads else self._leadership.leader
        if holder and holder != self._waits_for:
            log.info("standing by, another one leads", leader=holder)
        self._waits_for = holder

    async def _count_rates(self) -> None:
        while True:
            self._rates.add(*_now(), self._metrics.totals())
            await anyio.sleep(INTERVAL_SECONDS)

    # ---- what became of decisions

    def decided(self, decision: Decision, seconds: float) -> None:
        """Count a decision, and say why a pod waits."""
        result = "scheduled" if isinstance(decision, Placement) else "unschedulable"
        if self._traces is not None and isinstance(decision, Placement):
            self._traces.placed(decision, seconds)
        if isinstance(decision, PreemptionPlan):
            self._metrics.victims.observe(len(decision.preemption.victims))
            pod = decision.pod
            decision = Refusal(pod, (pod,), extenders=pod.extender_refusal)
        if isinstance(decision, ExtenderFailure) or (
            isinstance(decision, Refusal) and decision.defect
        ):
            result = "error"
        self._metrics.attempted(result, decision.pod.waiting.scheduler_name, seconds)
        if self._reporter is None:
            return
        if isinstance(decision, Refusal):
            self._refused(decision, self._reporter)
        elif isinstance(decision, ExtenderFailure):
            self._reporter.failed(decision.pod, decision.failure)

    def _refused(self, decision: Refusal, reporter: PodReporter) -> None:
        defect, message = decision.defect, decision.gang
        if decision.unreported and decision.not_admitted:
            nodes = int(self._scheduler.nodes.is_node.sum())
            reason, preemption = decision.not_admitted, decision.preemption
            message = not_admitted_message(nodes, reason, preemption)
            self._reasons.reported(decision.pod, {reason})
        elif decision.unreported and not defect and not message:
            try:
                diagnosis = diagnose(self._scheduler.scores(decision.pod), decision.extenders)
                self._reasons.reported(decision.pod, texts_of(diagnosis))
                message = fit_error_message(diagnosis, decision.preemption)
            except Exception as error:  # a plugin that cannot say why
                defect = f"{type(error).__name__}: {error}"
        if defect:
            log.error("a plugin failed", pod=decision.pod.key, error=defect)
            message = f"a plugin of the scheduler failed: {defect}"
        reporter.unschedulable(decision.unreported, message)

    def bound(self, placement: Placement) -> None:
        """Say that a pod has its node."""
        self._metrics.sli_seconds.observe(time.monotonic() - placement.pod.added)
        if self._traces is not None:
            self._traces.bound(placement, self._cache.pods.get(placement.pod.key))
        if self._reporter is not None:
            self._reporter.scheduled(placement)

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """Count a failure."""
        self._metrics.attempts.labels("error", pod.waiting.scheduler_name).inc()
        if self._traces is not None:
            self._traces.not_bound(pod)

    # ---- status

    def _status(self) -> SchedulerStatus:
        """Called in threads, of what changes in the event loop."""
        return self._program.health.look_up(self.status)

    def status(self) -> SchedulerStatus:
        """Return the present numbers."""
        scheduler = self._scheduler
        return SchedulerStatus(
            self._leadership.leads,
            scheduler.queue.counts(),
            {
                "nodes": len(self._cache.nodes),
                "pods": len(scheduler.placed.by_key),
                "assumed_pods": len(scheduler.assumed),
            },
            self._unsent(),
            self._reporter.dropped if self._reporter is not None else 0,
            self._check.repaired,
        )

    def _status_document(self) -> Document:
        now = self.status()
        return {
            "identity": self._leadership.identity,
            "leads": now.leads,
            "leader": self._leadership.leader,
            "profiles": {
                name: sorted({enabled.plugin.name for enabled in profile.plugins})
                for name, profile in self._scheduler.profiles.items()
            },
            "paused": self._loop.paused,
            "problems": list(self._cache.problems()),
            "pending": now.pending,
            "cached": now.cached,
            "unsent_bindings": now.unsent,
            "dropped_reports": now.dropped_reports,
            "repaired_nodes": now.repaired_nodes,
        }

    def _overview_document(self) -> Document:
        scheduler, now = self._scheduler, _now()
        return {
            **self._status_document(),
            "at": now.epoch,
            "rates": self._rates.document(),
            "classes": queue_overview(scheduler.queue, now.monotonic, now.epoch),
            "gangs": gangs_overview(scheduler),
            "nodes": nodes_overview(scheduler.nodes),
        }

    async def _why(self, key: str) -> Document:
        leadership = self._leadership
        if not leadership.leads:
            leader = f'"{leadership.leader}" does' if leadership.leader else "nobody does"
            reason = f'the scheduler "{leadership.identity}" does not lead; {leader}'
            return unexplained(key, "not leading", reason)
        pod = self._cache.pods.get(key)
        waiting = self._scheduler.queue.pods.get(key)
        if pod is None and waiting is not None:  # a reservation
            return explain_queued(self._scheduler, waiting, _now())
        if pod is None:
            return unexplained(key, "unknown", f"there is no pod {key}, or it has ended")
        if key not in self._scheduler.placed.by_key:
            document = explain_waiting(self._scheduler, pod, _now())
            return {**document, "paused": self._loop.paused}
        return await self._why_placed(key)

    async def _why_placed(self, key: str) -> Document:
        """Explain a placed pod: it is read again, as its former state is not kept."""
        namespace, _, name = key.partition("/")
        try:
            raw = msgspec.json.encode(await self._client.get(PODS, name, namespace))
        except ApiError as error:
            is_gone = isinstance(error, NotFoundError)
            return unexplained(key, "unknown" if is_gone else "unreadable", str(error))
        placed = self._scheduler.placed.by_key.get(key)
        if placed is None:
            return unexplained(key, "unknown", f"the pod {key} has ended just now")
        return explain_placed(self._scheduler, placed, read_as_pending(raw, self._scheduler.nodes))

    def _status_servers(self) -> Sequence[StatusServer]:
        settings = self._settings
        if not settings.port:
            return []
        health = self._program.health
        sources = SchedulerPageSources(
            status=lambda: health.look_up(self._status_document),
            overview=lambda: health.look_up(self._overview_document),
            why=lambda key: health.look_up_async(lambda: self._why(key)),
            gangs=lambda: health.look_up(lambda: gangs_document(self._scheduler)),
            devices=lambda: health.look_up(lambda: device_shares(self._scheduler.nodes)),
        )
        leadership, cache = self._leadership, self._cache
        services = ServiceSources(
            self._scheduler, lambda: cache.nodes, lambda: leadership.leads, health.look_up
        )
        shown: dict[str, MakePage] = {
            "/metrics": lambda _: metrics_page(self.registry, "koord-scheduler"),
            **pages(sources),
            **service_pages(services),
            **self._program.probes,
        }
        updates = debug_updates(self._debug, health.look_up) if self._enable_profiling else {}
        address = f"{settings.bind_address}:{settings.port}"
        return [StatusServer(address, shown, network=True, updates=updates)]


def _nothing() -> int:
    return 0


def _now() -> Now:
    return Now(time.monotonic(), time.time())
