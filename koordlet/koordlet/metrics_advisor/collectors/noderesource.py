"""CPU and memory of the whole machine and of its NUMA nodes.

Samples, CPU in cores and memory in bytes: ``node_cpu_usage``, ``node_memory_usage``,
``node_memory_huge_pages`` where there are any, ``node_numa_cpu_usage``,
``node_numa_memory_usage``. Source files: /proc/stat, /proc/meminfo, /sys/devices/system/node
(node*/cpulist, node*/meminfo).

CPU is user, nice, system, irq and softirq time; waiting for disks and time
stolen by a hypervisor do not count. Memory is what is not available, so huge pages count
whether they are used or not, as they do for Koordinator; of a NUMA node, where the
kernel does not calculate that, all but what is free, pages of files and reclaimable slabs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_host.kernel_files import procfs

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    NumaTopology,
    SampleSpacing,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ()

_CPU = Series("node_cpu_usage")
_MEMORY = Series("node_memory_usage")
_HUGE_PAGES = Series("node_memory_huge_pages")
_MOST_CORES = 2.0
"""Of one CPU; ticks that are counted late make it a little more than one. What is above is
a counter that came back from a CPU's absence, where the kernel sums those that run."""


class Collector:
    """Reads the machine's counters."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stat = f"{sources.layout.proc_root}/stat"
        self._meminfo = f"{sources.layout.proc_root}/meminfo"
        self._jiffies = CounterRates(sources.stale_seconds)
        self._pace = SampleSpacing()
        self._nodes = NumaTopology(sources)
        self._cpus_before = 0

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._pace.too_soon(context.steady):
            return Samples()
        reading = FileReading(self._sources.tree)
        samples: list[Sample] = []
        memory = reading.of_node(self._meminfo, procfs.memory)
        if memory is not None:
            if memory.available is None:
                raise UnavailableError(
                    f"{self._meminfo} has no MemAvailable; Linux 3.14 and newer have"
                )
            samples.append(Sample(_MEMORY, float(max(memory.whole - memory.available, 0))))
            if memory.huge_pages:
                samples.append(Sample(_HUGE_PAGES, float(memory.huge_pages)))
        times = reading.of_node(self._stat, procfs.cpu_times)
        cores = None if times is None else self._cores(times, context.steady)
        by_cpu = {} if times is None else self._by_cpu(times, context.steady)
        if cores is not None:
            samples.append(Sample(_CPU, cores))
        try:
            nodes = self._nodes.at(context.steady, None if times is None else times.cpus.keys())
        except (OSError, ValueError) as error:
            reading.partial.append(f"NUMA nodes: {error}")
        else:
            if by_cpu:
                samples += _numa_cpu(nodes, by_cpu)
            samples += self._numa_memory(nodes, reading)
        return Samples(samples, partial=tuple(reading.partial))

    def _cores(self, times: procfs.CPUTimes, steady: float) -> float | None:
        """The whole machine's CPU; ``None`` at first, and where the counter jumped."""
        rate = self._jiffies.rate("cpu", times.whole, steady)
        most = _MOST_CORES * max(len(times.cpus), self._cpus_before, 1)
        self._cpus_before = len(times.cpus)
        return self._plausible(rate, most)

    def _by_cpu(self, times: procfs.CPUTimes, steady: float) -> dict[int, float]:
        found = {}
        for cpu, jiffies in times.cpus.items():
            rate = self._jiffies.rate(cpu, jiffies, steady)
            cores = self._plausible(rate, _MOST_CORES)
            if cores is not None:
                found[cpu] = cores
        return found

    def _plausible(self, rate: float | None, most: float) -> float | None:
        cores = None if rate is None else rate / self._sources.jiffies_per_second
        return cores if cores is not None and cores <= most else None

    def _numa_memory(
        self, nodes: Mapping[int, frozenset[int]], reading: FileReading
    ) -> Iterator[Sample]:
        for node in nodes:
            used = reading.of_node(self._nodes.memory_file(node), procfs.numa_memory_used)
            if used is None:
                self._nodes.forget()
            else:
                yield Sample(Series("node_numa_memory_usage", (str(node),)), float(used))


def _numa_cpu(nodes: Mapping[int, frozenset[int]], by_cpu: Mapping[int, float]) -> Iterator[Sample]:
    """CPU by node: 0 of nodes without CPUs, none of those all of whose CPUs are new."""
    for node, cpus in nodes.items():
        known = [by_cpu[cpu] for cpu in cpus if cpu in by_cpu]
        if known or not cpus:
            yield Sample(Series("node_numa_cpu_usage", (str(node),)), sum(known, 0.0))
