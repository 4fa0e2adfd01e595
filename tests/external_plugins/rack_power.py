"""RackPower: nodes have so many watts, and pods get their share before they are bound.

A plugin as somebody else would write it, with all that a feature may do: a column by node row,
parts of pods, a filter and a score, reserve, a write before the binding with its undo, a
controller, a metric and a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES
from koord_scheduler.extension_points.api_services import ApiServices, Controller, PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.objects.annotations import NO_ANNOTATIONS, read_annotations
from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugin import Filter, LookUp, Plugin, Score, Service
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodPart, PodParts
from koord_scheduler.state.pod_usage import PodUsage
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

HAS, ASKS, GRANTED = "example.com/watts", "example.com/watts", "example.com/watts-granted"
LAST, REPORT = "example.com/last-pod", "example.com/watts-used"
WATTS: PodPart[int] = PodPart("watts that it asks for", 0)
SHARE: PodPart[int] = PodPart("watts that it has", 0)
read_annotations(ASKS, GRANTED)


class WattColumns(FeatureState):
    """Watts that each row's node has, by its label, and those that its pods have."""

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.has: Amounts = np.zeros(len(nodes))
        self.used: Amounts = np.zeros(len(nodes))

    def lengthen(self, length: int) -> None:
        self.has = lengthened(self.has, length, 0)
        self.used = lengthened(self.used, length, 0)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        self.has[row] = float(node.labels.get(HAS, "0")) if node is not None else 0
        return False

    def signature(self, pod: PodInfo) -> object:
        return pod.metadata.annotations

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield WATTS, _watts(pod, ASKS)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        yield SHARE, _watts(pod, GRANTED)

    def count(self, row: int, usage: PodUsage) -> None:
        self.used[row] += usage.of(SHARE)

    def uncount(self, row: int, usage: PodUsage) -> None:
        self.used[row] -= usage.of(SHARE)


class Grant(NamedTuple):
    """Watts for a pod, and the annotation that says so."""

    watts: int
    annotations: tuple[tuple[str, str], ...]


class RackPower(Plugin):
    """Keeps pods off nodes without enough watts, and prefers those with most of them left."""

    name: ClassVar[str] = "RackPower"
    reason: ClassVar[str] = "node(s) have too few watts left"
    helped_by: ClassVar[str] = "pods that end and free watts"
    reads_labels: ClassVar[bool] = False
    normalizes: ClassVar[bool] = True

    def __init__(self, period: float) -> None:
        self._period = period

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(WattColumns)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        columns, watts = nodes.use(WattColumns), pod.of(WATTS)
        if not watts:
            return None

        def can_run(rows: Rows) -> Mask:
            found: Mask = columns.has[rows] - columns.used[rows] >= watts
            return found

        return can_run

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        columns = nodes.use(WattColumns)
        return (lambda rows: columns.has[rows] - columns.used[rows]) if pod.of(WATTS) else None

    def normalize(self, scores: Amounts) -> Amounts:
        found: Amounts = np.floor(100 * scores / max(scores.max(initial=0), 1))
        return found

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> Grant | None:
        watts = pod.of(WATTS)
        return Grant(watts, ((GRANTED, str(watts)),)) if watts else None

    def usage(self, reservation: Grant, pod: PodUsage) -> PodUsage:
        return pod.with_part(SHARE, reservation.watts)

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding:
        return SwitchOn(api)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        yield Reporter(api, self._period)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        yield WattMetrics(nodes)

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        def node(given: Mapping[str, str]) -> dict[str, float]:
            row = nodes.row(given["node"])
            if row is None:
                raise LookupError(f"there is no node {given['node']}")
            columns = nodes.use(WattColumns)
            return {"has": float(columns.has[row]), "used": float(columns.used[row])}

        return {"/nodes/:node": node}


class SwitchOn(PreBinding):
    """Notes on the Node which pod is about to come, and takes that back."""

    handles = (Grant,)

    def __init__(self, api: ApiServices) -> None:
        self._api = api

    async def write(self, reserved: Grant, placement: Placement) -> str:
        await self._api.bind_write(annotate(placement.node, LAST, placement.pod.key))
        return ""

    async def take_back(self, reserved: Grant, placement: Placement) -> None:
        await self._api.bind_write(annotate(placement.node, LAST, None))


class Reporter:
    """Writes the watts in use on each Node, when they have changed."""

    name = "watts"

    def __init__(self, api: ApiServices, every: float) -> None:
        self.every = every
        self._api = api
        self._written: dict[str, str] = {}

    def due(self) -> Iterable[str]:
        """Return the nodes whose report is another one by now."""
        nodes = self._api.scheduler.nodes
        names = map(nodes.name, np.flatnonzero(nodes.is_node).tolist())
        return [name for name in names if self._written.get(name) != self._used(name)]

    async def reconcile(self, key: str) -> None:
        """Write the report of a node."""
        used = self._used(key)
        await self._api.write(annotate(key, REPORT, used))
        self._written[key] = used

    def _used(self, name: str) -> str:
        nodes = self._api.scheduler.nodes
        row = nodes.row(name)
        return "0" if row is None else f"{nodes.use(WattColumns).used[row]:.0f}"


class WattMetrics(Collector):
    """Watts in use, by node."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("rack_power_watts_used", "Watts in use.", labels=["node"])
        for row in np.flatnonzero(self._nodes.is_node).tolist():
            used = float(self._nodes.use(WattColumns).used[row])
            family.add_metric([self._nodes.name(row)], used)
        yield family


def annotate(node: str, key: str, text: str | None) -> Request:
    """The request that sets an annotation of a Node."""
    return Request("PATCH", NODES, node, body={"metadata": {"annotations": {key: text}}})


def _watts(pod: PodInfo, key: str) -> int:
    return int((pod.metadata.annotations or NO_ANNOTATIONS).get(key, "0"))


def build(args: Mapping[str, Any]) -> RackPower:
    """The plugin with the arguments of ``pluginConfig``."""
    return RackPower(float(args.get("reportSeconds", 1.0)))
