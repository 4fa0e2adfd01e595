"""Arguments of plugins, with their defaults and what is allowed. No IO."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from koord_model.names import KEY, is_label_key
from msgspec.structs import force_setattr

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int32, NotNegative, PerCent, Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.arguments.resource_scoring import CPU_AND_MEMORY, ShapePoint, WeightedResource
from koord_scheduler.config.added_affinity import AddedAffinity
from koord_scheduler.objects.pod import TopologySpreadConstraint
from koord_scheduler.plugins.coscheduling.args import CoschedulingArgs
from koord_scheduler.plugins.device_share.args import DeviceShareArgs
from koord_scheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from koord_scheduler.plugins.elastic_quota.args import ElasticQuotaArgs
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.node_numa_resource.args import NodeNUMAResourceArgs
from koord_scheduler.plugins.node_quarantine.args import NodeQuarantineArgs
from koord_scheduler.plugins.node_resources_fit_plus import NodeResourcesFitPlusArgs
from koord_scheduler.plugins.reservation.args import ReservationArgs
from koord_scheduler.plugins.scarce_resource_avoidance import ScarceResourceAvoidanceArgs
from koord_scheduler.plugins.scheduling_hint import SchedulingHintArgs
from koord_scheduler.plugins.volumes.args import VolumeBindingArgs

SYSTEM = "System"
RATIO = "RequestedToCapacityRatio"
_STRATEGIES = ("LeastAllocated", "MostAllocated", RATIO)
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class CapacityRatio(Strict, frozen=True):
    """Arguments of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Strict, frozen=True):
    """Scoring of nodes by NodeResourcesFit."""

    type: str = ""
    resources: tuple[WeightedResource, ...] = ()
    requested_to_capacity_ratio: CapacityRatio | None = None

    def __post_init__(self) -> None:
        if not self.resources:
            force_setattr(self, "resources", CPU_AND_MEMORY)

    def problems(self, path: str) -> Iterator[str]:
        """Return kube-scheduler's errors in it."""
        if self.type not in _STRATEGIES:
            yield problem(f"{path}.type", self.type, f"one of {', '.join(_STRATEGIES)}")
        ratio, at = self.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if (self.type == RATIO) is (ratio is None):
            expected = "a shape" if ratio is None else f"none, but with type {RATIO}"
            yield problem(at, None if ratio is None else {}, expected)
        if ratio is not None and self.type == RATIO:
            points = [point.utilization for point in ratio.shape]
            if not points or points != sorted(set(points)):
                yield problem(f"{at}.shape", [], "points in rising order of utilization")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated")

    def problems(self, path: str) -> Iterator[str]:
        for place, name in enumerate(self.ignored_resources):
            if not is_label_key(name):
                yield problem(f"{path}.ignoredResources[{place}]", name, KEY)
        for place, name in enumerate(self.ignored_resource_groups):
            if "/" in name or not is_label_key(name):
                expected = "the part of a resource's name before /"
                yield problem(f"{path}.ignoredResourceGroups[{place}]", name, expected)
        yield from self.scoring_strategy.problems(f"{path}.scoringStrategy")


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation; all weights are 1."""

    resources: tuple[WeightedResource, ...] = ()

    def __post_init__(self) -> None:
        if not self.resources:
            force_setattr(self, "resources", CPU_AND_MEMORY)

    def problems(self, path: str) -> Iterator[str]:
        names: set[str] = set()
        for place, resource in enumerate(self.resources):
            at = f"{path}.resources[{place}]"
            if resource.name in names:
                yield problem(f"{at}.name", resource.name, "each resource once")
            if resource.weight > 1:
                yield problem(f"{at}.weight", resource.weight, "1")
            names.add(resource.name)


class NodeAffinityArgs(PluginArgs, frozen=True):
    """Arguments of NodeAffinity."""

    added_affinity: AddedAffinity | None = None

    def problems(self, path: str) -> Iterator[str]:
        return (self.added_affinity or AddedAffinity()).problems(f"{path}.addedAffinity")


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: PerCent = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class DefaultConstraint(
    TopologySpreadConstraint, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """A constraint for pods that have none; its selector is that of what owns the pod."""

    max_skew: Int32 = 0
    when_unsatisfiable: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """Return kube-scheduler's errors in it."""
        if self.max_skew <= 0:
            yield problem(f"{path}.maxSkew", self.max_skew, "1 or more")
        if not is_label_key(self.topology_key):
            yield problem(f"{path}.topologyKey", self.topology_key, KEY)
        if self.when_unsatisfiable not in _ACTIONS:
            action = self.when_unsatisfiable
            yield problem(f"{path}.whenUnsatisfiable", action, " or ".join(_ACTIONS))
        if self.label_selector is not None:
            selector = self.label_selector
            yield problem(f"{path}.labelSelector", selector, "none: it is found for each pod")


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = SYSTEM

    def __post_init__(self) -> None:
        if not self.defaulting_type:
            force_setattr(self, "defaulting_type", SYSTEM)

    def problems(self, path: str) -> Iterator[str]:
        if self.defaulting_type not in (SYSTEM, "List"):
            yield problem(f"{path}.defaultingType", self.defaulting_type, "System or List")
        if self.defaulting_type == SYSTEM and self.default_constraints:
            expected = "List, as there are defaultConstraints"
            yield problem(f"{path}.defaultingType", self.defaulting_type, expected)
        seen: set[tuple[str, str]] = set()
        for place, default_constraint in enumerate(self.default_constraints):
            at = f"{path}.defaultConstraints[{place}]"
            yield from default_constraint.problems(at)
            key = default_constraint.topology_key, default_constraint.when_unsatisfiable
            if key in seen:
                yield problem(at, {}, "each topologyKey and whenUnsatisfiable once")
            seen.add(key)


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """Arguments of DefaultPreemption: of how many nodes the best one is taken, at least."""

    min_candidate_nodes_percentage: PerCent = 10
    min_candidate_nodes_absolute: NotNegative = 100

    def problems(self, path: str) -> Iterator[str]:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            expected = "more than 0, as minCandidateNodesAbsolute is 0"
            yield problem(f"{path}.minCandidateNodesPercentage", 0, expected)


