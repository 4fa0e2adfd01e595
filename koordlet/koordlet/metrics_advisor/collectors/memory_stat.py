"""Reclaim, and what there is to reclaim, of pods and of the groups above them; cgroup v2.

- ``pod_memory_stat`` in bytes: inactive_anon, inactive_file and file_mapped of memory.stat,
  ``page_cache`` (file without shmem), and ``swap_free``, the swap that the pod's containers may
  still use.
- ``pod_memory_reclaim`` in pages a second: the growth of memory.stat's pgscan, pgsteal,
  workingset_refault and workingset_activate, by cgroup: one that was made again under the same
  name starts anew.
- ``qos_dying_cgroups``: nr_dying_descendants of cgroup.stat, of the burstable and the
  best-effort group. Removed groups live on while memory is charged to them.

Source files: memory.stat, memory.swap.max, memory.swap.current and cgroup.stat of cgroups,
/proc/meminfo.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord_host.kernel_files import cgroup_stats, procfs
from koord_host.kernel_files.cgroup_stats import ReclaimStats
from koord_model.qos import KubeQoS

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    LabelledCgroup,
    PerPodCache,
    groups,
)
from koordlet.metrics_advisor.contract.collector import (
    ANY_INTERVAL_SECONDS,
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)

INTERVAL = "psi_collector_interval"
ENABLED_BY: tuple[str, ...] = ("MemoryStatCollector",)

_SIZES = ("inactive_anon", "inactive_file", "page_cache", "file_mapped")
_COUNTERS = ("pgscan", "pgsteal", "workingset_refault", "workingset_activate")


class Collector:
    """Reads one file of each pod, and two more of its containers where there is swap."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._layout = sources.layout
        self._counters = CounterRates(ANY_INTERVAL_SECONDS)
        self._groups = PerPodCache(lambda record: groups(record, sources.layout))

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._layout.version != 2:
            raise UnavailableError("cgroup v1's memory.stat has no counters of reclaim")
        reading = FileReading(self._tree)
        samples = list(self._dying(reading))
        swap = reading.of_node(f"{self._layout.proc_root}/meminfo", procfs.swap_free) or 0
        for pod in self._groups.of(context.pods):
            samples += self._of_pod(pod, swap, context.steady, reading)
        self._counters.forget(context.steady)
        return Samples(samples, partial=tuple(reading.partial))

    def _dying(self, reading: FileReading) -> Iterator[Sample]:
        for kube in (KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT):
            directory = self._layout.group_path(self._layout.kube_qos_group(kube), "memory")
            dying = reading.of_group(f"{directory}/cgroup.stat", cgroup_stats.dying_descendants)
            if dying is not None:
                yield Sample(Series("qos_dying_cgroups", (kube.value,)), float(dying))

    def _of_pod(
        self, pod: tuple[LabelledCgroup, ...], swap: int, steady: float, reading: FileReading
    ) -> Iterator[Sample]:
        own, *containers = pod
        directory = self._directory(own)
        found = reading.of_group(f"{directory}/memory.stat", cgroup_stats.reclaim_stats)
        if found is None:
            return
        for name in _SIZES:
            yield _size(own, name, getattr(found, name))
        yield _size(own, "swap_free", self._swap(own, containers, swap, reading))
        yield from self._rates(own, directory, found, steady)

    def _rates(
        self, pod: LabelledCgroup, directory: str, found: ReclaimStats, steady: float
    ) -> Iterator[Sample]:
        try:
            identity = self._tree.identity(directory)
        except OSError:
            return  # it went meanwhile
        for name in _COUNTERS:
            rate = self._counters.rate((identity, name), getattr(found, name), steady)
            if rate is not None:
                yield Sample(Series("pod_memory_reclaim", (*pod.labels, name)), rate)

    def _swap(
        self,
        pod: LabelledCgroup,
        containers: list[LabelledCgroup],
        free: int,
        reading: FileReading,
    ) -> int:
        """Swap that is left for a pod: a kubelet bounds that of containers, to 0 as a rule."""
        if not free:
            return 0
        of_containers = [self._left(group, free, reading) for group in containers]
        of_pod = self._left(pod, free, reading)
        return min(of_pod, sum(of_containers)) if containers else of_pod

    def _left(self, group: LabelledCgroup, free: int, reading: FileReading) -> int:
        directory = self._directory(group)
        most = reading.of_group(f"{directory}/memory.swap.max", cgroup_stats.limit)
        used = reading.of_group(f"{directory}/memory.swap.current", int)
        if most is None or used is None:
            return 0  # the kernel has no swap accounting, or the group is gone
        return free if most < 0 else max(min(most - used, free), 0)

    def _directory(self, group: LabelledCgroup) -> str:
        return self._layout.group_path(group.group, "memory")


def _size(pod: LabelledCgroup, name: str, size: int) -> Sample:
    return Sample(Series("pod_memory_stat", (*pod.labels, name)), float(size))
