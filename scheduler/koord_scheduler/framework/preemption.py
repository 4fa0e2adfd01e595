"""Preemption: a pod that fits nowhere takes the place of pods with a lower priority. No IO.

As Kubernetes' DefaultPreemption, but for one thing: kube-scheduler looks at nodes in a random
order until it has found enough candidates (10 % of the nodes, at least 100), and takes the best
of these. Here all nodes are looked at, all at once, and the best of all is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from koord_scheduler.columns.arrays import Amounts, Rows
from koord_scheduler.columns.disruption_budgets import DisruptionBudgets
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.placed_pods import PlacedPod, PlacedPods
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.dry_run import DryRun, Victims

_LOWEST = -(2.0**31)


@dataclass(frozen=True)
class Preemption:
    """Where a pod can run once its ``victims`` are gone, the most important of them first.

    ``pdb_violations`` is how many of them may not be evicted by their disruption budgets.
    """

    node: str
    victims: tuple[PlacedPod, ...]
    pdb_violations: int


@dataclass(frozen=True)
class PreemptionResult:
    """The best preemption, if there is one, and on how many nodes what came out.

    ``candidates``: it would help there; ``without_victims``: there are no pods of a lower
    priority; ``rejected``: the pod would not fit without them either; ``unhelpful``: what keeps
    it off are not the pods there.
    """

    best: Preemption | None
    candidates: int
    without_victims: int
    rejected: int
    unhelpful: int


def may_preempt(
    scores: ClassScores,
    priority: int,
    policy: str | None,
    nominated_node: str | None,
    nodes: NodeColumns,
    placed: PlacedPods,
) -> bool:
    """Whether a pod may look for victims.

    It may not with the ``policy`` "Never", nor while victims of its last time are still
    terminating on its ``nominated_node``, unless that node can be no use any more.
    """
    if policy == "Never":
        return False
    row = nodes.row(nominated_node) if nominated_node else None
    if row is None or not nodes.is_node[row]:
        return True
    if scores.limits(np.array([row])).is_unresolvable[0]:
        return True
    return not any(pod.is_preempted and pod.priority < priority for pod in placed.on(row))


def find_preemption(
    scores: ClassScores,
    priority: int,
    nodes: NodeColumns,
    placed: PlacedPods,
    budgets: DisruptionBudgets,
    nominated: Iterable[PlacedPod] = (),
) -> PreemptionResult:
    """The best place for a pod of a class that fits nowhere.

    ``nominated`` are other waiting pods, with the node that they are nominated for as their
    ``node``; those with at least this priority count as if they were there.
    """
    rows = np.flatnonzero(nodes.is_node)
    limits = scores.limits(rows)
    lower = placed.below(priority, rows)
    has_lower = np.bincount(lower.at, minlength=len(rows)) > 0
    claims = [pod for pod in nominated if pod.priority >= priority]
    dry_run = DryRun(scores, nodes, placed, budgets, claims)
    pods = lower.where(~(limits.is_fixed | limits.is_unresolvable)[lower.at])
    find = dry_run.by_limits if limits.are_all else dry_run.by_filters
    victims = find(limits.limits, pods, rows)
    candidates = len(np.unique(victims.pods.at))
    tried = ~limits.is_unresolvable
    return PreemptionResult(
        _best(victims, rows, nodes, placed) if candidates else None,
        candidates,
        int((tried & ~has_lower).sum()),
        int((tried & has_lower).sum()) - candidates,
        int((~tried).sum()),
    )


def _best(victims: Victims, rows: Rows, nodes: NodeColumns, placed: PlacedPods) -> Preemption:
    at = best_row(victims, len(rows), nodes.tie_break[rows], placed)
    here = victims.pods.at == at
    pods = tuple(map(placed.pod, victims.pods.slots[here].tolist()))
    return Preemption(nodes.name(int(rows[at])), pods, int(victims.violating[here].sum()))


def best_row(victims: Victims, length: int, tie_break: Amounts, placed: PlacedPods) -> int:
    """Of ``length`` rows that one whose victims matter least.

    In order: the fewest violations of budgets; the lowest priority of the most important victim;
    the lowest sum of priorities, each above the lowest possible one; the fewest victims; the
    latest start of the first one that started, of those with the highest priority.
    """
    at, slots = victims.pods
    priority = placed.priority[slots]
    is_first = np.concatenate(([True], at[1:] != at[:-1]))
    left, highest = at[is_first], np.zeros(length)
    highest[left] = priority[is_first]
    # The victims of a row are in order of importance: the first one started first of its priority.
    started = np.zeros(length)
    started[left] = placed.started[slots[is_first]]
    criteria = (
        np.bincount(at, victims.violating, length),
        highest,
        np.bincount(at, priority - _LOWEST, length),
        np.bincount(at, minlength=length),
        -started,
        -tie_break,
    )
    for one in criteria:
        left = left[one[left] == one[left].min()]
    return int(left[0])