class AllPluginArgs(Strict, frozen=True, rename="pascal"):
    """The arguments of all plugins of a profile that take some, by the names of the plugins."""

    coscheduling: CoschedulingArgs = CoschedulingArgs()
    default_preemption: DefaultPreemptionArgs = DefaultPreemptionArgs()
    device_share: DeviceShareArgs = DeviceShareArgs()
    dynamic_resources: DynamicResourcesArgs = DynamicResourcesArgs()
    elastic_quota: ElasticQuotaArgs = ElasticQuotaArgs()
    inter_pod_affinity: InterPodAffinityArgs = InterPodAffinityArgs()
    load_aware_scheduling: LoadAwareSchedulingArgs = LoadAwareSchedulingArgs()
    node_affinity: NodeAffinityArgs = NodeAffinityArgs()
    node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs = (
        NodeResourcesBalancedAllocationArgs()
    )
    node_resources_fit: NodeResourcesFitArgs = NodeResourcesFitArgs()
    node_resources_fit_plus: NodeResourcesFitPlusArgs = NodeResourcesFitPlusArgs()
    node_numa_resource: NodeNUMAResourceArgs = msgspec.field(
        default=NodeNUMAResourceArgs(), name="NodeNUMAResource"
    )
    node_quarantine: NodeQuarantineArgs = NodeQuarantineArgs()
    pod_topology_spread: PodTopologySpreadArgs = PodTopologySpreadArgs()
    reservation: ReservationArgs = ReservationArgs()
    scarce_resource_avoidance: ScarceResourceAvoidanceArgs = ScarceResourceAvoidanceArgs()
    scheduling_hint: SchedulingHintArgs = SchedulingHintArgs()
    volume_binding: VolumeBindingArgs = VolumeBindingArgs()
