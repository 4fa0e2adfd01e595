"""The machine that is simulated: CPUs, memory, last-level cache, kernel. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_model import cpuset
from koord_model.demand import Amounts
from koord_model.keys import CPU
from koord_model.node import Kernel
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, NumaNode, Processor

from koord_simulation.node_model.curves import Constant, DemandCurve

GIB = 1 << 30
MIB = 1 << 20

_VENDORS = ("memory.wmark_", "memory.priority", "memory.use_priority_oom", "memory.pagecache_limit",
            "cpu.bvt_warp_ns", "blkio.cost.weight")  # fmt: skip
"""Knobs of vendors' kernels only."""

_ONLY_V2 = ("memory.min", "memory.low", "memory.high", "memory.oom.group")


@dataclass(frozen=True)
class SimulatedMachine:
    """A node.

    CPUs are numbered as Linux does: the second threads of all cores come after the first.
    ``memory``, ``swap`` and ``llc_bytes`` (all last-level caches as one) are bytes,
    ``bandwidth`` is of memory in bytes a second. ``system_cpu`` (cores) and
    ``system_memory`` (bytes) are what runs beside pods. ``allocatable`` is by resource, CPU
    and batch-cpu in millicores; CPU and memory are filled in where they are not named.
    ``vendor_kernel`` is whether it has the knobs that mainline lacks, ``tells_cold`` whether its
    kernel reports cold memory (kidled). ``idle_classes``: see ``NodeView``. ``lingering`` is the
    least load of a busy task of little weight on who wakes up beside it: it runs on until the
    kernel lets another in.
    """

    cpus: int = 32
    threads_per_core: int = 2
    numa_nodes: int = 1
    memory: int = 128 * GIB
    swap: int = 0
    llc_bytes: int = 48 * MIB
    llc_ways: int = 12
    bandwidth: float = 100e9
    cgroup_version: int = 2
    vendor_kernel: bool = False
    resctrl: bool = True
    tells_cold: bool = False
    idle_classes: bool = False
    lingering: float = 0.15
    system_cpu: DemandCurve = field(default_factory=lambda: Constant(0.5))
    system_memory: DemandCurve = field(default_factory=lambda: Constant(2 * GIB))
    allocatable: Amounts = field(default_factory=dict)
    reserved_cpu: float = 0.0

    def __post_init__(self) -> None:
        if self.cgroup_version not in (1, 2):
            raise ValueError(f"cgroup version {self.cgroup_version}; expected 1 or 2")
        group = self.threads_per_core * self.numa_nodes
        if self.cpus < 1 or group < 1 or self.cpus % group:
            raise ValueError(
                f"{self.cpus} CPUs; expected a multiple of {self.threads_per_core} threads a core "
                f"by {self.numa_nodes} NUMA nodes"
            )

    @cached_property
    def processors(self) -> tuple[Processor, ...]:
        """Every CPU; a socket and a last-level cache for each NUMA node."""
        cores = self.cpus // self.threads_per_core
        on_node = cores // self.numa_nodes
        found = []
        for cpu in range(self.cpus):
            core = cpu % cores
            node = core // on_node
            found.append(Processor(cpu, core, node, node, node))
        return tuple(found)

    @cached_property
    def online(self) -> str:
        """All CPUs, a kernel CPU list."""
        return cpuset.render(range(self.cpus))

    @cached_property
    def numa_cpus(self) -> dict[int, frozenset[int]]:
        """CPUs by NUMA node."""
        return {
            node: frozenset(processor.id for processor in self.processors if processor.node == node)
            for node in range(self.numa_nodes)
        }

    @property
    def layout(self) -> Layout:
        """Layout of its cgroups."""
        return Layout(self.cgroup_version, Driver.CGROUPFS)

    @cached_property
    def knobs(self) -> frozenset[str]:
        """Names of the knobs that this kernel has."""
        return frozenset(
            knob.name
            for knob in KNOBS.values()
            if knob.where is not PlaceKind.CGROUP
            or (
                knob.file(self.cgroup_version)
                and (self.vendor_kernel or not knob.name.startswith(_VENDORS))
                and (self.cgroup_version == 2 or self.vendor_kernel or knob.name not in _ONLY_V2)
            )
        )

    @property
    def kernel(self) -> Kernel:
        """Features of its kernel."""
        return Kernel(self.knobs, core_sched=True, resctrl=self.resctrl)

    @property
    def infos(self) -> tuple[object, ...]:
        """Constant results of collectors."""
        mask = f"{(1 << self.llc_ways) - 1:x}" if self.resctrl else ""
        share = self.memory // self.numa_nodes
        nodes = tuple(
            NumaNode(node, share, {}, tuple(sorted(cpus))) for node, cpus in self.numa_cpus.items()
        )
        smt = self.threads_per_core > 1
        return (
            NodeCPUInfo(self.processors, "simulated", "GenuineIntel", smt, None, mask),
            NodeMemoryInfo(self.memory, nodes),
        )

    @property
    def for_pods(self) -> Amounts:
        """The Node's allocatable."""
        usual = {CPU: int(1000 * (self.cpus - self.reserved_cpu)), "memory": self.memory}
        return {**usual, **self.allocatable}
