"""A node as pods with NUMA needs see it: what it reports, and what its Node says. No IO."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from koord_model.demand import Amounts
from koord_model.fields import Fields, text
from koord_model.keys import (
    CPU,
    LABEL_CPU_BIND_POLICY,
    LABEL_NUMA_ALLOCATE_STRATEGY,
    LABEL_NUMA_TOPOLOGY_POLICY,
)

from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology
from koord_scheduler.plugins.node_numa_resource.node_topology import NodeTopology
from koord_scheduler.plugins.node_numa_resource.object_annotations import ObjectAnnotations, Ratios
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    NUMAAllocateStrategy,
    NUMATopologyPolicy,
)

_NODE_BIND_POLICIES = {
    "FullPCPUsOnly": CPUBindPolicy.FULL_PCPUS,
    "SpreadByPCPUs": CPUBindPolicy.SPREAD_BY_PCPUS,
}


@dataclass(frozen=True, eq=False)
class NUMAMachine:
    """A node as pods see it: what it reports, and what its Node's labels and annotations say.

    ``bind_policy`` and ``topology_policy`` hold for all pods. ``cpu_ratio`` is the Node's own,
    ``ratios`` are those of the zones, which are amplified. Whoever has many of them keeps one of
    each ``content``, so that each is equal to itself alone.
    """

    cpus: CPUTopology = field(default_factory=CPUTopology)
    reserved: frozenset[int] = frozenset()
    zones: Mapping[int, Amounts] = field(default_factory=dict)
    ratios: Ratios = field(default_factory=dict)
    cpu_ratio: float = 1.0
    bind_policy: CPUBindPolicy = CPUBindPolicy.NONE
    topology_policy: NUMATopologyPolicy = NUMATopologyPolicy.NONE
    strategy: NUMAAllocateStrategy | None = None
    shares: int = 1

    @property
    def content(self) -> Hashable:
        """Equal for machines that are alike."""
        return (
            tuple(self.cpus.cpus.values()),
            self.reserved,
            tuple((node, tuple(has.items())) for node, has in self.zones.items()),
            tuple(self.ratios.items()),
            self.cpu_ratio,
            self.bind_policy,
            self.topology_policy,
            self.strategy,
            self.shares,
        )

    @property
    def zone_cpu_ratio(self) -> float:
        """Amplification ratio of the CPUs of a zone."""
        return self.ratios.get(CPU, 1.0)


def amplified(amount: int, ratio: float) -> int:
    """An amount that may be given away ``ratio`` times."""
    return amount if ratio <= 1 else math.ceil(amount * ratio)


def numa_machine(
    topology: NodeTopology,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    ignored: list[str],
) -> NUMAMachine:
    """A node by what it reports, and the labels and annotations of its Node.

    Labels of the Node count before what its kubelet is set to. What cannot be used costs a line in
    ``ignored``, and counts as if it were not there.
    """
    fields = Fields(labels, "Node label", ignored)
    own = ObjectAnnotations("Node", annotations, ignored).ratios()
    bind_policy = _NODE_BIND_POLICIES.get(labels.get(LABEL_CPU_BIND_POLICY, ""))
    if topology.is_full_pcpus_only:
        bind_policy = CPUBindPolicy.FULL_PCPUS
    ratios, zones = topology.ratios, topology.zones
    if ratios is None:
        ratios = own or {}
        zones = {node: _amplified(amounts, ratios) for node, amounts in zones.items()}
    strategy = fields.take(
        LABEL_NUMA_ALLOCATE_STRATEGY, None, _strategy, " or ".join(NUMAAllocateStrategy)
    )
    policy = fields.take(LABEL_NUMA_TOPOLOGY_POLICY, "", _policy, _POLICY_WORDS)
    return NUMAMachine(
        cpus=topology.cpus,
        reserved=topology.reserved,
        zones=zones,
        ratios=ratios,
        cpu_ratio=(own or {}).get(CPU, 1.0),
        bind_policy=bind_policy or CPUBindPolicy.NONE,
        topology_policy=NUMATopologyPolicy(policy) or topology.policy,
        strategy=strategy,
    )


_POLICY_WORDS = "None, BestEffort, Restricted or SingleNUMANode"


def _policy(given: object) -> str:
    return NUMATopologyPolicy("" if given == "None" else text(given)).value


def _strategy(given: object) -> NUMAAllocateStrategy:
    return NUMAAllocateStrategy(text(given))


def _amplified(given: Amounts, ratios: Ratios) -> Amounts:
    return {name: amplified(amount, ratios.get(name, 1.0)) for name, amount in given.items()}
