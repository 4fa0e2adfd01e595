"""The status of a NodeMetric: what everything on the node used lately. No IO.

Fields, windows and aggregations are Koordinator's (apis/slo/v1alpha1/nodemetric_types.go,
koordlet's states_nodemetric.go). On purpose different: where the memory the policy asks
for is not measured, memory without page cache is reported instead; devices have their
health; of pods with several containers each one's usage is reported too, as an extension, for
recommendations (a pod's only container uses what the pod does), and of all pods their delays, where
those are measured, how long each of several containers waits for CPUs, and in what part of the
periods of its CPU quota a pod was throttled; further extensions have the conditions that eviction
plugins want the node to have, and the settings that it follows; and without samples of the node and
of its system there is no status, where an empty one would read as an idle node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_model import duration
from koord_model.demand import Amounts
from koord_model.keys import CPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.node_info import GPUs, NodeMemoryInfo, SchedulableDevice
from koord_model.node_slo import HostApplication
from koord_model.priority import priority_class_or_default
from koord_model.qos import kube_qos, qos_class_or_default
from koord_model.quantity import quantity_texts
from koord_model.times import rfc3339

from koordlet.metric_cache.core.delays import DELAYS, with_pods
from koordlet.metric_cache.core.interface import (
    AggregatedSeries,
    Aggregation,
    MetricCache,
    TimeWindow,
)
from koordlet.metrics_reporter.documents import recent_usage, rollout_echo
from koordlet.metrics_reporter.documents.metric_policy import MemoryPolicy, MetricCollectPolicy
from koordlet.metrics_reporter.documents.recent_usage import RecentUsage
from koordlet.metrics_reporter.documents.rollout_echo import RolloutEcho
from koordlet.qos_manager.eviction.plugins.core.answers import PluginCondition
from koordlet.states_informer.state.pod_inventory import PodRecord

Json = dict[str, Any]
Labels = tuple[str, ...]

_MEMORY = "memory"
_AVG = (Aggregation.AVG,)
_AGGREGATED = (
    Aggregation.AVG,
    Aggregation.P50,
    Aggregation.P90,
    Aggregation.P95,
    Aggregation.P99,
)
_ENOUGH = 0.5
"""The share of a window that samples must span; with less the node has just started."""

_SUFFIXES = {
    MemoryPolicy.WITH_PAGE_CACHE: "_with_page_cache",
    MemoryPolicy.WITH_HOT_PAGE_CACHE: "_with_hot_page_usage",
}


@dataclass(frozen=True, slots=True)
class NodeMetricInputs:
    """Inputs besides the samples.

    ``reclaimable`` and ``peak`` are the prediction for prod pods, ``None`` where there is
    none; CPU is in millicores, memory in bytes. ``conditions`` are those that eviction plugins
    want the node to have, by plugin; ``echo`` is the configuration that it has applied.
    """

    pods: tuple[PodRecord, ...] = ()
    host_applications: tuple[HostApplication, ...] = ()
    gpus: GPUs | None = None
    memory: NodeMemoryInfo | None = None
    reclaimable: Amounts | None = None
    peak: Amounts | None = None
    conditions: tuple[tuple[str, PluginCondition], ...] = ()
    echo: RolloutEcho | None = None
    with_recent: bool = False
    """True if pods have their usage of the last minute, too."""


@dataclass(frozen=True, slots=True)
class NodeMetricStatus:
    """A status, and lines for people about it.

    ``None`` without samples of the node and its system, such as before pods are known.
    """

    status: Json | None
    notes: tuple[str, ...] = ()


def build(
    cache: MetricCache, now: float, policy: MetricCollectPolicy, known: NodeMetricInputs
) -> NodeMetricStatus:
    """The status at ``now``, seconds since the epoch."""
    lately = _Usage(cache, TimeWindow(now - policy.aggregate, now), policy.memory, _AVG)
    devices = known.gpus.devices if known.gpus else ()
    node, system = lately.node(devices)[Aggregation.AVG], lately.system()[Aggregation.AVG]
    if not node or not system:
        return NodeMetricStatus(None)
    windows = [
        (seconds, _Usage(cache, TimeWindow(now - seconds, now), policy.memory, _AGGREGATED))
        for seconds in policy.durations
    ]
    recent = _recent(cache, now, policy) if known.with_recent else None
    status: Json = {
        "updateTime": rfc3339(now),
        "nodeMetric": {
            "nodeUsage": node,
            "systemUsage": system,
            **_filled("aggregatedNodeUsages", [_node(*window, devices) for window in windows]),
            **_filled("aggregatedSystemUsages", [_system(*window) for window in windows]),
            **_filled("numaUsages", list(_numa(lately, known.memory))),
        },
        **_filled("podsMetric", list(_pods(lately, known.pods, devices, recent))),
        **_filled("hostApplicationMetric", list(_applications(lately, known.host_applications))),
        "prodReclaimableMetric": {"resource": _resource_map(known.reclaimable)},
        **_filled("extensions", _filled("pykoord", _ours(cache, now, policy, known))),
    }
    if known.peak is not None:
        status["prodPeakMetric"] = {"resource": _resource_map(known.peak)}
    return NodeMetricStatus(status, lately.notes())


def merge_patch(status: Json) -> Json:
    """The JSON merge patch that makes a NodeMetric's status exactly this one.

    What the new status leaves out the old one may have, and a merge would keep.
    """
    node = dict.fromkeys(("aggregatedNodeUsages", "aggregatedSystemUsages", "numaUsages"))
    whole: Json = dict.fromkeys(
        ("podsMetric", "hostApplicationMetric", "prodPeakMetric", "extensions")
    )
    whole |= status
    whole["nodeMetric"] = node | status["nodeMetric"]
    for name in ("nodeUsage", "systemUsage"):
        whole["nodeMetric"][name] = _whole_map(status["nodeMetric"][name])
    for name in ("prodReclaimableMetric", "prodPeakMetric"):
        if name in status:
            whole[name] = {"resource": _whole_map(status[name]["resource"])}
    return {"status": whole}


class _Usage:
    """The usages in one window, each kind asked for once for all its series."""

    def __init__(
        self,
        cache: MetricCache,
        window: TimeWindow,
        memory: MemoryPolicy,
        aggregations: Sequence[Aggregation],
    ) -> None:
        self._cache = cache
        self._window = window
        self._memory = memory
        self._aggregations = aggregations
        self._found: dict[str, AggregatedSeries] = {}

    def notes(self) -> tuple[str, ...]:
        """Return lines about substitutes for what was requested."""
        suffix = _SUFFIXES.get(self._memory)
        if suffix is None or self.of(f"node_memory_usage{suffix}"):
            return ()
        line = f'NodeMetric nodeMemoryCollectPolicy is "{self._memory}", which is not measured here'
        return (f"{line} (memory without page cache is reported instead)",)

    def node(self, devices: Iterable[SchedulableDevice] = ()) -> dict[Aggregation, Json]:
        """The node's by aggregation; empty where there are no samples."""
        cpu, memory = self.of("node_cpu_usage").get(()), self.memory("node").get(())
        used = self._by_aggregation(cpu, memory)
        gpus = list(self.gpus("node", devices).get((), ())) if devices else []
        if gpus:
            for name, amounts in used.items():
                if amounts:
                    amounts["devices"] = [device[name] for device in gpus]
        return used

    def system(self) -> dict[Aggregation, Json]:
        """Return the usage of neither pods nor host applications."""
        cpu, memory = self.of("sys_cpu_usage").get(()), self.of("sys_memory_usage").get(())
        return self._by_aggregation(cpu, memory)

    def spans(self, kind: str) -> bool:
        """True if the one series of a kind has samples over enough of the window."""
        found = self._ask(kind)
        if not found.series:
            return False
        span = float(found.last[0]) - float(found.first[0])
        return span >= _ENOUGH * (self._window.end - self._window.start)

    def of(self, kind: str) -> dict[Labels, list[float]]:
        """A kind's values, in the aggregations' order, by the labels of its series."""
        found = self._ask(kind)
        columns = [found.values[name].tolist() for name in self._aggregations]
        rows = zip(*columns, strict=True)
        return {series.labels: list(row) for series, row in zip(found.series, rows, strict=True)}

    def memory(self, who: str) -> dict[Labels, list[float]]:
        """Memory as the policy wants it, without page cache where that is not measured."""
        plain = self.of(f"{who}_memory_usage")
        suffix = _SUFFIXES.get(self._memory)
        return plain | self.of(f"{who}_memory_usage{suffix}") if suffix else plain

    def gpus(
        self, who: str, devices: Iterable[SchedulableDevice]
    ) -> dict[Labels, list[dict[Aggregation, Json]]]:
        """Return GPUs' usage by aggregation, by the labels before those of the GPU."""
        by_name = {(str(device.minor), device.id): device for device in devices}
        memory = self.of(f"{who}_gpu_memory_usage")
        found: dict[Labels, list[dict[Aggregation, Json]]] = {}
        for labels, cores in sorted(self.of(f"{who}_gpu_core_usage").items()):
            device, used = by_name.get((labels[-2], labels[-1])), memory.get(labels)
            if device is not None and used is not None:
                rows = zip(self._aggregations, cores, used, strict=True)
                by_aggregation = {name: _device(device, core, taken) for name, core, taken in rows}
                found.setdefault(labels[:-2], []).append(by_aggregation)
        return found

    def _ask(self, kind: str) -> AggregatedSeries:
        if kind not in self._found:
            self._found[kind] = self._cache.aggregate(kind, self._window, self._aggregations)
        return self._found[kind]

    def _by_aggregation(
        self, cpu: Sequence[float] | None, memory: Sequence[float] | None
    ) -> dict[Aggregation, Json]:
        if cpu is None or memory is None:
            return {name: {} for name in self._aggregations}
        rows = zip(self._aggregations, cpu, memory, strict=True)
        return {name: _used(cores, taken) for name, cores, taken in rows}


