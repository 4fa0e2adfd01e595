"""Requests of a gang, in words of whoever described it. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.gangs.gang_spec import GangSpec
from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.gangs.scheduling_group import SchedulingGroupSpec


def policy_words(gang: Gang, gangs: Gangs) -> str:
    """The policies of a gang, "" if nobody has described it."""
    spec, group = gang.spec, gangs.hierarchy.groups.get(gang.key)
    if spec is None:
        return ""
    if group is None:
        return f"{spec.mode}, {spec.match_policy}"
    return ", ".join((*_of_group(group.spec), *_of_tree(spec)))


def _of_group(scheduling_group_spec: SchedulingGroupSpec) -> Iterator[str]:
    gang, parent = (
        scheduling_group_spec.scheduling_policy.gang,
        scheduling_group_spec.parent_composite_pod_group_name,
    )
    yield f"minCount {gang.min_count}" if gang is not None else "basic"
    for claim in scheduling_group_spec.resource_claims or ():
        yield f"claim {claim.name}"
    if parent:
        yield f"part of {parent}"


def _of_tree(spec: GangSpec) -> Iterator[str]:
    """Describe the demands of groups above it."""
    if spec.quorum is not None:
        yield f"minGroupCount {spec.quorum.least} of {len(spec.quorum.children)}"
    for rule in spec.domains:
        yield f"one {rule.label}"
    if spec.disrupted_with:
        yield "disrupted whole"
