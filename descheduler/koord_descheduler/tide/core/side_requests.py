"""CPU and memory that services request of the online side. No IO.

Batch jobs that run there do not count: they are no reason to have more nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord_descheduler.planner.cluster import ClusterModel, KnownPod
from koord_descheduler.planner.usage import RequestUsages
from koord_descheduler.tide.core.pod_sides import is_online

_RESOURCES = ("cpu", "memory")


class SideRequests:
    """Sums over nodes; they change as nodes and pods are moved in thought."""

    def __init__(self, cluster: ClusterModel, nodes: Iterable[str]) -> None:
        self._cluster = cluster
        self._usages = RequestUsages(cluster)
        self._used = dict.fromkeys(_RESOURCES, 0.0)
        self._capacity = dict.fromkeys(_RESOURCES, 0.0)
        self._services: dict[int, bool] = {}
        for name in nodes:
            self.add_node(name)

    def copy(self) -> SideRequests:
        """The same sums, to be changed."""
        found = SideRequests(self._cluster, ())
        found._used, found._capacity = dict(self._used), dict(self._capacity)
        return found

    @property
    def percent(self) -> float:
        """The percentage that is requested, of CPU or memory, whichever is more.

        100 where there is no node and something is requested.
        """
        return max(map(self._percent, _RESOURCES))

    def _percent(self, resource: str) -> float:
        used, capacity = self._used[resource], self._capacity[resource]
        return 100 * used / capacity if capacity else 100.0 * (used > 0)

    def add_node(self, name: str) -> None:
        """A node is on the side, with the pods of services that it has."""
        self._add_capacity(name, 1)
        for pod in self._cluster.pods_on(name):
            if not pod.view.has_ended and self._is_service(pod):
                self.add_pod(pod)

    def empty_node(self, name: str) -> None:
        """A node leaves the side, and its pods stay on it."""
        self._add_capacity(name, -1)

    def add_pod(self, pod: KnownPod) -> None:
        """A pod comes to the side."""
        requests = dict(pod.placed.usage.request)
        for resource in _RESOURCES:
            self._used[resource] += requests.get(resource, 0.0)

    def _add_capacity(self, name: str, sign: int) -> None:
        capacity = self._usages.capacity(self._cluster.nodes[name])
        for resource in _RESOURCES:
            self._capacity[resource] += sign * capacity.get(resource, 0.0)

    def _is_service(self, pod: KnownPod) -> bool:
        """Copies share their template, so that few labels have to be looked at."""
        template = pod.view.template
        found = self._services.get(id(template))
        if found is None:
            found = self._services[id(template)] = is_online(template.labels)
        return found
