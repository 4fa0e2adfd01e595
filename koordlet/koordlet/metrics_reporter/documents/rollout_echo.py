"""Echo of the configuration that a node has applied, and how its pods fare with it. No IO.

It is ``extensions.pykoord.rollout`` of NodeMetric while the NodeSLO names a version. The manager
compares nodes by it, so counts go up from koordlet's start: what is between two reports is their
difference, whichever of them get lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord_model.node_slo import RolloutVersion
from koord_model.qos import QoSClass, kube_qos, qos_class_or_default

from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.states_informer.state.pod_inventory import PodRecord

_PSI_RESOURCES = ("cpu", "memory", "io")
_LONGEST = 300
"""Characters of a problem."""


@dataclass(slots=True)
class RestartCounter:
    """Containers of pods that are there still, and were started anew; ``count`` goes up."""

    count: int = 0
    _known: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def look(self, pods: Iterable[PodRecord]) -> int:
        """Take the pods as they are now; of a container that is between two runs the last id."""
        records = tuple(pods)
        now = {
            (record.pod.uid, container.name): key
            for record in records
            for key, container in record.containers.items()
        }
        there = {record.pod.uid for record in records}
        self.count += sum(self._known.get(name, key) != key for name, key in now.items())
        self._known = {name: key for name, key in self._known.items() if name[0] in there} | now
        return self.count


@dataclass(frozen=True, slots=True)
class RolloutEcho:
    """The version in force, what of it could not be applied, and counts since the start."""

    applied: RolloutVersion
    problems: tuple[str, ...]
    evictions: int
    restarts: int


def document(
    echo: RolloutEcho, cache: MetricCache, window: TimeWindow, pods: Iterable[PodRecord]
) -> dict[str, Any]:
    """The section.

    ``psi`` is percent, of the resource that services (pods that are not best-effort) wait for
    most, ``schedWait`` milliseconds for each second of CPU, both a mean of these pods, and
    ``batchCores`` the CPU of best-effort pods. What is not measured is left out.
    """
    classes = {
        record.pod.uid: qos_class_or_default(record.pod.labels, kube_qos(record.pod.cgroup_parent))
        for record in pods
    }
    services = {uid for uid, qos in classes.items() if qos is not QoSClass.BE}
    problem = next(iter((*filter(None, [echo.applied.problem]), *echo.problems)), "")
    found: dict[str, Any] = {
        "entry": echo.applied.entry,
        "version": echo.applied.version,
        "evictions": echo.evictions,
        "restarts": echo.restarts,
    }
    if problem:
        found["problem"] = problem[:_LONGEST]
    values = {kind: _averages(cache, kind, window) for kind in _KINDS}
    for name, value in (
        ("psi", _psi(values["pod_psi"], services)),
        ("schedWait", _mean(values["pod_cpu_sched_wait"], services)),
        ("batchCores", _batch_cores(values["pod_cpu_usage"], services)),
    ):
        if value is not None:
            found[name] = round(value, 4)
    return found


_KINDS = ("pod_psi", "pod_cpu_sched_wait", "pod_cpu_usage")
_Values = Mapping[tuple[str, ...], float]


def _averages(cache: MetricCache, kind: str, window: TimeWindow) -> _Values:
    found = cache.aggregate(kind, window, (Aggregation.AVG,))
    values = found.values[Aggregation.AVG].tolist()
    return {series.labels: value for series, value in zip(found.series, values, strict=True)}


def _psi(values: _Values, services: set[str]) -> float | None:
    means = [
        _mean({(uid,): value for (uid, *of), value in values.items() if of == key}, services)
        for key in ([resource, "avg10", "some"] for resource in _PSI_RESOURCES)
    ]
    return max((mean for mean in means if mean is not None), default=None)


def _mean(values: _Values, pods: set[str]) -> float | None:
    known = [value for (uid, *_), value in values.items() if uid in pods]
    return sum(known) / len(known) if known else None


def _batch_cores(values: _Values, services: set[str]) -> float | None:
    """None of a node whose pods' CPU is not measured; 0 of one without best-effort pods."""
    if not values:
        return None
    return sum(value for (uid, *_), value in values.items() if uid not in services)
