"""PodGroups of Kubernetes and the trees that they are leaves of, as gangs. No IO.

The gangs of a group start together: the leaves below the topmost CompositePodGroup with a gang
policy. What a tree says of a leaf changes with each of its groups, so all of its leaves are
described anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_kube.protocol.resources import SCHEDULING_GROUPS

from koord_scheduler.gangs.composite_group import CompositeGroup, parent_key
from koord_scheduler.gangs.gang_spec import (
    DomainRule,
    GangMode,
    GangSource,
    GangSpec,
    MatchPolicy,
)
from koord_scheduler.gangs.pod_group import PodGroup, PodGroupStatus
from koord_scheduler.gangs.quorum import Quorum
from koord_scheduler.gangs.scheduling_group import SchedulingGroup
from koord_scheduler.state.cluster_state import NO_GATES

MOST_DEPTH = 4
_NO_COMPOSITES = (
    "spec.parentCompositePodGroupName needs the feature gate CompositePodGroup, which is off"
)
_NO_CLAIMS = "spec.resourceClaims needs the feature gate DRAWorkloadResourceClaims, which is off"
_NO_TOPOLOGY = (
    "spec.schedulingConstraints needs the plugin TopologyPlacementGenerator, which is not enabled"
)
_PREEMPTING_VERSIONS = ("v1beta1", "v1alpha3")
"""In v1alpha2 preemption by groups had a gate of its own, off by default."""


COMPOSITES = "CompositePodGroup"
GROUP_CLAIMS = "DRAWorkloadResourceClaims"
"""Feature gates."""

_AnyGroup = SchedulingGroup | CompositeGroup


class _Lineage(NamedTuple):
    """The CompositePodGroups above a group, the nearest first; or what is wrong with them."""

    groups: tuple[CompositeGroup, ...]
    problem: str = ""


class Hierarchy:
    """Groups by key.

    It ``has_composites``, ``has_domains`` and ``has_claims`` where these features are on.
    """

    def __init__(self, gates: Mapping[str, bool] = NO_GATES) -> None:
        self.has_composites = gates.get(COMPOSITES, False)
        self.has_domains = False
        self.has_claims = gates.get(GROUP_CLAIMS, False)
        self.groups: dict[str, SchedulingGroup] = {}
        self._composites: dict[str, CompositeGroup] = {}
        self._children: dict[str, set[str]] = {}

    def set_group(self, scheduling_group: SchedulingGroup) -> list[PodGroup]:
        """A PodGroup is there, or has changed; returns the gangs that are described anew."""
        before = self.groups.get(scheduling_group.key)
        if (
            before is not None
            and before.uid == scheduling_group.uid
            and _age(before) < _age(scheduling_group)
        ):
            return []  # a newer version of the API says the same
        changed = self._leave(before)
        self.groups[scheduling_group.key] = scheduling_group
        self._children.setdefault(
            parent_key(scheduling_group.key, scheduling_group.spec), set()
        ).add(scheduling_group.key)
        return self._described(
            {scheduling_group.key, *changed, *self._family(scheduling_group.key)}
        )

    def remove_group(self, key: str) -> list[PodGroup]:
        """A PodGroup is gone."""
        changed = self._leave(self.groups.get(key))
        self.groups.pop(key, None)
        return self._described(changed)

    def set_composite(self, composite_group: CompositeGroup) -> list[PodGroup]:
        """A CompositePodGroup is there, or has changed."""
        changed = self._leave_composite(composite_group.key)
        self._composites[composite_group.key] = composite_group
        self._children.setdefault(composite_group.parent, set()).add(composite_group.key)
        return self._described({*changed, *self._family(composite_group.key)})

    def remove_composite(self, key: str) -> list[PodGroup]:
        """A CompositePodGroup is gone; its groups wait until it is there again."""
        changed = self._leave_composite(key)
        self._composites.pop(key, None)
        return self._described({*changed, *self._leaves(key)})

    def _leave(self, scheduling_group: SchedulingGroup | None) -> set[str]:
        """A group is no child of its parent any more; returns the keys of those that it had."""
        if scheduling_group is None:
            return set()
        family = self._family(scheduling_group.key)
        self._drop_child(
            parent_key(scheduling_group.key, scheduling_group.spec), scheduling_group.key
        )
        return family - {scheduling_group.key}

    def _leave_composite(self, key: str) -> set[str]:
        family = self._family(key)
        if (before := self._composites.get(key)) is not None:
            self._drop_child(before.parent, key)
        return family

    def _drop_child(self, parent: str, key: str) -> None:
        children = self._children.get(parent, set())
        children.discard(key)
        if not children:
            self._children.pop(parent, None)

    def _family(self, key: str) -> set[str]:
        """The keys of all leaves of the tree of a group."""
        above = self._lineage(key).groups
        return self._leaves(above[-1].key if above else key)

    def _leaves(self, key: str, seen: frozenset[str] = frozenset()) -> set[str]:
        if key in self.groups:
            return {key}
        if key in seen:
            return set()
        below = (self._leaves(child, seen | {key}) for child in self._children.get(key, ()))
        return set().union(*below)

    def _parent(self, key: str) -> str:
        if (group := self.groups.get(key)) is not None:
            return parent_key(key, group.spec)
        composite = self._composites.get(key)
        return composite.parent if composite is not None else ""

    def _lineage(self, key: str) -> _Lineage:
        found: list[CompositeGroup] = []
        above = self._parent(key)
        while above:
            one = self._composites.get(above)
            if one is None:
                return _Lineage(tuple(found), f"there is no CompositePodGroup {_name(above)}")
            if one in found or above == key:
                cycle = f"CompositePodGroup {_name(above)} is above itself"
                return _Lineage(tuple(found), cycle)
            found.append(one)
            above = one.parent
        deep = f"it is {len(found) + 1} groups deep; at most {MOST_DEPTH} are allowed"
        return _Lineage(tuple(found), deep if len(found) >= MOST_DEPTH else "")

    def _described(self, keys: Iterable[str]) -> list[PodGroup]:
        there = (self.groups[key] for key in sorted(keys) if key in self.groups)
        return [
            PodGroup(self._gang(one), PodGroupStatus(), one.uid, one.resource_version)
            for one in there
        ]

    def _gang(self, scheduling_group: SchedulingGroup) -> GangSpec:
        lineage = self._lineage(scheduling_group.key) if self.has_composites else _Lineage(())
        gang, above = scheduling_group.spec.scheduling_policy.gang, lineage.groups
        root = next((group for group in reversed(above) if group.gang), None)
        problem = self._problem(scheduling_group, lineage)
        quorum = self._quorum(root) if root is not None and not problem else None
        # A group without a minimum takes part in a gang once one of its pods can.
        minimum = gang.min_count if gang is not None else int(quorum is not None)
        return GangSpec(
            scheduling_group.key,
            minimum,
            minimum,
            GangMode.NON_STRICT,
            MatchPolicy.WAITING_AND_RUNNING,
            group=tuple(sorted(quorum.gangs)) if quorum is not None else (scheduling_group.key,),
            created=scheduling_group.created,
            source=GangSource.KUBERNETES,
            problem=problem,
            priority=scheduling_group.spec.priority,
            preempts=self._preempts(scheduling_group, above),
            disrupted_with=self._disrupted_with(scheduling_group, above),
            domains=self._domains(scheduling_group, above),
            quorum=quorum,
            claims=tuple(scheduling_group.spec.resource_claims or ()),
        )

    def _quorum(self, composite_group: CompositeGroup) -> Quorum:
        """Of a group whose children start by themselves, one is enough for the one above it."""
        children = tuple(
            self._quorum(self._composites[key]) if key in self._composites else key
            for key in sorted(self._children.get(composite_group.key, ()))
        )
        return Quorum(max(composite_group.gang, 1), children)

    def _preempts(self, scheduling_group: SchedulingGroup, above: Iterable[CompositeGroup]) -> bool:
        policies = (group.spec.preemption_policy for group in _upwards(scheduling_group, above))
        return scheduling_group.resource.version in _PREEMPTING_VERSIONS and "Never" not in policies

    def _disrupted_with(
        self, scheduling_group: SchedulingGroup, above: Iterable[CompositeGroup]
    ) -> tuple[str, ...]:
        groups = [
            group.key
            for group in _upwards(scheduling_group, above)
            if group.spec.is_disrupted_whole
        ]
        return tuple(sorted(self._leaves(groups[-1]))) if groups else ()

    def _domains(
        self, scheduling_group: SchedulingGroup, above: tuple[CompositeGroup, ...]
    ) -> tuple[DomainRule, ...]:
        return tuple(
            DomainRule(group.spec.label, tuple(sorted(self._leaves(group.key))))
            for group in reversed(_upwards(scheduling_group, above))
            if group.spec.label
        )

    def _problem(self, scheduling_group: SchedulingGroup, lineage: _Lineage) -> str:
        """Return why a group cannot be placed, in a line."""
        if problem := scheduling_group.spec.problem:
            return problem
        if scheduling_group.spec.resource_claims and not self.has_claims:
            return _NO_CLAIMS
        if scheduling_group.spec.parent_composite_pod_group_name and not self.has_composites:
            return _NO_COMPOSITES
        groups = _upwards(scheduling_group, lineage.groups)
        if any(group.spec.label for group in groups) and not self.has_domains:
            return _NO_TOPOLOGY
        above = next(filter(None, map(_composite_problem, lineage.groups)), "")
        return lineage.problem or above or (_differing(groups) if lineage.groups else "")


def _age(scheduling_group: SchedulingGroup) -> int:
    return SCHEDULING_GROUPS.index(scheduling_group.resource)


def _composite_problem(composite_group: CompositeGroup) -> str:
    problem = composite_group.spec.problem
    return f"CompositePodGroup {_name(composite_group.key)}: {problem}" if problem else ""


def _upwards(scheduling_group: SchedulingGroup, above: Iterable[CompositeGroup]) -> list[_AnyGroup]:
    """A leaf, and all that is above it."""
    return [scheduling_group, *above]


def _differing(groups: Sequence[_AnyGroup]) -> str:
    """Describe the disagreements of groups of one tree."""
    workloads = sorted({group.spec.workload for group in groups if group.spec.workload})
    if len(workloads) > 1:
        return f"its groups belong to the Workloads {' and '.join(workloads)}; expected one"
    given = {group.spec.priority for group in groups if group.spec.priority is not None}
    if len(given) > 1:
        priorities = " and ".join(map(str, sorted(given)))
        return f"its groups have the priorities {priorities}; expected one"
    return ""


def _name(key: str) -> str:
    return key.removesuffix(".scheduling.k8s.io")
