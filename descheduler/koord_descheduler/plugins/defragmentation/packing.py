"""Nodes and pods as arrays, for a search over many moves, with undo. No IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE
from koord_scheduler.state.arrays import Amounts, Mask, Rows

CPU, MEMORY = 0, 1
"""The first resources of all amounts; others follow, in one order."""
_MOST_KINDS = 4000


class PackedNeeds(NamedTuple):
    """Needs of a pod: ``amounts`` by resource, and ``share`` thousandths of each of ``cards``.

    ``places`` is the number of the mask of nodes that come into question.
    """

    amounts: tuple[float, ...]
    cards: int = 0
    share: int = 0
    places: int = 0

    @property
    def gpu(self) -> int:
        """Thousandths of cards in all."""
        return self.cards * self.share

    @property
    def is_shared(self) -> bool:
        """True if it takes a part of one card."""
        return self.cards == 1 and self.share < WHOLE


class PackedPod(NamedTuple):
    """A pod: the ``cost`` of moving it (infinite: it stays), and its disruption budget, or -1."""

    needs: PackedNeeds
    cost: float = 1.0
    budget: int = -1


class PackedPlace(NamedTuple):
    """The place of a pod: a node, and the cards that it has there."""

    pod: PackedPod
    node: int
    cards: tuple[int, ...]


class Packing:
    """Pods on nodes, by number; units that a plan gained have negative numbers.

    ``amounts`` has a row for each resource, ``cards`` a column for each card of the largest node.
    ``places`` are masks of nodes, ``budgets`` the evictions that each disruption budget allows.
    ``closed`` nodes take no pods. ``version`` of a node changes with its pods.
    """

    def __init__(
        self,
        amounts: Amounts,
        cards: Amounts,
        places: Sequence[Mask] = (),
        budgets: Sequence[int] = (),
        most_pods: int = 1 << 10,
    ) -> None:
        count = amounts.shape[1]
        self.total, self.total_cards = amounts, cards
        self.free, self.free_cards = amounts.copy(), cards.copy()
        self.places = list(places) or [np.ones(count, np.bool_)]
        self.budgets = list(budgets)
        self.closed: Mask = np.zeros(count, np.bool_)
        self.version = np.zeros(count, np.int64)
        self.pods: dict[int, PackedPlace] = {}
        self.on: list[set[int]] = [set() for _ in range(count)]
        self._scale = self._largest()
        self._undo: list[Callable[[], None]] = []
        self._evicted: list[tuple[int, int, PackedPlace]] = []
        self._changed: list[int] = []
        self._known: dict[PackedNeeds, tuple[Amounts, int]] = {}
        self._arrays: dict[PackedNeeds, Amounts] = {}
        self._next_unit = -1
        self.columns = _PodColumns(len(amounts), most_pods)
        self.effort = 0
        """Scans of all nodes until now."""

    def _largest(self) -> tuple[float, float]:
        cpu = float(self.total[CPU].max(initial=0.0))
        gpus = float(self.total_cards.sum(axis=1).max(initial=0.0))
        return cpu or 1.0, gpus or float(self.total[MEMORY].max(initial=0.0)) or 1.0

    @property
    def has_cards(self) -> bool:
        """True if any node has one."""
        return bool(self.total_cards.any())

    # ---- undo

    def mark(self) -> int:
        """The state now, for ``undo``."""
        return len(self._undo)

    def undo(self, mark: int) -> None:
        """Take back all that was done since ``mark``."""
        while len(self._undo) > mark:
            self._undo.pop()()

    # ---- pods

    def add(self, number: int, pod: PackedPod, node: int, cards: tuple[int, ...]) -> None:
        """A pod is on a node."""
        version = self.version[node]
        self._insert(number, PackedPlace(pod, node, cards))
        self.version[node] = version + 1

        def take_back() -> None:
            self._delete(number)
            self.version[node] = version

        self._undo.append(take_back)

    def remove(self, number: int) -> PackedPlace:
        """A pod leaves its node."""
        found = self.pods[number]
        version = self.version[found.node]
        self._delete(number)
        self.version[found.node] = version + 1

        def put_back() -> None:
            self._insert(number, found)
            self.version[found.node] = version

        self._undo.append(put_back)
        return found

    def evict(self, number: int) -> PackedPlace:
        """A pod leaves its node for another one, which its disruption budget counts."""
        found = self.remove(number)
        self._charge(found.pod.budget, 1)
        self._evicted.append((self.mark(), number, found))
        self._undo.append(self._forget_eviction)
        return found

    def _forget_eviction(self) -> None:
        self._evicted.pop()

    def evicted_since(self, mark: int) -> list[tuple[int, PackedPlace]]:
        """The pods that were evicted since ``mark``, and their places before."""
        found = []
        for at, number, place in reversed(self._evicted):
            if at < mark:
                break
            found.append((number, place))
        return found[::-1]

    def _charge(self, budget: int, number: int) -> None:
        if budget >= 0:
            self.budgets[budget] -= number
            self._undo.append(lambda: self._refund(budget, number))

    def _refund(self, budget: int, number: int) -> None:
        self.budgets[budget] += number

    def may_leave(self, number: int) -> bool:
        """True if a pod may be moved now."""
        pod = self.pods[number].pod
        return pod.cost < math.inf and (pod.budget < 0 or self.budgets[pod.budget] > 0)

    def freeze(self, number: int) -> None:
        """A pod does not move any more; it is not undone."""
        pod, node, cards = self.pods[number]
        self.pods[number] = PackedPlace(pod._replace(cost=math.inf), node, cards)
        self.columns.cost[number] = math.inf
        self.version[node] += 1

    def close(self, node: int) -> None:
        """A node takes no pods from now on."""
        self.closed[node] = True
        self._undo.append(lambda: self.closed.__setitem__(node, False))

    def take(self, needs: PackedNeeds, node: int, cards: tuple[int, ...] | None = None) -> int:
        """A unit is taken at once by a pod that stays, with these cards; returns its number."""
        number = self._next_unit
        chosen = self.cards_for(needs, node) if cards is None else cards
        self.add(number, PackedPod(needs, math.inf), node, chosen)
        self._next_unit -= 1
        return number

    def _insert(self, number: int, place: PackedPlace) -> None:
        self.pods[number] = place
        self.on[place.node].add(number)
        if number >= 0:
            self.columns.set(number, place)
        self._shift(place, -1)

    def _delete(self, number: int) -> None:
        place = self.pods.pop(number)
        self.on[place.node].discard(number)
        if number >= 0:
            self.columns.node[number] = -1
        self._shift(place, 1)

    def _shift(self, place: PackedPlace, sign: int) -> None:
        needs, node = place.pod.needs, place.node
        self.free[:, node] += sign * self.asked(needs)
        for card in place.cards:
            self.free_cards[node, card] += sign * needs.share
        self._changed.append(node)

    def asked(self, needs: PackedNeeds) -> Amounts:
        """The amounts of a pod as an array."""
        found = self._arrays.get(needs)
        if found is None:
            found = self._arrays[needs] = np.array(needs.amounts)
        return found

    # ---- places

    def cards_for(self, needs: PackedNeeds, node: int) -> tuple[int, ...]:
        """The cards that a pod gets on a node: those with the least room for it."""
        if not needs.cards:
            return ()
        free = self.free_cards[node]
        room = np.flatnonzero(free >= needs.share)
        return tuple(room[free[room].argsort(kind="stable")][: needs.cards].tolist())

    def fits(self, needs: PackedNeeds, rows: Rows) -> Mask:
        """Of each of these nodes, whether a pod fits there."""
        found: Mask = np.all(self.free[:, rows] >= self.asked(needs)[:, None], axis=0)
        found &= self.places[needs.places][rows]
        if needs.cards:
            found &= (self.free_cards[rows] >= needs.share).sum(axis=1) >= needs.cards
        return found

    def grades(self, needs: PackedNeeds) -> Amounts:
        """BestFit of all nodes for a pod: little CPU and GPUs left is good; -inf: no room."""
        known = self._known.get(needs)
        self.effort += 1
        if known is None:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            grade, since = self._grade(needs, np.arange(len(self.on))), len(self._changed)
            self._known[needs] = grade, since
        else:
            grade, since = known
            if since < len(self._changed):
                rows = np.unique(np.array(self._changed[since:], np.intp))
                grade[rows] = self._grade(needs, rows)
                self._known[needs] = grade, len(self._changed)
        found: Amounts = np.where(self.closed, -np.inf, grade)
        return found

    def _grade(self, needs: PackedNeeds, rows: Rows) -> Amounts:
        cpu = (self.free[CPU, rows] - needs.amounts[CPU]) / self._scale[0]
        if self.has_cards:
            other = (self.free_cards[rows].sum(axis=1) - needs.gpu) / self._scale[1]
        else:
            other = (self.free[MEMORY, rows] - needs.amounts[MEMORY]) / self._scale[1]
        grade = np.trunc((1 - (cpu * 0.5 + other * 0.5)) * 100)
        found: Amounts = np.where(self.fits(needs, rows), grade, -np.inf)
        return found

    def put(self, number: int, pod: PackedPod, source: int, avoid: Amounts | None = None) -> bool:
        """Put a pod that left ``source`` on the best other node, if there is one.

        One to ``avoid`` is taken only where there is no other.
        """
        grade = self.grades(pod.needs)
        if avoid is not None:
            grade -= 1e6 * avoid
        grade[source] = -np.inf
        node = int(grade.argmax())
        if grade[node] == -np.inf:
            return False
        self.add(number, pod, node, self.cards_for(pod.needs, node))
        return True


class _PodColumns:
    """Of each pod: its node (-1: it has none), amounts, cost, and what it frees of cards."""

    def __init__(self, resources: int, most: int) -> None:
        self.node = np.full(most, -1, np.intp)
        self.amounts: Amounts = np.zeros((resources, most))
        self.cost: Amounts = np.full(most, math.inf)
        self.gpu: Amounts = np.zeros(most)
        self.card = np.full(most, -1, np.intp)
        """The card of which it has a part."""
        self.whole: Amounts = np.zeros(most)

    def set(self, number: int, place: PackedPlace) -> None:
        needs = place.pod.needs
        self.node[number], self.cost[number] = place.node, place.pod.cost
        self.amounts[:, number] = needs.amounts
        self.gpu[number] = needs.gpu
        self.card[number] = place.cards[0] if needs.is_shared else -1
        self.whole[number] = needs.cards * (needs.share >= WHOLE)
