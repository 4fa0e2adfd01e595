"""A random full cluster as the scheduler has it, in columns."""

from __future__ import annotations

import json
from collections.abc import Sequence

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.disruption_budget import read_disruption_budget
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_reader import ClusterPod, PodReader
from koord_scheduler.state.pod_usage import PlacedPod

from tests.support.clusters.selectors import Object
from tests.support.prepared import prepared


class FullCluster:
    """What ``tests.support.clusters.random_preemption`` makes, and its waiting ``pod``."""

    def __init__(self, given: Object, plugins: Sequence[EnabledPlugin]) -> None:
        self.nodes = prepared(plugins, length=1)
        for one in given["namespaces"]:
            self.nodes.namespaces.set(one["name"], one["labels"])
        for one in given["nodes"]:
            self.nodes.set(read_node(json.dumps(one).encode()))
        reader = PodReader(self.nodes)
        self.placed = PlacedPods(self.nodes)
        for pod in (reader.read(json.dumps(one).encode()) for one in given["pods"]):
            self.placed.set(placed_pod(pod))
        self.budgets = DisruptionBudgets()
        for one in given["budgets"]:
            self.budgets.set(read_disruption_budget(json.dumps(one).encode()))
        self.pod = reader.read(json.dumps(given["pod"]).encode())
        assert self.pod.waiting is not None
        self.waiting = self.pod.waiting
        nominations = Nominations()
        for pod in (reader.read(json.dumps(one).encode()) for one in given["nominated"]):
            assert pod.waiting is not None
            node, usage = pod.waiting.nominated, pod.waiting.usage
            nominations.set(Nomination(pod.key, node, pod.priority, usage))
        self.nominated = list(nominations.against(self.pod.key, self.pod.priority))
        self.scores = ClassScores(self.waiting.pod_class, self.nodes, plugins)


def placed_pod(pod: ClusterPod) -> PlacedPod:
    return PlacedPod(
        pod.key, pod.uid, pod.node, pod.priority, pod.started, pod.usage, pod.is_preempted
    )
