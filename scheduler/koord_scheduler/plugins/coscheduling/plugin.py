"""Coscheduling: the pods of a gang start together, or none does. No IO.

It says nothing about nodes: gangs are placed as a whole by ``framework/gang_cycle.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller
from koord_scheduler.framework.gang_planner import GangPlanner
from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import LookUp, Plugin, Service
from koord_scheduler.plugins.coscheduling.controller import pod_group_controllers
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.coscheduling.group_objects import GroupObjects
from koord_scheduler.plugins.coscheduling.group_planner import group_planner
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.summary import gang_summary
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods


class Coscheduling(Plugin):
    """Koordinator's plugin Coscheduling."""

    name: ClassVar[str] = "Coscheduling"
    reads_labels: ClassVar[bool] = False

    def __init__(self, defaults: GangDefaults | None = None, *, gathers: bool = False) -> None:
        self.defaults = defaults or GangDefaults()
        self._gathers = gathers

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(GroupObjects)
        gangs = nodes.use(Gangs)
        gangs.is_used = True
        gangs.reads_pod_groups = True
        gangs.defaults = self.defaults
        gangs.gathers |= self._gathers
        if self._gathers:
            nodes.use(ClusterNetwork)

    def group_planner(self, placed: PlacedPods) -> GangPlanner:
        return group_planner(placed)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        return pod_group_controllers(api)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        yield GangMetrics(nodes.use(Gangs))

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/gang/:namespace/:name`` and ``/gangs``: how far their members are."""
        gangs = nodes.use(Gangs)

        def one(given: Mapping[str, str]) -> dict[str, Any]:
            key = f"{given['namespace']}/{given['name']}"
            found = gangs.by_key.get(key)
            if found is None:
                raise LookupError(f"cannot find gang {key}")
            return gang_summary(found, gangs)

        def every(_: Mapping[str, str]) -> dict[str, Any]:
            return {key: gang_summary(gang, gangs) for key, gang in sorted(gangs.by_key.items())}

        return {"/gang/:namespace/:name": one, "/gangs": every}
