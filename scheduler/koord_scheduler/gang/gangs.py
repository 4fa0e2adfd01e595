"""The gangs of the cluster, and how far their members are. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from koord_scheduler.gang.gang_spec import GangDefaults, GangSpec, MatchPolicy
from koord_scheduler.gang.match import MemberCounts, is_satisfied
from koord_scheduler.gang.member import GangMember, Release
from koord_scheduler.gang.pod_group import PodGroup

NOTHING_PLACED: Mapping[str, int] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class Gang:
    """A gang by its ``key``, namespace/name, with its ``members`` by the keys of their pods.

    ``assumed`` are those that are about to be bound, ``bound`` those that are, with their uids.
    ``described`` is what its first pod says of it, which counts unless there is a ``pod_group``.
    ``unit`` is the group with which its waiting members are placed, "" if each goes by itself.
    """

    key: str
    pod_group: PodGroup | None = None
    described: GangSpec | None = None
    members: dict[str, GangMember] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    unit: str = ""

    @property
    def spec(self) -> GangSpec | None:
        """What it asks for; ``None``: nobody says so yet."""
        return self.described if self.pod_group is None else self.pod_group.spec

    @property
    def group_id(self) -> str:
        """The name of its group; its own key as long as nobody says."""
        return self.key if self.spec is None else self.spec.group_id

    def waiting(self) -> list[str]:
        """The keys of the pods that have no node."""
        return [one for one in self.members if one not in self.assumed and one not in self.bound]


@dataclass(eq=False, slots=True)
class GangGroup:
    """What is known of a group: whether members of it ever were bound, and its last release.

    ``released`` are the uids of those members of the release that are bound. As long as these are
    fewer than it had, it goes on.
    """

    was_satisfied: bool = False
    release: Release | None = None
    released: set[str] = field(default_factory=set)

    @property
    def is_incomplete(self) -> bool:
        """Whether not all members of the last release are bound yet, or ever will be."""
        return self.release is not None and len(self.released) < self.release.size


class Gangs:
    """Gangs by key, groups by id. Unless it ``is_used``, nothing is known of them.

    It ``reads_pod_groups`` and annotations of Koordinator, ``reads_scheduling_groups`` of
    Kubernetes; that is decided before there are pods. ``gathers``: gangs may ask for nodes that
    are near each other in the network.
    """

    def __init__(self) -> None:
        self.is_used = False
        self.reads_pod_groups = False
        self.reads_scheduling_groups = False
        self.gathers = False
        self.defaults = GangDefaults()
        self.touched: set[str] = set()
        """The keys of gangs that changed since somebody looked, and took them out."""
        self._gangs: dict[str, Gang] = {}
        self._gang_of: dict[str, Gang] = {}
        self._groups: dict[str, GangGroup] = {}
        self._warnings: list[str] = []
        self.by_key: Mapping[str, Gang] = MappingProxyType(self._gangs)

    def take_warnings(self) -> list[str]:
        """Lines about what gangs say that is not valid, each once."""
        found, self._warnings = self._warnings, []
        return found

    def _warn(self, kind: str, spec: GangSpec) -> None:
        self._warnings += (f"{kind} {spec.key}: {line} (ignored)" for line in spec.ignored)

    def gang_of(self, pod: str) -> Gang | None:
        """The gang of a pod."""
        return self._gang_of.get(pod)

    def member(self, pod: str) -> GangMember | None:
        """What a pod says of its membership."""
        gang = self._gang_of.get(pod)
        return gang.members.get(pod) if gang is not None else None

    def group(self, group_id: str) -> GangGroup:
        """What is known of a group."""
        return self._groups.get(group_id) or GangGroup()

    def set_pod_group(self, one: PodGroup) -> Gang:
        """A PodGroup is there, or has changed."""
        gang = self._gang(one.spec.key)
        self.touched.add(gang.key)
        known = gang.pod_group.spec.ignored if gang.pod_group is not None else ()
        if one.spec.ignored != known:
            self._warn("PodGroup", one.spec)
        before, gang.pod_group = gang.group_id, one
        self._note_members(gang, before)
        return gang

    def remove_pod_group(self, key: str) -> Gang | None:
        """A PodGroup is gone; its pods stay."""
        gang = self._gangs.get(key)
        if gang is not None:
            before, gang.pod_group = gang.group_id, None
            self._note_members(gang, before)
            self._drop_if_empty(gang)
        return gang

    def set_member(self, pod: str, uid: str, member: GangMember, *, is_bound: bool) -> None:
        """A pod is a member of a gang."""
        before = self._gang_of.get(pod)
        if before is not None and before.key != member.gang:
            self.remove_member(pod)
        gang = self._gang_of[pod] = self._gang(member.gang)
        gang.members[pod] = member
        self.touched.add(gang.key)
        if gang.described is None and member.spec is not None:
            group_id, gang.described = gang.group_id, member.spec
            self._warn("gang", member.spec)
            self._note_members(gang, group_id)
        if not is_bound:
            gang.bound.pop(pod, None)
            return
        gang.assumed.discard(pod)
        gang.bound[pod] = uid
        self._note_bound(gang, uid, member.release)

    def remove_member(self, pod: str) -> Gang | None:
        """A pod is gone; returns the gang that it was in."""
        gang = self._gang_of.pop(pod, None)
        if gang is None:
            return None
        del gang.members[pod]
        self.touched.add(gang.key)
        gang.assumed.discard(pod)
        gang.bound.pop(pod, None)
        self._drop_if_empty(gang)
        return gang

    def assume(self, pod: str) -> None:
        """A member is to get a node."""
        if (gang := self._gang_of.get(pod)) is not None:
            gang.assumed.add(pod)

    def forget(self, pod: str) -> None:
        """A member did not get it."""
        if (gang := self._gang_of.get(pod)) is not None:
            gang.assumed.discard(pod)

    def begin_release(self, release: Release) -> None:
        """Members of a group are bound together from now on."""
        group = self._groups.setdefault(release.group_id, GangGroup())
        group.release, group.released = release, set()

    def of_group(self, group_id: str) -> list[tuple[str, Gang | None]]:
        """The gangs of a group, by key; ``None`` where there is none yet."""
        return [(key, self._gangs.get(key)) for key in group_id.split(",")]

    def unsatisfied(self, group_id: str, placed: Mapping[str, int] = NOTHING_PLACED) -> list[str]:
        """The keys of the gangs of a group that have too few members for binding.

        ``placed`` counts the members that get a node beside those that are known to, by gang.
        """
        group = self.group(group_id)
        return [
            key
            for key, gang in self.of_group(group_id)
            if gang is None or not _is_satisfied(gang, group, placed.get(key, 0))
        ]

    def needed(self, group_id: str) -> dict[str, int]:
        """How many more members of each gang of a group have to get nodes together, at least."""
        group, gangs = self.group(group_id), self.of_group(group_id)
        return {key: _needed(gang, group) for key, gang in gangs if gang is not None}

    def wait_seconds(self, group_id: str) -> float:
        """For how long room may be held for a group."""
        specs = (gang.spec for _, gang in self.of_group(group_id) if gang is not None)
        return max((spec.wait_seconds for spec in specs if spec is not None), default=0.0)

    def refresh(self, gang: Gang) -> list[Gang]:
        """Say again how the waiting members of a gang's group are placed; returns what changed."""
        changed = []
        for _, one in self.of_group(gang.group_id) if gang.key in self._gangs else ():
            if one is None or len(one.members) == len(one.assumed) + len(one.bound):
                continue
            unit = self._unit(one)
            if unit != one.unit:
                one.unit = unit
                changed.append(one)
        return changed

    def _unit(self, gang: Gang) -> str:
        is_whole = self._is_gathered(gang) or self.unsatisfied(gang.group_id, {gang.key: 1})
        return gang.group_id if is_whole else ""

    def _is_gathered(self, gang: Gang) -> bool:
        """Whether all members of a gang have to be near each other, later ones included."""
        specs = (one.spec for _, one in self.of_group(gang.group_id) if one is not None)
        return self.gathers and any(spec.network_topology for spec in specs if spec is not None)

    def _gang(self, key: str) -> Gang:
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, unit=key)
        return gang

    def _note_members(self, gang: Gang, group_id: str) -> None:
        """A gang belongs to another group than before."""
        if gang.group_id != group_id:
            for pod, uid in gang.bound.items():
                self._note_bound(gang, uid, gang.members[pod].release)

    def _note_bound(self, gang: Gang, uid: str, release: Release | None) -> None:
        group = self._groups.setdefault(gang.group_id, GangGroup())
        group.was_satisfied = True
        if release is not None and release.group_id == gang.group_id:
            if group.release is None:
                group.release = release
            group.released.add(uid)

    def _drop_if_empty(self, gang: Gang) -> None:
        if gang.members:
            return
        group_id, gang.described = gang.group_id, None
        if gang.pod_group is None:
            del self._gangs[gang.key]
            self.touched.discard(gang.key)
            if not any(one for _, one in self.of_group(group_id)):
                self._groups.pop(group_id, None)


