"""Bytes that pods read from and wrote to disks: ``pod_disk_usage``, in bytes a second.

Source files in each pod's cgroup: v2 io.stat, v1 blkio.throttle.io_service_bytes_recursive. Of the
disks the one it used most counts: what goes through one device to another is counted at both. On v1
writes through the page cache are nobody's.
"""

from __future__ import annotations

from koord_host.kernel_files.cgroup_stats import CgroupStats

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading, PerPodCache, groups
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
)

INTERVAL = "delay_collector_interval"
ENABLED_BY = ("TaskDelayCollector",)


class Collector:
    """Reads one file of each pod's cgroup."""

    def __init__(self, sources: CollectorSources) -> None:
        stats = CgroupStats(sources.layout)
        self._sources = sources
        self._parse = stats.disk_bytes
        self._files = PerPodCache(
            lambda record: (
                stats.disk_file(groups(record, sources.layout)[0].group),
                Series("pod_disk_usage", (record.pod.uid,)),
            )
        )
        self._last: tuple[float, dict[Series, dict[str, int]]] | None = None

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        reading = FileReading(self._sources.tree)
        found = {}
        for file, series in self._files.of(context.pods):
            counted = reading.of_group(file, self._parse)
            if counted is not None:
                found[series] = counted
        last, self._last = self._last, (context.steady, found)
        samples = []
        if last is not None and context.steady > last[0]:
            for series, counted in found.items():
                before = last[1].get(series)
                if before is not None:
                    grown = (bytes_ - before.get(disk, 0) for disk, bytes_ in counted.items())
                    most = max((0, *grown)) / (context.steady - last[0])
                    samples.append(Sample(series, most))
        return Samples(samples, partial=tuple(reading.partial))
