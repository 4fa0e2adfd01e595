"""The planner of the parts of the cluster in which gangs are tried. No IO."""

from __future__ import annotations

from koord_scheduler.framework.gang_planner import GangPlanner
from koord_scheduler.plugins.coscheduling.domain_planner import DomainPlanner
from koord_scheduler.plugins.coscheduling.network.network_planner import NetworkPlanner
from koord_scheduler.state.placed_pods import PlacedPods


def group_planner(placed: PlacedPods) -> GangPlanner:
    """A planner by domains of labels, and by the network for gangs that ask for it."""
    return DomainPlanner(placed, NetworkPlanner(placed))
