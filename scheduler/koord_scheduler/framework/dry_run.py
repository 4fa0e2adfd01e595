"""Dry run of preemption: the pods on each node that a waiting pod has to replace. No IO.

On each row all pods of a lower priority are taken off; if the waiting pod fits then, they are put
back one by one in order of importance, those first whose eviction violates a disruption budget,
as long as it still fits. Those that are left out are the victims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.class_scores import ClassScores, PodLimits
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.rejected_beside import rejected_beside
from koord_scheduler.plugin import Limit
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods, PodsByRow
from koord_scheduler.state.pod_usage import PodUsage


class Victims(NamedTuple):
    """Victims on some rows, and of each whether its eviction violates a disruption budget."""

    pods: PodsByRow
    violating: Mask


class DryRun:
    """The dry run for one waiting pod; ``nominated`` are those whose claims it has to respect."""

    def __init__(
        self,
        scores: ClassScores,
        nodes: ClusterState,
        placed: PlacedPods,
        budgets: DisruptionBudgets,
        nominated: Sequence[Nomination],
    ) -> None:
        self._scores = scores
        self._nodes = nodes
        self._placed = placed
        self._budgets = budgets
        self._nominated = nominated
        known = [(row, one.usage) for one in nominated if (row := nodes.row(one.node)) is not None]
        different = {id(usage): usage for _, usage in known}  # most pods are copies
        place = {key: at for at, key in enumerate(different)}
        self._usages = [*different.values()]
        self._codes = np.array([place[id(usage)] for _, usage in known], np.intp)
        self._rows = np.array([row for row, _ in known], np.intp)

    def victims(
        self,
        limits: PodLimits,
        conditions: Sequence[Limit],
        pods: PodsByRow,
        rows: Rows,
        with_held: Mask,
    ) -> Victims:
        """The victims among ``pods``; limits say nothing of rows ``with_held`` room.

        ``conditions`` are those beside filters, of all rows.
        """
        find = self.by_limits if limits.are_all else self.by_filters
        apart = with_held[pods.at]
        found = find([*limits.limits, *conditions], pods.where(~apart), rows)
        if not apart.any():
            return found
        enough = self._scores.enough_candidates(len(rows))
        return _merged(found, self.by_filters(conditions, pods.where(apart), rows, enough))

    def by_limits(self, limits: Sequence[Limit], pods: PodsByRow, rows: Rows) -> Victims:
        """The victims among ``pods`` on rows, where ``limits`` are all that filters say."""
        room, counts = self._without(limits, pods, rows)
        keep = _has_room(room)[pods.at]
        pods, counts = pods.where(keep), counts[:, keep]
        violating = self._budgets.violated_by(pods, self._placed)
        order = np.argsort(2 * pods.at + ~violating, kind="stable")
        is_victim = np.zeros(len(order), np.bool_)
        is_victim[order] = _not_put_back(pods.at[order], room, counts[:, order])
        return Victims(pods.where(is_victim), violating[is_victim])

    def by_filters(
        self,
        limits: Sequence[Limit],
        pods: PodsByRow,
        rows: Rows,
        enough: float = np.inf,
    ) -> Victims:
        """The same for any filters: pods really leave and enter the columns, row by row.

        Once so many rows have victims that it is ``enough``, no more are looked at.
        """
        room, counts = self._without(limits, pods, rows)
        keep = _has_room(room)[pods.at]
        pods, counts = pods.where(keep), counts[:, keep]
        violating = self._budgets.violated_by(pods, self._placed)
        is_victim = np.zeros(len(pods.at), np.bool_)
        for at in np.unique(pods.at):
            if enough <= 0:
                break
            here = np.flatnonzero(pods.at == at)
            order = here[np.argsort(~violating[here], kind="stable")]
            slots = pods.slots[order].tolist()
            is_victim[order] = self._victims_on(int(rows[at]), slots, room[:, at], counts[:, order])
            enough -= bool(is_victim[order].any())
        return Victims(pods.where(is_victim), violating[is_victim])

    def _without(
        self, limits: Sequence[Limit], pods: PodsByRow, rows: Rows
    ) -> tuple[Amounts, Amounts]:
        """The room of each limit on rows without ``pods``, and what counts of each pod."""
        counts = np.zeros((len(limits), len(pods.at)))
        room = np.zeros((len(limits), len(rows)))
        for number, limit in enumerate(limits):
            counts[number] = self._placed.amounts(limit.of, pods.slots)
            room[number] = limit.room + np.bincount(pods.at, counts[number], len(rows))
            # Filters have to let the pod through with the nominated pods, and without them.
            room[number] -= np.maximum(self._nominated_amounts(limit, rows), 0.0)
        return room, counts

    def _nominated_amounts(self, limit: Limit, rows: Rows) -> Amounts:
        amounts = np.array([amount_of(limit, usage) for usage in self._usages], np.float64)
        by_row = np.bincount(self._rows, amounts[self._codes], len(self._nodes))
        return by_row[rows].astype(np.float64, copy=False)

    def _victims_on(self, row: int, slots: list[int], room: Amounts, counts: Amounts) -> list[bool]:
        """Of the pods in these slots, which ones are victims; all pods are back afterwards.

        ``room`` is that of limits without these pods, ``counts`` is what they take of it.
        """
        with self._nodes.trial():
            return self._not_back(row, slots, room, counts)

    def _not_back(self, row: int, slots: list[int], room: Amounts, counts: Amounts) -> list[bool]:
        node, nodes = self._nodes.name(row), self._nodes
        usages = [self._placed.pod(slot).usage for slot in slots]
        nominated = [pod.usage for pod in self._nominated if pod.node == node]
        for usage in usages:
            nodes.remove_pod(node, usage)
        absent = dict(enumerate(usages))
        try:
            if not self._fits(row, nominated):
                return [False] * len(usages)
            left = room
            for number, usage in enumerate(usages):
                after = left - counts[:, number]
                if np.any(after < 0):
                    continue
                nodes.add_pod(node, absent.pop(number))
                if self._fits(row, nominated):
                    left = after
                else:
                    nodes.remove_pod(node, usage)
                    absent[number] = usage
            return [number in absent for number in range(len(usages))]
        finally:  # also if a plugin fails
            for usage in absent.values():
                nodes.add_pod(node, usage)

    def _fits(self, row: int, nominated: Sequence[PodUsage]) -> bool:
        if self._scores.rejects(row):
            return False
        return not nominated or not rejected_beside(self._scores, row, nominated)


def _merged(victims: Victims, other: Victims) -> Victims:
    """Those of different rows, in the order of the rows."""
    at = np.concatenate((victims.pods.at, other.pods.at))
    slots = np.concatenate((victims.pods.slots, other.pods.slots))
    violating = np.concatenate((victims.violating, other.violating))
    order = np.argsort(at, kind="stable")
    return Victims(PodsByRow(at[order], slots[order]), violating[order])


def _has_room(room: Amounts) -> Mask:
    """Of each row, whether no limit is exceeded."""
    found: Mask = np.all(room >= 0, axis=0)
    return found


def _not_put_back(at: Rows, room: Amounts, counts: Amounts) -> Mask:
    """Of each pod, whether it stays away as pods are put back in this order; takes of ``room``.

    The first pods of all rows are tried together, then the second ones, and so on.
    """
    found = np.zeros(len(at), np.bool_)
    if not len(at):
        return found
    firsts = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
    lengths = np.diff(np.append(firsts, len(at)))
    longest = np.argsort(-lengths, kind="stable")
    firsts, lengths = firsts[longest], lengths[longest]
    left = room[:, at[firsts]]
    for rank in range(int(lengths[0])):
        number = int(np.searchsorted(-lengths, -rank))
        pods = firsts[:number] + rank
        after = left[:, :number] - counts[:, pods]
        fits = _has_room(after)
        left[:, :number] = np.where(fits, after, left[:, :number])
        found[pods] = ~fits
    return found


def amount_of(limit: Limit, usage: PodUsage) -> float:
    """Return the part of a limit that a pod uses up."""
    return dict(usage.request).get(limit.of, 0.0) if isinstance(limit.of, str) else limit.of(usage)
