"""Usage of nodes by NodeMetrics, as moves change it. No IO.

As Koordinator's LowNodeLoad counts it: what the system uses and the sum of all reported pods. Pods
that leave count no more, whoever evicted them, though the last report has them; pods that came
since count with an estimate of their requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord_scheduler.plugins.load_aware.node_metric import NodeReport

from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel, KnownPod
from koord_descheduler.planner.virtual_cluster import VirtualCluster

_ESTIMATES = {
    CPU: ((CPU, MID_CPU, BATCH_CPU), 0.85, 250),
    MEMORY: ((MEMORY, MID_MEMORY, BATCH_MEMORY), 0.70, 200 << 20),
}
"""Of each resource: its names in requests, the part that is used, and usage without requests.

As Koordinator's defaultEstimator.
"""


class NodeUsage(NamedTuple):
    """Usage of a node by resource: CPU in millicores, memory and others in their own units."""

    used: dict[str, float]
    prod: dict[str, float]


class Usages:
    """Usage of all nodes that have a report not older than ``expires`` seconds at ``now``."""

    def __init__(self, virtual: VirtualCluster, now: float, expires: float) -> None:
        self._virtual = virtual
        self._cluster: ClusterModel = virtual.cluster
        self._now = now
        self._expires = expires
        self._known: dict[str, NodeUsage | None] = {}

    def of(self, node: str) -> NodeUsage | None:
        """The usage of a node by now; ``None`` where there is no report that still counts."""
        if node not in self._known:
            self._known[node] = self._counted(node)
        return self._known[node]

    def of_pod(self, pod: KnownPod) -> Mapping[str, float]:
        """The usage that a pod takes along: as reported, or estimated."""
        report = self._cluster.reports.get(pod.view.node)
        reported = report.pods.get(pod.view.key) if report is not None else None
        return reported.usage if reported is not None else _estimated(pod)

    def is_reported(self, pod: ObservedPod) -> bool:
        """True if its node's report has the pod."""
        report = self._cluster.reports.get(pod.node)
        return report is not None and pod.key in report.pods

    def move(self, pod: KnownPod, target: str) -> None:
        """Count a pod on its ``target`` ("": nowhere) instead of on its node, until undone."""
        usage, is_prod = self.of_pod(pod), self._is_prod(pod)
        self._add(pod.view.node, usage, -1, is_prod=is_prod)
        self._add(target, usage, 1, is_prod=is_prod)

        def move_back() -> None:
            self._add(target, usage, -1, is_prod=is_prod)
            self._add(pod.view.node, usage, 1, is_prod=is_prod)

        self._virtual.on_undo(move_back)

    def _is_prod(self, pod: KnownPod) -> bool:
        return pod.view.template.priority_class in ("koord-prod", "")

    def _add(self, node: str, usage: Mapping[str, float], sign: int, *, is_prod: bool) -> None:
        known = self.of(node) if node else None
        if known is None:
            return
        for sums in (known.used, known.prod) if is_prod else (known.used,):
            for name, amount in usage.items():
                sums[name] = sums.get(name, 0.0) + sign * amount

    def _counted(self, node: str) -> NodeUsage | None:
        report = self._cluster.reports.get(node)
        if report is None or report.usage is None or self._now - report.updated > self._expires:
            return None
        used = {name: float(amount) for name, amount in report.system.items()}
        prod: dict[str, float] = {}
        pods = {pod.view.key: pod for pod in self._cluster.pods_on(node)}
        for key, reported in report.pods.items():
            pod = pods.get(key)
            if pod is None or pod.view.deleted is not None or pod.view.has_ended:
                continue
            _sum(used, reported.usage)
            if reported.is_prod:
                _sum(prod, reported.usage)
        for key, pod in pods.items():
            if key not in report.pods and _came_since(pod.view, report):
                _sum(used, _estimated(pod))
                if self._is_prod(pod):
                    _sum(prod, _estimated(pod))
        return NodeUsage(used, prod)


def fractions(
    usage: Mapping[str, float], capacity: Mapping[str, float], resources: Sequence[str]
) -> dict[str, float]:
    """Usage in per cent of the capacity of each of these resources that the node has."""
    return {
        name: 100.0 * usage.get(name, 0.0) / capacity[name]
        for name in resources
        if capacity.get(name)
    }


def _came_since(pod: ObservedPod, report: NodeReport) -> bool:
    return pod.deleted is None and not pod.has_ended and pod.scheduled >= report.updated


def _estimated(pod: KnownPod) -> dict[str, float]:
    amounts = dict(pod.replacement.pod_class.amounts)
    found = {}
    for name, (names, factor, least) in _ESTIMATES.items():
        requested = sum(amounts.get(one, 0) for one in names)
        found[name] = requested * factor if requested else float(least)
    return found


def _sum(sums: dict[str, float], usage: Mapping[str, float]) -> None:
    for name, amount in usage.items():
        sums[name] = sums.get(name, 0.0) + amount
