"""CPU and memory of pods and their containers.

Samples, CPU in cores and memory in bytes without page cache: ``pod_cpu_usage``,
``pod_memory_usage``, ``container_cpu_usage``, ``container_memory_usage``. Source files in
each cgroup: v1 cpuacct.usage, v2 cpu.stat, and memory.stat. A pod in a virtual machine
counts with what its hypervisor uses.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_host.kernel_files.cgroup_stats import CgroupStats

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


class _Files(NamedTuple):
    """A cgroup's files and series."""

    cpu_file: str
    cpu: Series
    memory_file: str
    memory: Series


class Collector:
    """Reads two files of each cgroup."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._counters = CounterRates(sources.stale_seconds)
        self._pace = SampleSpacing()
        self._files = PerPodCache(self._files_of)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._pace.too_soon(context.steady):
            return Samples()
        reading, stats = FileReading(self._sources.tree), self._stats
        samples: list[Sample] = []
        for pod in self._files.of(context.pods):
            for files in pod:
                used = reading.of_group(files.cpu_file, stats.cpu_nanoseconds)
                if used is not None:
                    rate = self._counters.rate(files.cpu_file, used, context.steady)
                    if rate is not None:
                        samples.append(Sample(files.cpu, rate / 1e9))
                memory = reading.of_group(files.memory_file, stats.memory)
                if memory is not None:
                    samples.append(Sample(files.memory, float(memory)))
        self._counters.forget(context.steady)
        return Samples(samples, partial=tuple(reading.partial))

    def _files_of(self, record: PodRecord) -> tuple[_Files, ...]:
        stats = self._stats
        return tuple(
            _Files(
                stats.cpu_file(group),
                Series(f"{who}_cpu_usage", labels),
                stats.memory_file(group),
                Series(f"{who}_memory_usage", labels),
            )
            for who, labels, group in groups(record, self._sources.layout)
        )
