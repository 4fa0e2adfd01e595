"""Coscheduling: the pods of a gang start together, or none does. No IO.

It says nothing about nodes: gangs are placed as a whole by ``framework/gang_cycle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import Service
from koord_scheduler.plugins.coscheduling.gang_plugin import GangPlugin
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.summary import gang_summary
from koord_scheduler.state.cluster_state import ClusterState


class Coscheduling(GangPlugin):
    """Koordinator's plugin Coscheduling."""

    name: ClassVar[str] = "Coscheduling"

    def __init__(self, defaults: GangDefaults | None = None, *, gathers: bool = False) -> None:
        self.defaults = defaults or GangDefaults()
        self._gathers = gathers

    def prepare(self, nodes: ClusterState) -> None:
        super().prepare(nodes)
        gangs = nodes.use(Gangs)
        gangs.reads_pod_groups = True
        gangs.defaults = self.defaults
        gangs.gathers |= self._gathers
        if self._gathers:
            nodes.use(ClusterNetwork)

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
