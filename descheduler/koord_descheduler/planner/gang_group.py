"""Pods that run together or not at all. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_scheduler.gangs.gangs import Gangs

from koord_descheduler.planner.cluster import ClusterModel, KnownPod


class PlacedGang(NamedTuple):
    """A group of gangs by its id, "" for none, and its pods that have nodes beside one of them."""

    group_id: str = ""
    others: tuple[KnownPod, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the others."""
        return frozenset(other.view.key for other in self.others)


def gang_group(cluster: ClusterModel, key: str) -> PlacedGang:
    """The gang group of a pod."""
    gangs = cluster.scheduler.nodes.find(Gangs)
    gang = gangs.gang_of(key) if gangs is not None else None
    if gangs is None or gang is None:
        return PlacedGang()
    members = (member for _, member in gangs.of_group(gang.group_id) if member is not None)
    keys = (other for member in members for other in member.members if other != key)
    others = (cluster.pods.get(other) for other in keys)
    placed = tuple(other for other in others if other is not None and other.view.node)
    return PlacedGang(gang.group_id, placed)
