"""CPU and memory of what is neither pod nor host application, whole and by NUMA node.

Samples, CPU in cores and memory in bytes: ``sys_cpu_usage``, ``sys_memory_usage``,
``sys_numa_cpu_usage``, ``sys_numa_memory_usage``: the node's, less that of pods and of host
applications, never below 0. CPU of a NUMA node is the whole's in the proportion of the
nodes' use, because cgroups do not report theirs.

Neither side counts pages of files: a NUMA node's are taken out by ``noderesource``, and of
a cgroup anonymous and unevictable memory counts alone. Kernel memory of pods counts with
the system, as it does in the whole. Source file of cgroups, on machines with
several NUMA nodes: memory.numa_stat. All else comes from the samples of other collectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koord_host.kernel_files.cgroup_stats import CgroupStats

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import FileReading, NumaTopology, PerPodCache
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples
from koordlet.states_informer.state.cgroup_paths import host_application_group
from koordlet.states_informer.state.pod_inventory import PodRecord

INTERVAL = "collect_res_used_interval"
ENABLED_BY: tuple[str, ...] = ()
AFTER = ("noderesource", "podresource", "hostapplication")


class Collector:
    """Subtracts; reads one file of each pod's cgroup where there are several NUMA nodes."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._stats = CgroupStats(sources.layout, sources.page_bytes)
        self._nodes = NumaTopology(sources)
        self._files = PerPodCache(self._file_of)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once; nothing before pods are known: their usage would count as the system's."""
        if not context.pods_known:
            return Samples()
        reading = FileReading(self._sources.tree)
        samples = []
        cpu, memory = _rest(context, "cpu_usage"), _rest(context, "memory_usage")
        if cpu is not None:
            samples.append(Sample(Series("sys_cpu_usage"), cpu))
        if memory is not None:
            samples.append(Sample(Series("sys_memory_usage"), memory))
        try:
            nodes = tuple(self._nodes.at(context.steady))
        except (OSError, ValueError) as error:
            return Samples(samples, partial=(f"NUMA nodes: {error}",))
        if cpu is not None:
            samples += _numa_cpu(context, nodes, cpu)
        samples += self._numa_memory(context, nodes, reading)
        return Samples(samples, partial=tuple(reading.partial))

    def _numa_memory(
        self, context: CollectContext, nodes: tuple[int, ...], reading: FileReading
    ) -> Iterator[Sample]:
        used = _of_nodes(context, "node_numa_memory_usage", nodes)
        taken = self._taken(context, nodes, reading) if used else None
        if taken is not None:
            for node, value in used.items():
                rest = max(value - taken.get(node, 0), 0.0)
                yield Sample(Series("sys_numa_memory_usage", (str(node),)), rest)

    def _taken(
        self, context: CollectContext, nodes: tuple[int, ...], reading: FileReading
    ) -> dict[int, float] | None:
        """Memory of pods and host applications by NUMA node; ``None`` while it is not known."""
        if len(nodes) == 1:
            taken = _taken(context, "memory_usage")
            return None if taken is None else {nodes[0]: taken}
        files = [
            *self._files.of(context.pods),
            *(
                self._stats.numa_file(
                    host_application_group(host_application, self._sources.layout)
                )
                for host_application in context.slo.host_applications
            ),
        ]
        found = [reading.of_group(file, self._stats.numa_memory) for file in files]
        if context.pods and not any(usage is not None for usage in found):
            return None
        sums: dict[int, float] = {}
        for node, value in (pair for usage in found if usage for pair in usage.items()):
            sums[node] = sums.get(node, 0) + value
        return sums

    def _file_of(self, record: PodRecord) -> str:
        return self._stats.numa_file(self._sources.layout.group_of_parent(record.pod.cgroup_parent))


def _rest(context: CollectContext, what: str) -> float | None:
    """The node's, less what is taken; ``None`` while one of them is not known."""
    node, taken = context.latest.value(f"node_{what}"), _taken(context, what)
    return None if node is None or taken is None else max(node - taken, 0.0)


def _taken(context: CollectContext, what: str) -> float | None:
    """That of pods and host applications; ``None`` where there are pods but none is known.

    By the pods there are, not by what was sampled: one that has ended counts no more.
    """
    value = context.latest.value
    pods = _known(value(f"pod_{what}", record.pod.uid) for record in context.pods)
    if context.pods and not pods:
        return None
    applications = (host_application.name for host_application in context.slo.host_applications)
    return sum(pods) + sum(_known(value(f"host_application_{what}", name) for name in applications))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _of_nodes(context: CollectContext, kind: str, nodes: tuple[int, ...]) -> dict[int, float]:
    """The values of a kind that are known, by NUMA node."""
    values = ((node, context.latest.value(kind, str(node))) for node in nodes)
    return {node: value for node, value in values if value is not None}


def _numa_cpu(context: CollectContext, nodes: tuple[int, ...], cpu: float) -> Iterator[Sample]:
    used = _of_nodes(context, "node_numa_cpu_usage", nodes)
    whole = sum(used.values())
    for node, value in used.items():
        share = cpu * value / whole if whole > 0 else 0.0
        yield Sample(Series("sys_numa_cpu_usage", (str(node),)), share)
