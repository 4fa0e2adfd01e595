"""Time that runnable tasks waited for a CPU, in milliseconds a second of each CPU.

``node_cpu_sched_wait`` is the mean over all running CPUs, and
``node_cpu_class_sched_wait`` that over the CPUs that best-effort pods may use ("be"), and over
those that they may not ("other"): several waiting tasks make more than 1000. Source
files: /proc/schedstat; cpuset.cpus (v2 cpuset.cpus.effective) of the best-effort group.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord_host.kernel_files import schedstat
from koord_model import cpuset
from koord_model.qos import KubeQoS

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading
from koordlet.metrics_advisor.contract.collector import (
    ANY_INTERVAL_SECONDS,
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)

INTERVAL = "psi_collector_interval"
ENABLED_BY: tuple[str, ...] = ("SchedStatCollector",)

_ALL = Series("node_cpu_sched_wait")
_OF_CLASS = "node_cpu_class_sched_wait"
_NANOSECONDS = 1_000_000
"""In a millisecond."""


class Collector:
    """Reads one file of the node, and remembers its counters for their growth."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._schedstat = f"{sources.layout.proc_root}/schedstat"
        name = "cpuset.cpus.effective" if sources.layout.version == 2 else "cpuset.cpus"
        group = sources.layout.kube_qos_group(KubeQoS.BEST_EFFORT)
        self._cpuset = f"{sources.layout.group_path(group, 'cpuset')}/{name}"
        self._waits = CounterRates(ANY_INTERVAL_SECONDS)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if not self._tree.exists(self._schedstat):
            raise UnavailableError(
                f"{self._schedstat} is not there: the kernel needs CONFIG_SCHEDSTATS"
            )
        reading = FileReading(self._tree)
        counters = reading.of_node(self._schedstat, schedstat.wait_nanoseconds) or {}
        waits = {}
        for cpu, waited in counters.items():
            rate = self._waits.rate(cpu, waited, context.steady)
            if rate is not None:
                waits[cpu] = rate / _NANOSECONDS
        self._waits.forget(context.steady)
        best_effort = reading.of_group(self._cpuset, cpuset.parse) if waits else None
        return Samples(list(_samples(waits, best_effort)), partial=tuple(reading.partial))


def _samples(waits: dict[int, float], best_effort: frozenset[int] | None) -> Iterator[Sample]:
    if waits:
        yield Sample(_ALL, sum(waits.values()) / len(waits))
    if best_effort is None:
        return
    for name, is_of_class in (("be", True), ("other", False)):
        found = [wait for cpu, wait in waits.items() if (cpu in best_effort) is is_of_class]
        if found:
            yield Sample(Series(_OF_CLASS, (name,)), sum(found) / len(found))
