"""The plugins that there are, built from their arguments. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from koord_scheduler.arguments.resource_scoring import weights
from koord_scheduler.config.known_plugins import CORE, Support
from koord_scheduler.config.plugin_args import (
    RATIO,
    SYSTEM,
    AllPluginArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
)
from koord_scheduler.objects.node_selector import preferred_nodes, required_nodes
from koord_scheduler.objects.spread import spread_constraint
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.coscheduling.gang_scheduling import GangScheduling
from koord_scheduler.plugins.coscheduling.plugin import Coscheduling
from koord_scheduler.plugins.coscheduling.topology_placement_generator import (
    TopologyPlacementGenerator,
)
from koord_scheduler.plugins.device_share.plugin import DeviceShare
from koord_scheduler.plugins.dynamic_resources.plugin import DynamicResources
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaPlugin
from koord_scheduler.plugins.image_locality.plugin import ImageLocality
from koord_scheduler.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinitySettings
from koord_scheduler.plugins.load_aware.plugin import LoadAwareScheduling
from koord_scheduler.plugins.node_affinity import NodeAffinity
from koord_scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from koord_scheduler.plugins.node_name import NodeName
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.plugins.node_ports import NodePorts
from koord_scheduler.plugins.node_quarantine.plugin import NodeQuarantine
from koord_scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from koord_scheduler.plugins.node_resources_fit import FitSettings, NodeResourcesFit
from koord_scheduler.plugins.node_resources_fit_plus import (
    NodeResourcesFitPlus,
)
from koord_scheduler.plugins.node_unschedulable import NodeUnschedulable
from koord_scheduler.plugins.pod_topology_spread import (
    PodTopologySpread,
    PodTopologySpreadSettings,
)
from koord_scheduler.plugins.reservation.plugin import ReservationPlugin
from koord_scheduler.plugins.scarce_resource_avoidance import ScarceResourceAvoidance
from koord_scheduler.plugins.scheduling_hint import SchedulingHint
from koord_scheduler.plugins.taint_toleration import TaintToleration
from koord_scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from koord_scheduler.plugins.volumes.volume_zone import VolumeZone
from koord_scheduler.state.resource_scores import (
    ResourceScore,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)

BUILDERS: Mapping[str, Callable[[AllPluginArgs], Plugin]] = {
    "NodeUnschedulable": lambda args: NodeUnschedulable(),
    "NodeName": lambda args: NodeName(),
    "TaintToleration": lambda args: TaintToleration(),
    "NodeAffinity": lambda args: _node_affinity(args.node_affinity),
    "NodePorts": lambda args: NodePorts(),
    "NodeResourcesFit": lambda args: NodeResourcesFit(_fit(args.node_resources_fit)),
    "NodeDeclaredFeatures": lambda args: NodeDeclaredFeatures(),
    "NodeNUMAResource": lambda args: NodeNUMAResource(args.node_numa_resource.settings()),
    "Reservation": lambda args: ReservationPlugin(args.reservation.settings()),
    "VolumeRestrictions": lambda args: VolumeRestrictions(),
    "NodeVolumeLimits": lambda args: NodeVolumeLimits(),
    "VolumeBinding": lambda args: VolumeBinding(float(args.volume_binding.bind_timeout_seconds)),
    "VolumeZone": lambda args: VolumeZone(),
    "PodTopologySpread": lambda args: PodTopologySpread(_spread(args.pod_topology_spread)),
    "InterPodAffinity": lambda args: _inter_pod_affinity(args.inter_pod_affinity),
    "DynamicResources": lambda args: DynamicResources(),
    "NodeResourcesBalancedAllocation": lambda args: _balanced(
        args.node_resources_balanced_allocation
    ),
    "ImageLocality": lambda args: ImageLocality(),
    "NodeResourcesFitPlus": lambda args: NodeResourcesFitPlus(
        args.node_resources_fit_plus.settings()
    ),
    "ScarceResourceAvoidance": lambda args: ScarceResourceAvoidance(
        frozenset(args.scarce_resource_avoidance.resources)
    ),
    "SchedulingHint": lambda args: SchedulingHint(args.scheduling_hint.max_hint_nodes),
    "ElasticQuota": lambda args: ElasticQuotaPlugin(args.elastic_quota.settings()),
    "DeviceShare": lambda args: DeviceShare(args.device_share.settings()),
    "Coscheduling": lambda args: Coscheduling(
        args.coscheduling.defaults(), gathers=args.coscheduling.aware_network_topology
    ),
    "GangScheduling": lambda args: GangScheduling(),
    "TopologyPlacementGenerator": lambda args: TopologyPlacementGenerator(),
    "NodeQuarantine": lambda args: NodeQuarantine(args.node_quarantine.settings()),
    "LoadAwareScheduling": lambda args: LoadAwareScheduling(args.load_aware_scheduling.settings()),
}


def support(name: str) -> Support:
    """Return the scheduler's support of a plugin."""
    if name in BUILDERS:
        return Support.BUILT
    return Support.CORE if name in CORE else Support.NOT_BUILT


def _node_affinity(args: NodeAffinityArgs) -> NodeAffinity:
    if args.added_affinity is None:
        return NodeAffinity()
    affinity = args.added_affinity.affinity()
    return NodeAffinity(required_nodes(None, affinity), preferred_nodes(affinity))


def _fit(args: NodeResourcesFitArgs) -> FitSettings:
    strategy = args.scoring_strategy
    return FitSettings(
        weights(strategy.resources),
        _score(strategy),
        skips_zero=strategy.type == RATIO,
        ignored_resources=frozenset(args.ignored_resources),
        ignored_groups=frozenset(args.ignored_resource_groups),
    )


def _score(strategy: ScoringStrategy) -> ResourceScore:
    if strategy.requested_to_capacity_ratio is not None:
        shape = strategy.requested_to_capacity_ratio.shape
        return requested_to_capacity_ratio([(one.utilization, one.score) for one in shape])
    return most_allocated if strategy.type == "MostAllocated" else least_allocated


def _balanced(args: NodeResourcesBalancedAllocationArgs) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(resource.name for resource in args.resources)


def _spread(args: PodTopologySpreadArgs) -> PodTopologySpreadSettings:
    if args.defaulting_type == SYSTEM:
        return PodTopologySpreadSettings()
    return PodTopologySpreadSettings(tuple(map(spread_constraint, args.default_constraints)))


def _inter_pod_affinity(args: InterPodAffinityArgs) -> InterPodAffinity:
    return InterPodAffinity(
        InterPodAffinitySettings(
            args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods
        )
    )
