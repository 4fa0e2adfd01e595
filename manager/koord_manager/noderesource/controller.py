"""Offers each node's batch, mid and device resources: the IO around ``core``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_model.decision import Decision
from koord_model.node_document import normalization_ratio

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_objects.core.nodes import ClusterNode, is_gone, read_node
from koord_manager.noderesource.core.calculation_names import BATCH, CALCULATIONS, MID
from koord_manager.noderesource.core.cpu_normalization import (
    cpu_normalization,
    ratio_in_force,
)
from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.noderesource.core.documents import (
    TopologyDocument,
    metric_status,
    older_than_its_node,
    topology,
    updated,
)
from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.gpu_resource import gpu
from koord_manager.noderesource.core.node_patch import patches
from koord_manager.noderesource.core.node_state import read_node_state, zones
from koord_manager.noderesource.core.pods import PodSummary
from koord_manager.noderesource.core.rdma_resource import rdma
from koord_manager.noderesource.core.realtime_overcommit import OvercommitLevels, present_ratios
from koord_manager.noderesource.core.resource_amplification import amplification
from koord_manager.noderesource.core.topology import zones_patch
from koord_manager.noderesource.core.why import why_document
from koord_manager.slo_config.core.colocation import NodeStrategies
from koord_manager.slo_config.core.config import (
    COLOCATION,
    CPU_NORMALIZATION,
    RESOURCE_AMPLIFICATION,
)
from koord_manager.slo_config.informer import SLOConfigInformer

_OVERCOMMIT_TURNS = 12
"""Passes in which every node's real-time ratio is looked at once: a minute, with the default."""

NOTHING_MORE: Mapping[str, Sequence[Decision]] = {}
_AT_ONCE = 10
"""Nodes that are summed up before other tasks of the event loop run: some milliseconds."""


