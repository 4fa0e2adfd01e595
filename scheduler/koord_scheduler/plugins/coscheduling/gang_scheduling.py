"""GangScheduling: the pods of a PodGroup of Kubernetes start together. No IO.

As Coscheduling, it says nothing about nodes.
"""

from __future__ import annotations

from typing import ClassVar

from koord_scheduler.plugin import Plugin
from koord_scheduler.state.cluster_state import ClusterState


class GangScheduling(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "GangScheduling"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.gangs.is_used = True
        nodes.gangs.reads_scheduling_groups = True
