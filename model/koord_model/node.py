"""What a hook may know about the node: a frozen view, built by the agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedPool:
    """CPUs of one NUMA node that pods share; ``cpuset`` is a kernel CPU list."""

    numa_node: int
    cpuset: str


@dataclass(frozen=True, slots=True)
class Topology:
    """CPU pools and the kubelet's policy, as NodeResourceTopology reports them."""

    shared_pools: tuple[SharedPool, ...] = ()
    system_cpuset: str = ""
    kubelet_policy: str = "none"


@dataclass(frozen=True, slots=True)
class NodeView:
    """The node as hooks see it.

    ``topology`` is ``None`` until it is known. ``be_cfs_quota`` is False where
    the node suppresses best-effort pods as one group, so that their own quota
    must not be set. ``cpu_normalization_ratio`` is how much faster a CPU here
    is than the cluster's reference CPU.
    """

    topology: Topology | None = None
    be_cfs_quota: bool = True
    cpu_normalization_ratio: float = 1.0
