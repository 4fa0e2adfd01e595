"""CPU and memory of applications outside Kubernetes that the NodeSLO names.

Samples, CPU in cores and memory in bytes: ``host_application_cpu_usage``,
``host_application_memory_usage`` and ``host_application_memory_usage_with_page_cache``.
Source files in each one's cgroup: v1 cpuacct.usage, v2 cpu.stat, and memory.stat. An
application that does not run has no cgroup, and no samples.
"""

from __future__ import annotations

from koord_host.kernel_files.cgroup_stats import CgroupStats
from koord_model.node_slo import HostApplication

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading, SampleSpacing
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
)
from koordlet.states_informer.state.cgroup_paths import host_application_group

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ()


class Collector:
    """Reads two files of each application's cgroup."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._counters = CounterRates(sources.stale_seconds)
        self._pace = SampleSpacing()

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._pace.too_soon(context.steady):
            return Samples()
        reading = FileReading(self._sources.tree)
        samples: list[Sample] = []
        for application in context.slo.host_applications:
            samples += self._samples(application, reading, context.steady)
        self._counters.forget(context.steady)
        return Samples(samples, partial=tuple(reading.partial))

    def _samples(
        self, application: HostApplication, reading: FileReading, steady: float
    ) -> list[Sample]:
        group, labels = (
            host_application_group(application, self._sources.layout),
            (application.name,),
        )
        samples = []
        used = reading.of_group(self._stats.cpu_file(group), self._stats.cpu_nanoseconds)
        if used is not None:
            # Not by the group: two may name the same.
            rate = self._counters.rate((application.name, group), used, steady)
            if rate is not None:
                samples.append(Sample(Series("host_application_cpu_usage", labels), rate / 1e9))
        memory = reading.of_group(self._stats.memory_file(group), self._memory)
        if memory is not None:
            for kind, value in zip(_MEMORY_KINDS, memory, strict=True):
                samples.append(Sample(Series(kind, labels), float(value)))
        return samples

    def _memory(self, text: str) -> tuple[int, int]:
        """Without page cache, and with."""
        memory = self._stats.memory(text)
        return memory, memory + self._stats.page_cache(text)


_MEMORY_KINDS = ("host_application_memory_usage", "host_application_memory_usage_with_page_cache")
