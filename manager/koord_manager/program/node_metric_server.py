"""Nodes' reports and the API of NodeMetrics, as one manager serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import anyio
from koord_kube.event_recorder import EventRecorder
from koord_kube.leadership import Leadership
from koord_kube.protocol.api import Api, ApiError, Object
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_kube.work_queue import WorkQueue
from koord_service.log_deduplicator import LogDeduplicator
from koord_serving.admission.core.ca_bundle_targets import (
    CABundleTarget,
    api_service_target,
    config_map_target,
)
from koord_serving.tls.server_tls import ServerTls
from prometheus_client import CollectorRegistry

from koord_manager.metrics_apis.core.catalogue import NodeCapacity, capacity_of
from koord_manager.metrics_apis.core.pods import PodIndex
from koord_manager.metrics_apis.sources import UsageSources
from koord_manager.node_metric.core.store import NodeIdentity
from koord_manager.node_metric.publisher import (
    NODE_METRICS,
    LeaderEndpoint,
    LeaderPublisher,
)
from koord_manager.node_metric.receiver import Received
from koord_manager.node_metric.service import NodeDirectory, NodeMetricService, NodeMetricTiming
from koord_manager.program.config import Settings, parse_listen_address
from koord_manager.program.gates import CUSTOM_METRICS
from koord_manager.program.leading import LeaderControllers
from koord_manager.program.metrics_groups import METRICS_GROUPS, served_groups
from koord_manager.program.webhook_server import service_names
from koord_manager.slo_config.core.colocation import ColocationStrategy

CA_CONFIG_MAP = "koordinator-manager-ca"
"""Has in ``ca.crt`` whom koordlets trust when they report."""

_KEPT_SECONDS = 60.0
_LONGEST_RETRY_SECONDS = 30.0
_WITHDRAW_SECONDS = 3.0


class TlsRequirements(NamedTuple):
    """Names for the server's certificate, and targets for its CA bundle."""

    names: Sequence[str]
    targets: Sequence[CABundleTarget]


