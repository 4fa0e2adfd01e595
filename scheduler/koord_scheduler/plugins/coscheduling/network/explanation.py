"""Explanation in a line why a gang cannot be gathered as it has to be. No IO."""

from __future__ import annotations

import numpy as np

from koord_scheduler.plugins.coscheduling.network.cluster_topology import TOPOLOGY_NAME
from koord_scheduler.plugins.coscheduling.network.greedy_fill import greedy_fill
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain

_MOST_TRIED = 8
"""Domains that are filled to see which has most room."""


def why_not_gathered(problem: GatherProblem) -> str:
    """Explain why ``gather`` finds nothing."""
    tree, needs = problem.tree, problem.needs
    if needs.unknown:
        return (
            f'layer "{needs.unknown}", where its pods have to be gathered, is not in'
            f' ClusterNetworkTopology "{TOPOLOGY_NAME}"'
        )
    if not len(tree.rows):
        return f'no node has the labels of ClusterNetworkTopology "{TOPOLOGY_NAME}"'
    total = problem.total + int(problem.bound.sum())
    for layer, multiple in zip(tree.layers, needs.multiples, strict=True):
        if total % multiple:
            return f'{total} pods are no multiple of {multiple}, the podCountMultiple of "{layer}"'
    return _where_most_fit(problem)


def _where_most_fit(problem: GatherProblem) -> str:
    layer, tree = problem.needs.must, problem.tree
    bound = problem.bound_in[layer]
    if np.count_nonzero(bound) > 1:
        names = ", ".join(tree.path(Domain(layer, one)) for one in np.flatnonzero(bound).tolist())
        return f'its bound pods are in several domains of layer "{tree.layers[layer]}": {names}'
    (allowed,) = np.nonzero(bound == bound.sum())
    order = allowed[np.argsort(-problem.rooms_in[layer][allowed], kind="stable")]
    tried = order[:_MOST_TRIED].tolist()
    most, place = max((_number_fitting(problem, Domain(layer, one)), -one) for one in tried)
    if not layer:
        return f"the network has room for {most} of its {problem.total} pods"
    beside = f" beside {bound.sum()} that are bound" if bound.any() else ""
    return (
        f'no domain of layer "{tree.layers[layer]}" has room for {problem.total} pods{beside}:'
        f" {tree.path(Domain(layer, -place))} has room for {most}"
    )


def _number_fitting(problem: GatherProblem, domain: Domain) -> int:
    return sum(sum(counts) for _, counts in greedy_fill(problem, domain))
