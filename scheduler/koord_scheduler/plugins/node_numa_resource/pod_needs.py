"""A pod's needs of any node's CPUs and NUMA nodes, by the plugin's arguments. No IO."""

from __future__ import annotations

from dataclasses import dataclass, field

from koord_model.demand import Amounts
from koord_model.keys import CPU

from koord_scheduler.plugins.node_numa_resource.pod_requirements import NUMARequirements
from koord_scheduler.plugins.node_numa_resource.policies import CPUBindPolicy, NUMAAllocateStrategy
from koord_scheduler.plugins.node_numa_resource.scores import AmountScorer
from koord_scheduler.state.resource_scores import most_taken

INTEGER_CPUS = "the requested CPUs must be integer"
_BINDING = (CPUBindPolicy.FULL_PCPUS, CPUBindPolicy.SPREAD_BY_PCPUS)


@dataclass(frozen=True)
class NUMASettings:
    """The plugin's arguments. Both scorers have the weights of the first, as in Koordinator."""

    default_bind: CPUBindPolicy = CPUBindPolicy.FULL_PCPUS
    scorer: AmountScorer = field(default_factory=AmountScorer)
    zone_scorer: AmountScorer = field(default_factory=AmountScorer)

    @property
    def strategy(self) -> NUMAAllocateStrategy:
        """Order of NUMA nodes on nodes without a setting of their own."""
        if self.zone_scorer.strategy is most_taken:
            return NUMAAllocateStrategy.MOST_ALLOCATED
        return NUMAAllocateStrategy.LEAST_ALLOCATED


@dataclass(frozen=True, eq=False)
class PodNeeds:
    """A pod's needs on any node.

    It ``binds`` CPUs as ``bind`` says, strictly if that is ``required``. A node may bind those of
    other pods, too.
    """

    amounts: Amounts
    says: NUMARequirements
    binds: bool = False
    bind: CPUBindPolicy = CPUBindPolicy.NONE
    required: CPUBindPolicy = CPUBindPolicy.NONE


def pod_needs(amounts: Amounts, says: NUMARequirements, settings: NUMASettings) -> PodNeeds | str:
    """Return a pod's needs of each node, or why none can have it."""
    if says.problem:
        return says.problem
    if not says.may_bind:
        return PodNeeds(amounts, says)
    default = settings.default_bind
    required = default if says.required_bind is CPUBindPolicy.DEFAULT else says.required_bind
    bind = required or says.preferred_bind
    if bind in (CPUBindPolicy.NONE, CPUBindPolicy.DEFAULT):
        bind = default
    if bind not in _BINDING:
        return PodNeeds(amounts, says)
    cpu = amounts.get(CPU, 0)
    if cpu % 1000:
        return INTEGER_CPUS
    return PodNeeds(amounts, says, True, bind, required) if cpu else PodNeeds(amounts, says)
