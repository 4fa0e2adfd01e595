"""Free resources of nodes, by the requests of their pods. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.usage import RequestUsages

_RESOURCES = ("cpu", "memory")


def most_free_first(cluster: ClusterModel, nodes: Iterable[str]) -> list[str]:
    """Nodes by the least free share of CPU and memory, then by name."""
    return sorted(nodes, key=lambda node: (-_least_free(cluster, [node], [node]), node))


def free_percentage(cluster: ClusterModel, drained: Collection[str]) -> float:
    """The percentage of CPU or memory, whichever is less, that is free without these nodes.

    The pods of these nodes count on the others. Nodes that are not ready, or cordoned, have none.
    """
    rest = [
        name
        for name, node in cluster.nodes.items()
        if name not in drained and node.is_ready and node.is_schedulable
    ]
    return 100 * _least_free(cluster, rest, [*rest, *drained])


def _least_free(cluster: ClusterModel, nodes: Collection[str], users: Iterable[str]) -> float:
    """The free share of nodes, of the resource with least, after the pods on ``users``."""
    used = dict.fromkeys(_RESOURCES, 0.0)
    usages = RequestUsages(cluster)
    for name in users:
        usage = usages.of(name)
        for resource in _RESOURCES:
            used[resource] += usage.used.get(resource, 0.0) if usage is not None else 0.0
    return min(_shares(cluster, usages, nodes, used))


def _shares(
    cluster: ClusterModel, usages: RequestUsages, nodes: Collection[str], used: dict[str, float]
) -> Iterator[float]:
    capacities = [usages.capacity(cluster.nodes[name]) for name in nodes]
    for resource in _RESOURCES:
        total = sum(capacity.get(resource, 0.0) for capacity in capacities)
        yield (total - used[resource]) / total if total else 0.0
