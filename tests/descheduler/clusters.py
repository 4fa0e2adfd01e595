"""Clusters for the descheduler's tests: objects as the API server has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord_descheduler.framework.round import (
    DeschedulerProfile,
    DeschedulingRound,
    RoundSettings,
    run_round,
)
from koord_descheduler.planner.budgets import Budgets, MoveLimit
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.planner.move_memory import MoveMemory
from koord_descheduler.plugin import DeschedulerPlugin
from koord_kube.protocol.resources import NODE_METRICS, NODES, PODS
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import (
    default_scheduler_config,
    read_scheduler_config,
)

NOW = 1_700_000_000.0
Document = dict[str, Any]
FILLING = read_scheduler_config("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
""")
"""A scheduler that fills nodes one after the other."""
BY_LOAD = read_scheduler_config("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 5}]}
""")
"""A scheduler that prefers nodes that use little."""


class TestCluster:
    """A ``ClusterModel`` fed with documents."""

    __test__ = False

    def __init__(self, config: Any = None) -> None:
        self.cluster = ClusterModel(config or default_scheduler_config())
        self._kinds = {kind.name: kind for kind in self.cluster.kinds(lambda: 0.0)}

    def put(self, *documents: Document) -> None:
        """Objects are there, or have changed."""
        for document in documents:
            kind, metadata = self._kinds[document["kind"]], document["metadata"]
            key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
            kind.put(key, kind.read(json.dumps(document).encode()))

    def remove(self, kind: str, key: str) -> None:
        """An object is gone."""
        self._kinds[kind].remove(key)

    def round(
        self, *plugins: DeschedulerPlugin, limits: list[MoveLimit] | None = None, **more: Any
    ) -> RoundPlan:
        """The plan of a round of these plugins, which do all that they can."""
        profile = DeschedulerProfile("test", plugins, plugins, plugins)
        settings = more.pop("settings", RoundSettings(cool_down=0.0))
        memory = more.pop("memory", None) or MoveMemory(1800.0)
        shared = DeschedulingRound(
            self.cluster, Budgets(limits or []), memory, NOW, settings, **more
        )
        return run_round(shared, [profile])


def node(name: str, cpu: str = "8", memory: str = "16Gi", **more: Any) -> Document:
    """A ready node."""
    labels = {"kubernetes.io/hostname": name} | more.pop("labels", {})
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"} | more.pop("allocatable", {})
    return {
        "apiVersion": "v1",
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str,
    on: str = "",
    cpu: str = "1",
    memory: str = "1Gi",
    *,
    owner: str | None = "app",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Document:
    """A running pod of a ReplicaSet, made an hour ago."""
    made = rfc3339(NOW - 3600)
    references = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-of-{owner}",
         "controller": True}
    ] if owner else []  # fmt: skip
    own = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": made,
        "labels": {"app": owner or name},
        "ownerReferences": references,
    }
    container = {
        "name": "c",
        "image": "busybox",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": made}
        for kind in ("PodScheduled", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": own | metadata,
        "spec": {"containers": [container]} | ({"nodeName": on} if on else {}) | dict(spec or {}),
        "status": {"phase": "Running", "startTime": made, "conditions": conditions}
        | dict(status or {}),
    }


def node_metric(
    name: str,
    system: Mapping[str, str],
    pods: Mapping[str, Mapping[str, str]],
    *,
    ago: float = 10.0,
    priority: str = "",
) -> Document:
    """A report of a node's usage, by pod ("default/x") in quantities."""
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": NODE_METRICS.kind,
        "metadata": {"name": name},
        "status": {
            "updateTime": rfc3339(NOW - ago),
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}},
                "systemUsage": {"resources": dict(system)},
            },
            "podsMetric": [
                {
                    "namespace": key.split("/")[0],
                    "name": key.split("/")[1],
                    "priority": priority,
                    "podUsage": {"resources": dict(usage)},
                }
                for key, usage in pods.items()
            ],
        },
    }
