"""Nodes' reports and the API of NodeMetrics, as one manager serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from koord_kube.api import Api, ApiError
from koord_kube.leases import Elector
from koord_kube.recorder import Recorder
from koord_service.logs import get_log
from prometheus_client import CollectorRegistry

from koord_manager.config import Settings, listened_at
from koord_manager.leading import SETTLE_SECONDS
from koord_manager.metrics_api.kept import About
from koord_manager.metrics_api.publishing import API_SERVICE, Endpoint, Publisher
from koord_manager.metrics_api.receiver import Received, Standing
from koord_manager.metrics_api.service import Cluster, NodeMetricService, Timing
from koord_manager.reconcilers.nodes import Node
from koord_manager.serving.rounds import rounds
from koord_manager.serving.targets import Target, api_service_target, config_map_target
from koord_manager.serving.tls import ServerTls
from koord_manager.webhook_side import service_names

CA_CONFIG_MAP = "koordinator-manager-ca"
"""Has in ``ca.crt`` whom koordlets trust when they report."""

_KEPT_SECONDS = 60.0
_WITHDRAW_SECONDS = 3.0

log = get_log("manager.metrics-api")


class TlsNeeds(NamedTuple):
    """Names that the server's certificate is to be for, and who is to know whom to trust."""

    names: Sequence[str]
    targets: Sequence[Target]


class NodeMetricSide:
    """``nodes`` are the cluster's, as the leader knows them; ``received`` hears of each report.

    What ``tls`` shows is shown here, too, once ``certified`` is set.
    """

    def __init__(
        self,
        settings: Settings,
        api: Api,
        elector: Elector,
        tls: ServerTls,
        certified: asyncio.Event,
        recorder: Recorder,
        registry: CollectorRegistry,
        *,
        nodes: Callable[[], Mapping[str, Node]],
        received: Received,
    ) -> None:
        self._elector = elector
        self._certified = certified
        self._nodes = nodes
        addresses = (settings.node_metric_api_address, settings.node_metric_report_address)
        self._api_at = listened_at("node-metric-api-address", addresses[0]) or ("", 0)
        self._reports_at = listened_at("node-metric-report-address", addresses[1]) or ("", 0)
        self._endpoint = Endpoint(
            settings.node_metric_service,
            settings.config_namespace,
            settings.pod_ip,
            {"https": self._api_at[1], "report": self._reports_at[1]},
        )
        self.service = NodeMetricService(
            api,
            self._standing,
            tls,
            Cluster(lambda: nodes().keys(), self._about, received),
            settings.node_metric_account,
            registry,
            recorder=recorder,
            timing=Timing(stale=settings.node_metric_stale_seconds, settle=SETTLE_SECONDS),
        )

    @staticmethod
    def tls_needs(settings: Settings) -> TlsNeeds:
        """What the certificates have to be made for."""
        namespace = settings.config_namespace
        return TlsNeeds(
            service_names(settings.node_metric_service, namespace),
            (
                api_service_target(API_SERVICE),
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
            await self.service.stop()

    async def lead(self, term: int, api: Api) -> None:
        """Be the one that nodes report to, until cancelled; ``api`` writes only in this term."""
        self.service.lead(term)
        publisher = Publisher(api, self._endpoint)
        try:
            await rounds(partial(_publish, publisher), asyncio.Event(), log)
        finally:
            self.service.resign()

    async def withdraw(self, api: Api) -> None:
        """Be it no more, so that nodes look for the next one at once."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                await Publisher(api, self._endpoint).withdraw()

    def _standing(self) -> Standing:
        """The leader is known by its identity alone, which is no address."""
        return Standing(self._elector.leads)

    def _about(self, node: str) -> About | None:
        known = self._nodes().get(node)
        return About(known.uid, known.created) if known is not None else None


async def _publish(publisher: Publisher) -> float:
    await publisher.publish()
    return _KEPT_SECONDS
