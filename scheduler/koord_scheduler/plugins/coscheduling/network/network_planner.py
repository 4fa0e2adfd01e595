"""Gangs are tried where their pods are near each other in the network. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.gang_planner import EVERYWHERE, GangCandidate, GangRequest
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.cluster_topology import TOPOLOGY_NAME
from koord_scheduler.plugins.coscheduling.network.explanation import why_not_gathered
from koord_scheduler.plugins.coscheduling.network.gather_problem import (
    MemberClass,
    gather_problem,
    member_classes,
    without_other_pods,
)
from koord_scheduler.plugins.coscheduling.network.gather_spec import (
    GatherNeeds,
    gather_needs,
    read_gather_spec,
)
from koord_scheduler.plugins.coscheduling.network.planner import (
    GatherPlan,
    can_be_met,
    candidates,
    gather_plans,
)
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain, NetworkTree
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.placed_pods import PlacedPods

_NOWHERE: Rows = np.array([], np.intp)


class _NetworkRequest(NamedTuple):
    """A gang's demands, and the network they are about."""

    tree: NetworkTree
    needs: GatherNeeds


class NetworkPlanner:
    """Plans for gangs that ask for it; ``placed`` says where their bound members are."""

    def __init__(self, placed: PlacedPods) -> None:
        self._placed = placed

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        """Parts of the network in which all fit, or as many as have to; or why there are none."""
        found = _network_request(request)
        if found is None:
            return (EVERYWHERE,)
        if isinstance(found, str):
            return found
        required, why = request.required or request.pods[:1], ""
        for pods in (request.pods, required) if len(required) < len(request.pods) else (required,):
            classes, problem = self._problem(request, found, pods)
            plans = gather_plans(problem)
            first = next(plans, None)
            if first is not None:
                return _candidates(problem, classes, chain([first], plans))
            why = why_not_gathered(problem)
        return why

    def rows_to_free(self, request: GangRequest) -> Rows | None:
        """Of the domains that are large enough for all, the one with most room."""
        found = _network_request(request)
        if found is None:
            return None
        if isinstance(found, str):
            return _NOWHERE
        layer = found.needs.must
        classes, problem = self._problem(request, found, request.required or request.pods[:1])
        if not can_be_met(problem):
            return _NOWHERE
        empty = without_other_pods(request, problem, classes)
        rooms = problem.rooms_in[layer]
        domain = max(candidates(empty, layer), key=lambda one: rooms[one.place], default=None)
        return _NOWHERE if domain is None else _rows(problem, domain)

    def domains(self, request: GangRequest) -> Sequence[Rows] | None:
        """Return the domains of the lowest layer that has to gather all pods."""
        found = _network_request(request)
        if found is None or isinstance(found, str):
            return None if found is None else []
        layer, tree = found.needs.must, found.tree
        places = range(len(tree.starts[layer]) - 1) if layer else ()
        return [_domain_rows(tree, Domain(layer, place)) for place in places] or None

    def _problem(
        self, request: GangRequest, found: _NetworkRequest, pods: Iterable[QueuedPod]
    ) -> tuple[list[MemberClass], GatherProblem]:
        classes = member_classes(request, pods)
        return classes, gather_problem(request, found.tree, found.needs, classes, self._placed)


def _network_request(request: GangRequest) -> _NetworkRequest | str | None:
    """Return a gang's demands on the network, if any; or why they cannot be met, in a line."""
    text = next((one for one in map(_network_topology, request.gangs) if one), "")
    if not request.nodes.use(Gangs).gathers or not text:
        return None
    try:
        spec = read_gather_spec(text)
    except ValueError as error:
        return f"its network-topology-spec {error}"
    network = request.nodes.find(ClusterNetwork)
    tree = network.tree() if network is not None else None
    if tree is None:
        return f'there is no valid ClusterNetworkTopology "{TOPOLOGY_NAME}"'
    return _NetworkRequest(tree, gather_needs(spec, tree.layers))


def _network_topology(gang: Gang) -> str:
    return gang.spec.gather_spec if gang.spec is not None else ""


def _candidates(
    problem: GatherProblem, classes: Sequence[MemberClass], plans: Iterable[GatherPlan]
) -> Iterator[GangCandidate]:
    """Each plan; then its domain without the plan, for what plans do not know of."""
    for plan in plans:
        rows = _rows(problem, plan.domain)
        yield GangCandidate(rows, _rows_by_pod(problem, classes, plan))
        if problem.is_free:
            yield GangCandidate(rows)


def _rows_by_pod(
    problem: GatherProblem, classes: Sequence[MemberClass], plan: GatherPlan
) -> dict[str, int]:
    left, found = [iter(pod_class.pods) for pod_class in classes], dict[str, int]()
    for leaf, counts in plan.leaf_counts:
        for pods, count in zip(left, counts, strict=True):
            for pod in islice(pods, count):
                found[pod.key] = int(problem.tree.rows[leaf])
    return found


def _rows(problem: GatherProblem, domain: Domain) -> Rows:
    return _domain_rows(problem.tree, domain)


def _domain_rows(tree: NetworkTree, domain: Domain) -> Rows:
    first, end = tree.leaves(domain)
    return np.sort(tree.rows[first:end])
