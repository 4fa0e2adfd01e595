"""Placement of a pod on a node's CPUs and NUMA nodes, with a score. No IO.

The steps of Koordinator's NodeNUMAResource (``plugins/nodenumaresource/plugin.go``), for one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import CPU

from koord_scheduler.extension_points.topology_hints import Mask, ProviderHints
from koord_scheduler.plugins.node_numa_resource.allocator import (
    NOT_ENOUGH_CPUS,
    CannotAllocate,
    NodeAllocator,
    NUMARequest,
)
from koord_scheduler.plugins.node_numa_resource.amplified_cpu import AmplifiedCPU
from koord_scheduler.plugins.node_numa_resource.hint_generator import generate_hints
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine, amplified
from koord_scheduler.plugins.node_numa_resource.nearest_zone import nearest_zone
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
    ZoneAmounts,
    added,
)
from koord_scheduler.plugins.node_numa_resource.pod_needs import (
    INTEGER_CPUS,
    NUMASettings,
    PodNeeds,
)
from koord_scheduler.plugins.node_numa_resource.pod_requirements import NUMARequirements
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    NUMAExclusive,
    NUMATopologyPolicy,
)
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import NOTHING_RESERVED, ReservedNUMA
from koord_scheduler.plugins.node_numa_resource.topology_manager import (
    HintsByResource,
    NUMANodes,
    merge_for_policy,
)


class NUMARejection(NamedTuple):
    """Reasons why a node cannot have a pod; ``resolvable`` if it might once others leave."""

    reasons: tuple[str, ...]
    resolvable: bool = False


INSUFFICIENT_CPU = NUMARejection(("Insufficient amplified cpu",), resolvable=True)


class NodeUse(NamedTuple):
    """A node's amounts and its pods' requests, by resource."""

    has: Amounts
    requested: Amounts


class CountedCPU(NamedTuple):
    """A pod asks for ``asked`` of a node; its pods have ``more`` than they request, or ``instead``.

    CPUs that pods have for themselves count as often as they may be given away. In 1/1000 CPU.
    """

    asked: int
    more: int = 0
    instead: int | None = None

    def taken(self, requested: int) -> int:
        """Return the usage of pods that request so much."""
        return requested + self.more if self.instead is None else self.instead


class NodePlacement:
    """One pod on one node, beside what its pods have; ``others`` are hints for devices and such.

    ``kept`` is what the pod gets first, which no pod has. With ``near``, it gets nothing unless one
    of these NUMA nodes gives it some.
    """

    def __init__(
        self,
        needs: PodNeeds,
        machine: NUMAMachine,
        had: NodeAllocation,
        settings: NUMASettings,
        others: Sequence[ProviderHints] = (),
        kept: ReservedNUMA = NOTHING_RESERVED,
        near: Mask | None = None,
    ) -> None:
        self._needs = needs
        self._kept = kept
        self._near = near
        self._machine = machine
        self._had = had
        self._settings = settings
        self._others = others
        self._cpu = needs.amounts.get(CPU, 0)
        by_node = machine.bind_policy
        self.binds = needs.binds or bool(by_node and self._cpu)
        self.bind_policy = needs.required or by_node or needs.bind
        self.is_required = bool(needs.required or by_node)
        self.policy = needs.says.topology_policy or machine.topology_policy
        self.is_strict = self.policy in _STRICT

    def rejection(self, use: NodeUse) -> NUMARejection | None:
        """Return why the node cannot have the pod; ``None``: it can."""
        lacks_cpu = not self.cpu.fits(use.has.get(CPU, 0), use.requested.get(CPU, 0))
        return self.mismatch or (INSUFFICIENT_CPU if lacks_cpu else None) or self.conflict

    @cached_property
    def mismatch(self) -> NUMARejection | None:
        """Reason why the pod and the node do not go together, whatever pods there are."""
        says, policy = self._needs.says, self._machine.topology_policy
        if says.topology_policy and policy not in ("", says.topology_policy):
            return NUMARejection(("node(s) NUMA Topology policy not match",))
        if self.binds and self._cpu % 1000:
            return NUMARejection((INTEGER_CPUS,))
        return None

    @cached_property
    def cpu(self) -> AmplifiedCPU:
        """Count of the node's amplified CPU for the pod."""
        machine = self._machine
        own = 1000 * len(self._had.taken_cpus())
        return AmplifiedCPU(self._cpu, own, machine.cpu_ratio, binds=self.binds)

    @cached_property
    def conflict(self) -> NUMARejection | None:
        """Reason against a pod that goes together with the node and has enough CPU there."""
        if self.binds and (problem := self._binding_problem()):
            return NUMARejection((problem,))
        is_bound = not self.policy and self.binds and self.is_required
        return _rejection_in(self._given) if self.is_strict or is_bound else None

    @cached_property
    def affinity(self) -> Mask | NUMARejection | None:
        """The NUMA nodes that the policy gives the pod; ``None``: any."""
        if self.policy is NUMATopologyPolicy.NONE:
            return None
        machine = self._machine
        if not machine.zones:
            return NUMARejection(("node(s) missing NUMA resources",))
        hints = generate_hints(self._left, self.policy, self._settings.zone_scorer, self._near)
        nodes = NUMANodes(list(machine.zones), self._had.statuses(machine))
        providers: list[HintsByResource] = [hints, *(dict(other) for other in self._others)]
        merged = merge_for_policy(self.policy, nodes, providers, self._exclusive())
        if merged.reasons:
            return NUMARejection(merged.reasons, resolvable=True)
        return merged.hint.mask

    def reserve(self) -> NUMAAllocation | NUMARejection:
        """Return the pod's allocation once it is to have the node: empty if none is asked for."""
        if isinstance(self.affinity, NUMARejection):
            return self.affinity
        if not self.binds and self.policy is NUMATopologyPolicy.NONE:
            return NUMAAllocation()
        try:
            return self._left.allocate(self.affinity)
        except CannotAllocate as error:
            return NUMARejection(error.reasons, resolvable=True)

    @cached_property
    def _given(self) -> ZoneAmounts | NUMARejection:
        """Amounts of NUMA nodes that the pod gets."""
        mask = self.affinity
        return mask if isinstance(mask, NUMARejection) else self._amounts(mask)

    def _amounts(self, mask: Mask | None) -> ZoneAmounts | NUMARejection:
        try:
            return self._left.amounts(mask)
        except CannotAllocate as error:
            return NUMARejection(error.reasons, resolvable=True)

    def shortage(self) -> NUMARejection | None:
        """Return why a pod that is not rejected would not get its CPUs or NUMA nodes after all.

        Koordinator finds out only when the pod is to have the node: it does not look for CPUs that
        are bound by preference, nor at NUMA nodes under BestEffort.
        """
        if self.policy is NUMATopologyPolicy.NONE:
            is_short = self.binds and len(self._left.free_cpus) < self._cpu // 1000
            return NUMARejection((NOT_ENOUGH_CPUS,), resolvable=True) if is_short else None
        if self.policy is NUMATopologyPolicy.BEST_EFFORT:
            return _rejection_in(self._given)
        return None

    def nearest(self) -> str:
        """Describe the shortage of the nearest NUMA node, or the node; "" if there is none."""
        if self.mismatch or (self.binds and not self._machine.cpus):
            return ""
        return nearest_zone(self._left, by_zone=bool(self.policy))

    def score(self, use: NodeUse) -> int:
        """Score the node for the pod, 0 to 100."""
        known = self.score_of_zones()
        if known is not None:
            return known
        taken = {**use.requested, CPU: self.counted_cpu.taken(use.requested.get(CPU, 0))}
        return self._settings.scorer.score(taken, use.has, self.request.amplified)

    def score_of_zones(self) -> int | None:
        """The score by the NUMA nodes that the pod gets; ``None``: the whole node counts."""
        machine = self._machine
        if self.binds and not machine.cpus:
            return 0
        if self.policy is NUMATopologyPolicy.NONE:
            return None
        # Under BestEffort Koordinator finds the NUMA nodes only once the pod has the node.
        is_late = self.policy is NUMATopologyPolicy.BEST_EFFORT
        given = self._amounts(None) if is_late else self._given
        if isinstance(given, NUMARejection):
            return 0
        if not given:
            return None
        zones = self._had.zones(machine)
        taken = added(zones.get(node, {}) for node in given)
        has = added(machine.zones[node] for node in given)
        if self.binds:
            taken[CPU] = self._bound_cpu
        return self._settings.scorer.score(taken, has, self.request.amplified)

    @property
    def counted_cpu(self) -> CountedCPU:
        """Count of CPU where the whole node is scored."""
        asked = self.request.amplified.get(CPU, 0)
        if self.policy is not NUMATopologyPolicy.NONE:
            return CountedCPU(asked, instead=self._bound_cpu if self.binds else None)
        return CountedCPU(asked, self._bound_cpu - self.cpu.own if self._cpu else 0)

    @property
    def _bound_cpu(self) -> int:
        """Millicores of the CPUs that pods have for themselves."""
        return amplified(self.cpu.own, self._machine.zone_cpu_ratio)

    def _exclusive(self) -> NUMAExclusive:
        """Pods that name a policy themselves keep apart unless they say otherwise."""
        says = self._needs.says
        if says.numa_exclusive or not says.topology_policy:
            return says.numa_exclusive
        return NUMAExclusive.REQUIRED

    @cached_property
    def _left(self) -> NodeAllocator:
        return NodeAllocator(self._machine, self._had, self.request)

    @cached_property
    def request(self) -> NUMARequest:
        """The pod's request of this node."""
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
            kept=self._kept,
        )

    def _binding_problem(self) -> str:
        if not self._machine.cpus:
            return "node(s) invalid CPU Topology"
        required, by_node = self._needs.required, self._machine.bind_policy
        if required and by_node and required is not by_node:
            return "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
        is_full = (by_node or required) is CPUBindPolicy.FULL_PCPUS
        if is_full and self._cpu // 1000 % self._machine.cpus.core_step:
            return "node(s) requested cpus not multiple cpus per core"
        return ""


def _rejection_in(given: ZoneAmounts | NUMARejection) -> NUMARejection | None:
    return given if isinstance(given, NUMARejection) else None


_STRICT = (NUMATopologyPolicy.RESTRICTED, NUMATopologyPolicy.SINGLE_NUMA_NODE)
_UNSET = NUMARequirements().exclusive
