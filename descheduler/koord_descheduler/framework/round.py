"""One round: plugins ask for moves, and each is made on the virtual cluster or refused. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord_scheduler.state.arrays import Mask

from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.budgets import Budgets
from koord_descheduler.planner.cluster import ClusterModel, KnownPod
from koord_descheduler.planner.disruptions import Disruptions
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.planner.move import (
    DesiredAnnotations,
    Destination,
    Move,
    MoveRefusal,
    RoundPlan,
)
from koord_descheduler.planner.move_memory import MoveMemory
from koord_descheduler.planner.move_sets import with_sets
from koord_descheduler.planner.protection import protection
from koord_descheduler.planner.usage import Usages
from koord_descheduler.planner.virtual_cluster import (
    Accepts,
    MoveTarget,
    NoTarget,
    VirtualCluster,
    accept_all,
)
from koord_descheduler.plugin import DeschedulerPlugin

Arithmetic = Mapping[str, Any] | Callable[[KnownPod, str], Mapping[str, Any]]
"""Numbers, as plain data, that decided; those of a pod and its target, if they depend on it."""


@dataclass(frozen=True)
class RoundSettings:
    """Seconds of the rules that hold for all plugins.

    A pod stays for ``cool_down`` after it was scheduled. No pod of an owner goes back to a node
    that one left in the last ``memory``.
    """

    cool_down: float = 60.0
    memory: float = 1800.0


@dataclass(frozen=True)
class DeschedulerProfile:
    """Plugins of a profile by extension point, in order; ``selects`` its nodes."""

    name: str
    deschedule: Sequence[DeschedulerPlugin] = ()
    balance: Sequence[DeschedulerPlugin] = ()
    filters: Sequence[DeschedulerPlugin] = ()
    selects: Callable[[Mapping[str, str]], bool] = lambda labels: True


@dataclass
class DeschedulingRound:
    """State that the plugins of a round share; ``now`` is in seconds since the epoch."""

    cluster: ClusterModel
    budgets: Budgets
    memory: MoveMemory
    now: float
    settings: RoundSettings = field(default_factory=RoundSettings)
    under_way: Sequence[Move] = ()
    """Moves that have begun and not ended: their pods count where they go."""
    is_trial: bool = False
    """True: nothing follows from the round, and plugins do not count it."""

    def __post_init__(self) -> None:
        self.virtual = VirtualCluster(self.cluster, self.now)
        self.disruptions = Disruptions(self.cluster.scheduler.budgets)
        self.moves: list[Move] = []
        self.annotations: list[DesiredAnnotations] = []
        self.refusals: dict[str, MoveRefusal] = {}
        self.notes: dict[str, Any] = {}
        self._usages: dict[float, Usages] = {}
        self._carried: list[tuple[KnownPod, str]] = []
        self._moving = {move.pod.uid for move in self.under_way}

    def carry_on(self) -> None:
        """Count the pods of moves under way where they go; there first, whoever waits."""
        for move in self.under_way:
            pod = self.cluster.pods.get(move.pod.key)
            if pod is None or pod.view.uid != move.pod.uid or pod.view.node != move.source:
                continue
            self.virtual.take(pod)
            placed = bool(move.target) and self.virtual.put(pod, move.target)
            self._carried.append((pod, move.target if placed else ""))

    def usages(self, expires: float) -> Usages:
        """Usage of nodes whose NodeMetric is not older than ``expires`` seconds."""
        found = self._usages.get(expires)
        if found is None:
            found = self._usages[expires] = Usages(self.cluster, self.now, expires)
            chosen = [(self.cluster.pods[move.pod.key], move.target) for move in self.moves]
            for pod, target in (*self._carried, *chosen):
                found.move(pod, target)
        return found

    def moves_already(self, pod: ObservedPod) -> bool:
        """True if a move of the pod is under way, or chosen."""
        return pod.uid in self._moving

    def count(self, pod: KnownPod, move: Move) -> None:
        """A move is chosen; undone with the virtual cluster."""
        self.moves.append(move)
        self._moving.add(move.pod.uid)
        self.budgets.charge(move)
        self.disruptions.charge(move.pod)
        for usages in self._usages.values():
            usages.move(pod, move.target)
        self.virtual.on_undo(lambda: self._uncount(pod))

    def _uncount(self, pod: KnownPod) -> None:
        """Undo the last move that was counted."""
        move = self.moves.pop()
        for usages in self._usages.values():
            usages.move(pod, move.target, back=True)
        self._moving.discard(move.pod.uid)
        self.budgets.refund(move)
        self.disruptions.refund(move.pod)

    def plan(self) -> RoundPlan:
        """The plan; the cluster is as it was before. Pods that move are refused by nobody."""
        for move in self.moves:
            self.refusals.pop(move.pod.key, None)
        found = RoundPlan(
            self.now,
            with_sets(self.moves, self.now),
            tuple(self.refusals.values()),
            dict(self.notes),
            tuple(self.annotations),
        )
        self.virtual.undo()
        return found


class ProfileRound:
    """A round as a plugin of one profile sees it."""

    def __init__(self, shared: DeschedulingRound, profile: DeschedulerProfile) -> None:
        self._round = shared
        self._profile = profile
        self._plugin: DeschedulerPlugin | None = None
        self.now = shared.now
        self.nodes: Mapping[str, ObservedNode] = {
            name: node
            for name, node in sorted(shared.cluster.nodes.items())
            if node.is_ready and profile.selects(node.labels)
        }
        """The ready nodes of the profile, cordoned ones too, by name."""

    @property
    def cluster(self) -> ClusterModel:
        """The whole cluster as the API says."""
        return self._round.cluster

    @property
    def virtual(self) -> VirtualCluster:
        """The cluster with the moves that were chosen until now."""
        return self._round.virtual

    @property
    def moves(self) -> Sequence[Move]:
        """The moves that were chosen until now, by all plugins."""
        return self._round.moves

    @property
    def is_trial(self) -> bool:
        """True: nothing follows from the round, so a plugin that counts rounds leaves it out."""
        return self._round.is_trial

    @property
    def moving(self) -> Iterator[ObservedPod]:
        """The pods of these moves, and of those under way."""
        return (move.pod for move in (*self._round.under_way, *self._round.moves))

    def usages(self, expires: float) -> Usages:
        """Usage of nodes whose NodeMetric is not older than ``expires`` seconds."""
        return self._round.usages(expires)

    def pods_on(self, node: str) -> list[KnownPod]:
        """The pods of a node that have not moved in this round."""
        return self._round.virtual.pods_on(node)

    def note(self, about: str, value: Any) -> None:
        """Keep something for people to read with the plan."""
        self._round.notes[f"{self._profile.name}/{self._name}/{about}"] = value

    @property
    def _name(self) -> str:
        return self._plugin.name if self._plugin is not None else ""

    # ---- running plugins

    def deschedule(self, plugin: DeschedulerPlugin) -> None:
        """Let a plugin move pods that must not be where they are."""
        self._plugin = plugin
        plugin.deschedule(self)

    def balance(self, plugin: DeschedulerPlugin) -> None:
        """Let a plugin balance nodes."""
        self._plugin = plugin
        plugin.balance(self)

    # ---- what plugins ask for

    def may_move(self, pod: ObservedPod) -> bool:
        """True if nothing that costs little keeps a pod; a refusal is noted."""
        rule, why = self.obstacle(pod)
        return not rule or self.refuse(pod, rule, why)

    def obstacle(self, pod: ObservedPod) -> tuple[str, str]:
        """Return the rule that costs little and keeps a pod, and why; twice "" if none does."""
        if why := protection(pod):
            return "Protected", why
        if self._round.moves_already(pod):
            return "UnderWay", "it moves already"
        for plugin in self._profile.filters:
            if why := plugin.filter(pod, self):
                return plugin.name, why
        age = self.now - pod.scheduled
        if not pod.has_ended and age < self._round.settings.cool_down:
            return "CoolDown", f"it has its node for {age:.0f} s only"
        return "", ""

    def refuse(self, pod: ObservedPod, rule: str, why: str) -> bool:
        """Keep a pod where it is, by a ``rule``, for a reason in a line; always False."""
        refusal = MoveRefusal(pod, self._profile.name, self._name, rule, why)
        self._round.refusals[pod.key] = refusal
        return False

    def annotate(self, pod: ObservedPod, values: Mapping[str, str | None]) -> None:
        """Have annotations of a pod written; ``None`` for a value removes one."""
        desired = DesiredAnnotations(pod, values, self._profile.name, self._name)
        self._round.annotations.append(desired)
        self.virtual.on_undo(self._round.annotations.pop)

    def move(
        self,
        pod: KnownPod,
        reason: str,
        *,
        destination: Destination = Destination.ELSEWHERE,
        among: Mask | None = None,
        accepts: Accepts = accept_all,
        arithmetic: Arithmetic | None = None,
    ) -> bool:
        """Move a pod, for a ``reason`` in a line; False if it may not, which is noted.

        ``among`` and ``accepts`` limit its targets, as ``VirtualCluster.place``. The pods that
        lose their nodes together with it move too, or none of them. ``arithmetic`` is asked
        for each of them before its move counts.
        """
        view = pod.view
        if not self.may_move(view):
            return False
        mark = self.virtual.mark()
        gang = gang_group(self.cluster, view.key)
        for other in gang.others:
            rule, why = self.obstacle(other.view)
            if rule:
                return self.refuse(view, rule, f"{other.view.key} of its gang stays: {why}")
        pods = (pod, *gang.others)
        for member in pods:
            self.virtual.take(member)
        for member in pods:
            refusal = self._move_one(
                member, reason, destination, among, accepts, arithmetic or {}, gang.group_id
            )
            if refusal:
                self.virtual.undo(mark)
                rule, why = refusal
                prefix = f"{member.view.key} of its gang stays: " if member is not pod else ""
                return self.refuse(view, rule, prefix + why)
        self._round.refusals.pop(view.key, None)
        return True

    def move_set(
        self,
        moves: Sequence[tuple[KnownPod, str]],
        reason: str,
        group: str,
        *,
        arithmetic: Arithmetic | None = None,
    ) -> ObservedPod | None:
        """Move pods to the nodes that a plugin chose, in this order, all of them or none.

        Returns the pod that may not, which is noted. The moves are one ``group``.
        """
        mark = self.virtual.mark()
        for pod, node in moves:
            rule, why = self.obstacle(pod.view)
            if not rule and gang_group(self.cluster, pod.view.key).group_id:
                rule, why = "Gang", "the pods of its gang would have to move with it"
            if not rule:
                self.virtual.take(pod)
                if self.virtual.is_less_preferred(pod, node):
                    rule, why = "Preference", f"{node} meets less of what it prefers itself"
            if not rule:
                among, anywhere = self.virtual.rows([node]), Destination.ANYWHERE
                numbers = arithmetic or {}
                refusal = self._move_one(
                    pod, reason, anywhere, among, accept_all, numbers, group, is_pinned=True
                )
                rule, why = refusal or ("", "")
            if rule:
                self.virtual.undo(mark)
                self.refuse(pod.view, rule, why)
                return pod.view
            self._round.refusals.pop(pod.view.key, None)
        return None

    def _move_one(
        self,
        pod: KnownPod,
        reason: str,
        destination: Destination,
        among: Mask | None,
        accepts: Accepts,
        arithmetic: Arithmetic,
        group: str,
        *,
        is_pinned: bool = False,
    ) -> tuple[str, str] | None:
        view = pod.view
        for plugin in self._profile.filters:
            if why := plugin.pre_eviction_filter(view, self):
                return plugin.name, why
        if why := self._round.disruptions.refusal(view):
            return "DisruptionBudget", why
        names = self._profile.name, self._name
        move = Move(view, "", *names, reason, group, is_pinned=is_pinned)
        if why := self._round.budgets.refusal(move):
            return "Budget", why
        if destination is not Destination.NOWHERE and not view.has_ended:
            place = self._place(pod, destination, among, accepts)
            if isinstance(place, NoTarget):
                return place
            scores = {"score": round(place.score, 3)}
            if place.source_score is not None:
                scores["sourceScore"] = round(place.source_score, 3)
            move = move._replace(target=place.node, arithmetic=scores)
            if why := self._round.budgets.refusal(move):
                return "Budget", why
        numbers = arithmetic(pod, move.target) if callable(arithmetic) else arithmetic
        move = move._replace(arithmetic={**numbers, **move.arithmetic})
        self._round.count(pod, move)
        return None

    def _place(
        self, pod: KnownPod, destination: Destination, among: Mask | None, accepts: Accepts
    ) -> MoveTarget | NoTarget:
        memory, owner, now = self._round.memory, pod.view.owner, self.now

        def remembered(node: str) -> str:
            ago = memory.left(owner, node, now) if owner else None
            if ago is not None:
                return f"a pod of its owner left it {ago:.0f} s ago"
            return accepts(node)

        may_stay = destination is Destination.ANYWHERE
        return self.virtual.place(pod, among=among, accepts=remembered, may_stay=may_stay)


def run_round(shared: DeschedulingRound, profiles: Sequence[DeschedulerProfile]) -> RoundPlan:
    """Let all profiles deschedule, then all balance; a plugin that fails costs only its own moves.

    Pods that wait get what they would get first: moves do not spend their room.
    """
    try:
        shared.carry_on()
        shared.virtual.let_pending_in()
        rounds = [ProfileRound(shared, profile) for profile in profiles]
        for profile_round, profile in zip(rounds, profiles, strict=True):
            for plugin in profile.deschedule:
                _guarded(shared, plugin, profile_round.deschedule)
        for profile_round, profile in zip(rounds, profiles, strict=True):
            for plugin in profile.balance:
                _guarded(shared, plugin, profile_round.balance)
        return shared.plan()
    finally:
        shared.virtual.undo()


def _guarded(
    shared: DeschedulingRound, plugin: DeschedulerPlugin, run: Callable[[DeschedulerPlugin], None]
) -> None:
    mark, before = shared.virtual.mark(), len(shared.moves)
    try:
        run(plugin)
    except Exception as error:  # a plugin's, which is to cost the others nothing
        shared.virtual.undo(mark)
        shared.notes[f"{plugin.name}/defect"] = f"{type(error).__name__}: {error}"
    if plugin.dry_run:
        shared.notes[f"{plugin.name}/dryRun"] = [
            f"{move.pod.key} from {move.source} to {move.target or 'nowhere'}: {move.reason}"
            for move in shared.moves[before:]
        ]
        shared.virtual.undo(mark)
