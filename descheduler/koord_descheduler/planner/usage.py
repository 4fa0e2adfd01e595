"""Usage of nodes by NodeMetrics, as moves change it. No IO.

As Koordinator's LowNodeLoad counts it: what the system uses and the sum of all reported pods. Pods
that leave count no more, whoever evicted them, though the last report has them; pods that came
since count with an estimate of their requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol

from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.state.resources import PODS

from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel, KnownPod

_ESTIMATES = {
    CPU: ((CPU, MID_CPU, BATCH_CPU), 0.85, 250),
    MEMORY: ((MEMORY, MID_MEMORY, BATCH_MEMORY), 0.70, 200 << 20),
}
"""Of each resource: its names in requests, the part that is used, and usage without requests.

As Koordinator's defaultEstimator.
"""
_NOTHING: Mapping[str, float] = {}


class NodeUsage(NamedTuple):
    """Usage of a node by resource: CPU in millicores, memory and others in their own units.

    ``prod`` is the part of production pods. The resource ``pods`` is their number.
    """

    used: dict[str, float]
    prod: dict[str, float]


class NodeUsages(Protocol):
    """Amounts of nodes that count as used by now, with the moves of a round."""

    word: ClassVar[str]
    """The word for them in reasons."""

    def capacity(self, node: ObservedNode) -> Mapping[str, float]:
        """The amounts of a node that they are compared with."""
        ...

    def of(self, node: str) -> NodeUsage | None:
        """The amounts of a node; ``None`` where they are not known."""
        ...

    def of_pod(self, pod: KnownPod) -> Mapping[str, float]:
        """The amounts that a pod takes along."""
        ...

    def counted(self, pod: KnownPod) -> Mapping[str, float]:
        """The part of its node's amounts that is a pod's."""
        ...


class Usages(NodeUsages):
    """Usage of all nodes that have a report not older than ``expires`` seconds at ``now``."""

    word = "usage"

    def __init__(self, cluster: ClusterModel, now: float, expires: float) -> None:
        self._cluster = cluster
        self._now = now
        self._expires = expires
        self._known: dict[str, NodeUsage | None] = {}

    def capacity(self, node: ObservedNode) -> Mapping[str, float]:
        return node.capacity

    def of(self, node: str) -> NodeUsage | None:
        """The usage of a node by now; ``None`` where there is no report that still counts."""
        if node not in self._known:
            self._known[node] = self._counted(node)
        return self._known[node]

    def of_pod(self, pod: KnownPod) -> dict[str, float]:
        """The usage that a pod takes along: as reported, or estimated."""
        return {**(self._reported(pod.view) or _estimated(pod)), PODS: 1}

    def counted(self, pod: KnownPod) -> dict[str, float]:
        """The part of its node's usage that is a pod's: nothing where a report leaves it out."""
        report = self._cluster.reports.get(pod.view.node)
        found = self._reported(pod.view) or (_since(report, pod) if report is not None else {})
        return {**found, PODS: 1}

    def is_reported(self, pod: ObservedPod) -> bool:
        """True if its node's report has the pod."""
        return self._reported(pod) is not None

    def _reported(self, pod: ObservedPod) -> Mapping[str, float] | None:
        report = self._cluster.reports.get(pod.node)
        found = report.pods.get(pod.key) if report is not None else None
        return found.usage if found is not None else None

    def move(self, pod: KnownPod, target: str, *, back: bool = False) -> None:
        """Count a pod on its ``target`` ("": nowhere) instead of on its node, or ``back`` there."""
        sign, is_prod = -1 if back else 1, pod.view.template.is_prod
        self._add(pod.view.node, self.counted(pod), -sign, is_prod=is_prod)
        self._add(target, self.of_pod(pod), sign, is_prod=is_prod)

    def _add(self, node: str, usage: Mapping[str, float], sign: int, *, is_prod: bool) -> None:
        known = self.of(node) if node else None
        if known is None:
            return
        for sums in (known.used, known.prod) if is_prod else (known.used,):
            for name, amount in usage.items():
                sums[name] = sums.get(name, 0.0) + sign * amount

    def _counted(self, node: str) -> NodeUsage | None:
        report = self._cluster.reports.get(node)
        if report is None or report.usage is None or self._now - report.updated >= self._expires:
            return None
        used: dict[str, float] = dict(report.system)
        prod: dict[str, float] = {}
        number = prods = 0
        reported = report.pods
        for key, pod in self._cluster.pods_by_key(node).items():
            view = pod.view
            if view.deleted is not None or view.has_ended:
                continue
            known = reported.get(key)
            usage = known.usage if known is not None else _since(report, pod)
            number += 1
            for name, amount in usage.items():
                used[name] = used.get(name, 0) + amount
            if view.template.is_prod:
                prods += 1
                for name, amount in usage.items():
                    prod[name] = prod.get(name, 0) + amount
        used[PODS], prod[PODS] = number, prods
        return NodeUsage(used, prod)


class RequestUsages(NodeUsages):
    """Requests in place of usage, of all nodes."""

    word = "requests"

    def __init__(self, cluster: ClusterModel) -> None:
        self._state = cluster.scheduler.nodes

    def capacity(self, node: ObservedNode) -> Mapping[str, float]:
        row = self._state.row(node.name)
        return self._state.resources.allocatable_on(row) if row is not None else _NOTHING

    def of(self, node: str) -> NodeUsage | None:
        row = self._state.row(node)
        return NodeUsage(self._state.resources.asked_on(row), {}) if row is not None else None

    def of_pod(self, pod: KnownPod) -> Mapping[str, float]:
        return dict(pod.placed.usage.request)

    def counted(self, pod: KnownPod) -> Mapping[str, float]:
        return self.of_pod(pod)


def _since(report: NodeReport, pod: KnownPod) -> Mapping[str, float]:
    """Usage of a pod that the report does not have: estimated if it came later."""
    return _estimated(pod) if pod.view.scheduled >= report.updated else _NOTHING


def _estimated(pod: KnownPod) -> dict[str, float]:
    amounts = dict(pod.replacement.usage.request)
    found = {}
    for name, (names, factor, least) in _ESTIMATES.items():
        requested = sum(amounts.get(requested_name, 0) for requested_name in names)
        found[name] = requested * factor if requested else float(least)
    return found
