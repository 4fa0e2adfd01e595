"""Preemption, against kube-scheduler's own DefaultPreemption."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
from koord_scheduler.classes.placed_pod import placed_usage
from koord_scheduler.classes.pod_class import pod_class
from koord_scheduler.columns.disruption_budgets import DisruptionBudgets
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.placed_pods import PlacedPod, PlacedPods
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.preemption import find_preemption, may_preempt
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.disruption_budget import read_disruption_budget
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import PodInfo, read_pod

from tests.conformance.test_scheduler import WEIGHTS, plugins
from tests.conformance.vectors import Fields, Object, Vector, replay

PLUGINS = [EnabledPlugin(one, True, WEIGHTS[one.name]) for one in plugins({})]


def placed_pod(document: Object, nodes: NodeColumns) -> PlacedPod:
    pod = read_pod(json.dumps(document).encode())
    status = document.get("status", {})
    name, started = pod.metadata.name, status.get("startTime")
    return PlacedPod(
        f"{pod.metadata.namespace}/{name}",
        name,
        pod.spec.node_name or status["nominatedNodeName"],
        document["spec"].get("priority", 0),
        datetime.fromisoformat(started).timestamp() if started else None,
        placed_usage(pod, nodes),
        is_preempted(pod),
    )


class Cluster:
    """A random cluster of ``tests.support.clusters.preemption`` in columns."""

    def __init__(self, given: Object) -> None:
        self.nodes = NodeColumns(length=1)
        for one in given["namespaces"]:
            self.nodes.namespaces.set(one["name"], one["labels"])
        for one in given["nodes"]:
            self.nodes.set(read_node(json.dumps(one).encode()))
        self.placed = PlacedPods(self.nodes)
        for one in given["pods"]:
            self.placed.set(placed_pod(one, self.nodes))
        self.nominated = [placed_pod(one, self.nodes) for one in given["nominated"]]
        self.budgets = DisruptionBudgets()
        for one in given["budgets"]:
            self.budgets.set(read_disruption_budget(json.dumps(one).encode()))
        self.pod = read_pod(json.dumps(given["pod"]).encode())
        self.priority: int = given["pod"]["spec"].get("priority", 0)
        self.scores = ClassScores(pod_class(self.pod), self.nodes, PLUGINS)
