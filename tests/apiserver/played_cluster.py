"""Kubelets, koordlets, ReplicaSets and disruption budgets, played beside a real API server.

Each is as much of the real one as a descheduler sees: pods that are evicted end and are made anew,
pods with a node become ready, budgets count ready pods, and NodeMetrics follow the pods.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from koord_kube.client import Client
from koord_kube.protocol.api import ConflictError, NotFoundError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import (
    DISRUPTION_BUDGETS,
    NODE_METRICS,
    NODES,
    PODS,
    REPLICA_SETS,
)
from koord_model.times import rfc3339

from tests.support.listing import listed

NAMESPACE = "shop"
CORES = 4.0
_SYSTEM = 0.2
_REPORT_SECONDS = 2.0
"""Between two reports of 100 nodes."""


@dataclass
class App:
    """A ReplicaSet of so many pods, which each use and request so many cores, and ``limits``.

    ``tolerates`` is the key of a taint.
    """

    name: str
    replicas: int
    uses: float = 0.5
    requests: float = 0.2
    min_available: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerates: str = ""


async def play_kubelet(client: Client, pod: Object) -> None:
    """Run a bound pod, or end one that is to end, as its kubelet would."""
    metadata = pod["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if "deletionTimestamp" in metadata:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            await client.write(Request("DELETE", PODS, name, namespace, body=body))
        except (NotFoundError, ConflictError):
            pass
    elif pod["spec"].get("nodeName") and not _is_ready(pod):
        now = rfc3339(time.time())
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady", "PodScheduled")
        ]
        status = {"phase": "Running", "startTime": now, "conditions": conditions}
        try:
            await client.patch(PODS, name, {"status": status}, namespace, subresource="status")
        except NotFoundError:
            pass


class PlayedCluster:
    """``ended`` has the uids of pods that were evicted, ``fewest`` the fewest ready pods by app.

    ``uids`` are those of all pods that ever were.
    """

    def __init__(self, client: Client, nodes: Iterable[str], apps: Iterable[App]) -> None:
        self.client = client
        self.nodes = list(nodes)
        self.apps = {app.name: app for app in apps}
        self.ended: list[str] = []
        self.fewest: dict[str, int] = {}
        self.pods: dict[str, Object] = {}
        self.uids: set[str] = set()
        self._uids: dict[str, str] = {}
        self._number = 0
        self._reported = 0.0

    async def create(self, placed: Mapping[str, Iterable[str]]) -> None:
        """Make nodes, ReplicaSets and budgets; ``placed`` are nodes of apps' first pods."""
        for name in self.nodes:
            await self._node(name)
        for app in self.apps.values():
            await self._replica_set(app)
            if app.min_available is not None:
                await self._budget(app)
        for name, nodes in placed.items():
            for node in nodes:
                await self._pod(self.apps[name], node)

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            await self.step()
            await anyio.sleep(0.2)

    async def step(self) -> None:
        """Everybody looks once."""
        # Before the pods: an eviction that these do not show changes its budget.
        budgets, _ = await listed(self.client, DISRUPTION_BUDGETS, NAMESPACE)
        by_name = {budget["metadata"]["name"]: budget for budget in budgets}
        found, _ = await listed(self.client, PODS, NAMESPACE)
        self.pods = {pod["metadata"]["name"]: pod for pod in found}
        self.uids.update(pod["metadata"]["uid"] for pod in found)
        for pod in found:
            await self._kubelet(pod)
        by_app: dict[str, list[Object]] = defaultdict(list)
        for pod in found:
            if "deletionTimestamp" not in pod["metadata"]:
                by_app[pod["metadata"]["labels"]["app"]].append(pod)
        for app in self.apps.values():
            for _ in range(app.replicas - len(by_app[app.name])):
                await self._pod(app)
            ready = sum(map(_is_ready, by_app[app.name]))
            self.fewest[app.name] = min(ready, self.fewest.get(app.name, app.replicas))
            if app.min_available is not None:
                await self._allow(app, ready, by_name[app.name])
        if time.monotonic() - self._reported > _REPORT_SECONDS * len(self.nodes) / 100:
            self._reported = time.monotonic()
            await self.report()

    async def report(self) -> None:
        """Every koordlet reports."""
        by_node: dict[str, list[Object]] = defaultdict(list)
        for pod in self.pods.values():
            by_node[pod["spec"].get("nodeName", "")].append(pod)
        for name in self.nodes:
            pods = [
                {
                    "namespace": NAMESPACE,
                    "name": pod["metadata"]["name"],
                    "podUsage": _usage(self.apps[pod["metadata"]["labels"]["app"]].uses),
                }
                for pod in by_node[name]
            ]
            used = _SYSTEM + sum(self._uses(pod) for pod in by_node[name])
            info = {"nodeUsage": _usage(used), "systemUsage": _usage(_SYSTEM)}
            status = {"updateTime": rfc3339(time.time()), "nodeMetric": info, "podsMetric": pods}
            await self.client.patch(NODE_METRICS, name, {"status": status}, subresource="status")

    def _uses(self, pod: Object) -> float:
        return self.apps[pod["metadata"]["labels"]["app"]].uses

    def load(self) -> dict[str, float]:
        """Used part of each node's CPU, by the pods that do not end."""
        found: Counter[str] = Counter()
        for pod in self.pods.values():
            if "deletionTimestamp" not in pod["metadata"]:
                found[pod["spec"].get("nodeName", "")] += self._uses(pod)
        return {name: (found[name] + _SYSTEM) / CORES for name in self.nodes}

    async def _kubelet(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self.ended.append(pod["metadata"]["uid"])
        await play_kubelet(self.client, pod)

    async def _node(self, name: str) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }
        await self.client.create(NODES, node)
        amounts = {"cpu": str(int(CORES)), "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": ""}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await self.client.patch(NODES, name, {"status": status}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})
        kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
        await self.client.create(NODE_METRICS, {**kind, "metadata": {"name": name}, "spec": {}})

    async def _replica_set(self, app: App) -> None:
        labels = {"app": app.name}
        template = {"metadata": {"labels": labels}, "spec": _pod_spec(app)}
        made = await self.client.create(
            REPLICA_SETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": app.name, "namespace": NAMESPACE},
                "spec": {
                    "replicas": app.replicas,
                    "selector": {"matchLabels": labels},
                    "template": template,
                },
            },
            NAMESPACE,
        )
        self._uids[app.name] = made["metadata"]["uid"]

    async def _pod(self, app: App, node: str = "") -> None:
        self._number += 1
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app.name}
        metadata = {
            "name": f"{app.name}-{self._number}",
            "namespace": NAMESPACE,
            "labels": {"app": app.name, **app.labels},
            "ownerReferences": [{**owner, "uid": self._uids[app.name], "controller": True}],
        }
        spec = _pod_spec(app) | ({"nodeName": node} if node else {})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self.client.create(PODS, pod, NAMESPACE)

    async def _budget(self, app: App) -> None:
        spec = {"minAvailable": app.min_available, "selector": {"matchLabels": {"app": app.name}}}
        metadata = {"name": app.name, "namespace": NAMESPACE}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        await self.client.create(
            DISRUPTION_BUDGETS, {**budget, "metadata": metadata, "spec": spec}, NAMESPACE
        )

    async def _allow(self, app: App, ready: int, budget: Object) -> None:
        """As the disruption controller: what the budget allows now."""
        least = app.min_available or 0
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": max(0, ready - least),
            "currentHealthy": ready,
            "desiredHealthy": least,
            "expectedPods": app.replicas,
            "disruptedPods": None,
        }
        body = {"metadata": {"resourceVersion": budget["metadata"]["resourceVersion"]}}
        try:
            await self.client.patch(
                DISRUPTION_BUDGETS,
                app.name,
                {**body, "status": status},
                NAMESPACE,
                subresource="status",
            )
        except ConflictError:
            pass  # an eviction came between: the next step counts anew

    async def clean(self) -> None:
        """Nothing of it is left."""
        found, _ = await listed(self.client, PODS, NAMESPACE)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        for pod in found:
            await self._delete(
                Request("DELETE", PODS, pod["metadata"]["name"], NAMESPACE, body=body)
            )
        for app in self.apps.values():
            await self._delete(Request("DELETE", REPLICA_SETS, app.name, NAMESPACE))
            await self._delete(Request("DELETE", DISRUPTION_BUDGETS, app.name, NAMESPACE))
        for name in self.nodes:
            await self._delete(Request("DELETE", NODES, name))
            await self._delete(Request("DELETE", NODE_METRICS, name))

    async def _delete(self, request: Request) -> None:
        try:
            await self.client.write(request)
        except NotFoundError:
            pass


def _pod_spec(app: App) -> dict[str, Any]:
    requests = {"cpu": f"{int(app.requests * 1000)}m", "memory": "64Mi", **app.limits}
    resources = {"requests": requests, "limits": dict(app.limits)}
    tolerations = [{"key": app.tolerates, "operator": "Exists"}] if app.tolerates else []
    return {
        "terminationGracePeriodSeconds": 1,
        "tolerations": tolerations,
        "nodeSelector": dict(app.node_selector),
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    }


def _usage(cores: float) -> dict[str, Any]:
    return {"resources": {"cpu": f"{int(cores * 1000)}m", "memory": f"{int(cores * 100)}Mi"}}


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
