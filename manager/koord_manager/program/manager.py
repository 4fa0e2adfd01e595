"""One manager: its parts, and their life."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import anyio
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.core.election import ElectionTiming
from koord_kube.core.events import EventSource
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.event_recorder import EventRecorder
from koord_kube.leadership import Leadership, LeaseSettings
from koord_kube.program import ControlPlaneProgram, Part, settle_for_ever
from koord_model.version import VERSION
from koord_service.feature_gates import report_unknown
from koord_service.log_limits import SECONDS_OF_PROBLEMS, LogLimiter
from koord_service.logs import get_log
from koord_service.status import StatusServer
from koord_service.tracing import SpanRecorder
from prometheus_client import CollectorRegistry

from koord_manager.cluster_page.core.cluster_document import ClusterSummary
from koord_manager.cluster_page.leader_address import LeaderAddress
from koord_manager.cluster_page.neighbour import Neighbour
from koord_manager.cluster_page.pages import ClusterPageSources, cluster_pages
from koord_manager.node_metric.service import CONNECTIONS
from koord_manager.program.cluster_informers import ClusterInformers
from koord_manager.program.config import (
    Settings,
    binding_policy,
    idle_controllers,
    parse_listen_address,
)
from koord_manager.program.gates import DEFAULTS, UNUSED, gates_of
from koord_manager.program.leading import LeaderControllers, ManagerContext
from koord_manager.program.metrics import ManagerMetrics, ManagerStatus
from koord_manager.program.node_metric_server import NodeMetricServer
from koord_manager.program.pages import Document, PageSources, pages
from koord_manager.program.webhook_server import WebhookServer
from koord_manager.quota.charging import QuotaCharger
from koord_manager.slo_config.informer import SLOConfigInformer

_COMPONENT = "koord-manager"
_NEIGHBOURS = (
    ("scheduler", "scheduler_address", ("/v1/devices",)),
    ("descheduler", "descheduler_address", ()),
)
"""Neighbours of the cluster's page: settings with their addresses, and pages to ask for."""

log = get_log("manager")


