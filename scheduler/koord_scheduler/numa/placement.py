"""Whether a pod can have its CPUs and NUMA nodes on a node, which, and how good that is. No IO.

The steps of Koordinator's NodeNUMAResource (``plugins/nodenumaresource/plugin.go``), for one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import CPU

from koord_scheduler.numa.allocator import (
    NOT_ENOUGH_CPUS,
    CannotAllocate,
    NodeAllocator,
    NUMARequest,
)
from koord_scheduler.numa.hint_generator import generate_hints
from koord_scheduler.numa.machine import NUMAMachine, amplified
from koord_scheduler.numa.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
    ZoneAmounts,
    added,
)
from koord_scheduler.numa.pod_requirements import NUMARequirements
from koord_scheduler.numa.policies import (
    CPUBindPolicy,
    NUMAAllocateStrategy,
    NUMAExclusive,
    NUMATopologyPolicy,
)
from koord_scheduler.numa.scores import AmountScorer, most_taken
from koord_scheduler.numa.topology_hints import Mask
from koord_scheduler.numa.topology_manager import NUMANodes, ProviderHints, merge_for_policy

_BINDING = (CPUBindPolicy.FULL_PCPUS, CPUBindPolicy.SPREAD_BY_PCPUS)


@dataclass(frozen=True)
class NUMASettings:
    """The plugin's arguments. Both scorers have the weights of the first, as in Koordinator."""

    default_bind: CPUBindPolicy = CPUBindPolicy.FULL_PCPUS
    scorer: AmountScorer = field(default_factory=AmountScorer)
    zone_scorer: AmountScorer = field(default_factory=AmountScorer)

    @property
    def strategy(self) -> NUMAAllocateStrategy:
        """Which NUMA nodes are tried first on nodes that do not say."""
        if self.zone_scorer.strategy is most_taken:
            return NUMAAllocateStrategy.MOST_ALLOCATED
        return NUMAAllocateStrategy.LEAST_ALLOCATED


class NUMARejection(NamedTuple):
    """Why a node cannot have a pod; ``resolvable`` if it might once other pods leave."""

    reasons: tuple[str, ...]
    resolvable: bool = False


class NodeUse(NamedTuple):
    """What a node has and what its pods ask for, by resource."""

    has: Amounts
    requested: Amounts


class PodNeeds(NamedTuple):
    """What a pod asks for, on any node.

    It ``binds`` CPUs as ``bind`` says, strictly if that is ``required``. A node may bind those of
    other pods, too.
    """

    amounts: Amounts
    says: NUMARequirements
    binds: bool = False
    bind: CPUBindPolicy = CPUBindPolicy.NONE
    required: CPUBindPolicy = CPUBindPolicy.NONE


def pod_needs(amounts: Amounts, says: NUMARequirements, settings: NUMASettings) -> PodNeeds | str:
    """What a pod needs of each node, or why none can have it."""
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


INTEGER_CPUS = "the requested CPUs must be integer"


