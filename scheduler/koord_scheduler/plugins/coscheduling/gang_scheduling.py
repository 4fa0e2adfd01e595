"""GangScheduling: the pods of a PodGroup of Kubernetes start together. No IO.

As Coscheduling, it says nothing about nodes.
"""

from __future__ import annotations

from typing import ClassVar

from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugins.coscheduling.gang_plugin import GangPlugin
from koord_scheduler.state.cluster_state import ClusterState


class GangScheduling(GangPlugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "GangScheduling"

    def prepare(self, nodes: ClusterState) -> None:
        super().prepare(nodes)
        nodes.use(Gangs).reads_scheduling_groups = True
