"""Pods come, go to the node that a rule likes best, and end; what the nodes use is counted. No IO.

All rules place all pods: a pod waits only where no node has room for its request. A threshold that
would make a pod wait is counted, and not obeyed, so that all rules have the same pods on the same
nodes, and differ only in which pod is where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from koord_prediction.histogram import Floats, Rows

from bench.peak_loads import DAY, STEP, PodsOverTime

SYSTEM_CORES = 0.5
"""Usage of each node beyond its pods."""
WARM_UP = 2 * DAY
"""Steps that do not count: pods come, and koordlet learns what they use."""


@dataclass(frozen=True)
class EqualNodes:
    """Nodes of the same size; ``cores`` of each."""

    count: int
    cores: float


@dataclass
class Placements:
    """Placed pods: ``demand`` in cores by node and step, of pods that have a node so far.

    A demand reaches into the future, until each pod ends. ``node`` is -1 for pods that have none;
    ``starts`` and ``ends`` are steps. ``pods`` are those that run on each node.
    """

    node: Rows
    starts: Rows
    ends: Rows
    requested: Floats
    demand: Floats
    pods: list[list[int]]


@dataclass(frozen=True)
class NodeGrades:
    """Of each node how good it is for a pod, and whether a threshold would let the pod in."""

    score: Floats
    lets_in: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class PlacementRule(Protocol):
    """A rule sees what has been used before ``step``; an oracle looks at the whole demand."""

    def observe(self, step: int, placed: Placements) -> None:
        """Called each step, before pods are placed."""

    def grade(self, pod: int, step: int, placed: Placements) -> NodeGrades:
        """All nodes for a pod."""

    def count(self, pod: int, step: int, node: int) -> None:
        """A pod got a node."""


@dataclass(frozen=True)
class PeakRun:
    """Results of the days that count.

    ``hot`` are hot-spot minutes by threshold in per cent: a minute of a node whose pods demand more
    of its CPUs, for each node and day. ``allocated`` and ``used`` are per cent of all CPUs, on
    average. ``waited`` is the part of pod-time without a node; ``refused`` the part of the pods
    that the rule's threshold would have made wait.
    """

    hot: dict[int, float]
    allocated: float
    used: float
    waited: float
    refused: float


def nodes_for(
    pods: PodsOverTime, cores: float, allocated: float, warm_up: int = WARM_UP
) -> EqualNodes:
    """As many nodes as it takes for pods to request this part of them on average."""
    requested = np.zeros(pods.steps + 1)
    np.add.at(requested, pods.arrives, pods.request)
    np.subtract.at(requested, np.minimum(pods.arrives + pods.lasts, pods.steps), pods.request)
    mean = float(requested.cumsum()[warm_up : pods.steps].mean())
    return EqualNodes(round(mean / (cores * allocated)), cores)


def run(
    pods: PodsOverTime,
    nodes: EqualNodes,
    make: Callable[[PodsOverTime, EqualNodes], PlacementRule],
    seed: int,
    warm_up: int = WARM_UP,
    thresholds: tuple[int, ...] = (65, 80),
) -> PeakRun:
    """Of equally good nodes one at random, as kube-scheduler does it; ``warm_up`` is in steps."""
    random, rule = np.random.default_rng(seed), make(pods, nodes)
    placed = _nothing_placed(pods, nodes)
    arriving = np.searchsorted(pods.arrives, np.arange(pods.steps + 1))
    waiting: list[int] = []
    waited, allocated, refused = 0, 0.0, 0
    for step in range(pods.steps):
        _end(pods, placed, step)
        rule.observe(step, placed)
        refused_now = 0
        still: list[int] = []
        for pod in [*waiting, *range(arriving[step], arriving[step + 1])]:
            fits = placed.requested + pods.request[pod] <= nodes.cores
            if not fits.any():
                still.append(pod)
                continue
            grades = rule.grade(pod, step, placed)
            refused_now += not (fits & grades.lets_in).any()
            score = np.where(fits, grades.score, -np.inf)
            node = int(random.choice(np.flatnonzero(score == score.max())))
            _place(pods, placed, pod, node, step)
            rule.count(pod, step, node)
        waiting = still
        if step >= warm_up:
            allocated += float(placed.requested.sum())
            waited += len(waiting)
            refused += refused_now
    return _counted(pods, nodes, placed, warm_up, thresholds, allocated, waited, refused)


def _nothing_placed(pods: PodsOverTime, nodes: EqualNodes) -> Placements:
    count = len(pods.arrives)
    return Placements(
        np.full(count, -1),
        np.zeros(count, np.intp),
        np.zeros(count, np.intp),
        np.zeros(nodes.count),
        np.full((nodes.count, pods.steps), SYSTEM_CORES),
        [[] for _ in range(nodes.count)],
    )


def _end(pods: PodsOverTime, placed: Placements, step: int) -> None:
    for pod in np.flatnonzero((placed.ends == step) & (placed.node >= 0)).tolist():
        node = int(placed.node[pod])
        placed.pods[node].remove(pod)
        requests = [pods.request[one] for one in placed.pods[node]]
        placed.requested[node] = sum(requests)  # anew: differences of floats would add up


def _place(pods: PodsOverTime, placed: Placements, pod: int, node: int, step: int) -> None:
    end = min(step + int(pods.lasts[pod]), pods.steps)
    placed.node[pod], placed.starts[pod], placed.ends[pod] = node, step, end
    placed.requested[node] += pods.request[pod]
    placed.demand[node, step:end] += pods.usage[pod, step:end]
    placed.pods[node].append(pod)


def _counted(
    pods: PodsOverTime,
    nodes: EqualNodes,
    placed: Placements,
    warm_up: int,
    thresholds: tuple[int, ...],
    allocated: float,
    waited: int,
    refused: int,
) -> PeakRun:
    judged = placed.demand[:, warm_up:]
    steps, capacity = judged.shape[1], nodes.count * nodes.cores
    running = np.clip(placed.ends, warm_up, None) - np.clip(placed.starts, warm_up, None)
    node_days = nodes.count * steps / DAY
    return PeakRun(
        {
            threshold: float((judged > nodes.cores * threshold / 100).sum()) * STEP / 60 / node_days
            for threshold in thresholds
        },
        100 * allocated / steps / capacity,
        100 * float(judged.sum()) / steps / capacity,
        waited / max(float(running[placed.node >= 0].sum()) + waited, 1.0),
        refused / max(int((pods.arrives >= warm_up).sum()), 1),
    )