class NodePlacement:
    """One pod on one node, beside what its pods have."""

    def __init__(
        self,
        needs: PodNeeds,
        machine: NUMAMachine,
        had: NodeAllocation,
        settings: NUMASettings,
    ) -> None:
        self._needs = needs
        self._machine = machine
        self._had = had
        self._settings = settings
        self._cpu = needs.amounts.get(CPU, 0)
        by_node = machine.bind_policy
        self.binds = needs.binds or bool(by_node and self._cpu)
        self.bind_policy = needs.required or by_node or needs.bind
        self.is_required = bool(needs.required or by_node)
        self.policy = needs.says.topology_policy or machine.topology_policy
        self._allocator: NodeAllocator | None = None

    def rejection(self, use: NodeUse) -> NUMARejection | None:
        """Why the node cannot have the pod; ``None``: it can."""
        says, machine = self._needs.says, self._machine
        if says.topology_policy and machine.topology_policy not in ("", says.topology_policy):
            return NUMARejection(("node(s) NUMA Topology policy not match",))
        if self.binds and self._cpu % 1000:
            return NUMARejection((INTEGER_CPUS,))
        if self._amplified_cpu() > self._free_amplified_cpu(use):
            return NUMARejection(("Insufficient amplified cpu",), resolvable=True)
        if self.binds and (problem := self._binding_problem()):
            return NUMARejection((problem,))
        if self.policy in (NUMATopologyPolicy.RESTRICTED, NUMATopologyPolicy.SINGLE_NUMA_NODE):
            found = self.mask()
        elif self.policy is NUMATopologyPolicy.NONE and self.binds and self.is_required:
            found = None
        else:
            return None
        if isinstance(found, NUMARejection):
            return found
        given = self._amounts(found)
        return given if isinstance(given, NUMARejection) else None

    def mask(self, others: Sequence[ProviderHints] = ()) -> Mask | NUMARejection | None:
        """The NUMA nodes that the policy gives the pod; ``others`` are hints for devices and such.

        ``None``: any.
        """
        if self.policy is NUMATopologyPolicy.NONE:
            return None
        machine = self._machine
        if not machine.zones:
            return NUMARejection(("node(s) missing NUMA resources",))
        hints = generate_hints(self._left(), self.policy, self._settings.zone_scorer)
        nodes = NUMANodes(list(machine.zones), self._had.statuses(machine))
        merged = merge_for_policy(self.policy, nodes, [hints, *others], self._exclusive())
        if merged.reasons:
            return NUMARejection(merged.reasons, resolvable=True)
        return merged.hint.mask

    def allocate(self, mask: Mask | None) -> NUMAAllocation | NUMARejection:
        """What the pod gets of these NUMA nodes; nothing if neither pod nor node ask for that."""
        if not self.binds and self.policy is NUMATopologyPolicy.NONE:
            return NUMAAllocation()
        try:
            return self._left().allocate(mask)
        except CannotAllocate as error:
            return NUMARejection(error.reasons, resolvable=True)

    def _amounts(self, mask: Mask | None) -> ZoneAmounts | NUMARejection:
        """As ``allocate``, without the CPUs."""
        try:
            return self._left().amounts(mask)
        except CannotAllocate as error:
            return NUMARejection(error.reasons, resolvable=True)

    def reserve(self) -> NUMAAllocation | NUMARejection:
        """What the pod gets once it is to have the node."""
        found = self.mask()
        return found if isinstance(found, NUMARejection) else self.allocate(found)

    def shortage(self) -> NUMARejection | None:
        """Why a pod that is not rejected would not get its CPUs or NUMA nodes after all.

        Koordinator finds out only when the pod is to have the node: it does not look for CPUs that
        are bound by preference, nor at NUMA nodes under BestEffort.
        """
        if self.policy is NUMATopologyPolicy.NONE:
            is_short = self.binds and len(self._left().free_cpus) < self._cpu // 1000
            return NUMARejection((NOT_ENOUGH_CPUS,), resolvable=True) if is_short else None
        if self.policy is NUMATopologyPolicy.BEST_EFFORT:
            found = self.mask()
            given = found if isinstance(found, NUMARejection) else self._amounts(found)
            return given if isinstance(given, NUMARejection) else None
        return None

    def score(self, use: NodeUse) -> int:
        """How good the node is for the pod, 0 to 100."""
        machine, score = self._machine, self._settings.scorer.score
        if self.binds and not machine.cpus:
            return 0
        requests = self._left().request.amplified
        if self.policy is NUMATopologyPolicy.NONE:
            return score(self._amplified_use(use), use.has, requests)
        # Under BestEffort Koordinator finds the NUMA nodes only once the pod has the node.
        found = None if self.policy is NUMATopologyPolicy.BEST_EFFORT else self.mask()
        given = found if isinstance(found, NUMARejection) else self._amounts(found)
        if isinstance(given, NUMARejection):
            return 0
        taken, has = dict(use.requested), use.has
        if given:
            zones = self._had.zones(machine)
            taken = added(zones.get(node, {}) for node in given)
            has = added(machine.zones[node] for node in given)
        if self.binds:
            taken[CPU] = amplified(1000 * len(self._had.taken_cpus()), machine.zone_cpu_ratio)
        return score(taken, has, requests)

    def _exclusive(self) -> NUMAExclusive:
        """Pods that name a policy themselves keep apart unless they say otherwise."""
        says = self._needs.says
        if says.numa_exclusive or not says.topology_policy:
            return says.numa_exclusive
        return NUMAExclusive.REQUIRED

    def _left(self) -> NodeAllocator:
        if self._allocator is None:
            self._allocator = NodeAllocator(self._machine, self._had, self._request())
        return self._allocator

    def _request(self) -> NUMARequest:
        amounts, machine = self._needs.amounts, self._machine
        ratio = machine.zone_cpu_ratio if self.binds else 1.0
        counted = {**amounts, CPU: amplified(self._cpu, ratio)} if self._cpu else amounts
        return NUMARequest(
            amounts=amounts,
            amplified=counted,
            cpus=self._cpu // 1000,
            binds=self.binds,
            bind_policy=self.bind_policy,
            is_required=self.is_required,
            exclusive=self._needs.says.exclusive if self._needs.binds else _UNSET,
            strategy=machine.strategy or self._settings.strategy,
        )

    def _binding_problem(self) -> str:
        if not self._machine.cpus:
            return "node(s) invalid CPU Topology"
        required, by_node = self._needs.required, self._machine.bind_policy
        if required and by_node and required is not by_node:
            return "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
        is_full = (by_node or required) is CPUBindPolicy.FULL_PCPUS
        if is_full and self._cpu // 1000 % self._machine.cpus.cpus_per_core:
            return "node(s) requested cpus not multiple cpus per core"
        return ""

    def _amplified_cpu(self) -> int:
        return amplified(self._cpu, self._machine.cpu_ratio) if self.binds else self._cpu

    def _free_amplified_cpu(self, use: NodeUse) -> float:
        """What is left of a node's amplified CPU, where own CPUs count amplified, too."""
        ratio = self._machine.cpu_ratio
        if ratio <= 1 or not self._cpu:
            return float("inf")
        own, requested = 1000 * len(self._had.taken_cpus()), use.requested.get(CPU, 0)
        if requested >= own:
            requested += amplified(own, ratio) - own
        return use.has.get(CPU, 0) - requested

    def _amplified_use(self, use: NodeUse) -> Amounts:
        ratio = self._machine.zone_cpu_ratio
        if ratio <= 1 or not self._cpu:
            return use.requested
        own = 1000 * len(self._had.taken_cpus())
        more = amplified(own, ratio) - own
        return {**use.requested, CPU: use.requested.get(CPU, 0) + more}


_UNSET = NUMARequirements().exclusive
