"""Nodes of a simulated day: pods come, are evicted and made anew; koord-scheduler places them.

Each minute all nodes report what they and their pods used, on average over five minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from koord_descheduler.planner.cluster import ClusterModel
from koord_kube.protocol.resources import NODE_METRICS, NODES, PODS
from koord_model.times import rfc3339
from koord_prediction.histogram import Floats, Rows
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.load_aware.node_metric import NodeReport, ReportedPod

from bench.day_loads import MINUTES, WARM_UP, DayLoads

CORES = 16.0
"""Of each node."""
HIGH = 65.0
"""Per cent of its CPUs above which a node is a hot spot."""
SYSTEM_CORES = 0.5
_MIDNIGHT = 1_700_006_400.0
_GIB = 1 << 30
_WINDOW = 5
"""Minutes that reports are averages of."""
_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 5}]}}}]
"""
Document = Mapping[str, Any]


@dataclass
class DayRun:
    """Results of a day.

    ``hot`` are node-hours above ``HIGH`` by hour of the day; ``imbalance`` is the standard
    deviation of the nodes' CPU loads, in per cent, on average; ``returned`` counts evicted pods
    whose successor got the node that they left; ``waited`` are pod-hours without a node.
    """

    pods: int
    hot: list[float] = field(default_factory=lambda: [0.0] * 24)
    evictions: int = 0
    returned: int = 0
    imbalance: float = 0.0
    load: float = 0.0
    waited: float = 0.0

    @property
    def hot_hours(self) -> float:
        """Of the whole day."""
        return sum(self.hot)