def _node(seconds: float, usage: _Usage, devices: Iterable[SchedulableDevice]) -> Json:
    used = usage.node(devices) if usage.spans("node_cpu_usage") else _blank()
    return {"usage": used, "duration": duration.written(seconds)}


def _system(seconds: float, usage: _Usage) -> Json:
    used = usage.system() if usage.spans("sys_cpu_usage") else _blank()
    return {"usage": used, "duration": duration.written(seconds)}


def _blank() -> dict[Aggregation, Json]:
    return {name: {} for name in _AGGREGATED}


def _numa(usage: _Usage, info: NodeMemoryInfo | None) -> Iterator[Json]:
    """By NUMA node; one without CPUs uses none, whether or not somebody measured that."""
    idle = [(str(node.id),) for node in (info.nodes if info else ()) if not node.cpus]
    cpu = {key: [0.0] for key in idle} | usage.of("node_numa_cpu_usage")
    memory = usage.of("node_numa_memory_usage")
    system_cpu = {key: [0.0] for key in idle} | usage.of("sys_numa_cpu_usage")
    system_memory = usage.of("sys_numa_memory_usage")
    for labels in sorted(cpu.keys() & memory.keys(), key=lambda labels: int(labels[0])):
        system: Json = {}
        if labels in system_cpu and labels in system_memory:
            system = _used(system_cpu[labels][0], system_memory[labels][0])
        yield {
            "numaNodeID": int(labels[0]),
            "nodeUsage": _used(cpu[labels][0], memory[labels][0]),
            "systemUsage": system,
        }


