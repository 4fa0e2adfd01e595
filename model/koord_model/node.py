"""The node in the view of a hook: frozen, built by the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.allocation import Allocations
from koord_model.node_slo import NodeSLO
from koord_model.strategy_mode import StrategyMode
from koord_model.used_threshold import SuppressPolicy


@dataclass(frozen=True, slots=True)
class SharedPool:
    """CPUs of one NUMA node that pods share; ``cpuset`` is a kernel CPU list."""

    numa_node: int
    cpuset: str


@dataclass(frozen=True, slots=True)
class NamedPool:
    """CPUs on which only the pods of a pool run (Katalyst's ``cpuset_pool``).

    ``cpuset`` is a kernel CPU list, never empty. They are in no ``SharedPool``.
    """

    name: str
    cpuset: str


@dataclass(frozen=True, slots=True)
class Topology:
    """CPU pools and the kubelet's policy, as NodeResourceTopology reports them.

    ``be_shared_pools`` are those of best-effort pods, where the node keeps such
    (``None``: it does not). ``online`` is a kernel CPU list, "" where not known.
    ``owners_known`` is whether all exclusive owners of CPUs are known: until then no CPUs are
    shared out. ``exclusive`` are the CPUs that pods have for themselves, by their UIDs: LSE and LSR
    pods', those of the kubelet's CPU manager, and those of resource plugins.
    """

    shared_pools: tuple[SharedPool, ...] = ()
    system_cpuset: str = ""
    kubelet_policy: str = "none"
    be_shared_pools: tuple[SharedPool, ...] | None = None
    online: str = ""
    owners_known: bool = True
    named_pools: tuple[NamedPool, ...] = ()
    exclusive: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Features of this node's kernel and devices.

    ``knobs`` are names of the knob table (``koord_host.knobs.table``) whose files are
    there. ``core_sched`` is whether tasks can be given core scheduling cookies.
    ``verbs`` are RDMA devices by PCI address ("0000:3b:00.2" → "uverbs0").
    """

    knobs: frozenset[str] = frozenset()
    core_sched: bool = False
    resctrl: bool = False
    verbs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeView:
    """The node as hooks see it.

    ``topology`` is ``None`` until it is known. ``cpu_normalization_ratio`` is how
    much faster a CPU here is than the cluster's reference CPU. ``idle_classes`` is
    whether the groups above all pods of a class may be made idle
    (``koord_model.class_idle`` says why they may not, as a rule). ``unset_cpu_quota`` is
    whether pods with CPUs of their own lose their CPU quota. ``suppresses`` is whether this
    agent holds best-effort pods down where the NodeSLO asks for it. ``allocations`` are those of
    resource plugins.
    """

    topology: Topology | None = None
    cpu_normalization_ratio: float = 1.0
    slo: NodeSLO = field(default_factory=NodeSLO)
    kernel: Kernel = Kernel()
    idle_classes: bool = False
    unset_cpu_quota: bool = True
    suppresses: bool = True
    allocations: Allocations = field(default_factory=dict)

    @property
    def online(self) -> str:
        """The node's CPUs, a kernel CPU list; "" where not known."""
        return self.topology.online if self.topology else ""

    @property
    def be_cfs_quota(self) -> bool:
        """False where the node suppresses best-effort pods by one common CPU quota.

        Their own quota must then not be set.
        """
        threshold = self.slo.threshold
        given = self.slo.strategies.get("cpu_suppress", {})
        common = given.get("policy", threshold.cpu_suppress_policy) == SuppressPolicy.CFS_QUOTA
        # Switched off or in shadow, nobody gives them the common one.
        mode = given.get("mode")
        done = self.suppresses and (mode is None or mode is True or mode == StrategyMode.ON)
        return not (done and common and given.get("enable", threshold.enable) is True)
