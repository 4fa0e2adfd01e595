"""Throttling of pods and containers by their CPU quotas.

Samples: ``pod_cpu_throttled`` and ``container_cpu_throttled``, the part (0 to 1) of the
quota's periods since the last look in which there was throttling. A group that began no
period, for it has no quota or did not run, has no sample. Source file in each cgroup:
cpu.stat.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_host.kernel_files.cgroup_stats import CgroupStats, Throttling

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading, PerPodCache, groups
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ()


class _Files(NamedTuple):
    """A cgroup's file and series."""

    file: str
    throttled: Series


class Collector:
    """Reads one file of each cgroup."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._periods = CounterRates(sources.stale_seconds)
        self._throttled = CounterRates(sources.stale_seconds)
        self._files = PerPodCache(self._files_of)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        reading = FileReading(self._sources.tree)
        samples: list[Sample] = []
        known = False
        pods = self._files.of(context.pods)
        for pod in pods:
            for files in pod:
                found = reading.of_group(files.file, self._stats.throttling)
                if found is not None:
                    known = True
                    ratio = self._ratio(files.file, found, context.steady)
                    if ratio is not None:
                        samples.append(Sample(files.throttled, ratio))
        if not known and not reading.partial:
            self._check(pods)
        self._periods.forget(context.steady)
        self._throttled.forget(context.steady)
        return Samples(samples, partial=tuple(reading.partial))

    def _ratio(self, key: str, found: Throttling, steady: float) -> float | None:
        periods = self._periods.growth(key, found.periods, steady)
        throttled = self._throttled.growth(key, found.throttled, steady)
        if not periods or throttled is None:
            return None
        # The kernel's counters are not read at one instant.
        return min(throttled / periods, 1.0)

    def _check(self, pods: list[tuple[_Files, ...]]) -> None:
        """See that it is not the kernel that lacks what was found nowhere."""
        for file in (files.file for pod in pods for files in pod):
            if self._sources.tree.exists(file.rpartition("/")[0]):
                raise UnavailableError(
                    f"{file} says nothing of periods; the kernel has no CPU quotas "
                    "(CONFIG_CFS_BANDWIDTH), or the group has no cpu controller"
                )

    def _files_of(self, record: PodRecord) -> tuple[_Files, ...]:
        return tuple(
            _Files(self._stats.throttling_file(group), Series(f"{who}_cpu_throttled", labels))
            for who, labels, group in groups(record, self._sources.layout)
        )
