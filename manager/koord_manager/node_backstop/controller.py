"""Looks at all nodes for faults, asks for taints, and has pods evicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.lowlevel
from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_model.decision import Decision

from koord_manager.node_backstop.core.backstop import Backstop, EvictionGrant
from koord_manager.node_backstop.core.faults import NodeObservation
from koord_manager.node_backstop.evictions import BackstopEvictor
from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_taints.core.source import NodeTaints
from koord_manager.node_taints.core.taints import NodeTaint, own
from koord_manager.noderesource.core.documents import updated
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_manager.slo_config.core.config import NODE_BACKSTOP, SLOConfig

GATE = "NodeBackstop"
_AT_ONCE = 250
"""Nodes that are looked at in one go, which takes some milliseconds."""
_ROUND_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BackstopInputs:
    """The cluster, as it is asked at each look.

    ``hears`` is whether Nodes and reports arrive here; ``status`` a node's newest report.
    """

    nodes: NodeInformer
    hears: Callable[[], bool]
    config: Callable[[], SLOConfig]
    strategy: Callable[[str], ColocationStrategy]
    status: Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class BackstopFigures:
    """Unhealthy nodes, whether there are too many, and attempts at evictions by their result."""

    unhealthy: int
    is_stopped: bool
    evictions: Mapping[str, int]


class NodeBackstopController:
    """A source of taints, and its evictions; runs while this manager leads.

    ``config_map`` ("name", "namespace") gets Events about the stop.
    """

    def __init__(
        self,
        inputs: BackstopInputs,
        evictor: BackstopEvictor,
        recorder: EventRecorder,
        *,
        config_map: tuple[str, str],
        on_warning: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inputs = inputs
        self._evictor = evictor
        self._recorder = recorder
        self._config_map = config_map
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._backstop = Backstop()
        self._reports: dict[str, tuple[int, float]] = {}
        self._is_stopped = False

    @property
    def problem(self) -> str:
        """Reason why nothing is done, in a line; "" while there is none."""
        reason = self._backstop.stop_reason
        return f"nodebackstop: {reason}: no new taints, no evictions" if reason else ""

    @property
    def figures(self) -> BackstopFigures:
        """Present numbers."""
        return BackstopFigures(
            len(self._backstop.unhealthy), self._is_stopped, self._evictor.counts
        )

    async def asked(self, present: NodeTaints) -> NodeTaints:
        """Look at all nodes; the taints that they are to have now."""
        inputs = self._inputs
        config = inputs.config()
        hears = inputs.hears() and NODE_BACKSTOP not in config.unknown
        self._backstop.begin(self._monotonic(), hears=hears)
        nodes = list(inputs.nodes.objects.values())
        for start in range(0, len(nodes), _AT_ONCE):
            for node in nodes[start : start + _AT_ONCE]:
                self._backstop.take(self._observe(node, config))
            await anyio.lowlevel.checkpoint()
        there = inputs.nodes.objects
        self._reports = {name: report for name, report in self._reports.items() if name in there}
        asked = self._backstop.end(present)
        self._report_stop()
        return asked

    def bars(self, taint: NodeTaint) -> bool:
        """True of taints from here while too many nodes are unhealthy."""
        return self._backstop.bars(taint)

    def reason(self, node: str, taint: NodeTaint) -> str:
        """Reason why a node has a taint from here, or no longer has it."""
        return self._backstop.reason(node, taint)

    def decisions(self, node: str) -> tuple[Decision, ...]:
        """Faults of a node, and what is done about them."""
        return self._backstop.decisions(node, self._own(node))

    def grant(self, node: str) -> EvictionGrant | None:
        """Leave to evict pods of a node now."""
        return self._backstop.grant(node, self._own(node)) if self._inputs.hears() else None

    async def run(self) -> None:
        """Evict, for ever."""
        while True:
            nodes = [name for name in self._backstop.unhealthy if self.grant(name)]
            await self._evictor.round(nodes, self.grant)
            await anyio.sleep(_ROUND_SECONDS)

    def _own(self, name: str) -> frozenset[NodeTaint]:
        node = self._inputs.nodes.objects.get(name)
        return own(node.annotations) if node else frozenset()

    def _observe(self, node: ClusterNode, config: SLOConfig) -> NodeObservation:
        strategy = self._inputs.strategy(node.name)
        missed = strategy.silent_seconds
        return NodeObservation(
            node.name,
            node.uid,
            self._updated(node.name),
            missed,
            max(strategy.degrade_seconds, missed),
            node.conditions,
            config.backstop.of(node.labels),
            own(node.annotations),
        )

    def _updated(self, name: str) -> float:
        status = self._inputs.status(name)
        if status is None:
            self._reports.pop(name, None)
            return 0.0
        known = self._reports.get(name)
        # A hash, as the status itself would stay in memory until the next look.
        if known is None or known[0] != hash(status):
            known = self._reports[name] = hash(status), updated(status)
        return known[1]

    def _report_stop(self) -> None:
        if bool(self.problem) == self._is_stopped:
            return
        self._is_stopped = not self._is_stopped
        line = self.problem or "nodebackstop: few enough nodes are unhealthy again"
        self._on_warning(line)
        about = reference(CONFIG_MAPS, *self._config_map)
        if self._is_stopped:
            self._recorder.record(about, "NodeBackstopStopped", line, warning=True)
        else:
            self._recorder.record(about, "NodeBackstopResumed", line)
