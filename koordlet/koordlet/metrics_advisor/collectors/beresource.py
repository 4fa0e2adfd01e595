"""CPU of best-effort pods together: what they use, ask for, and may have.

Samples in millicores: ``node_be`` of be_resource "cpu" and be_allocation "usage" (of the
cgroup above all best-effort pods), "request" (``kubernetes.io/batch-cpu`` of the pods of
class BE) and "real-limit": 1000 for each CPU of the smallest cpuset among that cgroup and
its containers, or what that cgroup's quota gives if that is less. Pods' own groups do not
count: a kubelet with static CPUs sets only those of containers. Source files: v1
cpuacct.usage, v2 cpu.stat; v1 cpu.cfs_quota_us and cpu.cfs_period_us, v2 cpu.max; v1
cpuset.cpus, v2 cpuset.cpus.effective.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_host.kernel_files.cgroup_stats import CgroupStats
from koord_host.knobs.forms import NO_LIMIT
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, Knob
from koord_model import cpuset
from koord_model.extended_resources import batch_resources
from koord_model.keys import BATCH_CPU
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, qos_class

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    PerPodCache,
    SampleSpacing,
    groups,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ()

_USAGE = Series("node_be", ("cpu", "usage"))
_REQUEST = Series("node_be", ("cpu", "request"))
_REAL_LIMIT = Series("node_be", ("cpu", "real-limit"))
_QUOTA, _PERIOD = KNOBS["cpu.cfs_quota_us"], KNOBS["cpu.cfs_period_us"]


class _BestEffort(NamedTuple):
    """A pod's CPU request in millicores, and its containers' cpusets."""

    request: int
    cpusets: tuple[str, ...]


class Collector:
    """Reads the best-effort cgroup, and the cpusets of the containers in it."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._layout = sources.layout
        self._group = sources.layout.kube_qos_group(KubeQoS.BEST_EFFORT)
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._counters = CounterRates(sources.stale_seconds)
        self._pace = SampleSpacing()
        self._pods = PerPodCache(self._of_pod)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._pace.too_soon(context.steady):
            return Samples()
        reading = FileReading(self._sources.tree)
        pods = self._pods.of(context.pods)
        samples = [Sample(_REQUEST, float(sum(pod.request for pod in pods)))]
        used = reading.of_group(self._stats.cpu_file(self._group), self._stats.cpu_nanoseconds)
        if used is not None:
            rate = self._counters.rate(self._group, used, context.steady)
            if rate is not None:
                samples.append(Sample(_USAGE, rate / 1e6))
        limits = [*self._by_cpusets(pods, reading), *self._by_quota(reading)]
        if limits:
            samples.append(Sample(_REAL_LIMIT, min(limits)))
        return Samples(samples, partial=tuple(reading.partial))

    def _by_cpusets(self, pods: list[_BestEffort], reading: FileReading) -> list[float]:
        files = [_cpuset_file(self._layout, self._group)]
        files += [file for pod in pods for file in pod.cpusets]
        found = (reading.of_group(file, cpuset.parse) for file in files)
        # A group that has no CPUs yet holds no tasks.
        return [1000.0 * len(cpus) for cpus in found if cpus]

    def _by_quota(self, reading: FileReading) -> list[float]:
        quota = self._number(_QUOTA, reading)
        if quota is None or quota == NO_LIMIT:
            # On v2 the period is in the same file: read again, it would be reported twice.
            return []
        period = self._number(_PERIOD, reading)
        return [1000.0 * quota / period] if period is not None and period > 0 else []

    def _number(self, knob: Knob, reading: FileReading) -> int | None:
        path, form = self._layout.path(knob, self._group), knob.form(self._layout.version)
        found = reading.of_group(path, form.decode)
        return found if isinstance(found, int) else None

    def _of_pod(self, record: PodRecord) -> _BestEffort:
        cpusets = tuple(
            _cpuset_file(self._layout, group)
            for who, _, group in groups(record, self._layout)
            if who == "container" and group.startswith(f"{self._group}/")
        )
        return _BestEffort(_request(record), cpusets)


def _cpuset_file(layout: Layout, group: str) -> str:
    name = "cpuset.cpus.effective" if layout.version == 2 else "cpuset.cpus"
    return f"{layout.group_path(group, 'cpuset')}/{name}"


def _request(record: PodRecord) -> int:
    """Millicores; of pods that no kubelet has listed, by their annotation."""
    if qos_class(record.pod.labels) is not QoSClass.BE:
        return 0
    if record.demand is not None:
        return record.demand.requests.get(BATCH_CPU, 0)
    return _by_annotation(record.pod)


def _by_annotation(pod: Pod) -> int:
    try:
        containers = batch_resources(pod) or {}
    except ValueError:
        # The hooks log the error.
        return 0
    return sum(
        container.cpu_request.value for container in containers.values() if container.cpu_request
    )
