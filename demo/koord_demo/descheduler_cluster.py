"""A made-up cluster for the descheduler's demo: hot nodes, cool nodes, and the load of pods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import Move
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config

Manifest = Mapping[str, Any]

NAMESPACE = "shop"
CORES, GIB = 32, 128
PINNED, BUDGETED = "license-server", "ledger"
"""Applications whose pods cannot move: a node selector, a disruption budget."""
HOSTNAME, GPU = "kubernetes.io/hostname", "nvidia.com/gpu"
_SYSTEM = 1.0
_APPS = 10

SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 5}]}}
"""


class DemoLoad:
    """Pods with a node and a load in cores; the model hears of them as of an API server's."""

    def __init__(self, nodes: int, rng: Random) -> None:
        self.model = ClusterModel(read_scheduler_config(SCHEDULER))
        self.now = 1_700_000_000.0
        self.load: dict[str, float] = {}
        self.on: dict[str, str] = {}
        self._rng = rng
        self._kinds = {kind.name: kind for kind in self.model.kinds(lambda: self.now)}
        self._pods: dict[str, Manifest] = {}
        self.nodes = [f"node-{place:02}" for place in range(nodes)]
        for name in self.nodes:
            self._put("Node", name, _node(name))
        self._put("PodDisruptionBudget", f"{NAMESPACE}/{BUDGETED}", _budget(BUDGETED))
        for place, name in enumerate(self.nodes):
            self._fill(name, 27.0 if place % 3 == 0 else 9.0 + rng.random() * 4)
        self.report()

    def _fill(self, node: str, cores: float) -> None:
        """Start pods until they use so many cores."""
        rng, used = self._rng, _SYSTEM
        if node == self.nodes[0]:
            used += self._start(PINNED, node, 4.0, {"nodeSelector": {HOSTNAME: node}})
            used += self._start(BUDGETED, node, 3.0)
        while used < cores:
            used += self._start(f"web-{rng.randrange(_APPS)}", node, 0.4 + rng.random() * 2)

    def _start(
        self, app: str, node: str, cores: float, spec: Mapping[str, Any] | None = None
    ) -> float:
        key = f"{NAMESPACE}/{app}-{len(self._pods):03}"
        self._pods[key] = _pod(key, app, cores, spec or {}, self.now - 3600)
        self.load[key] = cores
        self._bind(key, node)
        return cores

    def _bind(self, key: str, node: str) -> None:
        self.on[key] = node
        pod = self._pods[key]
        self._put("Pod", key, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    def carry_out(self, moves: tuple[Move, ...]) -> None:
        """Pods end, and their replacements start where they were to go."""
        for move in moves:
            key = move.pod.key
            self._kinds["Pod"].remove(key)
            self._bind(key, move.target)

    def report(self) -> None:
        """Every koordlet reports, and a minute has passed."""
        self.now += 60
        self.model.scheduler.tick(self.now, self.now)
        for name in self.nodes:
            pods = {key: self.load[key] for key, node in self.on.items() if node == name}
            self._put("NodeMetric", name, _node_metric(name, pods, self.now))

    def used(self) -> dict[str, float]:
        """Used part of each node's CPU."""
        cores = dict.fromkeys(self.nodes, _SYSTEM)
        for key, node in self.on.items():
            cores[node] += self.load[key]
        return {name: cores[name] / CORES for name in self.nodes}

    def _put(self, kind: str, key: str, manifest: Manifest) -> None:
        found = self._kinds[kind]
        found.put(key, found.read(json.dumps(manifest).encode()))


def _node(name: str) -> Manifest:
    amounts = {"cpu": str(CORES), "memory": f"{GIB}Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name}},
        "status": {"allocatable": amounts, "conditions": conditions},
    }


def _pod(key: str, app: str, cores: float, spec: Mapping[str, Any], created: float) -> Manifest:
    request = {"cpu": f"{int(cores * 500)}m", "memory": "1Gi"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app}
    since = rfc3339(created)
    return {
        "metadata": {
            "name": key.partition("/")[2],
            "namespace": NAMESPACE,
            "uid": key,
            "labels": {"app": app},
            "creationTimestamp": since,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": request}}], **spec},
        "status": {
            "phase": "Running",
            "startTime": since,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}],
        },
    }


def _budget(app: str) -> Manifest:
    return {
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": 0},
    }


def _node_metric(name: str, pods: Mapping[str, float], now: float) -> Manifest:
    return {
        "metadata": {"name": name},
        "status": {
            "updateTime": rfc3339(now),
            "nodeMetric": {
                "nodeUsage": _usage(_SYSTEM + sum(pods.values())),
                "systemUsage": _usage(_SYSTEM),
            },
            "podsMetric": list(_pods_metric(pods)),
        },
    }


def _pods_metric(pods: Mapping[str, float]) -> Iterator[Manifest]:
    for key, cores in pods.items():
        namespace, _, name = key.partition("/")
        yield {"namespace": namespace, "name": name, "podUsage": _usage(cores)}


def _usage(cores: float) -> Manifest:
    return {"resources": {"cpu": f"{int(cores * 1000)}m", "memory": f"{int(cores * 700)}Mi"}}


def fragmented_cluster() -> dict[str, list[bytes]]:
    """Four nodes of eight GPUs with some free on each, and a job that waits for eight."""
    nodes: list[Manifest] = []
    pods: list[Manifest] = []
    for place, used in enumerate(((4, 1), (2, 2, 1), (2, 1, 1), (3,))):
        name = f"gpu-{place}"
        node = _node(name)
        allocatable = {**node["status"]["allocatable"], GPU: "8"}
        nodes.append({**node, "status": {**node["status"], "allocatable": allocatable}})
        for number, gpus in enumerate(used):
            pods.append(_gpu_pod(f"train-{place}-{number}", gpus, name))
    pods.append(_gpu_pod("llama", 8))
    as_json = {"Node": nodes, "Pod": pods}
    return {kind: [json.dumps(one).encode() for one in found] for kind, found in as_json.items()}


def _gpu_pod(name: str, gpus: int, node: str = "") -> Manifest:
    pod = _pod(f"{NAMESPACE}/{name}", name, 4.0, {}, 1_700_000_000.0 - 3600)
    requests = {"cpu": "2", "memory": "8Gi", GPU: str(gpus)}
    container = {"name": "c", "resources": {"requests": requests, "limits": {GPU: str(gpus)}}}
    spec = {"containers": [container]} | ({"nodeName": node} if node else {})
    status = pod["status"] if node else {"phase": "Pending"}
    return {**pod, "spec": spec, "status": status}
