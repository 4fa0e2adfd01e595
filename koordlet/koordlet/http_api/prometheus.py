"""Observed values for Prometheus: made anew at each scrape from the present state.

Names and labels are Koordinator's where it has the metric (its ``pkg/koordlet/metrics``);
other kinds are ``koordlet_<kind>_<unit>``. Values are the newest. Only pods and
containers that run now have rows, so that those gone vanish and their number bounds
that of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from koordlet.http_api.documents.node import DocumentSources, capacity, report_age
from koordlet.http_api.documents.top import class_of, top_document
from koordlet.metric_cache.core.metric_kinds import KINDS, MetricKind
from koordlet.states_informer.state.pod_inventory import PodRecord

_UNITS = {
    "cores": "cores",
    "bytes": "bytes",
    "ratio": "ratio",
    "percent": "percent",
    "bytes/s": "bytes_per_second",
    "count": "count",
    "ms": "milliseconds",
    "ms/s": "milliseconds_per_second",
    "1/s": "per_second",
    "pages/s": "pages_per_second",
}
_LABELS = {
    "psi_resource": "psi_resource_type",
    "cpi_resource": "cpi_field",
    "resctrl_mb_type": "mb_type",
    "host_app_name": "host_application_name",
}
_VALUES = {
    "cpi_resource": {"cycle": "cycles", "instruction": "instructions"},
}
_POD = ("pod_uid", "pod_name", "pod_namespace", "qos")
_RESOURCES = {"cpu": "core", "memory": "byte"}


@dataclass(frozen=True, slots=True)
class _Export:
    """A kind's metric; ``more`` are labels with one value, ``scale`` turns the kind's unit.

    ``meaning`` is given where the kind's does not fit: with another unit, or several kinds.
    """

    name: str
    more: Mapping[str, str] = field(default_factory=dict)
    scale: float = 1.0
    meaning: str = ""


_SYSTEM = "neither pod nor host application"
_USERS = {
    "node_metric_node_usage": "everything on the node",
    "node_metric_numa_node_usage": "everything on a NUMA node",
    "node_metric_system_usage": f"what is {_SYSTEM}",
    "node_metric_numa_system_usage": f"what is {_SYSTEM}, on a NUMA node",
}


def _resource(name: str, resource: str) -> _Export:
    labels = {"resource": resource, "unit": _RESOURCES[resource]}
    return _Export(name, labels, meaning=f"use of {_USERS[name]} (cores, bytes)")


def _of_application(resource: str) -> _Export:
    meaning = "use of a host application (cores, bytes)"
    return _Export("host_application_resource_usage", {"resource": resource}, meaning=meaning)


_NAMED: Mapping[str, tuple[_Export, ...]] = {
    "node_cpu_usage": (
        _Export("node_used_cpu_cores"),
        _resource("node_metric_node_usage", "cpu"),
    ),
    "node_memory_usage": (
        _Export("node_used_memory_bytes"),
        _resource("node_metric_node_usage", "memory"),
    ),
    "sys_cpu_usage": (_resource("node_metric_system_usage", "cpu"),),
    "sys_memory_usage": (_resource("node_metric_system_usage", "memory"),),
    "node_numa_cpu_usage": (_resource("node_metric_numa_node_usage", "cpu"),),
    "node_numa_memory_usage": (_resource("node_metric_numa_node_usage", "memory"),),
    "sys_numa_cpu_usage": (_resource("node_metric_numa_system_usage", "cpu"),),
    "sys_numa_memory_usage": (_resource("node_metric_numa_system_usage", "memory"),),
    "host_application_cpu_usage": (_of_application("cpu"),),
    "host_application_memory_usage": (_of_application("memory"),),
    "node_be": (
        _Export(
            "node_be_cpu_cores",
            scale=0.001,
            meaning="best-effort pods together: what they use, ask for, and may have (cores)",
        ),
    ),
    "node_psi": (_Export("node_psi"),),
    "class_psi": (_Export("class_psi"),),
    "node_load1": (_Export("node_load1"),),
    "pod_psi": (_Export("pod_psi"),),
    "container_psi": (_Export("container_psi"),),
    "container_cpi": (_Export("container_cpi"),),
    "resctrl_resource_llc": (_Export("resctrl_llc_occupancy"),),
    "resctrl_resource_mb": (_Export("resctrl_memory_bandwidth"),),
    # Labels of the PSI metrics.
    "pod_psi_cpu_full_supported": (),
    "container_psi_cpu_full_supported": (),
}


class SampleMetrics(Collector):
    """Registers with a ``CollectorRegistry``; every scrape asks ``observed``."""

    def __init__(self, observed: DocumentSources) -> None:
        self._observed = observed

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the node."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of one scrape."""
        families = MetricFamilies(self._observed.node)
        pods = {record.pod.uid: record for record in self._observed.pods()}
        for kind in KINDS.values():
            self._measured(families, kind, pods)
        self._demands(families, pods.values())
        self._classes(families)
        self._node(families)
        self._self(families)
        yield from families.made()

    def _measured(
        self, families: MetricFamilies, kind: MetricKind, pods: Mapping[str, PodRecord]
    ) -> None:
        exports = _NAMED.get(kind.name)
        if exports is None:
            exports = (_Export(f"{kind.name}_{_UNITS[kind.unit]}"),)
        newest = self._observed.newest(kind.name) if exports else {}
        full = self._full_supported(kind.name) if kind.name.endswith("_psi") else None
        for values, value in newest.items():
            labels = _labels(kind, values, pods)
            if labels is None:
                continue
            if full is not None and kind.labels[0] == "pod_uid":
                who = values[: -len(("resource", "precision", "degree"))]
                labels["cpu_full_supported"] = "true" if full.get(who) else "false"
            for export in exports:
                meaning = export.meaning or f"{kind.meaning} ({kind.unit})"
                shown = {**labels, **export.more}
                families.add(export.name, f"{meaning}.", shown, value * export.scale)

    def _full_supported(self, kind: str) -> Mapping[tuple[str, ...], float]:
        if kind in ("node_psi", "class_psi"):
            return {}
        return self._observed.newest(f"{kind}_cpu_full_supported")

    def _demands(self, families: MetricFamilies, pods: Iterable[PodRecord]) -> None:
        for record in pods:
            if record.demand is None:
                continue
            for container in record.containers.values():
                labels = {
                    **_pod_labels(record),
                    "container_id": f"{record.runtime}://{container.id}",
                    "container_name": container.name,
                }
                for which, amounts in (
                    ("requests", record.demand.container_requests),
                    ("limits", record.demand.container_limits),
                ):
                    for resource, amount in amounts.get(container.name, {}).items():
                        unit, value = _in_unit(resource, amount)
                        families.add(
                            f"container_resource_{which}",
                            f"The {which} of a container.",
                            {"resource": resource, "unit": unit, **labels},
                            value,
                        )

    def _classes(self, families: MetricFamilies) -> None:
        names = {
            "cpu": ("class_used_cpu_cores", "CPU that a class's pods use."),
            "memory": ("class_used_memory_bytes", "Memory that a class's pods use."),
            "cpu_request": ("class_requested_cpu_cores", "CPU that a class's pods ask for."),
            "memory_request": ("class_requested_memory_bytes", "Memory they ask for."),
            "pods": ("class_pods", "Pods of a class."),
        }
        for row in top_document(self._observed)["classes"]:
            for key, (name, meaning) in names.items():
                families.add(name, meaning, {"qos": row["qos"]}, row[key])

    def _node(self, families: MetricFamilies) -> None:
        for resource, amount in capacity(self._observed.latest).items():
            labels = {"resource": resource, "unit": _RESOURCES[resource]}
            families.add("node_resource_capacity", "What the machine has.", labels, amount)
        for predictor, said in self._observed.predictions().items():
            for name, meaning, amount in (
                ("peak", "The peak that is predicted.", said.peak),
                ("reclaimable", "What prod pods ask for and will not need.", said.reclaimable),
            ):
                for resource, unit in _RESOURCES.items():
                    families.add(
                        f"node_predicted_resource_{name}",
                        meaning,
                        {"predictor": predictor, "resource": resource, "unit": unit},
                        None if amount is None else getattr(amount, resource),
                    )

    def _self(self, families: MetricFamilies) -> None:
        for collector in self._observed.collectors():
            labels = {"collector": collector.name}
            families.add(
                "collector_available",
                "1 while a collector works; 0 where it is off or cannot work here.",
                labels,
                float(collector.enabled and collector.available),
            )
            if collector.enabled:
                families.add(
                    "collector_seconds", "Time of its last round.", labels, collector.seconds
                )
                families.add("collector_samples", "Samples of it.", labels, collector.samples)
                families.count(
                    "collector_rounds", "Rounds of a collector.", labels, collector.rounds
                )
                families.count("collector_failures", "Failed rounds.", labels, collector.failures)
        state = self._observed.cache.state()
        for name in ("series", "capacity", "memory_bytes", "disk_bytes"):
            meaning = f"The metric cache's {name.replace('_', ' in ')}."
            families.add(f"metric_cache_{name}", meaning, {}, getattr(state, name))
        families.count("metric_cache_refused", "Samples without room.", {}, state.refused)
        for name, age in self._observed.ages().items():
            families.add("state_age_seconds", "Age of a state.", {"state": name}, age.age_seconds)
        self._reports(families)

    def _reports(self, families: MetricFamilies) -> None:
        now = self._observed.clock()
        for name, report in self._observed.reports().items():
            labels = {"report": name}
            for way, sent in report.sent.items():
                families.count("report", "Reports sent.", {**labels, "way": way}, sent)
            families.count("report_failures", "Attempts that failed.", labels, report.failures)
            meaning = "Seconds since the cluster last had all that we know."
            families.add("report_age_seconds", meaning, labels, report_age(report, now))


