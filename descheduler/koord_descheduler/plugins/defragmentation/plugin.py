"""Defragmentation: pods move so that a job that waits has room, or nodes are empty. No IO.

The search (``search.py``) knows amounts, cards and disruption budgets, and proposes one step after
the other. Each is proved at once on the virtual cluster, by the scheduler's own rules: its moves,
then the pods that wait on the nodes that they got. A step that fails is undone, and another one is
tried. A job that cannot start in the end moves nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_NEEDS
from koord_scheduler.plugins.node_numa_resource.policies import NUMATopologyPolicy
from koord_scheduler.state.arrays import Mask

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.defragmentation.args import (
    DefragmentationArgs,
    DefragmentationTarget,
)
from koord_descheduler.plugins.defragmentation.goals import EmptyNodes, FreeSlots, slots_on
from koord_descheduler.plugins.defragmentation.numa_goal import NUMASlots
from koord_descheduler.plugins.defragmentation.numa_zones import node_zones
from koord_descheduler.plugins.defragmentation.packed_cluster import PackedCluster
from koord_descheduler.plugins.defragmentation.packing import PackedNeeds
from koord_descheduler.plugins.defragmentation.search import SearchLimits, Verdict, search
from koord_descheduler.plugins.defragmentation.steps import SearchStep

_LONGEST_HOURS = 10.0
_HOUR = 3600.0
_MOST_DOMAINS = 4
"""Domains in which a gang is planned for that has to be in one."""


class Defragmentation(DeschedulerPlugin):
    """Frees whole nodes, cards and other room for what waits, or empties nodes."""

    name: ClassVar[str] = "Defragmentation"
    Args: ClassVar[type[DefragmentationArgs]] = DefragmentationArgs

    def __init__(self, args: DefragmentationArgs) -> None:
        self._args = args

    def balance(self, cluster: ProfileRound) -> None:
        args, before = self._args, len(cluster.moves)
        left = args.max_moves
        if DefragmentationTarget.WAITING_PODS in args.targets:
            for job in self._jobs(cluster)[: args.max_jobs]:
                if left > 0:
                    _plan(cluster, args, job, left)
                    left = args.max_moves - (len(cluster.moves) - before)
        if DefragmentationTarget.EMPTY_NODES in args.targets and left > 0:
            _empty_nodes(cluster, args, left)

    def _jobs(self, cluster: ProfileRound) -> list[list[QueuedPod]]:
        """Gangs and pods that wait long enough, in the order of their turns."""
        rules = self._args.waiting
        jobs: dict[str, list[QueuedPod]] = defaultdict(list)
        for pod in cluster.virtual.waiting():
            is_old = cluster.now - pod.waiting.created >= rules.min_seconds
            namespace = pod.key.partition("/")[0]
            is_named = not rules.namespaces or namespace in rules.namespaces
            if is_old and is_named and pod.priority >= rules.min_priority:
                jobs[pod.gang or pod.key].append(pod)
        return [_starting(cluster, pods) for pods in jobs.values()]


def _starting(cluster: ProfileRound, pods: list[QueuedPod]) -> list[QueuedPod]:
    """As many pods of a job as have to start together, the first ones."""
    gangs = cluster.cluster.scheduler.nodes.find(Gangs)
    if not pods[0].gang or gangs is None:
        return pods
    left, found = gangs.needed(pods[0].gang), []
    for pod in pods:
        gang = gangs.gang_of(pod.key)
        if gang is not None and left.get(gang.key, 0) > 0:
            left[gang.key] -= 1
            found.append(pod)
    return found


def _plan(
    cluster: ProfileRound, args: DefragmentationArgs, job: Sequence[QueuedPod], left: int
) -> None:
    """Plan for a job; where it has to be in one domain, in one after the other."""
    virtual = cluster.virtual
    obstacle = virtual.gang_obstacle(job[0]) if job[0].gang else ""
    if job[0].gang and not obstacle:
        return
    domains = virtual.gang_domains(job[0]) if job[0].gang else None
    if domains is None:
        _JobPlan(cluster, args, job, left).make()
        return
    cluster.note(job[0].gang, {"why": obstacle})  # if none is large enough
    for among in _best_domains(PackedCluster(cluster, args.costs), job, domains):
        if _JobPlan(cluster, args, job, left, among).make():
            return


def _best_domains(
    packed: PackedCluster, job: Sequence[QueuedPod], domains: Iterable[Mask]
) -> list[Mask]:
    """Domains that are large enough for a job, those first where most of it has room now."""
    packing, needs = packed.packing, packed.needs_of(job[0])
    free = slots_on(needs, packing.free, packing.free_cards)
    most = slots_on(needs, packing.total, packing.total_cards)
    may = packing.places[needs.places]
    found = [
        (float(free[nodes].sum()), among)
        for among in domains
        if most[nodes := may & among[packed.rows]].sum() >= len(job)
    ]
    found.sort(key=lambda domain: -domain[0])
    return [among for _, among in found[:_MOST_DOMAINS]]


@dataclass
class _JobPlan:
    """Moves for one job, a pod, or those of a gang that start together; ``among`` these rows."""

    cluster: ProfileRound
    args: DefragmentationArgs
    job: Sequence[QueuedPod]
    left: int
    among: Mask | None = None
    places: list[tuple[QueuedPod, str]] = field(default_factory=list)
    """The nodes that pods of the job got until now."""
    cost: float = 0.0

    def __post_init__(self) -> None:
        first = self.job[0]
        self.name = first.gang or first.key
        self.packed = PackedCluster(self.cluster, self.args.costs, self.among)

    def make(self) -> bool:
        """Move pods until the job can start, or none; False if it cannot."""
        virtual, before = self.cluster.virtual, len(self.cluster.moves)
        mark = virtual.mark()
        why = self._search() or self._start()
        if why:
            virtual.undo(mark)
            stays = dict(self.packed.stays)
            self.cluster.note(self.name, {"why": why, **({"stays": stays} if stays else {})})
            return False
        made = len(self.cluster.moves) - before
        nodes = {pod.key: node for pod, node in self.places}
        note = {"pods": len(self.job), "moves": made, "cost": round(self.cost, 3), "nodes": nodes}
        self.cluster.note(self.name, note)
        return True

    def _search(self) -> str:
        """Make room for all pods of the job; returns why there is none."""
        for needs, goal, pods in self._kinds():
            for pod in self._without_moves(goal, pods):
                pods.remove(pod)
            if pods:
                self._make_room(needs, goal, pods)
            missing = len(self.job) - len(self.places)
            if pods:
                return f"at most {self.left} moves make no room for {missing} of {len(self.job)}"
        return ""

    def _kinds(self) -> Iterator[tuple[PackedNeeds, FreeSlots, list[QueuedPod]]]:
        """Pods of the job by their needs, the hardest first."""
        kinds: dict[tuple[PackedNeeds, bool], list[QueuedPod]] = defaultdict(list)
        for pod in self.job:
            policy = pod.waiting.pod_class.of(NUMA_NEEDS).topology_policy
            is_aligned = policy is NUMATopologyPolicy.SINGLE_NUMA_NODE
            kinds[self.packed.needs_of(pod), is_aligned].append(pod)
        state = self.cluster.cluster.scheduler.nodes
        for needs, is_aligned in sorted(kinds, key=lambda kind: self._order(kind[0])):
            zones = node_zones(state, self.packed, is_aligned=is_aligned)
            yield needs, NUMASlots(needs, zones), kinds[needs, is_aligned]

    def _order(self, needs: PackedNeeds) -> tuple[float, float]:
        return -needs.gpu, -self._size(needs)

    def _without_moves(self, goal: FreeSlots, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        packing = self.packed.packing
        found: list[QueuedPod] = []
        for node in range(len(self.packed.names)):
            for _ in range(goal.units_on(packing, node)):
                if len(found) == len(pods):
                    return found
                if not self._let_in(pods[len(found) : len(found) + 1], node):
                    break
                goal.take(packing, node, 1)
                found.append(pods[len(found)])
        return found

    def _make_room(self, needs: PackedNeeds, goal: FreeSlots, pods: list[QueuedPod]) -> None:
        moved = sum(move.group == self._group for move in self.cluster.moves)
        goal.weight = value = self._size(needs) * (1.0 + self.args.wait_hour * self._hours)
        limits = SearchLimits(self.left - moved, len(pods), self.args.min_value, self.args.effort)

        def judge(step: SearchStep) -> Verdict:
            verdict = self._prove(step, pods[: step.units], value * step.units)
            if verdict is None:
                del pods[: step.units]
                self.cost += step.cost
            return verdict

        search(self.packed.packing, goal, limits, judge)

    def _prove(self, step: SearchStep, pods: Sequence[QueuedPod], value: float) -> Verdict:
        """Make the moves of a step, and try the pods that it is for; undo all if one fails."""
        virtual = self.cluster.virtual
        mark = virtual.mark()
        numbers = {
            "job": self.name,
            "gained": f"{step.units} on {self.packed.name(step.node)}",
            "value": round(value, 3),
            "cost": round(step.cost, 3),
        }
        reason = f"make room for {self.name}"
        verdict = _move(self.cluster, self.packed, step, reason, self._group, numbers)
        if verdict is None and not self._let_in(pods, step.node):
            virtual.undo(mark)
            return frozenset()
        return verdict

    def _let_in(self, pods: Sequence[QueuedPod], node: int) -> bool:
        """Try all pods of the job that have nodes until now, and these; none stays there."""
        virtual, name = self.cluster.virtual, self.packed.name(node)
        mark = virtual.mark()
        places = [*self.places, *((pod, name) for pod in pods)]
        found = all(virtual.let_in(pod, at) for pod, at in places)
        virtual.undo(mark)
        if found:
            self.places = places
        return found

    def _start(self) -> str:
        """Let the job take its room, in this round; returns why it cannot."""
        virtual = self.cluster.virtual
        if self.job[0].gang and (why := virtual.gang_obstacle(self.job[0])):
            return why
        for pod, node in self.places:
            if not virtual.let_in(pod, node):
                return f"{node} has no room for {pod.key}"
        return ""

    @property
    def _group(self) -> str:
        return f"Defragmentation/{self.name}"

    @property
    def _hours(self) -> float:
        oldest = min(pod.waiting.created for pod in self.job)
        return min(max(self.cluster.now - oldest, 0.0) / _HOUR, _LONGEST_HOURS)

    def _size(self, needs: PackedNeeds) -> float:
        """Cards of a pod, or its part of the largest node in the resource it needs most of."""
        if needs.cards:
            return needs.gpu / 1000
        largest = self.packed.packing.total.max(axis=1)
        parts = (asked / most for asked, most in zip(needs.amounts, largest, strict=True) if most)
        return float(max(parts, default=0.0))


def _move(
    cluster: ProfileRound,
    packed: PackedCluster,
    step: SearchStep,
    reason: str,
    group: str,
    numbers: Mapping[str, Any],
) -> Verdict:
    moves = [(packed.pods[move.pod], packed.name(move.target)) for move in step.moves]
    refused = cluster.move_set(moves, reason, group, arithmetic=numbers)
    if refused is None:
        return None
    return frozenset(
        move.pod
        for move, (pod, _) in zip(step.moves, moves, strict=True)
        if pod.view.key == refused.key
    )


def _empty_nodes(cluster: ProfileRound, args: DefragmentationArgs, left: int) -> None:
    """Empty the nodes that cost least; each is a group of its own."""
    packed, goal = PackedCluster(cluster, args.costs), EmptyNodes()
    packing = packed.packing
    for node in range(len(packed.names)):
        goal.take(packing, node, goal.units_on(packing, node))

    def judge(step: SearchStep) -> Verdict:
        name = packed.name(step.node)
        numbers = {"gained": name, "value": goal.weight, "cost": round(step.cost, 3)}
        group = f"Defragmentation/{name}"
        return _move(cluster, packed, step, f"empty node {name}", group, numbers)

    steps = search(
        packing, goal, SearchLimits(left, value=args.min_value, effort=args.effort), judge
    )
    emptied = [packed.name(step.node) for step in steps]
    cluster.note("emptied", {"nodes": emptied, "stays": dict(packed.stays)})
