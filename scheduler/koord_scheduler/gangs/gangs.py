"""The gangs of the cluster, and how far their members are. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from koord_scheduler.gangs.gang_spec import GangDefaults, GangSpec, MatchPolicy
from koord_scheduler.gangs.hierarchy import Hierarchy
from koord_scheduler.gangs.match import MemberCounts, is_satisfied
from koord_scheduler.gangs.member import GangMember, Release
from koord_scheduler.gangs.pod_group import PodGroup
from koord_scheduler.gangs.quorum import Quorum
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState

REPORT_AGAIN_SECONDS = 60.0
"""Interval of repeated reports on a gang without nodes."""
NOTHING_PLACED: Mapping[str, int] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class Gang:
    """A gang by its ``key``, namespace/name, with its ``members`` by the keys of their pods.

    ``assumed`` are those that are about to be bound, ``bound`` those that are, with their uids.
    ``described`` is what its first pod says of it, which counts unless there is a ``pod_group``.
    ``unit`` is the group with which its waiting members are placed, "" if each goes by itself.
    ``priorities`` counts those of its members. ``refusal`` says why it got no nodes when it was
    tried last, in monotonic seconds ``refused_at`` then.
    """

    key: str
    pod_group: PodGroup | None = None
    described: GangSpec | None = None
    members: dict[str, GangMember] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    unit: str = ""
    priorities: Counter[int] = field(default_factory=Counter)
    refusal: str = ""
    refused_at: float = 0.0

    @property
    def spec(self) -> GangSpec | None:
        """Its specification; ``None``: there is none yet."""
        return self.described if self.pod_group is None else self.pod_group.spec

    @property
    def group_id(self) -> str:
        """The name of its group; its own key as long as nobody says."""
        return self.key if self.spec is None else self.spec.group_id

    @property
    def problem(self) -> str:
        """Reason why it cannot be placed as it is described, "" if it can."""
        spec = self.spec
        if spec is None or spec.problem or spec.priority is None:
            return "" if spec is None else spec.problem
        other = next((priority for priority in self.priorities if priority != spec.priority), None)
        if other is None:
            return ""
        rule = "all pods in a single pod group should match the priority of the pod group"
        return f"{rule}, got: {other} and {spec.priority}"

    def waiting(self) -> list[str]:
        """The keys of the pods that have no node."""
        return [
            member
            for member in self.members
            if member not in self.assumed and member not in self.bound
        ]


@dataclass(eq=False, slots=True)
class GangGroup:
    """State of a group: if members of it ever were bound, and its last release.

    ``released`` are the uids of those members of the release that are bound. As long as these are
    fewer than it had, it goes on.
    """

    was_satisfied: bool = False
    release: Release | None = None
    released: set[str] = field(default_factory=set)

    @property
    def is_incomplete(self) -> bool:
        """True if not all members of the last release are bound yet, or ever will be."""
        return self.release is not None and len(self.released) < self.release.size


class Gangs(FeatureState):
    """Gangs by key, groups by id; ``plugin`` is the name of the first plugin that uses them.

    It ``reads_pod_groups`` and annotations of Koordinator, ``reads_scheduling_groups`` of
    Kubernetes; that is decided before there are pods. ``gathers``: gangs may ask for nodes that
    are near each other in the network.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.plugin = ""
        self.on_described: Callable[[Gang | None], None] = lambda gang: None
        """Called with a gang whose PodGroup came, changed, or went."""
        self.reads_pod_groups = False
        self.reads_scheduling_groups = False
        self.gathers = False
        self.hierarchy = Hierarchy(nodes.gates)
        self.defaults = GangDefaults()
        self.touched: set[str] = set()
        """The keys of gangs that changed since somebody looked, and took them out."""
        self._gangs: dict[str, Gang] = {}
        self._gang_of: dict[str, Gang] = {}
        self._groups: dict[str, GangGroup] = {}
        self._disrupted_whole: set[str] = set()
        self.by_key: Mapping[str, Gang] = MappingProxyType(self._gangs)

    def _warn(self, kind: str, spec: GangSpec) -> None:
        for line in spec.ignored:
            self.warn(f"{kind} {spec.key}: {line} (ignored)")

    def gang_of(self, pod: str) -> Gang | None:
        """The gang of a pod."""
        return self._gang_of.get(pod)

    def member(self, pod: str) -> GangMember | None:
        """Return a pod's description of its membership."""
        gang = self._gang_of.get(pod)
        return gang.members.get(pod) if gang is not None else None

    def group(self, group_id: str) -> GangGroup:
        """Return the state of a group."""
        return self._groups.get(group_id) or GangGroup()

    def set_pod_group(self, pod_group: PodGroup) -> None:
        """A PodGroup is there, or has changed."""
        gang = self._gang(pod_group.spec.key)
        self.touched.add(gang.key)
        known = gang.pod_group.spec.ignored if gang.pod_group is not None else ()
        if pod_group.spec.ignored != known:
            self._warn("PodGroup", pod_group.spec)
        before, gang.pod_group = gang.group_id, pod_group
        (set.add if pod_group.spec.disrupted_with else set.discard)(self._disrupted_whole, gang.key)
        self._note_members(gang, before)
        self.on_described(gang)

    def remove_pod_group(self, key: str) -> None:
        """A PodGroup is gone; its pods stay."""
        gang = self._gangs.get(key)
        if gang is not None:
            before, gang.pod_group = gang.group_id, None
            self._disrupted_whole.discard(key)
            self._note_members(gang, before)
            self._drop_if_empty(gang)
        self.on_described(gang)

    def set_member(self, pod: str, uid: str, member: GangMember, *, is_bound: bool) -> None:
        """A pod is a member of a gang."""
        before = self._gang_of.get(pod)
        if before is not None and before.key != member.gang:
            self.remove_member(pod)
        gang = self._gang_of[pod] = self._gang(member.gang)
        self._count_priority(gang, pod, -1)
        gang.members[pod] = member
        self._count_priority(gang, pod, 1)
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
        self._count_priority(gang, pod, -1)
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

    def refuse(self, group_id: str, message: str, now: float) -> None:
        """A group got no nodes; counts in the message change always, which is reported at times."""
        for _, gang in self.of_group(group_id):
            if gang is None or gang.refusal == message:
                continue
            if not gang.refusal or now - gang.refused_at >= REPORT_AGAIN_SECONDS:
                gang.refusal, gang.refused_at = message, now
                self.touched.add(gang.key)

    def begin_release(self, release: Release) -> None:
        """Members of a group are bound together from now on."""
        for _, gang in self.of_group(release.group_id):
            if gang is not None:
                gang.refusal = ""
                self.touched.add(gang.key)
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

    def lacking(self, group_id: str, placed: Mapping[str, int] = NOTHING_PLACED) -> list[str]:
        """Those of the unsatisfied ones for which the group cannot start."""
        found = self.unsatisfied(group_id, placed)
        started = set(group_id.split(",")).difference(found)
        return [] if not found or self.is_enough(group_id, started) else found

    def is_enough(self, group_id: str, satisfied: Collection[str]) -> bool:
        """True if a group may start if only these of its gangs can."""
        quorum = self.quorum(group_id)
        return quorum.is_met(satisfied) if quorum else len(satisfied) == len(group_id.split(","))

    def quorum(self, group_id: str) -> Quorum | None:
        """Number of gangs of a group that have to start together; ``None``: all."""
        specs = (gang.spec for _, gang in self.of_group(group_id) if gang is not None)
        return next((spec.quorum for spec in specs if spec is not None and spec.quorum), None)

    def needed(self, group_id: str) -> dict[str, int]:
        """Fewest more members of each gang of a group that have to get nodes together.

        Where some gangs are enough, those count that have their pods and need the fewest.
        """
        group, gangs = self.group(group_id), self.of_group(group_id)
        found = {key: _needed(gang, group) for key, gang in gangs if gang is not None}
        quorum = self.quorum(group_id)
        if quorum is None:
            return found
        ready = {key: one for key, one in found.items() if self._has_pods(key, one)}
        chosen = quorum.cheapest(ready)[1]
        if not any(found[key] for key in chosen):  # enough have started: one more may
            waiting = {key: one for key, one in ready.items() if one}
            chosen = (min(waiting, key=lambda key: (waiting[key], key)),) if waiting else ()
        return {key: one if key in chosen else 0 for key, one in found.items()}

    def preempts(self, group_id: str) -> bool:
        """True if a group may replace pods with a lower priority."""
        specs = [gang.spec for _, gang in self.of_group(group_id) if gang is not None]
        given = [spec.preempts for spec in specs if spec is not None and spec.preempts is not None]
        return all(given) if given else self.defaults.preempts

    @property
    def disrupts_together(self) -> bool:
        """True if there are gangs that lose all their pods or none."""
        return bool(self._disrupted_whole)

    def disrupted_together(self) -> Iterable[list[str]]:
        """The keys of the pods of those gangs that do."""
        specs = (self._gangs[key].spec for key in self._disrupted_whole)
        for keys in {spec.disrupted_with for spec in specs if spec is not None}:
            there = (one for key in keys if (one := self._gangs.get(key)) is not None)
            yield [pod for one in there for pod in one.members]

    def disrupted_with(self, pod: str) -> Iterable[str]:
        """The keys of the other pods that lose their nodes with a pod, or that none does."""
        gang = self._gang_of.get(pod)
        spec = gang.spec if gang is not None else None
        for key in spec.disrupted_with if spec is not None else ():
            one = self._gangs.get(key)
            members = one.members if one is not None else ()
            yield from (other for other in members if other != pod)

    def wait_seconds(self, group_id: str) -> float:
        """Return the seconds for which nodes may be reserved for a group."""
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
        found = self.unsatisfied(gang.group_id, {gang.key: 1})
        started = set(gang.group_id.split(",")).difference(found)
        is_alone = gang.key in started and self.is_enough(gang.group_id, started)
        return "" if is_alone and not self._is_gathered(gang) else gang.group_id

    def _has_pods(self, key: str, number: int) -> bool:
        gang = self._gangs.get(key)
        return gang is not None and not gang.problem and len(gang.waiting()) >= number

    def _count_priority(self, gang: Gang, pod: str, number: int) -> None:
        member = gang.members.get(pod)
        if member is not None:
            gang.priorities[member.priority] += number
            if not gang.priorities[member.priority]:
                del gang.priorities[member.priority]

    def _is_gathered(self, gang: Gang) -> bool:
        """True if all members of a gang have to be near each other, later ones included."""
        specs = (one.spec for _, one in self.of_group(gang.group_id) if one is not None)
        return any(
            spec.domains or (self.gathers and spec.gather_spec)
            for spec in specs
            if spec is not None
        )

    def _gang(self, key: str) -> Gang:
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, unit=key)
        return gang

    def _note_members(self, gang: Gang, group_id: str) -> None:
        """A gang belongs to another group than before."""
        if gang.group_id == group_id:
            return
        if not any(one and one.group_id == group_id for _, one in self.of_group(group_id)):
            self._groups.pop(group_id, None)
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
    if spec is None or gang.problem:
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
    """Count the members of each gang among these pods."""
    counts: dict[str, int] = {}
    for pod in pods:
        gang = gangs.gang_of(pod)
        if gang is not None:
            counts[gang.key] = counts.get(gang.key, 0) + 1
    return counts
