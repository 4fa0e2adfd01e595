"""GangScheduling: the pods of a PodGroup of Kubernetes start together. No IO.

As Coscheduling, it says nothing about nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller
from koord_scheduler.framework.gang_planner import GangPlanner
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import LookUp, Plugin
from koord_scheduler.plugins.coscheduling.controller import pod_group_controllers
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.coscheduling.group_objects import GroupObjects
from koord_scheduler.plugins.coscheduling.group_planner import group_planner
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods


class GangScheduling(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "GangScheduling"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(GroupObjects)
        gangs = nodes.use(Gangs)
        gangs.is_used = True
        gangs.reads_scheduling_groups = True

    def group_planner(self, placed: PlacedPods) -> GangPlanner:
        return group_planner(placed)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        return pod_group_controllers(api)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        yield GangMetrics(nodes.use(Gangs))
