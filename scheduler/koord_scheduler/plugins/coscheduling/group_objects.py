"""Objects that describe gangs, and the gangs of pods. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from koord_kube.protocol.resources import COMPOSITE_GROUPS, POD_GROUPS, SCHEDULING_GROUPS

from koord_scheduler.gangs.composite_group import (
    CompositeGroupObject,
    read_composite_group,
)
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GANG_MEMBER, GangMember, gang_member
from koord_scheduler.gangs.pod_group import PodGroup, PodGroupObject, read_pod_group
from koord_scheduler.gangs.scheduling_group import (
    SUFFIX,
    SchedulingGroupObject,
    read_scheduling_group,
    scheduling_group_key,
)
from koord_scheduler.objects.annotations import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_reader import created_at


class GroupObjects(FeatureState):
    """PodGroups of Koordinator and of Kubernetes, and which gang a pod is a member of."""

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self._gangs = nodes.use(Gangs)

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        gangs = self._gangs
        yield from scheduling_group_kinds(gangs)
        yield ClusterKind(
            POD_GROUPS,
            PodGroupObject,
            partial(read_pod_group, defaults=gangs.defaults),
            lambda _, group: gangs.set_pod_group(group),
            gangs.remove_pod_group,
            is_optional=True,
            is_needed=gangs.reads_pod_groups,
        )

    def pod_parts(self, pod: PodInfo) -> Parts:
        yield GANG_MEMBER, gang_of(pod, self._gangs)


def gang_of(pod: PodInfo, gangs: Gangs) -> GangMember | None:
    """The membership of a pod by what is read of gangs; ``None``: it is a member of none."""
    metadata, group = pod.metadata, pod.spec.scheduling_group
    if gangs.reads_scheduling_groups and group is not None:
        key = scheduling_group_key(metadata.namespace, str(group.get("podGroupName", "")))
        return GangMember(
            key,
            phase=pod.status.phase,
            priority=pod.spec.priority or 0,
            is_preempted=pod.is_preempted,
        )
    if not gangs.reads_pod_groups:
        return None
    labels = metadata.labels or {}
    annotations = metadata.annotations or NO_ANNOTATIONS
    found = gang_member(metadata.namespace, labels, annotations, created_at(pod), gangs.defaults)
    if found is None:
        return None
    owners = sorted(
        f"{metadata.namespace}/{owner.name}" for owner in metadata.owner_references or ()
    )
    return found._replace(phase=pod.status.phase, owners=",".join(owners))


def scheduling_group_kinds(gangs: Gangs) -> list[ClusterKind]:
    """PodGroups in all versions, of which a server has some, and CompositePodGroups.

    An object that comes in two versions counts once: both say the same.
    """
    hierarchy = gangs.hierarchy

    def describe(groups: Iterable[PodGroup]) -> None:
        for group in groups:
            gangs.set_pod_group(group)

    def remove(key: str) -> None:
        describe(hierarchy.remove_group(f"{key}{SUFFIX}"))
        gangs.remove_pod_group(f"{key}{SUFFIX}")

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
