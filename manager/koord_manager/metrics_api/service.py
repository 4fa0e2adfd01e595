"""The direct link and the API together: two servers, and what the leader does from time to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aiohttp import web
from koord_kube.api import Api, ApiError
from koord_kube.recorder import Recorder
from koord_kube.resources import CONFIG_MAPS
from koord_service.addresses import host_port
from koord_service.grpc_core import grpc
from koord_service.logs import get_log
from prometheus_client import CollectorRegistry

from koord_manager.metrics_api.admitting import Admitting
from koord_manager.metrics_api.api import NodeMetricsApi
from koord_manager.metrics_api.credentials import grpc_credentials
from koord_manager.metrics_api.kept import About, Aged, Store
from koord_manager.metrics_api.metrics import NodeMetricMetrics
from koord_manager.metrics_api.receiver import SERVER_OPTIONS, Received, Receiver, Standing
from koord_manager.metrics_api.reviewing import Gatekeeper
from koord_manager.metrics_api.users import FrontProxy, front_proxy
from koord_manager.serving.tls import Listener, ServerTls

AGE_SECONDS = 5.0
"""Between two looks for nodes that have become silent."""

_FRONT_PROXY_SECONDS = 60.0
_FRONT_PROXY_RETRY_SECONDS = 5.0
_FRONT_PROXY = ("extension-apiserver-authentication", "kube-system")
_IDLE_SECONDS = 120.0
_GRACE_SECONDS = 2.0
_MOST_EVENTS = 20
"""Of nodes that fall silent together; the log has their number."""

_log = get_log("manager.metrics-api")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A node is stale after ``stale`` of silence, and forgotten after ``keep``.

    Nothing is served of a new leader before all nodes have reported, or ``settle`` has passed:
    one report interval, and what a node takes to find it.
    """

    stale: float = 180.0
    keep: float = 900.0
    settle: float = 75.0


@dataclass(frozen=True)
class Cluster:
    """What is known of the cluster elsewhere.

    ``nodes`` are the names of all nodes; ``about`` says what is known of one. ``received``
    hears of each report.
    """

    nodes: Callable[[], Collection[str]]
    about: Callable[[str], About | None]
    received: Received


class NodeMetricService:
    """``run`` it beside all else; ``lead`` and ``resign`` say whose turn it is.

    ``api`` is asked about tokens: one for each node and minute, and all of them within one
    report interval of a new leader, so it should be a client with room for that.
    ``account`` is the service account of koordlets, NAMESPACE/NAME.
    """

    def __init__(
        self,
        api: Api,
        standing: Callable[[], Standing],
        tls: ServerTls,
        cluster: Cluster,
        account: str,
        registry: CollectorRegistry,
        *,
        recorder: Recorder | None = None,
        timing: Timing | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._tls = tls
        self._listener = Listener(tls, asks=True)
        self._cluster = cluster
        self._recorder = recorder
        self._timing = timing or Timing()
        self._monotonic = monotonic
        self._clock = clock
        self._metrics = NodeMetricMetrics(registry)
        self._front_proxy: FrontProxy | None = None
        self._settled_at = float("inf")
        self._runner: web.AppRunner | None = None
        self._server: grpc.aio.Server | None = None
        self.store = Store(
            cluster.about, stale_seconds=self._timing.stale, keep_seconds=self._timing.keep
        )
        self.receiver = Receiver(
            standing,
            Admitting(api, account, monotonic=monotonic),
            received=self._received,
            answered=self._metrics.answered,
            monotonic=monotonic,
        )
        self.served = NodeMetricsApi(
            self.store,
            standing,
            self.complete,
            Gatekeeper(api, monotonic=monotonic),
            lambda: self._front_proxy,
            clock=clock,
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
        _log.info("node metrics are served", api=self.api_port, reports=self.report_port)

    async def stop(self) -> None:
        """End watches and calls, and serve no more."""
        server, self._server = self._server, None
        runner, self._runner = self._runner, None
        if server is not None:
            await server.stop(_GRACE_SECONDS)
        if runner is not None:
            await runner.cleanup()

    def lead(self, term: int) -> None:
        """This manager leads from now on; ``term`` is the Lease's version as a number."""
        self.receiver.clear()
        self.store.begin(term)
        self._settled_at = self._monotonic() + self._timing.settle

    def resign(self) -> None:
        """It leads no more."""
        self.store.end()
        self.receiver.clear()

    def forget(self, node: str) -> None:
        """The node is no more."""
        self.store.forget(node)
        self.receiver.forget(node)

    def complete(self) -> bool:
        """Whether what is kept is all that can be expected."""
        if self._monotonic() >= self._settled_at:
            return True
        nodes = self._cluster.nodes()
        done = bool(nodes) and all(self.store.get(node) for node in nodes)
        if done:
            self._settled_at = self._monotonic()
        return done

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
        self._runner = web.AppRunner(
            self.served.app(),
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=_GRACE_SECONDS,
        )
        await self._runner.setup()
        context = self._listener.context
        await web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024).start()
        self.api_port = self._runner.addresses[0][1]

    def _received(self, node: str, status: bytes, at: float) -> None:
        self.store.put(node, status, at, self._clock())
        self._cluster.received(node, status, at)

    async def _age(self) -> None:
        while True:
            await asyncio.sleep(AGE_SECONDS)
            await self.age()

    async def age(self) -> None:
        """See who has become silent, and say so."""
        aged = self.store.age(self._monotonic(), self._clock())
        for node in aged.gone:
            self.receiver.forget(node)
        self._metrics.show(self.store, self.receiver.bytes, self.served.watches)
        if aged.stale or aged.gone:
            await self._tell(aged)

    async def _tell(self, aged: Aged) -> None:
        _log.warning(
            "nodes do not report any more",
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
            message = f"koordlet has not reported for {self._timing.stale:g} s"
            await self._recorder.tell(regarding, "NodeMetricStale", message, warning=True)

    async def _follow_front_proxy(self) -> None:
        told = ""
        while True:
            trouble = await self._read_front_proxy()
            if trouble and trouble != told:
                _log.warning("the API server's front proxy is not known", error=trouble)
            told = trouble
            wait = _FRONT_PROXY_SECONDS if not trouble else _FRONT_PROXY_RETRY_SECONDS
            await asyncio.sleep(wait)

    async def _read_front_proxy(self) -> str:
        """Why it is not known, in a line; the one before stays then."""
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
