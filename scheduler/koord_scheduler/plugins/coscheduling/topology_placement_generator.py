"""TopologyPlacementGenerator: groups of Kubernetes may ask for one domain of nodes. No IO.

It says nothing about nodes: ``domain_planner.py`` does.
"""

from __future__ import annotations

from typing import ClassVar

from koord_scheduler.framework.gang_planner import GangPlanner
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.coscheduling.group_planner import group_planner
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods


class TopologyPlacementGenerator(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "TopologyPlacementGenerator"

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(Gangs).hierarchy.has_domains = True

    def group_planner(self, placed: PlacedPods) -> GangPlanner:
        return group_planner(placed)