class NodeResourceController:
    """The controller. ``api`` must write only while this manager leads.

    The owner of the informers of ``nodes`` and ``pods`` calls ``node_changed`` and ``pod_changed``.
    ``period`` is how often all nodes are calculated, in seconds; a change of a Node or of the
    configuration does not wait for that. Of ``calculations`` those left out leave on nodes what
    they find there. With ``settle`` nodes report straight to this manager: for so many seconds
    after its start, and its report interval, one that has not yet is not taken for silent.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        pods: Informer[Any],
        configs: SLOConfigInformer,
        *,
        gates: Mapping[str, bool],
        calculations: Collection[str] = CALCULATIONS,
        on_warning: Callable[[str], None],
        settle: float = 0.0,
        period: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._pods = pods
        self._configs = configs
        self._gates = gates
        self._on_warning = on_warning
        self._settle = settle
        self._period = period
        self._clock = clock
        self._monotonic = monotonic
        self.loop = ReconcileLoop(
            "noderesource", self._handle, on_warning=on_warning, backoff=backoff_of(api)
        )
        self._calculations = calculations
        self.fleet = Fleet(tiers=(BATCH in calculations, MID in calculations))
        self._overcommit = OvercommitLevels()
        self._changed: set[str] = set()
        self._due: set[str] = set()
        self._zones_due: set[str] = set()
        self._direct: dict[str, float] = {}
        self._logged: dict[str, tuple[str, ...]] = {}
        self._news = asyncio.Event()
        self.known = asyncio.Event()
        """Set once all has been read that decides."""
        self.passes = 0
        """Number of passes over all nodes."""
        self.pass_seconds = 0.0
        """Duration of the last pass, without the sums from before."""

        more: dict[str, Any] = {"on_warning": on_warning, "timing": pace}
        self._metrics: Informer[bytes] = Informer(
            api, NODE_METRICS, decode=metric_status, on_change=self._metric_changed, **more
        )
        self._topologies: Informer[TopologyDocument] = Informer(
            api, NODE_TOPOLOGIES, decode=topology, on_change=self._topology_changed, **more
        )
        self._devices: Informer[Object] = Informer(
            api,
            DEVICES,
            decode=msgspec.json.Decoder(Object).decode,
            on_change=lambda name, _before, _now: self.loop.add(name),
            **more,
        )
        self._informers: tuple[Informer[Any], ...] = (
            self._metrics,
            self._topologies,
            self._devices,
        )

    @property
    def problem(self) -> str:
        """Reason why nodes may not offer the right amounts, in a line; "" while there is none."""
        followed = (self._pods, *self._informers)
        informers = (informer.problem for informer in followed if not informer.absent)
        problems = (*informers, self.loop.problem, *self.fleet.refused.values())
        return next((line for line in problems if line), "")

    @property
    def hears(self) -> bool:
        """True if NodeMetrics arrive, as far as is known."""
        return self.known.is_set() and self._metrics.is_followed

    def received(self, node: str, status: bytes, at: float) -> None:
        """A report straight from a node; ``at`` is when it came, in monotonic seconds."""
        if self._nodes.synced and node not in self._nodes.objects:
            return  # a late report of a deleted node would never be forgotten
        came = self._clock() - (self._monotonic() - at)
        self._direct[node] = came
        self.fleet.metric(node, status, came)

    def status(self, node: str) -> bytes | None:
        """The newest status of a node's NodeMetric, by whichever way it came."""
        return self.fleet.status(node)

    async def run(self) -> None:
        """For ever; nothing is written before all is known that decides."""
        with self._configs.listening(self._config_changed):
            await self._run()

    async def _run(self) -> None:
        # First: the Node shows whether a NodeMetric belongs to it or to an earlier Node.
        await self._nodes.wait_synced()
        async with anyio.create_task_group() as group:
            for informer in self._informers:
                group.start_soon(informer.run)
            for informer in self._informers:
                await informer.wait_known()
            await self._pods.wait_synced()  # that there are none is never said by a missing kind
            await self._configs.wait_synced()
            self.known.set()
            self.fleet.settled = self._clock() + self._settle if self._settle else 0.0
            group.start_soon(self.loop.run)
            await self._calculate_forever()

    def why(self, name: str, more: Mapping[str, Sequence[Decision]] = NOTHING_MORE) -> Object:
        """Return the node's amounts and their reasons, in the form of ``/v1/why``.

        ``more`` are decisions of others about it, by who makes them.
        """
        node, others = self._nodes.objects.get(name), dict(more)
        if node is not None:
            desired = self._other_desired(name, node, self._strategies(node))
            others |= {calculation: offer.decisions for calculation, offer in desired.items()}
        return why_document(self.fleet, name, self._clock(), others)

    # ---- errors

    def pod_changed(self, key: str, before: PodSummary | None, now: PodSummary | None) -> None:
        """A pod was added, changed or deleted, as of an informer."""
        self.fleet.pod(key, before, now)

    def node_changed(self, name: str, before: ClusterNode | None, now: ClusterNode | None) -> None:
        """A Node was added, changed or deleted; ``before`` and ``now`` as of an informer."""
        if is_gone(before, now):
            self.fleet.drop(name)
            for kept in (self._changed, self._due, self._zones_due):
                kept.discard(name)
            self._direct.pop(name, None)
            self._overcommit.drop(name)
            self._logged.pop(name, None)
        if now is not None:
            self._changed.add(name)
            self._news.set()

    def _config_changed(self) -> None:
        self._changed |= self._nodes.objects.keys()
        self._news.set()

    def _metric_changed(self, name: str, _before: bytes | None, now: bytes | None) -> None:
        """The object counts where the node did not report straight to here since."""
        direct = self._direct.get(name)
        if direct is not None:
            if now is None or updated(now) <= direct:
                return
            del self._direct[name]
        self._take_object(name, now)

    def _take_object(self, name: str, status: bytes | None) -> None:
        """A node whose clock is ahead must not be taken for alive until that time has come.

        A status of an earlier Node of that name does not count.
        """
        came, node = self._clock(), self._nodes.objects.get(name)
        at = updated(status) if status is not None else 0.0
        if node is not None and older_than_its_node(at, node.created):
            status = None
        self.fleet.metric(name, status, came if at > came else None)

    def _topology_changed(
        self, name: str, _before: TopologyDocument | None, now: TopologyDocument | None
    ) -> None:
        self.fleet.topology(name, zones(now.document()) if now else ())
        self.loop.add(name)

    # ---- calculation and writes

    async def _calculate_forever(self) -> None:
        while True:
            self._news.clear()
            await self._take_changes()
            more = True
            while more:
                started = time.perf_counter()
                more = self.fleet.sum_up(self._clock(), _AT_ONCE)
                # As long for all others: in one turn of the loop gRPC takes a single call.
                await asyncio.sleep(time.perf_counter() - started)
            await self._calculate()
            await asyncio.sleep(min(1.0, self._period))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._period - 1.0)):
                    await self._news.wait()

    async def _take_changes(self) -> None:
        number = 0
        while self._changed:
            name = self._changed.pop()
            node = self._nodes.objects.get(name)
            if node is not None:
                self._take(name, node)
                self.loop.add(name)
            number += 1
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _take(self, name: str, node: ClusterNode) -> None:
        node_state, strategies = read_node_state(node.document()), self._strategies(node)
        new = name not in self.fleet
        self.fleet.node(name, node_state, strategies.colocation, self._clock())
        if new:
            self._take_known_objects(name)
        lines = (*node_state.ignored, *strategies.ignored)
        if lines != self._logged.get(name, ()):
            for line in lines:
                self._on_warning(f"{name}: {line}")
        self._logged[name] = lines

    def _take_known_objects(self, name: str) -> None:
        """A deleted Node lost what its other objects, which may still exist, had set."""
        if name in self._topologies.objects:
            self.fleet.topology(name, zones(self._topologies.objects[name].document()))
        if name in self._metrics.objects and name not in self._direct:
            self._take_object(name, self._metrics.objects[name])

    async def _calculate(self) -> None:
        """Part by part: this loop answers webhooks and nodes as well."""
        if COLOCATION in self._configs.config.unknown:
            return  # what nodes offer stays as it is found there
        took = 0.0
        for part in range(self.fleet.parts):
            started = time.perf_counter()
            self._calculate_part(part)
            if part % _OVERCOMMIT_TURNS == self.passes % _OVERCOMMIT_TURNS:
                self._move_overcommit(part)
            took += time.perf_counter() - started
            await asyncio.sleep(0)
        self.passes += 1
        self.pass_seconds = took

    def _calculate_part(self, part: int) -> None:
        due, zones_due = self.fleet.calculate_part(part, self._clock())
        here = self.fleet.names(part)
        for kept, now_due in ((self._due, due), (self._zones_due, zones_due)):
            kept.difference_update(here)
            kept.update(now_due)
        for name in dict.fromkeys((*due, *zones_due)):
            self.loop.add(name)

    def _move_overcommit(self, part: int) -> None:
        """Move the ratios of those nodes whose configured ratios are bounded in real time."""
        unknown = self._configs.config.unknown
        if unknown & {CPU_NORMALIZATION, RESOURCE_AMPLIFICATION}:
            return
        now = self._clock()
        for name in self.fleet.names(part):
            node = self._nodes.objects.get(name)
            if node is None:
                continue
            strategies = self._strategies(node)
            amplified = strategies.amplification
            if not (amplified.enable and amplified.realtime.enable):
                self._overcommit.drop(name)
                continue
            there = self._topologies.objects.get(name)
            load = self.fleet.load(name, now, there.guaranteed if there else 0)
            if load is not None:
                speed, _ = normalization_ratio(node.document())
                present = present_ratios(node.annotations, max(1.0, speed))
                hold = strategies.colocation.degrade_seconds
                if self._overcommit.move(name, amplified, load, present, now, hold):
                    self.loop.add(name)

    async def _handle(self, name: str) -> None:
        with suppress(NotFoundError):  # the Node is gone, and so is what it should have
            await self._write(name)
            if name in self._zones_due:
                await self._write_zones(name)

    async def _write(self, name: str) -> None:
        node = self._nodes.objects.get(name)
        if node is None:
            return
        due = name in self._due
        desired = [*self._other_desired(name, node, self._strategies(node)).values()]
        if due:
            desired.append(self.fleet.desired(name))
        writes, answer = patches(node.document(), desired), None
        if writes.status is not None:
            # Labels and annotations may go with a Node's status: one write instead of two.
            change = (writes.metadata or {}) | writes.status
            answer = await self._api.patch(NODES, name, change, subresource="status")
        elif writes.metadata is not None:
            answer = await self._api.patch(NODES, name, writes.metadata)
        if due:
            self._due.discard(name)
            self.fleet.written(name, self._clock())
        # What the informer has brought meanwhile may be newer than the answer.
        if answer is not None and self._nodes.objects.get(name) is node:
            self._take(name, read_node(msgspec.json.encode(answer)))

    async def _write_zones(self, name: str) -> None:
        there = self._topologies.objects.get(name)
        if there is None:
            return
        change = zones_patch(there.document()["zones"], self.fleet.desired_zones(name))
        if change is not None:
            with suppress(ConflictError):  # koordlet was faster: its news bring this about again
                await self._api.patch(NODE_TOPOLOGIES, name, change, version=there.version)
                self.fleet.zones_written(name, self._clock())
        self._zones_due.discard(name)

    def _strategies(self, node: ClusterNode) -> NodeStrategies:
        return self._configs.config.strategies_for(node.labels, node.annotations)

    def _other_desired(
        self, name: str, node: ClusterNode, strategies: NodeStrategies
    ) -> dict[str, DesiredNode]:
        """Those of the calculations about one node alone, by Koordinator's names of them."""
        unknown, document = self._configs.config.unknown, node.document()
        desired: dict[str, DesiredNode] = {}
        there = self._topologies.objects.get(name)
        if CPU_NORMALIZATION not in unknown:
            about = there.document() if there else None
            desired["CPUNormalization"] = cpu_normalization(
                document, about, strategies.normalization
            )
        if not unknown & {CPU_NORMALIZATION, RESOURCE_AMPLIFICATION}:
            ratio = ratio_in_force(document, desired["CPUNormalization"])
            realtime: Mapping[str, float] = {}
            if strategies.amplification.realtime.enable:
                present = present_ratios(node.annotations, ratio)
                realtime = self._overcommit.ratios(name, strategies.amplification, present)
            desired["ResourceAmplification"] = amplification(
                strategies.amplification, ratio, realtime
            )
        device = self._devices.objects.get(name)
        desired["GPUDeviceResource"] = gpu(device, self._gates)
        desired["RDMADeviceResource"] = rdma(device)
        return {name: offer for name, offer in desired.items() if name in self._calculations}