def _counts(gang: Gang, group: GangGroup, policy: MatchPolicy, placed: int = 0) -> MemberCounts:
    waiting, bound = len(gang.assumed) + placed, len(gang.bound)
    if policy is MatchPolicy.ONLY_WAITING and group.is_incomplete:
        waiting += bound  # they belong to the same release, as what waits does
    return MemberCounts(waiting, bound)


def _is_satisfied(gang: Gang, group: GangGroup, placed: int) -> bool:
    spec = gang.spec
    if spec is None or spec.problem:
        return False
    policy = spec.match_policy
    counts = _counts(gang, group, policy, placed)
    return is_satisfied(policy, spec.min_member, counts, was_satisfied=group.was_satisfied)


def _needed(gang: Gang, group: GangGroup) -> int:
    spec = gang.spec
    if spec is None or _is_satisfied(gang, group, 0):
        return 0
    counts = _counts(gang, group, spec.match_policy)
    counts_bound = spec.match_policy is MatchPolicy.WAITING_AND_RUNNING
    return spec.min_member - counts.waiting - (counts.bound if counts_bound else 0)


def count_by_gang(gangs: Gangs, pods: Iterable[str]) -> dict[str, int]:
    """How many of these pods are members of each gang."""
    counts: dict[str, int] = {}
    for pod in pods:
        gang = gangs.gang_of(pod)
        if gang is not None:
            counts[gang.key] = counts.get(gang.key, 0) + 1
    return counts