class MetricFamilies:
    """The metrics of one scrape, by name; all have the label of the node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._families: dict[str, Metric] = {}

    def add(self, name: str, meaning: str, labels: Mapping[str, str], value: float | None) -> None:
        """One row of a gauge; none where there is no value."""
        if value is not None:
            full = f"koordlet_{name}"
            family = self._families.setdefault(full, GaugeMetricFamily(full, meaning))
            family.add_sample(full, {"node": self._node, **labels}, float(value))

    def count(self, name: str, meaning: str, labels: Mapping[str, str], value: float) -> None:
        """One row of a counter."""
        full = f"koordlet_{name}"
        family = self._families.setdefault(full, CounterMetricFamily(full, meaning))
        family.add_sample(f"{full}_total", {"node": self._node, **labels}, float(value))

    def made(self) -> Iterable[Metric]:
        """All that have rows."""
        return self._families.values()


def _labels(
    kind: MetricKind, values: tuple[str, ...], pods: Mapping[str, PodRecord]
) -> dict[str, str] | None:
    """A series' labels; ``None`` where its pod or container no longer runs."""
    given = dict(zip(kind.labels, values, strict=True))
    labels = {
        _LABELS.get(name, name): _VALUES.get(name, {}).get(value, value)
        for name, value in given.items()
        if name not in ("pod_uid", "container_id")
    }
    if "pod_uid" not in given:
        return labels
    record = pods.get(given["pod_uid"])
    if record is None:
        return None
    labels |= _pod_labels(record)
    if "container_id" in given:
        container = record.containers.get(given["container_id"])
        if container is None:
            return None
        # As the kubelet's status spells it, and Koordinator with it.
        labels["container_id"] = f"{record.runtime}://{container.id}"
        labels["container_name"] = container.name
    return labels


def _pod_labels(record: PodRecord) -> dict[str, str]:
    pod = record.pod
    return dict(zip(_POD, (pod.uid, pod.name, pod.namespace, class_of(pod).value), strict=True))


def _in_unit(resource: str, amount: int) -> tuple[str, float]:
    """Koordinator's unit of a resource, and the amount in it."""
    if resource == "cpu":
        return "core", amount / 1000
    return ("byte" if "memory" in resource or "storage" in resource else "integer"), float(amount)