class DayCluster:
    """A cluster as everybody sees it; ``evict`` is all that a policy can do."""

    def __init__(self, nodes: int, loads: DayLoads, seed: int) -> None:
        self.model = ClusterModel(read_scheduler_config(_SCHEDULER), seed=seed)
        self.now = _MIDNIGHT - WARM_UP * 60
        self.names = [f"node-{number}" for number in range(nodes)]
        self.nodes = [_node(name) for name in self.names]
        self.documents: dict[str, Document] = {}
        self.reports: list[NodeReport] = []
        self.run = DayRun(len(loads.request))
        self._loads = loads
        self._kinds = {kind.resource: kind for kind in self.model.kinds(lambda: self.now)}
        self._number = {name: number for number, name in enumerate(self.names)}
        self._pod_of: dict[str, int] = {}
        self._made = 0
        count = len(loads.request)
        self._key = [""] * count
        self._node: Rows = np.full(count, -1)
        self._left: Rows = np.full(count, -1)
        self._since: Rows = np.zeros(count, np.intp)
        self._used: Floats = np.zeros((_WINDOW, count))
        self._used_by_nodes: Floats = np.zeros((_WINDOW, nodes))
        arrives = np.random.default_rng(seed).integers(0, WARM_UP // 2, count)
        self._arriving = [np.flatnonzero(arrives == minute).tolist() for minute in range(MINUTES)]
        for name, document in zip(self.names, self.nodes, strict=True):
            self._put(NODES, name, document)

    def play(self, policy: Callable[[DayCluster], Iterable[str]]) -> DayRun:
        """All minutes; the policy says each minute of the day which pods are evicted."""
        for minute in range(MINUTES):
            self.now += 60
            self._use(minute)
            self._report(minute)
            for pod in self._arriving[minute]:
                self._make(pod)
            self._schedule(minute)
            if minute >= WARM_UP:
                self._evict(policy(self))
                self._schedule(minute)
        return self.run

    # ---- usage

    def _use(self, minute: int) -> None:
        """A minute passes; where pods demand more than a node has, all get the same part."""
        placed, nodes = self._node >= 0, len(self.names)
        demand = np.where(placed, self._loads.usage[:, minute], 0.0)
        row = np.where(placed, self._node, 0)
        total: Floats = np.bincount(row, demand, nodes).astype(np.float64) + SYSTEM_CORES
        part = np.minimum(1.0, (CORES - SYSTEM_CORES) / np.maximum(total - SYSTEM_CORES, 1e-9))
        self._used[minute % _WINDOW] = demand * part[row]
        self._used_by_nodes[minute % _WINDOW] = np.minimum(total, CORES)
        if minute >= WARM_UP:
            load: Floats = total * (100 / CORES)
            self._count(minute - WARM_UP, load, int((~placed).sum()))

    def _count(self, minute: int, load: Floats, waiting: int) -> None:
        run = self.run
        run.hot[minute // 60] += float((load > HIGH).sum()) / 60
        run.imbalance += float(load.std()) / 1440
        run.load += float(load.mean()) / 1440
        run.waited += waiting / 60

    def _report(self, minute: int) -> None:
        age = np.minimum(minute + 1 - self._since, _WINDOW)
        mean = self._used.sum(axis=0) / np.maximum(age, 1) * 1000
        of_nodes = self._used_by_nodes.sum(axis=0) / min(minute + 1, _WINDOW) * 1000
        pods: list[dict[str, ReportedPod]] = [{} for _ in self.names]
        for pod in np.flatnonzero((self._node >= 0) & (age > 0)).tolist():
            usage = {"cpu": int(mean[pod]), "memory": _GIB}
            pods[self._node[pod]][self._key[pod]] = ReportedPod(usage, is_prod=True)
        system = {"cpu": int(1000 * SYSTEM_CORES), "memory": _GIB}
        self.reports = [
            NodeReport(
                self.now,
                usage={"cpu": int(of_nodes[number]), "memory": _GIB * (1 + len(pods[number]))},
                system=system,
                pods=pods[number],
            )
            for number in range(len(self.names))
        ]
        for name, report in zip(self.names, self.reports, strict=True):
            self._kinds[NODE_METRICS].put(name, report)

    # ---- pods

    def _make(self, pod: int) -> None:
        self._made += 1
        app = f"app-{self._loads.deployment[pod]}"
        name = f"{app}-{self._made}"
        self._key[pod] = f"team/{name}"
        self._pod_of[self._key[pod]] = pod
        self._set(_pod(name, app, float(self._loads.request[pod]), self.now))

    def _set(self, document: Document) -> None:
        metadata = document["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self.documents[key] = document
        self._put(PODS, key, document)

    def _put(self, resource: Any, key: str, document: Document) -> None:
        kind = self._kinds[resource]
        kind.put(key, kind.read(json.dumps(document).encode()))

    def _evict(self, keys: Iterable[str]) -> None:
        """Pods end, and their controllers make others in their place."""
        pods = [self._pod_of.pop(key) for key in keys]
        for pod in pods:
            del self.documents[self._key[pod]]
            self._kinds[PODS].remove(self._key[pod])
            self._left[pod], self._node[pod] = self._node[pod], -1
            self._used[:, pod] = 0.0
        for pod in pods:
            self.run.evictions += 1
            self._make(pod)

    def _schedule(self, minute: int) -> None:
        scheduler = self.model.scheduler
        scheduler.tick(self.now, self.now)
        scheduler.wake(self.now)
        while (decision := scheduler.decide(self.now)) is not None:
            if isinstance(decision, Placement):
                self._bind(decision.pod.key, decision.node, minute)

    def _bind(self, key: str, node: str, minute: int) -> None:
        pod, number = self._pod_of[key], self._number[node]
        self.run.returned += bool(self._left[pod] == number)
        self._node[pod], self._left[pod], self._since[pod] = number, -1, minute + 1
        self._set(_bound(self.documents[key], node, self.now))


def _node(name: str) -> Document:
    amounts = {"cpu": f"{CORES:g}", "memory": "128Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    labels = {"kubernetes.io/hostname": name}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def _pod(name: str, app: str, cores: float, now: float) -> Document:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app}
    requests = {"cpu": f"{int(1000 * cores)}m", "memory": "1Gi"}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "labels": {"app": app},
            "creationTimestamp": rfc3339(now),
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


def _bound(document: Document, node: str, now: float) -> Document:
    since = rfc3339(now)
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since}
        for kind in ("PodScheduled", "Ready")
    ]
    status = {"phase": "Running", "startTime": since, "conditions": conditions}
    return {**document, "spec": {**document["spec"], "nodeName": node}, "status": status}
