"""Gangs are tried where their pods are near each other in the network. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Codes
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.placed_pods import PlacedPods
from koord_scheduler.framework.gang_planner import EVERYWHERE, GangCandidate, GangRequest
from koord_scheduler.gang.gangs import Gang
from koord_scheduler.network.cluster_topology import TOPOLOGY_NAME
from koord_scheduler.network.explanation import why_not_gathered
from koord_scheduler.network.gather_spec import (
    GatherNeeds,
    gather_needs,
    read_gather_spec,
)
from koord_scheduler.network.planner import GatherPlan, gather_plans
from koord_scheduler.network.problem import GatherProblem
from koord_scheduler.network.tree import NetworkTree
from koord_scheduler.queue.scheduling_queue import QueuedPod

_MOST_PLANS = 8
"""Plans that are tried; what none of them allows for keeps the gang waiting."""


class _MemberClass(NamedTuple):
    """Pods of a gang that are alike, in the order in which they are to be near each other."""

    key: tuple[str, PodClass]
    pods: list[QueuedPod]


class NetworkPlanner:
    """Plans for gangs that ask for it; ``placed`` says where their bound members are."""

    def __init__(self, placed: PlacedPods) -> None:
        self._placed = placed

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        """Parts of the network in which all fit, or as many as have to; or why there are none."""
        text = next((one for one in map(_network_topology, request.gangs) if one), "")
        if not request.nodes.gangs.gathers or not text:
            return (EVERYWHERE,)
        try:
            spec = read_gather_spec(text)
        except ValueError as error:
            return f"its network-topology-spec {error}"
        tree = request.nodes.network_tree()
        if tree is None:
            return f'there is no valid ClusterNetworkTopology "{TOPOLOGY_NAME}"'
        needs = gather_needs(spec, tree.layers)
        required, why = request.required or request.pods[:1], ""
        for pods in (request.pods, required) if len(required) < len(request.pods) else (required,):
            classes = _classes(request, pods)
            problem = _problem(request, tree, needs, classes, self._placed)
            plans = islice(gather_plans(problem), _MOST_PLANS)
            first = next(plans, None)
            if first is not None:
                return _candidates(problem, classes, chain([first], plans))
            why = why_not_gathered(problem)
        return why


def _network_topology(gang: Gang) -> str:
    return gang.spec.network_topology if gang.spec is not None else ""


def _classes(request: GangRequest, pods: Iterable[QueuedPod]) -> list[_MemberClass]:
    found: dict[tuple[str, PodClass], list[QueuedPod]] = {}
    for pod in sorted(pods, key=partial(_place, request)):
        found.setdefault(pod.scores_key, []).append(pod)
    return [_MemberClass(*one) for one in found.items()]


def _place(request: GangRequest, pod: QueuedPod) -> tuple[float, str]:
    """Pods that have an index come by it; those without follow by their names."""
    member = request.nodes.gangs.member(pod.key)
    index = member.network_index if member is not None else -1
    return index if index >= 0 else math.inf, pod.key


def _problem(
    request: GangRequest,
    tree: NetworkTree,
    needs: GatherNeeds,
    classes: Sequence[_MemberClass],
    placed: PlacedPods,
) -> GatherProblem:
    leaves = _Leaves(request.nodes, tree, placed)
    requests, free = leaves.amounts([one.pods[0].waiting.usage for one in classes])
    slots = np.array([leaves.slots(request, one.pods) for one in classes])
    for one, asked in zip(slots, requests, strict=True):
        # What a reservation or an extender provides is no part of what is free.
        free = np.where(one > 0, np.maximum(free, asked[:, None]), free)
    bound = leaves.pods([*one.bound, *one.assumed] for one in request.gangs)
    return GatherProblem(
        tree,
        needs,
        tuple(len(one.pods) for one in classes),
        slots,
        requests,
        free,
        bound,
        bound + leaves.pods(_near(request)),
        np.zeros_like(bound),
    )


def _near(request: GangRequest) -> Iterator[Iterable[str]]:
    """The bound pods of other gangs that have the same selector."""
    gangs = request.nodes.gangs
    first = gangs.member(request.pods[0].key)
    selector = first.network_selector if first is not None else ""
    own = {one.key for one in request.gangs}
    for gang in gangs.by_key.values() if selector else ():
        if gang.key not in own:
            there = [*gang.bound, *gang.assumed]
            yield [one for one in there if gang.members[one].network_selector == selector]


class _Leaves:
    """What is known of nodes, by their places in a tree; -1 is the place of those outside."""

    def __init__(self, nodes: NodeColumns, tree: NetworkTree, placed: PlacedPods) -> None:
        self._nodes = nodes
        self._tree = tree
        self._placed = placed
        self._of_row: Codes = np.full(len(nodes), -1, np.intp)
        self._of_row[tree.rows] = np.arange(len(tree.rows))

    def slots(self, request: GangRequest, pods: Sequence[QueuedPod]) -> Codes:
        """How many of some pods that are alike each leaf has room for."""
        rows, most = request.feasible(pods[0]), len(pods)
        if pods[0].waiting.usage.ports:
            most = 1
        found: Codes = np.zeros(len(self._tree.rows), np.intp)
        leaves = self._of_row[rows]
        slots = np.minimum(request.slots(pods[0], rows), most).astype(np.intp)
        found[leaves[leaves >= 0]] = slots[leaves >= 0]
        return found

    def amounts(self, usages: Sequence[PodUsage]) -> tuple[Amounts, Amounts]:
        """What classes ask for by class and resource, and what is free by resource and leaf."""
        numbers = sorted({number for one in usages for number, _ in one.request})
        asked = [[dict(one.request).get(number, 0.0) for number in numbers] for one in usages]
        resources = self._nodes.resources
        at = np.ix_(np.array(numbers, np.intp), self._tree.rows)
        has = resources.allocatable[at]
        # What a node has nothing of at all is for others to see to.
        free = np.where(has > 0, has - resources.requested[at], np.inf)
        return np.array(asked).reshape(len(usages), len(numbers)), free

    def pods(self, keys: Iterable[Iterable[str]]) -> Codes:
        """How many of some pods each leaf has."""
        found: Codes = np.zeros(len(self._tree.rows), np.intp)
        for key in chain.from_iterable(keys):
            pod = self._placed.by_key.get(key)
            row = self._nodes.row(pod.node) if pod is not None else None
            if row is not None and self._of_row[row] >= 0:
                found[self._of_row[row]] += 1
        return found


def _candidates(
    problem: GatherProblem, classes: Sequence[_MemberClass], plans: Iterable[GatherPlan]
) -> Iterator[GangCandidate]:
    """Each plan; then its domain without the plan, for what plans do not know of."""
    for plan in plans:
        first, end = problem.tree.leaves(plan.domain)
        rows = np.sort(problem.tree.rows[first:end])
        yield GangCandidate(rows, _rows_by_pod(problem, classes, plan))
        if problem.is_free:
            yield GangCandidate(rows)


def _rows_by_pod(
    problem: GatherProblem, classes: Sequence[_MemberClass], plan: GatherPlan
) -> dict[str, int]:
    left, found = [iter(one.pods) for one in classes], dict[str, int]()
    for leaf, counts in plan.filled:
        for pods, count in zip(left, counts, strict=True):
            for pod in islice(pods, count):
                found[pod.key] = int(problem.tree.rows[leaf])
    return found