def _pods(
    usage: _Usage,
    pods: Iterable[PodRecord],
    devices: Sequence[SchedulableDevice],
    recent: RecentUsage | None,
) -> Iterator[Json]:
    """By namespace and name; pods without samples are left out."""
    cpu, memory = usage.of("pod_cpu_usage"), usage.memory("pod")
    gpus = usage.gpus("pod", devices) if devices else {}
    inside = usage.of("container_cpu_usage"), usage.memory("container")
    throttled = usage.of("pod_cpu_throttled")
    delays = {
        name: with_pods({labels: value for labels, [value] in usage.of(kind).items()})
        for name, kind in DELAYS.items()
    }
    for record in sorted(pods, key=lambda record: (record.pod.namespace, record.pod.name)):
        pod, labels = record.pod, (record.pod.uid,)
        if labels not in cpu or labels not in memory:
            continue
        used = _used(cpu[labels][0], memory[labels][0])
        if labels in gpus:
            used["devices"] = [device[Aggregation.AVG] for device in gpus[labels]]
        found = {name: round(of[labels], 4) for name, of in delays.items() if labels in of}
        ours = _filled("containers", _containers(record, *inside)) | _filled("delays", found)
        ours |= _filled("recent", recent.rows(record) if recent else {})
        ours |= _filled("schedWaits", _sched_waits(record, delays["sched_wait"]))
        if labels in throttled:
            ours["throttled"] = round(throttled[labels][0], 4)
        kube = kube_qos(pod.cgroup_parent)
        priority = record.demand.priority if record.demand else None
        yield {
            "name": pod.name,
            "namespace": pod.namespace,
            "podUsage": used,
            **_filled("priority", priority_class_or_default(pod.labels, priority, kube).value),
            "qos": qos_class_or_default(pod.labels, kube).value,
            **_filled("extensions", _filled("pykoord", ours)),
        }


