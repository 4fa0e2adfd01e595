"""The direct link and the API together: two servers, and what the leader does from time to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aiohttp import web
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, ApiError
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_service.addresses import host_port
from koord_service.grpc_core import grpc
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log
from koord_serving.aggregated.core.front_proxy import FrontProxy, front_proxy
from koord_serving.delegated_auth import authenticator
from koord_serving.delegated_auth.authenticator import DelegatedAuthenticator
from koord_serving.tls.grpc_credentials import grpc_credentials
from koord_serving.tls.https_listener import listen, make_runner
from koord_serving.tls.server_tls import ListenerTls, ServerTls
from prometheus_client import CollectorRegistry

from koord_manager.node_metric import report_authorizer
from koord_manager.node_metric.api import NodeMetricsApi
from koord_manager.node_metric.core.store import NodeIdentity, NodeMetricStore, SilentNodes
from koord_manager.node_metric.metrics import NodeMetricMetrics
from koord_manager.node_metric.receiver import SERVER_OPTIONS, NodeMetricReceiver, Received
from koord_manager.node_metric.report_authorizer import ReportAuthorizer
from koord_manager.slo_config.core.colocation import SETTLE_SECONDS, ColocationStrategy

AGE_SECONDS = 5.0
"""Between two looks for nodes that have become silent."""

_FRONT_PROXY_SECONDS = 60.0
_FRONT_PROXY_RETRY_SECONDS = 5.0
_FRONT_PROXY = ("extension-apiserver-authentication", "kube-system")
_IDLE_SECONDS = 120.0
_GRACE_SECONDS = 2.0
_MOST_EVENTS = 20
"""Of nodes that fall silent together; the log has their number."""

CONNECTIONS = report_authorizer.CONNECTIONS + authenticator.CONNECTIONS + 8
"""That the client needs so that no review waits for another, and nothing else for reviews."""

_log = get_log("manager.metrics-api")


@dataclass(frozen=True, slots=True)
class NodeMetricTiming:
    """Seconds, beside those of each node's strategy. A node is stale after ``stale`` of silence.

    Nothing is served of a new leader before all nodes have reported, or each one's report
    interval and ``settle`` have passed, which is what a node takes to find it.
    """

    stale: float = 180.0
    settle: float = SETTLE_SECONDS


@dataclass(frozen=True)
class NodeDirectory:
    """The cluster's state that is kept elsewhere.

    ``nodes`` are the names of all nodes, ``None`` while these are not known; ``about`` says what
    is known of one, ``strategy`` how often it reports. ``received`` is called with each report.
    """

    nodes: Callable[[], Collection[str] | None]
    about: Callable[[str], NodeIdentity | None]
    strategy: Callable[[str], ColocationStrategy]
    received: Received


class NodeMetricService:
    """``run`` it beside all else; ``lead`` and ``resign`` say whose turn it is.

    ``api`` is asked about tokens, by whoever brings one; so it should be a client of its own,
    with ``CONNECTIONS``. ``account`` is the service account of koordlets,
    NAMESPACE/NAME. ``on_warning`` gets a line for people if the API server cannot be asked.
    """

    def __init__(
        self,
        api: Api,
        leads: Callable[[], bool],
        tls: ServerTls,
        cluster: NodeDirectory,
        account: str,
        registry: CollectorRegistry,
        *,
        recorder: EventRecorder | None = None,
        on_warning: Callable[[str], None] = lambda _line: None,
        timing: NodeMetricTiming | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._tls = tls
        self._listener = ListenerTls(tls, asks=True)
        self._cluster = cluster
        self._recorder = recorder
        self._timing = timing or NodeMetricTiming()
        self._monotonic = monotonic
        self._clock = clock
        self._metrics = NodeMetricMetrics(registry)
        self._front_proxy: FrontProxy | None = None
        self._led_at = float("inf")
        self._complete = False
        self._runner: web.AppRunner | None = None
        self._api_listener: asyncio.Server | None = None
        self._server: grpc.aio.Server | None = None
        self.store = NodeMetricStore(
            cluster.about, cluster.strategy, stale_seconds=self._timing.stale
        )
        self._admitting = ReportAuthorizer(api, account, monotonic=monotonic, clock=clock)
        self._authenticator = DelegatedAuthenticator(api, monotonic=monotonic)
        self.receiver = NodeMetricReceiver(
            leads,
            self._admitting,
            received=self._received,
            answered=self._metrics.answered,
            on_warning=on_warning,
            monotonic=monotonic,
        )
        self.served = NodeMetricsApi(
            self.store,
            leads,
            self.complete,
            self._authenticator,
            lambda: self._front_proxy,
            clock=clock,
            on_warning=on_warning,
        )
        self.api_port = 0
        self.report_port = 0

    async def start(self, api: tuple[str, int], report: tuple[str, int]) -> None:
        """Serve the API and take reports at these addresses; port 0 picks one, "" is any host.

        Raises:
            OSError: one of them cannot be listened at.
        """
        await self._serve_reports(*report)
        await self._serve_api(*api)
        _log.info("serving node metrics", api=self.api_port, reports=self.report_port)

    async def stop(self) -> None:
        """End watches and calls, and serve no more."""
        server, self._server = self._server, None
        runner, self._runner = self._runner, None
        if server is not None:
            await server.stop(_GRACE_SECONDS)
        if self._api_listener is not None:
            self._api_listener.close()
        if runner is not None:
            await runner.cleanup()
        self._admitting.close()
        self._authenticator.close()

    def lead(self, term: int) -> None:
        """This manager leads from now on; ``term`` is the Lease's version as a number."""
        self.receiver.clear()
        self.store.begin(term)
        self._led_at = self._monotonic()
        self._complete = False

    def resign(self) -> None:
        """It leads no more."""
        self.store.end()
        self.receiver.clear()

    def forget(self, node: str) -> None:
        """Forget a deleted node."""
        self.store.forget(node)
        self.receiver.forget(node)

    def complete(self) -> bool:
        """True if the store holds all that can be expected."""
        nodes = self._cluster.nodes()
        if not self._complete and nodes is not None and self.store.term:
            self._complete = all(
                self.store.get(node) or self._had_time(node) for node in nodes or ("",)
            )
        return self._complete

    def _had_time(self, node: str) -> bool:
        wait = self._cluster.strategy(node).metric_report_seconds + self._timing.settle
        return self._monotonic() - self._led_at >= wait

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_front_proxy())
            group.create_task(self._age())

    async def _serve_reports(self, host: str, port: int) -> None:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        self.receiver.add_to(server)
        where = written(host, port)
        try:
            self.report_port = server.add_secure_port(where, grpc_credentials(self._tls))
        except RuntimeError as error:  # what gRPC says of a port in use
            raise OSError(f"{where}: reports cannot be taken there: {error}") from None
        await server.start()
        self._server = server

    async def _serve_api(self, host: str, port: int) -> None:
        self._runner = make_runner(
            self.served.app(),
            handler_cancellation=True,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=_GRACE_SECONDS,
        )
        await self._runner.setup()
        context = self._listener.context
        self._api_listener = await listen(self._runner, host, port, context)
        self.api_port = self._api_listener.sockets[0].getsockname()[1]

    def _received(self, node: str, status: bytes, at: float) -> None:
        self.store.put(node, status, at, self._clock())
        self._cluster.received(node, status, at)

    async def _age(self) -> None:
        while True:
            await asyncio.sleep(AGE_SECONDS)
            await self.age()

    async def age(self) -> None:
        """Find nodes that became silent, and record an Event for each."""
        aged = self.store.age(self._monotonic(), self._clock())
        for node in aged.gone:
            self.receiver.forget(node)
        self._metrics.show(self.store, self.receiver.bytes, self.served.watches)
        if aged.stale or aged.gone:
            await self._report_silent(aged)

    async def _report_silent(self, aged: SilentNodes) -> None:
        _log.warning(
            "nodes stopped reporting",
            stale=len(aged.stale) or None,
            forgotten=len(aged.gone) or None,
            first=(aged.stale or aged.gone)[0],
        )
        if self._recorder is None:
            return
        for node in aged.stale[:_MOST_EVENTS]:
            about = self._cluster.about(node)
            uid = about.uid if about else ""
            regarding = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": uid}}
            message = f"koordlet has not reported for {self.store.stale_after(node):g} s"
            self._recorder.record(regarding, "NodeMetricStale", message, warning=True)

    async def _follow_front_proxy(self) -> None:
        problems = LogDeduplicator()
        while True:
            problem = await self._read_front_proxy()
            if not problem:
                problems.clear()
            elif problems.is_new(problem):
                _log.warning("front proxy configuration is not usable", error=problem)
            wait = _FRONT_PROXY_SECONDS if not problem else _FRONT_PROXY_RETRY_SECONDS
            await asyncio.sleep(wait)

    async def _read_front_proxy(self) -> str:
        """Read it anew; return the error in a line, and keep the last one then."""
        name, namespace = _FRONT_PROXY
        try:
            found = front_proxy(await self._api.get(CONFIG_MAPS, name, namespace))
            self._listener.trust(found.ca)
            self._front_proxy = found
        except (ApiError, ValueError) as error:
            return str(error) if isinstance(error, ApiError) else f"{namespace}/{name}: {error}"
        return ""


def written(host: str, port: int) -> str:
    """An address as gRPC takes it: any host is not left empty."""
    return host_port(host or "::", port)
