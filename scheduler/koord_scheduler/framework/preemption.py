"""Preemption: a pod that fits nowhere takes the place of pods with a lower priority. No IO.

As Kubernetes' DefaultPreemption, but for one thing: kube-scheduler looks at nodes from a random
one on until it has found enough candidates (as many as 10 % of the nodes, at least 100), and takes
the best of these. Here all nodes are looked at, all at once, and the best of all is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.framework.dry_run import DryRun, Victims
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugin import VictimRules
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods, PodsByRow
from koord_scheduler.state.pod_usage import PlacedPod

_LOWEST = -(2.0**31)


class Candidates:
    """The nodes where preemption helps, with their victims; and how many others there are.

    ``without_victims``: nodes that have no pods of a lower priority; ``rejected``: those where
    the pod would not fit without these pods either; ``unhelpful``: those where it is not the pods
    that keep it off.
    """

    def __init__(
        self,
        nodes: ClusterState,
        placed: PlacedPods,
        victims: Victims,
        rows: Rows,
        *,
        without_victims: int,
        rejected: int,
        unhelpful: int,
    ) -> None:
        """``rows`` are those that the pods of ``victims`` are on by their place."""
        self._nodes = nodes
        self._placed = placed
        self._victims = victims
        self._rows = rows
        self._places = np.unique(victims.pods.at)
        self.without_victims = without_victims
        self.rejected = rejected - len(self._places)
        self.unhelpful = unhelpful

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Preemption]:
        return (self._preemption(place) for place in self._places.tolist())

    def best(self, tie_break: Amounts | None = None) -> Preemption | None:
        """The one whose victims matter least.

        In order: the fewest violations of budgets; the lowest priority of the most important
        victim; the lowest sum of priorities, each above the lowest there is; the fewest victims;
        of the most important victims the one that started first did so the latest; and of equal
        ones the highest ``tie_break``, by row, which is that of ``ClusterState`` if not given.
        """
        if not len(self):
            return None
        ties = self._nodes.tie_break if tie_break is None else tie_break
        if _together(self._nodes) is not None:  # victims elsewhere count, too
            rows = dict(zip(map(self._nodes.name, self._rows.tolist()), self._rows, strict=True))
            return least_harmful(self, lambda node: float(ties[rows[node]]))
        left = self._places
        for one in (*self._criteria(), -ties[self._rows]):
            left = left[one[left] == one[left].min()]
        return self._preemption(int(left[0]))

    def _criteria(self) -> Iterator[Amounts]:
        """By place, less is better; victims are in order of importance."""
        (at, slots), violating = self._victims
        length, priority = len(self._rows), self._placed.priority[slots]
        is_first = np.concatenate(([True], at[1:] != at[:-1]))
        highest, started = np.zeros((2, length))
        highest[self._places] = priority[is_first]
        started[self._places] = self._placed.started[slots[is_first]]
        yield np.bincount(at, violating, length).astype(np.float64)
        yield highest
        yield np.bincount(at, priority - _LOWEST, length).astype(np.float64)
        yield np.bincount(at, minlength=length).astype(np.float64)
        yield -started

    def _preemption(self, place: int) -> Preemption:
        pods, violating = self._victims
        here = pods.at == place
        victims = tuple(map(self._placed.pod, pods.slots[here].tolist()))
        victims = _with_their_gangs(victims, self._nodes, self._placed)
        node = self._nodes.name(int(self._rows[place]))
        return Preemption(node, victims, int(violating[here].sum()))


def _with_their_gangs(
    victims: tuple[PlacedPod, ...], nodes: ClusterState, placed: PlacedPods
) -> tuple[PlacedPod, ...]:
    """With those pods, wherever they are, that lose their nodes together with one of them."""
    gangs = _together(nodes)
    if gangs is None:
        return victims
    found = {victim.key: victim for victim in victims}
    for victim in victims:
        others = gangs.disrupted_with(victim.key)
        found |= {key: placed.by_key[key] for key in others if key in placed.by_key}
    return tuple(sorted(found.values(), key=lambda one: -one.priority))


def least_harmful(
    candidates: Iterable[Preemption], tie_break: Callable[[str], float]
) -> Preemption | None:
    """The one whose victims matter least, as ``Candidates.best``; ``tie_break`` is by node."""

    def harm(preemption: Preemption) -> tuple[float, ...]:
        priorities = [pod.priority for pod in preemption.victims]
        most = max(priorities)
        first = min(
            math.inf if pod.started is None else pod.started
            for pod in preemption.victims
            if pod.priority == most
        )
        total = sum(priority - _LOWEST for priority in priorities)
        return (
            preemption.pdb_violations,
            priorities[0],
            total,
            len(priorities),
            -first,
            -tie_break(preemption.node),
        )

    return min(candidates, key=harm, default=None)


def may_preempt(
    scores: ClassScores,
    priority: int,
    nominated_node: str,
    nodes: ClusterState,
    placed: PlacedPods,
) -> bool:
    """True if a pod whose preemption policy is not "Never" may look for victims.

    It may not while victims of its last time are still terminating on its ``nominated_node``
    ("": none), unless that node is out of the question by now.
    """
    row = nodes.row(nominated_node)
    if row is None or not nodes.is_node[row]:
        return True
    if not scores.limits(np.array([row])).is_resolvable[0]:
        return True
    return not any(pod.is_preempted and pod.priority < priority for pod in placed.on(row))


def find_candidates(
    scores: ClassScores,
    priority: int,
    nodes: ClusterState,
    placed: PlacedPods,
    budgets: DisruptionBudgets,
    nominated: Sequence[Nomination] = (),
    unhelpful: Rows | None = None,
    victims: VictimRules | None = None,
) -> Candidates:
    """Find the nodes where a pod that fits nowhere can replace others, and their victims.

    ``nominated`` are those of other pods with at least this priority (``Nominations.against``):
    the pod has to fit with them and without them. ``unhelpful`` are rows that are out of the
    question for other reasons than the plugins'. ``victims``: only some pods may be.
    """
    rows = np.flatnonzero(nodes.is_node)
    lower = _preemptible(placed.below(priority, rows), scores, nodes, placed, priority)
    if victims is not None:
        lower = lower.where(placed.amounts(victims.may_be, lower.slots) > 0)
        if not len(lower.at):  # as mostly, and nodes cost more to look at
            return _without_victims(nodes, placed, lower, rows)
    limits = scores.limits(rows, [one.usage for one in nominated])
    if unhelpful is not None:
        limits = limits._replace(is_resolvable=limits.is_resolvable & ~np.isin(rows, unhelpful))
    conditions = victims.limits(rows) if victims is not None else ()
    has_lower = np.bincount(lower.at, minlength=len(rows)) > 0
    with_held = scores.have_held(rows)
    curable = limits.is_resolvable & (~limits.is_fixed | with_held)
    dry_run = DryRun(scores, nodes, placed, budgets, nominated)
    pods = lower.where(curable[lower.at])
    tried = limits.is_resolvable
    return Candidates(
        nodes,
        placed,
        dry_run.victims(limits, conditions, pods, rows, with_held),
        rows,
        without_victims=int((tried & ~has_lower).sum()),
        rejected=int((tried & has_lower).sum()),
        unhelpful=int((~tried).sum()),
    )


def _without_victims(
    nodes: ClusterState, placed: PlacedPods, nobody: PodsByRow, rows: Rows
) -> Candidates:
    none = Victims(nobody, np.zeros(0, np.bool_))
    number = len(rows)
    return Candidates(nodes, placed, none, rows, without_victims=number, rejected=0, unhelpful=0)


def _preemptible(
    pods: PodsByRow,
    scores: ClassScores,
    nodes: ClusterState,
    placed: PlacedPods,
    priority: int,
) -> PodsByRow:
    """Without those that features keep.

    A pod that loses its node only with others is kept if one of these is.
    """
    kept = np.zeros(len(pods.slots), np.bool_)
    for kept_pods in nodes.hooks("kept_pods"):
        found = kept_pods(placed, pods, scores.may_use)
        if found is not None:
            kept |= found
    gangs = _together(nodes)
    if gangs is not None:
        kept |= np.isin(pods.slots, _kept_together(pods.slots[kept], gangs, placed, priority))
    return pods.where(~kept) if kept.any() else pods


def _together(nodes: ClusterState) -> Gangs | None:
    """The gangs, if pods of some lose their nodes together; else ``None``."""
    gangs = nodes.find(Gangs)
    return gangs if gangs is not None and gangs.disrupts_together else None


def _kept_together(kept: Rows, gangs: Gangs, placed: PlacedPods, priority: int) -> list[int]:
    """The slots of pods that lose their nodes only with one that is not lost."""
    found, lasting = list[int](), set(kept.tolist())
    for keys in gangs.disrupted_together():
        slots = [slot for key in keys if (slot := placed.slot(key)) is not None]
        if any(slot in lasting or placed.priority[slot] >= priority for slot in slots):
            found += slots
    return found
