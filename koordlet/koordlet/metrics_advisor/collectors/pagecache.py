"""Memory of the node, of pods and of containers, page cache included.

Samples in bytes: ``node_memory_usage_with_page_cache``, ``pod_…`` and ``container_…``.
Source files: /proc/meminfo, and memory.stat of each cgroup. The node's is all that is not
free; a cgroup's is its memory without page cache, and pages of files, active or not.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_host.kernel_files import procfs
from koord_host.kernel_files.cgroup_stats import CgroupStats

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading, PerPodCache, groups
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples
from koordlet.states_informer.state.pod_inventory import PodRecord

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ("enable_pagecache_collector",)

_NODE = Series("node_memory_usage_with_page_cache")


class _Files(NamedTuple):
    """A cgroup's file and series."""

    file: str
    memory: Series


class Collector:
    """Reads one file of each cgroup, and one of the node."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._meminfo = f"{sources.layout.proc_root}/meminfo"
        self._files = PerPodCache(self._files_of)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        reading = FileReading(self._sources.tree)
        samples: list[Sample] = []
        node = reading.of_node(self._meminfo, procfs.memory)
        if node is not None:
            samples.append(Sample(_NODE, float(max(node.whole - node.free, 0))))
        for pod in self._files.of(context.pods):
            for files in pod:
                used = reading.of_group(files.file, self._with_page_cache)
                if used is not None:
                    samples.append(Sample(files.memory, float(used)))
        return Samples(samples, partial=tuple(reading.partial))

    def _with_page_cache(self, text: str) -> int:
        return self._stats.memory(text) + self._stats.page_cache(text)

    def _files_of(self, record: PodRecord) -> tuple[_Files, ...]:
        return tuple(
            _Files(
                self._stats.memory_file(group),
                Series(f"{who}_memory_usage_with_page_cache", labels),
            )
            for who, labels, group in groups(record, self._sources.layout)
        )
