"""The common part of Coscheduling and GangScheduling: gangs, their statuses and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller
from koord_scheduler.framework.gang_planner import GangPlanner
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import LookUp, Plugin
from koord_scheduler.plugins.coscheduling.controller import PodGroupController, ended_pods
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.coscheduling.group_objects import GroupObjects
from koord_scheduler.plugins.coscheduling.group_planner import group_planner
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods


class GangPlugin(Plugin):
    """Base of both; where both are enabled, the first one has the controller and the metrics."""

    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(GroupObjects)
        gangs = nodes.use(Gangs)
        gangs.plugin = gangs.plugin or self.name

    def group_planner(self, placed: PlacedPods) -> GangPlanner:
        return group_planner(placed)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        gangs = api.scheduler.gangs
        if gangs.plugin == self.name:
            yield PodGroupController(gangs, api.write, partial(ended_pods, api.client))

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        gangs = nodes.use(Gangs)
        if gangs.plugin == self.name:
            yield GangMetrics(gangs)
