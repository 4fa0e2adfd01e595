"""Offers each node's batch, mid and device resources: IO around ``reconcilers.node_resource``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from koord_kube.api import Api, ConflictError, NotFoundError, Object
from koord_kube.informer import Informer
from koord_kube.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES, PODS
from koord_kube.watching import Pace

from koord_manager.config import CALCULATIONS
from koord_manager.controllers.node_objects import Nodes
from koord_manager.controllers.queue import WorkQueue
from koord_manager.controllers.slo_config import SLOConfigs
from koord_manager.reconcilers.node_resource.amplification import amplification
from koord_manager.reconcilers.node_resource.cpu_normalization import (
    cpu_normalization,
    ratio_in_force,
)
from koord_manager.reconcilers.node_resource.documents import (
    Topology,
    metric_status,
    older_than_its_node,
    topology,
    updated,
)
from koord_manager.reconcilers.node_resource.facts import node_facts, zones
from koord_manager.reconcilers.node_resource.fleet import Fleet
from koord_manager.reconcilers.node_resource.gpu import gpu
from koord_manager.reconcilers.node_resource.node_patch import patches
from koord_manager.reconcilers.node_resource.pods import PodFacts, pod_facts
from koord_manager.reconcilers.node_resource.rdma import rdma
from koord_manager.reconcilers.node_resource.topology import zones_patch
from koord_manager.reconcilers.node_resource.why import BATCH, MID, why_document
from koord_manager.reconcilers.node_resource.wish import NodeWish
from koord_manager.reconcilers.nodes import Node, gone, read_node
from koord_manager.slo_config.colocation import NodeStrategies
from koord_manager.slo_config.config import COLOCATION, CPU_NORMALIZATION, RESOURCE_AMPLIFICATION

_AT_ONCE = 10
"""Nodes that are summed up between two looks at what else is to be done: some milliseconds."""


class NodeResources:
    """The controller. ``api`` is to be one that writes only while this manager leads.

    Who has the ``nodes`` tells of each change with ``node_changed``.
    ``period`` is how often all nodes are reckoned, in seconds; a change of a Node or of the
    configuration does not wait for that. Of ``calculations`` those left out leave on nodes what
    they find there. With ``settle`` nodes report straight to this manager:
    for so many seconds after its start one that has not yet is not taken for silent.
    """

    def __init__(
        self,
        api: Api,
        nodes: Nodes,
        configs: SLOConfigs,
        *,
        gates: Mapping[str, bool],
        calculations: Collection[str] = CALCULATIONS,
        tell: Callable[[str], None],
        settle: float = 0.0,
        period: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._configs = configs
        self._gates = gates
        self._tell = tell
        self._settle = settle
        self._period = period
        self._clock = clock
        self._monotonic = monotonic
        self.queue = WorkQueue("noderesource", tell=tell)
        self._calculations = calculations
        self.fleet = Fleet(tiers=(BATCH in calculations, MID in calculations))
        self._changed: set[str] = set()
        self._due: set[str] = set()
        self._zones_due: set[str] = set()
        self._direct: dict[str, float] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._news = asyncio.Event()
        self.known = asyncio.Event()
        """Set once all has been read that decides."""
        self.passes = 0
        """How many times all nodes were reckoned."""
        self.pass_seconds = 0.0
        """How long the last time took, without what was summed up before."""

        more: dict[str, Any] = {"tell": tell, "pace": pace}
        self._pods: Informer[PodFacts] = Informer(
            api, PODS, decode=pod_facts, changed=self.fleet.pod, **more
        )
        self._metrics: Informer[bytes] = Informer(
            api, NODE_METRICS, decode=metric_status, changed=self._metric_changed, **more
        )
        self._topologies: Informer[Topology] = Informer(
            api, NODE_TOPOLOGIES, decode=topology, changed=self._topology_changed, **more
        )
        self._devices: Informer[Object] = Informer(
            api,
            DEVICES,
            decode=msgspec.json.Decoder(Object).decode,
            changed=lambda name, _before, _now: self.queue.add(name),
            **more,
        )
        self._informers: tuple[Informer[Any], ...] = (
            self._pods,
            self._metrics,
            self._topologies,
            self._devices,
        )

    @property
    def trouble(self) -> str:
        """Why nodes may not offer what they should, in a line; "" while fine."""
        said = (one.trouble for one in self._informers if not one.absent)
        told = (*said, self.queue.trouble, *self.fleet.refused.values())
        return next((line for line in told if line), "")

    def received(self, node: str, status: bytes, at: float) -> None:
        """A report straight from a node; ``at`` is when it came, in monotonic seconds."""
        if self._nodes.synced and node not in self._nodes.objects:
            return  # the last words of one that is gone: nobody would ever forget them
        came = self._clock() - (self._monotonic() - at)
        self._direct[node] = came
        self.fleet.metric(node, status, came)

    def status(self, node: str) -> bytes | None:
        """The newest status of a node's NodeMetric, by whichever way it came."""
        return self.fleet.status(node)

    async def run(self, workers: int = 4) -> None:
        """For ever; nothing is written before all is known that decides."""
        with self._configs.listening(self._config_changed):
            await self._run(workers)

    async def _run(self, workers: int) -> None:
        # First: whether a NodeMetric is of this Node or of one before it, the Node tells.
        await self._nodes.wait_synced()
        async with asyncio.TaskGroup() as group:
            for one in self._informers:
                group.create_task(one.run())
            for one in self._informers:
                await one.wait_known()
            await self._configs.wait_synced()
            self.known.set()
            self.fleet.settled = self._clock() + self._settle if self._settle else 0.0
            group.create_task(self.queue.run(self._handle, workers))
            await self._reckon_for_ever()

    def why(self, name: str) -> Object:
        """What the node offers and why, as ``/v1/why`` has it."""
        node, others = self._nodes.objects.get(name), {}
        if node is not None:
            wishes = self._other_wishes(name, node, self._strategies(node))
            others = {calculation: wish.decisions for calculation, wish in wishes.items()}
        return why_document(self.fleet, name, self._clock(), others)

    # ---- what is told

    def node_changed(self, name: str, before: Node | None, now: Node | None) -> None:
        """A Node came, went or says something else; ``before`` and ``now`` as of an informer."""
        if gone(before, now):
            self.fleet.drop(name)
            for kept in (self._changed, self._due, self._zones_due):
                kept.discard(name)
            self._direct.pop(name, None)
            self._told.pop(name, None)
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

        What another Node of that name said does not count.
        """
        came, node = self._clock(), self._nodes.objects.get(name)
        at = updated(status) if status is not None else 0.0
        if node is not None and older_than_its_node(at, node.created):
            status = None
        self.fleet.metric(name, status, came if at > came else None)

    def _topology_changed(self, name: str, _before: Topology | None, now: Topology | None) -> None:
        self.fleet.topology(name, zones(now.document()) if now else ())
        self.queue.add(name)

    # ---- what comes of it

    async def _reckon_for_ever(self) -> None:
        while True:
            self._news.clear()
            await self._take_changes()
            more = True
            while more:
                started = time.perf_counter()
                more = self.fleet.sum_up(self._clock(), _AT_ONCE)
                # As long for all others: in one turn of the loop gRPC takes a single call.
                await asyncio.sleep(time.perf_counter() - started)
            await self._reckon()
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
                self.queue.add(name)
            number += 1
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _take(self, name: str, node: Node) -> None:
        facts, strategies = node_facts(node.document()), self._strategies(node)
        new = name not in self.fleet
        self.fleet.node(name, facts, strategies.colocation, self._clock())
        if new:
            self._take_what_was_told_before(name)
        lines = (*facts.ignored, *strategies.ignored)
        if lines != self._told.get(name, ()):
            for line in lines:
                self._tell(f"{name}: {line}")
        self._told[name] = lines

    def _take_what_was_told_before(self, name: str) -> None:
        """A Node that went took with it what its other objects, which may have stayed, said."""
        if name in self._topologies.objects:
            self.fleet.topology(name, zones(self._topologies.objects[name].document()))
        if name in self._metrics.objects and name not in self._direct:
            self._take_object(name, self._metrics.objects[name])

    async def _reckon(self) -> None:
        """Part by part: this loop answers webhooks and nodes as well."""
        if COLOCATION in self._configs.config.unknown:
            return  # what nodes offer stays as it is found there
        took = 0.0
        for part in range(self.fleet.parts):
            started = time.perf_counter()
            self._reckon_part(part)
            took += time.perf_counter() - started
            await asyncio.sleep(0)
        self.passes += 1
        self.pass_seconds = took

    def _reckon_part(self, part: int) -> None:
        due, zones_due = self.fleet.reckon_part(part, self._clock())
        here = self.fleet.names(part)
        for kept, now_due in ((self._due, due), (self._zones_due, zones_due)):
            kept.difference_update(here)
            kept.update(now_due)
        for name in dict.fromkeys((*due, *zones_due)):
            self.queue.add(name)

    async def _handle(self, name: str) -> None:
        with suppress(NotFoundError):  # it is gone, and so is what it was to say
            await self._write(name)
            if name in self._zones_due:
                await self._write_zones(name)

    async def _write(self, name: str) -> None:
        node = self._nodes.objects.get(name)
        if node is None:
            return
        due = name in self._due
        wishes = [*self._other_wishes(name, node, self._strategies(node)).values()]
        if due:
            wishes.append(self.fleet.wish(name))
        wanted, answer = patches(node.document(), wishes), None
        if wanted.status is not None:
            # Labels and annotations may go with a Node's status: one write instead of two.
            change = (wanted.metadata or {}) | wanted.status
            answer = await self._api.patch(NODES, name, change, subresource="status")
        elif wanted.metadata is not None:
            answer = await self._api.patch(NODES, name, wanted.metadata)
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
        change = zones_patch(there.document()["zones"], self.fleet.zone_wishes(name))
        if change is not None:
            with suppress(ConflictError):  # koordlet was faster: its news bring this about again
                await self._api.patch(NODE_TOPOLOGIES, name, change, version=there.version)
                self.fleet.zones_written(name, self._clock())
        self._zones_due.discard(name)

    def _strategies(self, node: Node) -> NodeStrategies:
        return self._configs.config.strategies_for(node.labels, node.annotations)

    def _other_wishes(
        self, name: str, node: Node, strategies: NodeStrategies
    ) -> dict[str, NodeWish]:
        """Those of the calculations about one node alone, by Koordinator's names of them."""
        unknown, said = self._configs.config.unknown, node.document()
        wishes: dict[str, NodeWish] = {}
        there = self._topologies.objects.get(name)
        if CPU_NORMALIZATION not in unknown:
            about = there.document() if there else None
            wishes["CPUNormalization"] = cpu_normalization(said, about, strategies.normalization)
        if not unknown & {CPU_NORMALIZATION, RESOURCE_AMPLIFICATION}:
            ratio = ratio_in_force(said, wishes["CPUNormalization"])
            wishes["ResourceAmplification"] = amplification(strategies.amplification, ratio)
        device = self._devices.objects.get(name)
        wishes["GPUDeviceResource"] = gpu(device, self._gates)
        wishes["RDMADeviceResource"] = rdma(device)
        return {name: wish for name, wish in wishes.items() if name in self._calculations}
