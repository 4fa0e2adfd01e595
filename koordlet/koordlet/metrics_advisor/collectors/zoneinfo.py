"""Free memory of NUMA nodes, their watermarks, and the memory of best-effort pods together.

Samples in bytes: ``node_numa_memory_free``, ``node_numa_memory_min_watermark``, ``…_low_…``,
``…_high_…``, ``node_numa_memory_inactive_file``, each the sum over a node's zones, and on cgroup
v2 ``be_memory_current``, all that is charged to the best-effort group. They are read at one
moment, since memory_guard adds them. Source files: /proc/zoneinfo, memory.current.
"""

from __future__ import annotations

from koord_host.kernel_files import zoneinfo
from koord_model.qos import KubeQoS

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ("ZoneInfoCollector",)

_BEST_EFFORT = Series("be_memory_current")


class Collector:
    """Reads one file of the node, and one of the best-effort group."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._page_bytes = sources.page_bytes
        self._zoneinfo = f"{sources.layout.proc_root}/zoneinfo"
        self._current = ""
        if sources.layout.version == 2:
            group = sources.layout.kube_qos_group(KubeQoS.BEST_EFFORT)
            self._current = f"{sources.layout.group_path(group, 'memory')}/memory.current"

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        reading = FileReading(self._tree)
        samples: list[Sample] = []
        for node, pages in (reading.of_node(self._zoneinfo, zoneinfo.parse) or {}).items():
            for name, count in (
                ("free", pages.free),
                ("min_watermark", pages.min),
                ("low_watermark", pages.low),
                ("high_watermark", pages.high),
                ("inactive_file", pages.inactive_file),
            ):
                series = Series(f"node_numa_memory_{name}", (str(node),))
                samples.append(Sample(series, float(count * self._page_bytes)))
        current = reading.of_group(self._current, int) if self._current else None
        if current is not None:
            samples.append(Sample(_BEST_EFFORT, float(current)))
        return Samples(samples, partial=tuple(reading.partial))
