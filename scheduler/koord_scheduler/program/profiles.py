"""The profile of a scheduler without a configuration."""

from __future__ import annotations

from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.plugins.image_locality import ImageLocality
from koord_scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord_scheduler.plugins.node_affinity import NodeAffinity
from koord_scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from koord_scheduler.plugins.node_name import NodeName
from koord_scheduler.plugins.node_ports import NodePorts
from koord_scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.node_unschedulable import NodeUnschedulable
from koord_scheduler.plugins.pod_topology_spread import PodTopologySpread
from koord_scheduler.plugins.taint_toleration import TaintToleration
from koord_scheduler.plugins.unsupported_fields import UnsupportedFields


def default_profile(scheduler_name: str = "default-scheduler") -> Profile:
    """Kubernetes' plugins with its weights."""
    return Profile(
        scheduler_name,
        (
            EnabledPlugin(UnsupportedFields(), True, 0),
            EnabledPlugin(NodeUnschedulable(), True, 0),
            EnabledPlugin(NodeName(), True, 0),
            EnabledPlugin(TaintToleration(), True, 3),
            EnabledPlugin(NodeAffinity(), True, 2),
            EnabledPlugin(NodePorts(), True, 0),
            EnabledPlugin(NodeResourcesFit(), True, 1),
            EnabledPlugin(NodeDeclaredFeatures(), True, 0),
            EnabledPlugin(PodTopologySpread(), True, 2),
            EnabledPlugin(InterPodAffinity(), True, 2),
            EnabledPlugin(NodeResourcesBalancedAllocation(), True, 1),
            EnabledPlugin(ImageLocality(), True, 1),
        ),
    )
