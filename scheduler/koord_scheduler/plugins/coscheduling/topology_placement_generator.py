"""TopologyPlacementGenerator: groups of Kubernetes may ask for one domain of nodes. No IO.

It says nothing about nodes: ``framework/domain_planner.py`` does.
"""

from __future__ import annotations

from typing import ClassVar

from koord_scheduler.plugin import Plugin
from koord_scheduler.state.cluster_state import ClusterState


class TopologyPlacementGenerator(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "TopologyPlacementGenerator"

    def prepare(self, nodes: ClusterState) -> None:
        nodes.gangs.hierarchy.has_domains = True