def _containers(
    record: PodRecord, cpu: Mapping[Labels, list[float]], memory: Mapping[Labels, list[float]]
) -> Json:
    """Return the usage of each of several containers by name; without those without samples."""
    if len(record.containers) < 2:
        return {}
    keys = {container.name: (record.pod.uid, key) for key, container in record.containers.items()}
    return {
        name: _used(cpu[labels][0], memory[labels][0])["resources"]
        for name, labels in sorted(keys.items())
        if labels in cpu and labels in memory
    }


def _recent(cache: MetricCache, now: float, policy: MetricCollectPolicy) -> RecentUsage:
    usage = _Usage(cache, TimeWindow(now - recent_usage.SECONDS, now), policy.memory, _AVG)
    cpu = usage.of("pod_cpu_usage") | usage.of("container_cpu_usage")
    memory = usage.memory("pod") | usage.memory("container")
    waits = usage.of(DELAYS["sched_wait"])
    return RecentUsage(
        {labels: value for labels, [value] in cpu.items()},
        {labels: value for labels, [value] in memory.items()},
        with_pods({labels: value for labels, [value] in waits.items()}),
    )


def _sched_waits(record: PodRecord, waits: Mapping[Labels, float]) -> Json:
    """Return what each of several containers waits for CPUs, as ``delays`` has the worst one's."""
    if len(record.containers) < 2:
        return {}
    keys = {container.name: (record.pod.uid, key) for key, container in record.containers.items()}
    return {name: round(waits[key], 4) for name, key in sorted(keys.items()) if key in waits}


def _ours(
    cache: MetricCache, now: float, policy: MetricCollectPolicy, known: NodeMetricInputs
) -> Json:
    """Our own section of extensions."""
    found = _filled("conditions", _conditions(known.conditions))
    if known.echo is not None:
        window = TimeWindow(now - policy.aggregate, now)
        found["rollout"] = rollout_echo.document(known.echo, cache, window, known.pods)
    if known.with_recent:
        found["recentSeconds"] = recent_usage.SECONDS
    return found


def _conditions(conditions: Iterable[tuple[str, PluginCondition]]) -> list[Json]:
    """Conditions of eviction plugins; of Katalyst's node resource those say "cnr"."""
    return [
        {
            "name": condition.name,
            "plugin": plugin,
            "effects": list(condition.effects),
            **_filled("on", "cnr" if condition.on_cnr else ""),
        }
        for plugin, condition in conditions
    ]


def _applications(usage: _Usage, applications: Iterable[HostApplication]) -> Iterator[Json]:
    named = sorted(applications, key=lambda application: application.name)
    if not named:
        return
    cpu, memory = usage.of("host_application_cpu_usage"), usage.memory("host_application")
    for application in named:
        labels = (application.name,)
        if labels in cpu and labels in memory:
            yield {
                "name": application.name,
                "usage": _used(cpu[labels][0], memory[labels][0]),
                **_filled("priority", application.priority),
                **_filled("qos", application.qos.value),
            }


def _used(cores: float, memory: float) -> Json:
    return _resource_map({CPU: round(cores * 1000), _MEMORY: round(memory)})


def _device(device: SchedulableDevice, percent: float, memory: float) -> Json:
    total = device.resources.get(GPU_MEMORY, 0)
    amounts = {
        GPU_CORE: round(percent),
        GPU_MEMORY: round(memory),
        GPU_MEMORY_RATIO: round(100 * memory / total) if total else 0,
    }
    return {
        "type": device.type,
        "id": device.id,
        "minor": device.minor,
        "health": device.healthy,
        **_resource_map(amounts),
    }


def _resource_map(amounts: Mapping[str, int] | None) -> Json:
    return {} if amounts is None else {"resources": quantity_texts(amounts)}


def _whole_map(given: Json) -> Json:
    """A resource map in which nothing of an older one is left."""
    both: Json = dict.fromkeys(("resources", "devices"))
    return both | given


def _filled(name: str, value: Any) -> Json:
    """A field that is left out while it is empty."""
    return {name: value} if value else {}