class Manager:
    """One run of it; ``identity`` is this run's alone. ``tracing`` gets spans of its webhook."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        identity: str,
        tracing: SpanRecorder | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._gates, others = gates_of(settings.feature_gates)
        report_unknown(log, others, DEFAULTS, UNUSED)
        for reason in idle_controllers(settings.controllers, self._gates):
            log.warning("controller does not run", reason=reason)
        self._warn = LogLimiter(log, SECONDS_OF_PROBLEMS).problem
        self._term: LeaderControllers | None = None
        self.registry = CollectorRegistry()
        if tracing is not None:
            tracing.register(self.registry)
        # Unknown callers decide how often the API server is asked about tokens. So neither the
        # Lease nor anything else shares connections with that.
        self._review_client = client.separate(CONNECTIONS)
        self._leadership = Leadership(
            client,
            identity,
            lease_settings(settings),
            writes=TokenBucket(settings.rest_config_qps, settings.rest_config_burst),
            on_warning=self._warn,
        )
        fenced = self._leadership.fenced()
        recorder = self._recorder = self._event_recorder(fenced)
        # Webhooks answer whether or not this manager leads.
        self._webhook_recorder = self._event_recorder(client)
        self._configs = SLOConfigInformer(
            client,
            recorder,
            name=settings.slo_config_name,
            namespace=settings.config_namespace,
            on_warning=self._warn,
        )
        self._cluster = ClusterInformers(
            client,
            self._configs,
            self._gates,
            config_map=f"{settings.config_namespace}/{settings.slo_config_name}",
            rules=(
                f"{settings.pod_enhanced_validator_config_namespace}/"
                f"{settings.pod_enhanced_validator_config_name}"
            ),
            binding=binding_policy(settings),
            charger=QuotaCharger(
                client,
                retries=settings.quota_update_max_retries,
                jitter=settings.quota_update_retry_jitter,
                on_warning=self._warn,
            ),
            recorder=self._webhook_recorder,
            on_warning=self._warn,
        )
        _, _, port = settings.metrics_addr.rpartition(":")
        self._leader_address = LeaderAddress(
            client,
            settings.leader_election_namespace,
            int(port) if port.isdigit() else 0,  # a unix socket has none
        )
        self._node_metrics: NodeMetricServer | None = None
        extra = (
            NodeMetricServer.tls_needs(settings, self._gates)
            if settings.enable_node_metric_api
            else None
        )
        self._webhooks = WebhookServer(
            settings,
            client,
            fenced,
            self._cluster,
            self._gates,
            self.registry,
            leads=self._leads,
            reviews=self._review_client,
            names=extra.names if extra else (),
            targets=extra.targets if extra else (),
            tracing=tracing,
            on_warning=self._warn,
        )
        if settings.enable_node_metric_api:
            self._node_metrics = NodeMetricServer(
                settings,
                self._gates,
                self._review_client,
                self._leadership,
                self._webhooks.tls,
                self._webhooks.certified,
                recorder,
                self.registry,
                term=lambda: self._term,
                received=self._received,
                on_warning=self._warn,
            )
        self._program = ControlPlaneProgram(
            "manager",
            self._leadership,
            self._lead,
            parts=tuple(self._parts()),
            withdraw=self._withdraw,
            drain=self._webhooks.drain,
            not_ready=lambda: self._webhooks.problem or self._cluster.problem,
            log=log,
        )
        ManagerMetrics(self.registry, self._figures)

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT; then hand over, and answer what is under way.

        Raises:
            OSError: an address cannot be listened at.
        """
        async with self._review_client:
            await self._program.run(self._status_servers())

    def _event_recorder(self, api: Client) -> EventRecorder:
        return EventRecorder(
            BackgroundWriter(
                TaskSubmitter(api.write).submit,
                self._client.backoff,
                on_warning=lambda line: self._warn(f"{line} (Events are not written)"),
            ),
            EventSource(_COMPONENT, self._settings.pod_name),
        )

    def _parts(self) -> Iterator[Part]:
        yield settle_for_ever
        yield self._recorder.run
        yield self._webhook_recorder.run
        yield self._configs.run
        yield self._cluster.run
        yield self._webhooks.run
        if self._node_metrics is not None:
            yield self._node_metrics.run

    # ---- leading

    def _leads(self) -> bool:
        return self._leadership.leads

    async def _lead(self, api: Client, term: int) -> None:
        """Do the leader's work of a term."""
        service = self._node_metrics.service if self._node_metrics else None
        shared = ManagerContext(
            self._configs, self._cluster.view, self._gates, service, self._recorder, self._warn
        )
        self._term = LeaderControllers(self._settings, api, shared)
        self._webhooks.lead()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._term.run)
                if self._node_metrics is not None:
                    group.start_soon(self._node_metrics.lead, term, api)
        finally:
            self._term = None

    async def _withdraw(self) -> None:
        if self._node_metrics is not None:
            await self._node_metrics.withdraw(self._leadership.fenced())

    def _received(self, node: str, status: bytes, at: float) -> None:
        if self._term is not None:
            self._term.received(node, status, at)

    # ---- status

    def _status_servers(self) -> Sequence[StatusServer]:
        settings, known = self._settings, self._page_sources()
        given = {settings.health_probe_addr: self._program.probes}
        given[settings.metrics_addr] = {
            **pages(known, self.registry),
            **cluster_pages(self._cluster_page_sources()),
            **self._program.probes,
        }
        return [StatusServer(at, shown, network=True) for at, shown in given.items() if at]

    def _page_sources(self) -> PageSources:
        look_up = self._program.health.look_up
        return PageSources(
            identity=self._leadership.identity,
            gates=self._gates,
            leads=self._leads,
            leader=lambda: self._leadership.leader,
            not_ready=lambda: look_up(lambda: self._program.not_ready),
            problems=lambda: look_up(lambda: tuple(self._problems())),
            why={
                "node": lambda node: look_up(lambda: self._why(node)),
                "service": lambda service: look_up(lambda: self._why_service(service)),
                "resize": lambda source: look_up(lambda: self._why_resize(source)),
            },
        )

    def _cluster_page_sources(self) -> ClusterPageSources:
        settings, health = self._settings, self._program.health
        return ClusterPageSources(
            standing=lambda: health.look_up_async(self._standing),
            summary=lambda: health.look_up(self._cluster_summary),
            ask=health.look_up_async,
            neighbours={
                name: Neighbour(
                    parse_listen_address(flag, getattr(settings, flag), ask=True), flag, more
                )
                for name, flag, more in _NEIGHBOURS
            },
        )

    async def _standing(self) -> Document:
        leads, leader = self._leads(), self._leadership.leader
        return {
            "version": VERSION,
            "identity": self._leadership.identity,
            "leads": leads,
            "leader": leader,
            "leader_address": await self._leader_address.of(leader) if leader and not leads else "",
            "problems": list(self._problems()),
        }

    def _cluster_summary(self) -> ClusterSummary | None:
        term = self._term
        return term.cluster_summary(self._cluster.quotas, time.time()) if term is not None else None

    def _problems(self) -> Iterator[str]:
        """Shown to unknown callers: only what failed; the API server's answer is in the log."""
        term = self._term
        for line in (self._configs.wrong, self._webhooks.problem):
            if line:
                yield line
        of_the_api = (self._leadership.problem, self._configs.source_problem)
        for line in (*of_the_api, *(term.problems() if term is not None else ())):
            if line:
                yield f"{line.partition(': ')[0]}: the log says why"

    def _why(self, node: str) -> Document | None:
        return self._term.why(node) if self._term is not None else None

    def _why_service(self, service: str) -> Document | None:
        return self._term.why_service(service) if self._term is not None else None

    def _why_resize(self, source: str) -> Document | None:
        resizes = self._term.resizes if self._term is not None else None
        return resizes.why(source) if resizes is not None else None

    def _figures(self) -> ManagerStatus:
        term, problems = self._term, len(self._configs.problems)
        if term is None:
            return ManagerStatus(self._leads(), problems)
        return term.figures(self._leads(), problems)


def lease_settings(settings: Settings) -> LeaseSettings | None:
    """The Lease that managers compete for; ``None`` without leader election."""
    if not settings.enable_leader_election:
        return None
    timing = ElectionTiming(settings.lease_duration, settings.renew_deadline, settings.retry_period)
    return LeaseSettings(settings.leader_election_name, settings.leader_election_namespace, timing)