class NodeMetricServer:
    """``term`` has the cluster's nodes, as the leader knows them; ``None`` while not leading.

    ``received`` is called with each report. ``api`` is a client of its own, as
    ``NodeMetricService`` needs it.

    What ``tls`` shows is shown here, too, once ``certified`` is set.
    """

    def __init__(
        self,
        settings: Settings,
        gates: Mapping[str, bool],
        api: Api,
        leadership: Leadership,
        tls: ServerTls,
        certified: anyio.Event,
        recorder: EventRecorder,
        registry: CollectorRegistry,
        *,
        term: Callable[[], LeaderControllers | None],
        received: Received,
        on_warning: Callable[[str], None],
    ) -> None:
        self._certified = certified
        self._on_warning = on_warning
        self._term = term
        self._recorder = recorder
        self._foreign = LogDeduplicator()
        self._gates = gates
        self._received = received
        addresses = (settings.node_metric_api_address, settings.node_metric_report_address)
        self._api_at = parse_listen_address("node-metric-api-address", addresses[0]) or ("", 0)
        self._reports_at = parse_listen_address("node-metric-report-address", addresses[1]) or (
            "",
            0,
        )
        self._endpoint = LeaderEndpoint(
            settings.node_metric_service,
            settings.config_namespace,
            settings.pod_ip,
            {"https": self._api_at[1], "report": self._reports_at[1]},
        )
        self.service = NodeMetricService(
            api,
            lambda: leadership.leads,
            tls,
            NodeDirectory(self._all_nodes, self._about, self._strategy, self._take),
            settings.node_metric_account,
            registry,
            recorder=recorder,
            on_warning=on_warning,
            timing=NodeMetricTiming(stale=settings.node_metric_stale_seconds),
        )
        self._sources = UsageSources(
            self.service.store,
            self.service.complete,
            self._pods,
            self._labels,
            self._strategy,
            self._capacity,
        )
        for group in served_groups(gates, self._sources, self._descriptors):
            self.service.served.add(group)

    @staticmethod
    def tls_needs(settings: Settings, gates: Mapping[str, bool]) -> TlsRequirements:
        """Return the requirements on the certificates."""
        namespace = settings.config_namespace
        enabled = [group for group in METRICS_GROUPS if gates[group.gate]]
        groups = (NODE_METRICS, *(version for group in enabled for version in group.versions))
        return TlsRequirements(
            service_names(settings.node_metric_service, namespace),
            (
                *(
                    api_service_target(group.api_service, settings.node_metric_service, namespace)
                    for group in groups
                ),
                config_map_target(CA_CONFIG_MAP, namespace, "ca.crt"),
            ),
        )

    async def run(self) -> None:
        """Until cancelled.

        Raises:
            OSError: an address cannot be listened at.
        """
        await self._certified.wait()  # servers cannot be made without a certificate
        await self.service.start(self._api_at, self._reports_at)
        try:
            await self.service.run()
        finally:
            with anyio.CancelScope(shield=True):
                await self.service.stop()

    async def lead(self, term: int, api: Api) -> None:
        """Be the one that nodes report to, until cancelled; ``api`` writes only in this term."""
        self.service.lead(term)
        self._sources.history.clear()
        self._foreign.clear()
        steps = self._steps(LeaderPublisher(api, self._endpoint, on_foreign=self._left_alone))

        async def publish(step: str) -> float:
            await steps[step]()
            return _KEPT_SECONDS

        loop = ReconcileLoop(
            "endpoint of the leader",
            publish,
            workers=1,
            queue=WorkQueue(cap=_LONGEST_RETRY_SECONDS),
            backoff=backoff_of(api),
            on_warning=self._on_warning,
        )
        for step in steps:
            loop.add(step)
        try:
            await loop.run()
        finally:
            self.service.resign()
            self._sources.history.clear()

    def _steps(self, publisher: LeaderPublisher) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Steps of publishing, by name; each is tried on its own."""
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            self._endpoint.service: publisher.publish_endpoint,
            NODE_METRICS.api_service: partial(publisher.register, NODE_METRICS),
        }
        for group in METRICS_GROUPS:
            enabled = self._gates[group.gate]
            step = publisher.register if enabled else publisher.unregister
            steps[group.name] = partial(step, *group.versions)
        return steps

    def _left_alone(self, found: Object) -> None:
        """Say once in a term that somebody else serves a group."""
        name, named = found["metadata"]["name"], (found.get("spec") or {}).get("service") or {}
        theirs = f"{named['namespace']}/{named['name']}" if named else "the API server itself"
        ours = f"{self._endpoint.namespace}/{self._endpoint.service}"
        line = (
            f"APIService {name} belongs to {theirs} and is left alone; "
            f"delete it to have its group served by {ours}"
        )
        if self._foreign.is_new(line):
            self._on_warning(line)
            meta = {"name": name, "uid": found["metadata"].get("uid", "")}
            version = "apiregistration.k8s.io/v1"
            regarding = {"apiVersion": version, "kind": "APIService", "metadata": meta}
            self._recorder.record(regarding, "APIServiceTaken", line, warning=True)

    def _take(self, node: str, status: bytes, at: float) -> None:
        if self._gates[CUSTOM_METRICS]:
            self._sources.remember(node, status, at)
        self._received(node, status, at)

    def _descriptors(self) -> Mapping[str, bytes] | None:
        term = self._term()
        return term.service_values if term is not None else None

    def _capacity(self, node: str) -> NodeCapacity:
        term = self._term()
        known = term.nodes.get(node) if term is not None else None
        policy = self._strategy(node).metric_memory_policy
        return capacity_of(known.capacity if known is not None else {}, policy)

    def _pods(self) -> PodIndex | None:
        term = self._term()
        return term.pods if term is not None else None

    def _labels(self, node: str) -> Mapping[str, str]:
        term = self._term()
        known = term.nodes.get(node) if term is not None else None
        return known.labels if known is not None else {}

    async def withdraw(self, api: Api) -> None:
        """Withdraw the endpoint, so that nodes look for the next leader at once."""
        with suppress(ApiError), anyio.move_on_after(_WITHDRAW_SECONDS):
            await LeaderPublisher(api, self._endpoint).withdraw()

    def _all_nodes(self) -> Collection[str] | None:
        term = self._term()
        return term.nodes.keys() if term is not None and term.nodes_complete else None

    def _about(self, node: str) -> NodeIdentity | None:
        term = self._term()
        known = term.nodes.get(node) if term is not None else None
        return NodeIdentity(known.uid, known.created) if known is not None else None

    def _strategy(self, node: str) -> ColocationStrategy:
        term = self._term()
        return term.strategy(node) if term is not None else ColocationStrategy()
