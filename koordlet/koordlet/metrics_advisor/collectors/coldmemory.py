"""Page cache without recent accesses ("cold"), and memory in use without it, in bytes.

``{node,pod,container,host_application}_memory_cold_page_size`` and
``…_memory_usage_with_hot_page_usage``: memory with page cache, less what is cold. Two
sources, the first that there is:

- kidled, of vendor kernels, for all four: memory.idle_page_stats of cgroups. Cold is
  what was idle for 60 scans (Koordinator's definition). Somebody has to switch the scans
  on: /sys/kernel/mm/kidled/scan_period_in_seconds and use_hierarchy.
- DAMON, of mainline, for the node alone: /sys/kernel/mm/damon/admin/kdamonds, where an
  operator runs a scheme that counts idle pages without anonymous ones (see
  ``koord_host.kernel_files.damon``). He chooses what counts as idle, and of what range of memory.
  Cold is the mean of the snapshots since the last look.

Also read: memory.stat and /proc/meminfo. Nothing is written, which rules out idle page
tracking: pages must be marked before they can be found idle. The generations of
multi-gen LRU (debugfs, lru_gen) can be read without writing, but do not tell cold from
hot: new ones are made only under reclaim or on a command, so that on a node with free
memory all grow old together; and page cache that is read, not mapped, stays in its
generation until it is about to be reclaimed, however often it is used.
"""

from __future__ import annotations

from koord_host.kernel_files import damon, kidled, procfs
from koord_host.kernel_files.cgroup_stats import CgroupStats
from koord_host.kernel_files.damon import SchemeStats

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    LabelledCgroup,
    PerPodCache,
    groups,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.cgroup_paths import host_application_group

INTERVAL = "coldpage_collector_interval"
ENABLED_BY: tuple[str, ...] = ("ColdPageCollector",)

_STALE_SECONDS = 900.0
_NO_SOURCE = (
    "the kernel has no kidled, and none of DAMON's schemes can be read: one needs refresh_ms "
    "of its kdamond above 0, operations paddr, action stat, nr_accesses/max 0, no quota, a "
    "filter against anon, and a kernel with stats/nr_snapshots"
)


class Collector:
    """Reads kidled's or DAMON's statistics, and remembers DAMON's for their growth."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._layout = sources.layout
        self._sys_root = sources.sys_root
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._groups = PerPodCache(lambda record: groups(record, sources.layout))
        self._counters = CounterRates(_STALE_SECONDS)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._tree.exists(f"{self._sys_root}/kernel/mm/kidled"):
            self._check_kidled()
            return self._with_kidled(context)
        seen = damon.idle_page_cache(self._tree, self._sys_root)
        if not seen:
            raise UnavailableError(_NO_SOURCE)
        return self._with_damon(seen, context.steady)

    def _check_kidled(self) -> None:
        root = f"{self._sys_root}/kernel/mm/kidled"
        for name, useless, wanted in (
            ("scan_period_in_seconds", "0", "5"),
            ("use_hierarchy", "0", "1"),
        ):
            try:
                text = self._tree.read(f"{root}/{name}").strip()
            except FileNotFoundError:
                continue  # newer ones have no use_hierarchy: it is always so
            except OSError as error:
                raise UnavailableError(f"{root}/{name}: {error.strerror or error}") from None
            if text == useless:
                raise UnavailableError(f"kidled has {name} {text}; write {wanted} to {root}/{name}")

    def _with_kidled(self, context: CollectContext) -> Samples:
        reading = FileReading(self._tree)
        samples: list[Sample] = []
        cold = reading.of_node(self._idle_file(""), kidled.cold_bytes)
        if cold is not None:
            samples += self._node(cold, reading)
        for pod in self._groups.of(context.pods):
            for group in pod:
                samples += self._group(group, reading)
        for application in context.slo.host_applications:
            place = host_application_group(application, self._layout)
            group = LabelledCgroup("host_application", (application.name,), place)
            samples += self._group(group, reading)
        if not samples and reading.partial:
            raise UnavailableError(reading.partial[0])
        return Samples(samples, partial=tuple(reading.partial))

    def _with_damon(self, seen: list[SchemeStats], steady: float) -> Samples:
        means = []
        for scheme, size, snapshots in seen:
            grown = self._counters.growth((scheme, "size"), size, steady)
            taken = self._counters.growth((scheme, "snapshots"), snapshots, steady)
            if grown is not None and taken:
                means.append(grown / taken)
        self._counters.forget(steady)
        # With one of several contexts missing, the sum would not be the node's.
        if len(means) < len(seen):
            return Samples()
        reading = FileReading(self._tree)
        return Samples(self._node(sum(means), reading), partial=tuple(reading.partial))

    def _node(self, cold: float, reading: FileReading) -> list[Sample]:
        memory = reading.of_node(f"{self._layout.proc_root}/meminfo", procfs.memory)
        used = None if memory is None else memory.whole - memory.free
        return _samples("node", (), cold, used)

    def _group(self, labelled_cgroup: LabelledCgroup, reading: FileReading) -> list[Sample]:
        who, labels, group = labelled_cgroup
        cold = reading.of_group(self._idle_file(group), kidled.cold_bytes)
        if cold is None:
            return []
        return _samples(
            who,
            labels,
            cold,
            reading.of_group(
                self._stats.memory_file(group),
                lambda text: self._stats.memory(text) + self._stats.page_cache(text),
            ),
        )

    def _idle_file(self, group: str) -> str:
        return f"{self._layout.group_path(group, 'memory')}/memory.idle_page_stats"


def _samples(who: str, labels: tuple[str, ...], cold: float, used: int | None) -> list[Sample]:
    """Return the samples of cold memory, and of the rest with page cache if that is known."""
    found = [Sample(Series(f"{who}_memory_cold_page_size", labels), cold)]
    if used is not None:
        hot = Series(f"{who}_memory_usage_with_hot_page_usage", labels)
        found.append(Sample(hot, max(used - cold, 0)))
    return found
