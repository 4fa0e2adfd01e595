"""One manager: its parts put together, and what becomes of them over its life."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from koord_kube.client import Client
from koord_kube.election import Timing
from koord_kube.events import Repeated
from koord_kube.leases import Elector
from koord_kube.rate import TokenBucket
from koord_kube.recorder import Recorder
from koord_service import memory
from koord_service.logs import get_log
from koord_service.status import StatusServer
from prometheus_client import CollectorRegistry

from koord_manager.cluster_view import FollowedCluster
from koord_manager.config import Settings
from koord_manager.controllers.slo_config import SLOConfigs
from koord_manager.gates import gates_of
from koord_manager.leading import Shared, Term
from koord_manager.metrics import Figures, ManagerMetrics
from koord_manager.node_metric_side import NodeMetricSide
from koord_manager.pages import Document, Known, pages, probes
from koord_manager.webhook_side import WebhookSide

_COMPONENT = "koord-manager"
_BEAT_SECONDS = 1.0
_SETTLE_SECONDS = 3600.0
_PAGE_SECONDS = 5.0

T = TypeVar("T")

log = get_log("manager")


class Manager:
    """One run of it; ``identity`` is this run's alone."""

    def __init__(self, settings: Settings, client: Client, identity: str) -> None:
        self._settings = settings
        self._client = client
        self._gates, others = gates_of(settings.feature_gates)
        for gate in others:
            log.warning("no such feature gate here", gate=gate)
        self._told = Repeated()
        self._beat = time.monotonic()
        self._term: Term | None = None
        self._stopping = False
        self._writes = TokenBucket(settings.rest_config_qps, settings.rest_config_burst)
        self.registry = CollectorRegistry()
        self._elector = Elector(
            client,
            identity,
            name=settings.leader_election_name,
            namespace=settings.leader_election_namespace,
            timing=Timing(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            tell=self._tell,
        )
        fenced = self._fenced(self._leads)
        recorder = Recorder(fenced, _COMPONENT, settings.pod_name, failed=self._tell)
        self._configs = SLOConfigs(
            client,
            recorder,
            name=settings.slo_config_name,
            namespace=settings.config_namespace,
            tell=self._tell,
        )
        self._cluster = FollowedCluster(
            client,
            self._configs,
            self._gates,
            config_map=f"{settings.config_namespace}/{settings.slo_config_name}",
            rules=(
                f"{settings.pod_enhanced_validator_config_namespace}/"
                f"{settings.pod_enhanced_validator_config_name}"
            ),
            tell=self._tell,
        )
        self._node_metrics: NodeMetricSide | None = None
        extra = NodeMetricSide.tls_needs(settings) if settings.enable_node_metric_api else None
        self._webhooks = WebhookSide(
            settings,
            client,
            fenced,
            self._cluster,
            self._gates,
            self.registry,
            leads=self._leads,
            names=extra.names if extra else (),
            targets=extra.targets if extra else (),
        )
        if settings.enable_node_metric_api:
            self._node_metrics = NodeMetricSide(
                settings,
                client,
                self._elector,
                self._webhooks.tls,
                self._webhooks.certified,
                recorder,
                self.registry,
                nodes=lambda: self._term.nodes if self._term else {},
                received=self._received,
            )
        ManagerMetrics(self.registry, self._figures)

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT; then hand over, and answer what is under way.

        Raises:
            OSError: an address cannot be listened at.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with AsyncExitStack() as at_exit:
            for server in self._status_servers():
                server.start()
                at_exit.callback(server.stop)
            try:
                await self._serve_until(stop)
            except BaseException:
                # A part has failed, and all others were ended: others need not wait for ours.
                await self._resign()
                raise
        log.info("manager has stopped")

    async def _serve_until(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part) for part in self._parts()]
            leading = group.create_task(self._lead_for_ever())
            log.info("manager is up", identity=self._elector.identity)
            await stop.wait()
            log.info("manager stops")
            self._stopping = True
            await _ended(leading)
            await self._resign()
            for one in parts:
                one.cancel()

    def _parts(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield self._keep_beating()
        yield _settle_for_ever()
        yield self._configs.run()
        yield self._cluster.run()
        yield self._webhooks.run()
        if self._settings.enable_leader_election:
            yield self._elector.run()
        if self._node_metrics is not None:
            yield self._node_metrics.run()

    # ---- leading

    def _leads(self) -> bool:
        return not self._settings.enable_leader_election or self._elector.leads

    def _fenced(self, leads: Callable[[], bool]) -> Client:
        return self._client.fenced(leads, self._writes)

    async def _lead_for_ever(self) -> None:
        while True:
            if self._settings.enable_leader_election:
                await self._elector.wait_leads()
            await self._lead(self._elector.term)
            log.warning("this manager leads no more")

    async def _lead(self, term: int) -> None:
        """The leader's work until the term is over."""
        log.info("this manager leads", term=term)
        api = self._fenced(lambda: self._leads() and self._elector.term == term)
        service = self._node_metrics.service if self._node_metrics else None
        shared = Shared(self._configs, self._cluster.view, self._gates, service, self._tell)
        self._term = Term(self._settings, api, shared)
        self._webhooks.wake()
        try:
            async with asyncio.TaskGroup() as group:
                work = [group.create_task(self._term.run())]
                if self._node_metrics is not None:
                    work.append(group.create_task(self._node_metrics.lead(term, api)))
                await self._until_lost()
                for one in work:
                    one.cancel()
        finally:
            self._term = None

    async def _until_lost(self) -> None:
        if self._settings.enable_leader_election:
            await self._elector.wait_lost()
        else:
            await asyncio.Event().wait()

    async def _resign(self) -> None:
        """What only a leader does has ended: the next one may begin. Webhooks end last."""
        self._stopping = True
        if self._node_metrics is not None:
            await self._node_metrics.withdraw(self._fenced(self._leads))
        if self._settings.enable_leader_election:
            await self._elector.release()
        await self._webhooks.drain()

    def _received(self, node: str, status: bytes, at: float) -> None:
        if self._term is not None:
            self._term.received(node, status, at)

    # ---- what it says of itself

    def _status_servers(self) -> Sequence[StatusServer]:
        settings, known = self._settings, self._known()
        given = {settings.health_probe_addr: probes(known)}
        given[settings.metrics_addr] = pages(known, self.registry)
        return [StatusServer(at, shown, network=True) for at, shown in given.items() if at]

    def _known(self) -> Known:
        loop = asyncio.get_running_loop()
        return Known(
            identity=self._elector.identity,
            beat=lambda: self._beat,
            leads=self._leads,
            leader=lambda: self._elector.leader,
            not_ready=lambda: _in_loop(loop, self._not_ready),
            troubles=lambda: _in_loop(loop, lambda: tuple(self._troubles())),
            why=lambda node: _in_loop(loop, lambda: self._why(node)),
        )

    def _not_ready(self) -> str:
        if self._stopping:
            return "this manager is stopping"
        return self._webhooks.trouble or self._cluster.trouble

    def _troubles(self) -> Iterator[str]:
        term = self._term
        found = (self._elector.trouble, self._configs.trouble, self._webhooks.trouble)
        yield from (line for line in found if line)
        if term is not None:
            yield from term.troubles()

    def _why(self, node: str) -> Document | None:
        term = self._term
        resources = term.resources if term is not None else None
        return resources.why(node) if resources is not None else None

    def _figures(self) -> Figures:
        term, problems = self._term, len(self._configs.problems)
        if term is None:
            return Figures(self._leads(), problems)
        return term.figures(self._leads(), problems)

    def _tell(self, line: str) -> None:
        """A line for people; the same trouble of many objects would fill the log."""
        count = self._told.count(line.partition(": ")[2] or line, time.monotonic())
        if count:
            log.warning("trouble", what=line, times=count if count > 1 else None)

    async def _keep_beating(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)


async def _settle_for_ever() -> None:
    """Old garbage goes once in a while."""
    while True:
        await asyncio.sleep(_SETTLE_SECONDS)
        memory.settle()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _in_loop(loop: asyncio.AbstractEventLoop, ask: Callable[[], T]) -> T:
    """Pages are made in threads; what they tell is looked up where nothing changes under it."""

    async def answer() -> T:
        return ask()

    return asyncio.run_coroutine_threadsafe(answer(), loop).result(_PAGE_SECONDS)
