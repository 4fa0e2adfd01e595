"""A gang's demands on the network, and the nodes' capacity, in planners' terms. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.gang_planner import GangRequest
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugins.coscheduling.network.gather_spec import GatherNeeds
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import NetworkTree
from koord_scheduler.state.arrays import Amounts, Codes, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


class MemberClass(NamedTuple):
    """Pods of a gang that are alike, in the order in which they are to be near each other."""

    key: tuple[str, PodClass]
    pods: list[QueuedPod]


def member_classes(request: GangRequest, pods: Iterable[QueuedPod]) -> list[MemberClass]:
    """Some of the pods of a request by what they are."""
    found: dict[tuple[str, PodClass], list[QueuedPod]] = {}
    for pod in sorted(pods, key=partial(_place, request)):
        found.setdefault(pod.scores_key, []).append(pod)
    return [MemberClass(*one) for one in found.items()]


def _place(request: GangRequest, pod: QueuedPod) -> tuple[float, str]:
    """Pods that have an index come by it; those without follow by their names."""
    member = request.nodes.use(Gangs).member(pod.key)
    index = member.gather_index if member is not None else -1
    return index if index >= 0 else math.inf, pod.key


def gather_problem(
    request: GangRequest,
    tree: NetworkTree,
    needs: GatherNeeds,
    classes: Sequence[MemberClass],
    placed: PlacedPods,
) -> GatherProblem:
    """All that a plan for some classes depends on; ``placed`` says where bound members are."""
    leaves = _Leaves(request.nodes, tree, placed)
    requests, free = leaves.amounts([pod_class.pods[0].waiting.usage for pod_class in classes])
    slots = np.array([leaves.slots(request, pod_class.pods) for pod_class in classes])
    # What a reservation or an extender provides is no part of what is free.
    provided = np.where(slots[:, None] > 0, requests[:, :, None], -np.inf).max(axis=0)
    bound = leaves.pods([*gang.bound, *gang.assumed] for gang in request.gangs)
    return GatherProblem(
        tree,
        needs,
        tuple(len(pod_class.pods) for pod_class in classes),
        slots,
        requests,
        np.maximum(free, provided),
        bound,
        bound + leaves.pods(_near(request)),
    )


def _excludes_its_like(pod: QueuedPod) -> bool:
    """True if no two pods of this kind can be on one node."""
    pod_class = pod.waiting.pod_class
    own = pod_class.labels
    labels = dict(own.labels)
    anti = pod_class.affinity.anti
    return bool(pod.waiting.usage.ports) or any(
        own.namespace in one.namespaces and one.selects(labels) for one in anti
    )


def without_other_pods(
    request: GangRequest, problem: GatherProblem, classes: Sequence[MemberClass]
) -> GatherProblem:
    """The same as if no other pods were on the nodes, and nothing but amounts mattered."""
    resources = request.nodes.resources
    usages = [pod_class.pods[0].waiting.usage for pod_class in classes]
    free = resources.allocatable[np.ix_(_columns(request.nodes, usages), problem.tree.rows)]
    asked = problem.requests[:, :, None]
    with np.errstate(divide="ignore"):
        slots = np.where(asked > 0, np.floor(free / asked), np.inf).min(axis=1, initial=np.inf)
    most = np.array(problem.counts)[:, None]
    return replace(problem, slots=np.minimum(slots, most).astype(np.intp), free=free)


def _resources(usages: Sequence[PodUsage]) -> list[str]:
    """The resources that some pods ask for."""
    return sorted({name for usage in usages for name, _ in usage.request})


def _columns(nodes: ClusterState, usages: Sequence[PodUsage]) -> Rows:
    return nodes.resources.columns(_resources(usages)).now


def _near(request: GangRequest) -> Iterator[Iterable[str]]:
    """The bound pods of other gangs that have the same selector."""
    gangs = request.nodes.use(Gangs)
    first = gangs.member(request.pods[0].key)
    selector = first.gather_selector if first is not None else ""
    own = {one.key for one in request.gangs}
    for gang in gangs.by_key.values() if selector else ():
        if gang.key not in own:
            there = [*gang.bound, *gang.assumed]
            yield [pod for pod in there if gang.members[pod].gather_selector == selector]


_OUTSIDE = -1
"""Place of nodes that are not in a tree."""


class _Leaves:
    """State of nodes by their places in a tree."""

    def __init__(self, nodes: ClusterState, tree: NetworkTree, placed: PlacedPods) -> None:
        self._nodes = nodes
        self._tree = tree
        self._placed = placed
        self._of_row: Codes = np.full(len(nodes), _OUTSIDE, np.intp)
        self._of_row[tree.rows] = np.arange(len(tree.rows))

    def slots(self, request: GangRequest, pods: Sequence[QueuedPod]) -> Codes:
        """Return the number of equal pods that fit on each leaf."""
        rows, most = request.feasible(pods[0]), len(pods)
        if _excludes_its_like(pods[0]):
            most = 1
        found: Codes = np.zeros(len(self._tree.rows), np.intp)
        leaves = self._of_row[rows]
        slots = np.minimum(request.slots(pods[0], rows), most).astype(np.intp)
        found[leaves[leaves != _OUTSIDE]] = slots[leaves != _OUTSIDE]
        return found

    def amounts(self, usages: Sequence[PodUsage]) -> tuple[Amounts, Amounts]:
        """Return the requests by class and resource, and the free amounts by resource and leaf."""
        names, resources = _resources(usages), self._nodes.resources
        asked = [[dict(usage.request).get(name, 0.0) for name in names] for usage in usages]
        at = np.ix_(_columns(self._nodes, usages), self._tree.rows)
        has = resources.allocatable[at]
        # What a node has nothing of at all is for others to see to.
        free = np.where(has > 0, has - resources.requested[at], np.inf)
        return np.array(asked).reshape(len(usages), len(names)), free

    def pods(self, keys: Iterable[Iterable[str]]) -> Codes:
        """Count these pods on each leaf."""
        found: Codes = np.zeros(len(self._tree.rows), np.intp)
        for key in chain.from_iterable(keys):
            pod = self._placed.by_key.get(key)
            row = self._nodes.row(pod.node) if pod is not None else None
            if row is not None and self._of_row[row] != _OUTSIDE:
                found[self._of_row[row]] += 1
        return found
