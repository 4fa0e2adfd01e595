"""Custom metrics of pods and nodes, by Katalyst's names (katalyst-api, ``pkg/metric``). No IO.

CPU is in cores, memory in bytes. Metrics that nodes do not report are not in it: of pods CPI, GPUs
and memory bandwidth, of nodes the load and what SysAdvisor knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from koord_model.demand import amounts
from koord_model.keys import CPU, MEMORY
from koord_model.metric_policy import MemoryPolicy

from koord_manager.metrics_apis.core.aggregates import MetricSeries, Point
from koord_manager.metrics_apis.core.pods import MetricPod
from koord_manager.metrics_apis.core.samples import UNKNOWN, RowUsage, UsageSample

CONTAINER, NODE_NAME, NUMA = "container", "node_name", "numa"

_MILLISECONDS = 1000
"""Unit of ``sched_wait``, of each second."""


_MOST = float(1 << 63)
"""Beyond it Kubernetes' clients cannot read quantities: one lie would spoil a whole list."""


class NodeCapacity(NamedTuple):
    """Amounts of a whole node: CPU in cores, memory in bytes; NaN if unknown."""

    cpu: float = UNKNOWN
    memory: float = UNKNOWN
    policy: MemoryPolicy = MemoryPolicy.WITHOUT_PAGE_CACHE
    """The part of its memory that the node reports as used."""


def capacity_of(capacity: Mapping[str, object], policy: MemoryPolicy) -> NodeCapacity:
    """A node's capacity in its status; what is not there, or 0, is unknown."""
    found = amounts(capacity)
    cpu, memory = found.get(CPU, 0) / 1000, float(found.get(MEMORY, 0))
    return NodeCapacity(cpu or UNKNOWN, memory or UNKNOWN, policy)


OfContainer = Callable[[RowUsage, float], float]
"""A container's usage and its CPU limit in cores (NaN: none) make a value; NaN is none."""

OfNode = Callable[[RowUsage, NodeCapacity], float]

POD_METRICS: Mapping[str, OfContainer] = {
    # Threads that run, and those that wait to.
    "pod_cpu_load_1min": lambda used, _limit: used.cpu * (1 + used.sched_wait / _MILLISECONDS),
    "pod_cpu_usage": lambda used, _limit: used.cpu,
    "pod_cpu_usage_ratio": lambda used, limit: used.cpu / limit,
    "pod_memory_usage": lambda used, _limit: used.memory,
}


def _available(used: RowUsage, whole: NodeCapacity) -> float:
    """Available memory: koordlet reports MemTotal less MemAvailable without page cache."""
    plain = whole.policy is MemoryPolicy.WITHOUT_PAGE_CACHE
    return max(whole.memory - used.memory, 0.0) if plain else UNKNOWN


_OF_NODES: Mapping[str, OfNode] = {
    "node_cpu_total": lambda _used, whole: whole.cpu,
    "node_cpu_usage": lambda used, _whole: used.cpu,
    "node_cpu_usage_ratio": lambda used, whole: used.cpu / whole.cpu,
    "node_system_memory_available": _available,
    "node_system_memory_total": lambda _used, whole: whole.memory,
}

_OF_ZONES: Mapping[str, Callable[[RowUsage], float]] = {
    "numa_cpu_usage": lambda used: used.cpu,
    "numa_memory_usage": lambda used: used.memory,
}

NODE_METRICS: tuple[str, ...] = (*_OF_NODES, *_OF_ZONES)

METRIC_LABELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(POD_METRICS, (CONTAINER, NODE_NAME)),
    **dict.fromkeys(_OF_NODES, ()),
    **dict.fromkeys(_OF_ZONES, (NUMA,)),
}
"""Labels of a metric's series, by its name."""


def node_series(
    name: str, samples: Iterable[UsageSample], capacity: NodeCapacity
) -> list[MetricSeries]:
    """The series of a node's metric; one for each NUMA node of those that have them."""
    if name in _OF_NODES:
        of = _OF_NODES[name]
        return _series({(): [sample.of_node(of(sample.node, capacity)) for sample in samples]})
    of_zone, by_zone = _OF_ZONES[name], dict[tuple[tuple[str, str], ...], list[Point]]()
    for sample in samples:
        for zone, used in sample.zones:
            by_zone.setdefault(((NUMA, zone),), []).append(sample.of_node(of_zone(used)))
    return _series(by_zone)


class PodSamples:
    """The samples of one node, for questions about its pods."""

    def __init__(self, samples: Sequence[UsageSample]) -> None:
        self._samples = [(sample, _places(sample)) for sample in samples]

    def series(self, name: str, pod: MetricPod) -> list[MetricSeries]:
        """The series of a pod's metric, one a container, in the order that the pod has them.

        Samples that do not have all of its containers are left out, as those from before it came:
        half of them would look like half the usage.
        """
        of, rows = POD_METRICS[name], list(self._rows(pod))
        return _series(
            {
                ((CONTAINER, container), (NODE_NAME, pod.node)): [
                    sample.of_pod(of(found[container], limit))
                    for sample, found in rows
                    if container in found
                ]
                for container, limit in pod.cpu_limits()
            }
        )

    def _rows(self, pod: MetricPod) -> Iterator[tuple[UsageSample, Mapping[str, RowUsage]]]:
        for sample, places in self._samples:
            found = places.get((pod.namespace, pod.name))
            if found is None or pod.created > sample.time:
                continue
            names = {pod.only_container: ""} if pod.only_container else {n: n for n in pod.names}
            rows = {name: sample.row(found[key]) for name, key in names.items() if key in found}
            if all(_is_known(rows.get(name)) for name in pod.containers):
                yield sample, rows


def _series(given: Mapping[tuple[tuple[str, str], ...], Iterable[Point]]) -> list[MetricSeries]:
    """The series that have points: values that are known, and that a quantity can hold."""
    points: Iterator[tuple[tuple[tuple[str, str], ...], tuple[Point, ...]]] = (
        (labels, tuple(point for point in values if 0 <= point.value < _MOST))
        for labels, values in given.items()
    )
    return [MetricSeries(dict(labels), found) for labels, found in points if found]


def _places(sample: UsageSample) -> Mapping[tuple[str, str], dict[str, int]]:
    """Places of the sample's containers, by pod."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for place, key in enumerate(sample.keys):
        found.setdefault((key.namespace, key.pod), {})[key.container] = place
    return found


def _is_known(row: RowUsage | None) -> bool:
    return row is not None and not (math.isnan(row.cpu) or math.isnan(row.memory))
