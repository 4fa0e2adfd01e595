"""The kinds of Kubernetes' own groups of pods, and where each goes. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from koord_kube.protocol.resources import COMPOSITE_GROUPS, SCHEDULING_GROUPS

from koord_scheduler.framework.gang_states import GangStates
from koord_scheduler.plugins.coscheduling.composite_group import (
    CompositeGroupObject,
    read_composite_group,
)
from koord_scheduler.plugins.coscheduling.pod_group import PodGroup
from koord_scheduler.plugins.coscheduling.scheduling_group import (
    SUFFIX,
    SchedulingGroupObject,
    read_scheduling_group,
)
from koord_scheduler.state.cluster_kind import ClusterKind


def scheduling_group_kinds(states: GangStates) -> list[ClusterKind]:
    """PodGroups in all versions, of which a server has some, and CompositePodGroups.

    An object that comes in two versions counts once: both say the same.
    """
    gangs = states.gangs
    hierarchy = gangs.hierarchy

    def describe(groups: Iterable[PodGroup]) -> None:
        for one in groups:
            states.set_pod_group(one)

    def remove(key: str) -> None:
        describe(hierarchy.remove_group(f"{key}{SUFFIX}"))
        states.remove_pod_group(f"{key}{SUFFIX}")

    composites = ClusterKind(
        COMPOSITE_GROUPS,
        CompositeGroupObject,
        read_composite_group,
        lambda _, one: describe(hierarchy.set_composite(one)),
        lambda key: describe(hierarchy.remove_composite(f"{key}{SUFFIX}")),
        is_optional=True,
        is_needed=gangs.reads_scheduling_groups and hierarchy.has_composites,
    )
    groups = (
        ClusterKind(
            version,
            SchedulingGroupObject,
            partial(read_scheduling_group, version),
            lambda _, one: describe(hierarchy.set_group(one)),
            remove,
            is_optional=True,
            is_needed=gangs.reads_scheduling_groups,
        )
        for version in reversed(SCHEDULING_GROUPS)
    )
    return [composites, *groups]
