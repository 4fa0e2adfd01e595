"""The search for steps that gain the most for their cost. No IO.

Best first over nodes and numbers of units: most value for the cost, then easy victims. Nodes that
come next get no victims. A candidate whose victims find no places is tried again, at a higher cost,
where another pod makes room for one, then up to three (``chains``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE
from koord_scheduler.state.arrays import Amounts

from koord_descheduler.plugins.defragmentation.chains import TRIES, put_with_chain
from koord_descheduler.plugins.defragmentation.goals import MOST_UNITS, DefragmentationGoal
from koord_descheduler.plugins.defragmentation.packing import CPU, PackedPlace, Packing
from koord_descheduler.plugins.defragmentation.steps import SearchStep, step_since

_PATIENCE = 100
"""Candidates in a row that even chains do not help, before they are tried no more."""
_AHEAD = 300
"""Candidates that come next, and are looked at for nodes to avoid."""

_LEVELS: tuple[tuple[int, ...], ...] = ((), TRIES[:1], TRIES)
"""Chains of a candidate: none at first, then ever longer ones."""

Verdict = frozenset[int] | None
"""``None``: a step is made. Else it is refused, and these pods do not move in this plan."""
Judge = Callable[[SearchStep], Verdict]


class SearchLimits(NamedTuple):
    """Most pods that move, most units that are of use, least value for a cost of 1.

    ``effort`` limits the scans of all nodes: 10,000 take some 3 s for 1,200 nodes.
    """

    moves: int
    units: int = 1 << 30
    value: float = 0.0
    effort: int = 10_000


def make_every_step(_step: SearchStep) -> Verdict:
    """Make every step that was found."""
    return None


def search(
    packing: Packing,
    goal: DefragmentationGoal,
    limits: SearchLimits,
    judge: Judge = make_every_step,
) -> list[SearchStep]:
    """Return the steps that were made; the packing is as it is after them."""
    run = _Search(packing, goal, limits, judge)
    run.best_first()
    return run.steps


class _Entry(NamedTuple):
    """A candidate: the best one is the least."""

    worth: float
    hardness: float
    node: int
    units: int
    victims: list[int]
    version: int
    cost: float
    level: int = 0


@dataclass
class _Search:
    packing: Packing
    goal: DefragmentationGoal
    limits: SearchLimits
    judge: Judge
    steps: list[SearchStep] = field(default_factory=list)
    moves: int = 0
    units: int = 0

    def __post_init__(self) -> None:
        self._heap: list[_Entry] = []
        self._pushed: dict[int, int] = {}
        self._failed: dict[tuple[int, int], int] = {}
        self._misses = [0] * len(_LEVELS)
        self._avoid: Amounts = np.zeros(len(self.packing.on))
        self._end = self.packing.effort + self.limits.effort

    @property
    def is_done(self) -> bool:
        limits = self.limits
        return (
            self.moves >= limits.moves
            or self.units >= limits.units
            or self.packing.effort >= self._end
        )

    def best_first(self) -> None:
        """Try candidates; one that finds no places is tried again with chains, for more moves."""
        packing = self.packing
        for node in range(len(packing.on)):
            self._push(node)
        is_new = True
        while self._heap and not self.is_done:
            if is_new:
                self._avoid, is_new = self._ahead(), False
            entry = heapq.heappop(self._heap)
            if entry.version != packing.version[entry.node]:
                self._push(entry.node)
            elif not self._is_hopeless(entry):
                is_new = self._advance(entry)

    def _is_hopeless(self, entry: _Entry) -> bool:
        failed = self._failed.get((entry.node, entry.level)) == entry.version
        return (failed and entry.units > 1) or self._misses[entry.level] > _PATIENCE

    def _push(self, node: int) -> None:
        version = int(self.packing.version[node])
        if self._pushed.get(node) != version:
            self._pushed[node] = version
            for entry in self._entries(node, version):
                heapq.heappush(self._heap, entry)

    def _entries(self, node: int, version: int) -> Iterable[_Entry]:
        packing, goal = self.packing, self.goal
        most = min(MOST_UNITS, self.limits.units - self.units)
        for units, victims in goal.candidates(packing, node, most):
            places = [packing.pods[number] for number in victims]
            cost = sum(place.pod.cost for place in places)
            hardness = sum(_hardness(place) for place in places)
            worth = -goal.weight * units / cost
            yield _Entry(worth, hardness, node, units, victims, version, cost)

    def _advance(self, entry: _Entry) -> bool:
        """Make a candidate's step, or leave it for later; True if it was made."""
        packing, goal, node, level = self.packing, self.goal, entry.node, entry.level
        mark = packing.mark()
        found = self._try(entry)
        step = step_since(packing, mark, goal, node, entry.units) if found else None
        if step is None:
            packing.undo(mark)
            self._failed[node, level] = entry.version
            self._misses[level] += bool(level)
            if level + 1 < len(_LEVELS):
                worth = -goal.weight * entry.units / (entry.cost + level + 1)
                heapq.heappush(self._heap, entry._replace(worth=worth, level=level + 1))
            return False
        worth = -goal.weight * entry.units / step.cost
        if worth > entry.worth and self._heap and worth > self._heap[0].worth:
            packing.undo(mark)  # something else is cheaper now
            heapq.heappush(self._heap, entry._replace(worth=worth))
            return False
        is_made = self._make(step, mark)
        if is_made:
            self._misses = [0] * len(_LEVELS)
        self._push(node)
        return is_made

    def _ahead(self) -> Amounts:
        """Nodes that come next, by what their candidates are worth; 0 for all others."""
        avoid = np.zeros(len(self.packing.on))
        moves, units = self.moves, self.units
        for entry in heapq.nsmallest(_AHEAD, self._heap):
            if moves >= self.limits.moves or units >= self.limits.units:
                break
            if not avoid[entry.node]:
                avoid[entry.node] = -entry.worth
                moves, units = moves + len(entry.victims), units + entry.units
        return avoid

    def _try(self, entry: _Entry) -> bool:
        """The victims go elsewhere, the hardest first, and the units are taken."""
        packing, goal, node, avoid = self.packing, self.goal, entry.node, self._avoid
        tries = _LEVELS[entry.level]
        left = []
        for number in entry.victims:
            if not packing.may_leave(number):
                return False
            left.append((number, packing.evict(number)))
        goal.take(packing, node, entry.units)
        for number, place in sorted(left, key=_hardest_first):
            pod = place.pod
            if packing.put(number, pod, node, avoid):
                continue
            if not tries or not put_with_chain(packing, number, pod, node, avoid, tries):
                return False
        return True

    def _make(self, step: SearchStep, mark: int) -> bool:
        """Keep a step that is within the limits, and that nobody refuses."""
        packing, limits = self.packing, self.limits
        value = self.goal.weight * step.units
        if self.moves + len(step.moves) > limits.moves or value < limits.value * step.cost:
            packing.undo(mark)
            return False
        verdict = self.judge(step)
        if verdict is not None:
            packing.undo(mark)
            for number in verdict:
                packing.freeze(number)
            return False
        for move in step.moves:
            packing.freeze(move.pod)
        self.steps.append(step)
        self.moves += len(step.moves)
        self.units += step.units
        return True


def _hardness(place: PackedPlace) -> float:
    """A measure of the places that a victim needs: cards, and a little for CPU."""
    needs = place.pod.needs
    return needs.gpu / WHOLE + needs.amounts[CPU] / 1e6


def _hardest_first(left: tuple[int, PackedPlace]) -> tuple[float, float, int]:
    needs = left[1].pod.needs
    return -needs.gpu, -needs.amounts[CPU], left[0]
