"""Coscheduling: the pods of a gang start together, or none does. No IO.

It says nothing about nodes: gangs are placed as a whole by ``framework/gang_cycle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from koord_scheduler.framework.service_provider import Service
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.coscheduling.gang_spec import GangDefaults
from koord_scheduler.plugins.coscheduling.summary import gang_summary
from koord_scheduler.state.cluster_state import ClusterState


class Coscheduling(Plugin):
    """Koordinator's plugin Coscheduling."""

    name: ClassVar[str] = "Coscheduling"
    reads_labels: ClassVar[bool] = False

    def __init__(self, defaults: GangDefaults | None = None, *, gathers: bool = False) -> None:
        self.defaults = defaults or GangDefaults()
        self._gathers = gathers

    def prepare(self, nodes: ClusterState) -> None:
        nodes.gangs.is_used = True
        nodes.gangs.reads_pod_groups = True
        nodes.gangs.defaults = self.defaults
        nodes.gangs.gathers |= self._gathers
        nodes.network.is_used |= self._gathers

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/gang/:namespace/:name`` and ``/gangs``: how far their members are."""
        gangs = nodes.gangs

        def one(given: Mapping[str, str]) -> dict[str, Any]:
            key = f"{given['namespace']}/{given['name']}"
            found = gangs.by_key.get(key)
            if found is None:
                raise LookupError(f"cannot find gang {key}")
            return gang_summary(found, gangs)

        def every(_: Mapping[str, str]) -> dict[str, Any]:
            return {key: gang_summary(gang, gangs) for key, gang in sorted(gangs.by_key.items())}

        return {"/gang/:namespace/:name": one, "/gangs": every}
