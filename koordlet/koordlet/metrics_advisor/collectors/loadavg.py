"""Load of the node: tasks that run, wait for a CPU, or wait for a disk.

Sample ``node_load1``: the kernel's average over a minute. Source file: /proc/loadavg.
"""

from __future__ import annotations

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples

INTERVAL = "psi_collector_interval"
ENABLED_BY: tuple[str, ...] = ("ThresholdEvict",)

_LOAD = Series("node_load1")


class Collector:
    """Reads one file."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._path = f"{sources.layout.proc_root}/loadavg"

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        reading = FileReading(self._tree)
        load = reading.of_node(self._path, _first)
        samples = [] if load is None else [Sample(_LOAD, load)]
        return Samples(samples, partial=tuple(reading.partial))


def _first(text: str) -> float:
    return float(text.partition(" ")[0])
