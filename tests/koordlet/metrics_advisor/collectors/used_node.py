"""A node's kernel files as text, for the collectors of what is used, and looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koord_host.knobs.layout import Driver, Layout
from koord_model.demand import Demand
from koord_model.node_slo import HostApplication, NodeSLO
from koord_model.pod import Container, Pod
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.metrics_advisor.collector_runner import LatestStore
from koordlet.metrics_advisor.contract.collector import (
    AnyCollector,
    CollectContext,
    CollectorSources,
    Samples,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.text_tree import TextTree

KIB = 1024
SECOND = 10**9
"""In nanoseconds, as groups count."""


def pod(
    uid: str = "u1",
    containers: Iterable[str] = ("c1",),
    above: str = "kubepods",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    demand: Demand | None = None,
    handler: str = "",
) -> PodRecord:
    """A pod whose cgroup is "ABOVE/podUID"."""
    one = Pod(
        f"name-{uid}",
        "ns",
        uid,
        labels or {},
        annotations or {},
        cgroup_parent=f"/{above}/pod{uid}",
        runtime_handler=handler,
    )
    return PodRecord(one, {name: Container(one, name, name) for name in containers}, demand=demand)


@dataclass
class Group:
    """What one cgroup's files say; memory in bytes, except pages by NUMA node on v1."""

    cpu_nanoseconds: int = 0
    periods: int = 0
    throttled: int = 0
    anonymous: int = 0
    unevictable: int = 0
    file: int = 0
    numa: Mapping[int, int] = field(default_factory=dict)


class UsedNode:
    """A tree of texts with cgroups and NUMA nodes in it."""

    def __init__(self, version: int = 1, page_bytes: int = 4096) -> None:
        self.tree = TextTree()
        self.layout = Layout(version, Driver.CGROUPFS)
        self.sources = CollectorSources(self.tree, self.layout, page_bytes=page_bytes)

    def path(self, group: str, subsystem: str, file: str) -> str:
        return f"{self.layout.group_path(group, subsystem)}/{file}"

    def put(self, group: str, what: Group) -> None:
        """Let a cgroup's files say so."""
        throttling = f"nr_periods {what.periods}\nnr_throttled {what.throttled}\n"
        prefix, cpu = "", f"usage_usec {what.cpu_nanoseconds // 1000}\nuser_usec 0\n"
        nodes = " ".join(f"N{node}={value}" for node, value in what.numa.items())
        numa = f"inactive_anon {nodes}\nactive_anon N0=0\nunevictable N0=0\nactive_file N0=9999\n"
        if self.layout.version == 1:
            prefix, cpu = "total_", ""
            usage = self.path(group, "cpuacct", "cpuacct.usage")
            self.tree.texts[usage] = f"{what.cpu_nanoseconds}\n"
            total = sum(what.numa.values())
            numa = f"hierarchical_anon={total} {nodes}\nhierarchical_unevictable=0 N0=0\n"
        self.tree.texts[self.path(group, "cpu", "cpu.stat")] = cpu + throttling
        self.tree.texts[self.path(group, "memory", "memory.stat")] = "".join(
            f"{prefix}{name} {value}\n"
            for name, value in (
                ("inactive_anon", 0),
                ("active_anon", what.anonymous),
                ("inactive_file", 0),
                ("active_file", what.file),
                ("unevictable", what.unevictable),
            )
        )
        if what.numa:
            self.tree.texts[self.path(group, "memory", "memory.numa_stat")] = numa

    def remove(self, group: str) -> None:
        """Remove a cgroup, and those below it."""
        for subsystem in ("cpu", "cpuacct", "memory", "cpuset"):
            self.tree.remove(self.layout.group_path(group, subsystem))

    def put_cpus(self, jiffies: Mapping[int, int], whole: int | None = None) -> None:
        """Let /proc/stat say so of the CPUs that run."""
        whole = sum(jiffies.values()) if whole is None else whole
        lines = [f"cpu  {whole} 0 0 55 5 0 0 0 0 0"]
        lines += [f"cpu{cpu} {busy} 0 0 55 5 0 0 0 0 0" for cpu, busy in jiffies.items()]
        self.tree.texts["/proc/stat"] = "\n".join([*lines, "intr 1 2 3", ""])

    def put_memory(self, total: int, free: int, available: int | None) -> None:
        """Let /proc/meminfo say so, in KiB."""
        lines = [f"MemTotal: {total} kB", f"MemFree: {free} kB"]
        lines += [] if available is None else [f"MemAvailable: {available} kB"]
        self.tree.texts["/proc/meminfo"] = "\n".join([*lines, ""])

    def put_numa(self, node: int, cpus: str, used: int) -> None:
        """A NUMA node with its CPU list, and what it uses in KiB besides 100 KiB of files."""
        directory = f"/sys/devices/system/node/node{node}"
        self.tree.texts[f"{directory}/cpulist"] = f"{cpus}\n"
        self.tree.texts[f"{directory}/meminfo"] = "".join(
            f"Node {node} {name}: {value} kB\n"
            for name, value in (
                ("MemTotal", 10_000),
                ("MemFree", 10_000 - used - 100),
                ("Active(file)", 40),
                ("Inactive(file)", 50),
                ("SReclaimable", 10),
            )
        )


class Rounds:
    """Looks with a collector again and again; what it finds is the newest of its series.

    Each look is a second after the last one, unless reported otherwise.
    """

    def __init__(self, collector: AnyCollector, *others: AnyCollector) -> None:
        self._collectors = (*others, collector)
        self.steady = 1000.0
        self.at = 1_700_000_000.0
        self.newest = LatestStore(10.0, lambda: self.steady)

    def look(
        self,
        *pods: PodRecord,
        seconds: float = 1.0,
        applications: tuple[HostApplication, ...] = (),
    ) -> Samples:
        self.steady += seconds
        self.at += seconds
        slo = NodeSLO(host_applications=applications)
        look = CollectContext(self.at, self.steady, pods, slo, self.newest)
        for collector in self._collectors:
            found = collector.collect(look)
            self.newest.keep(found, self.steady)
        return found


def values(found: Samples, kind: str = "") -> dict[tuple[str, ...], float]:
    """Values by (kind, labels …), or of one kind by its labels; nothing is there twice."""
    assert all(len(KINDS[series.kind].labels) == len(series.labels) for series, _ in found.samples)
    named = [
        (series.labels if kind else (series.kind, *series.labels), value)
        for series, value in found.samples
        if kind in ("", series.kind)
    ]
    assert len(dict(named)) == len(named)
    return dict(named)
