"""Steps of a plan: the moves that gain units on one node, in an order that can be carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from koord_scheduler.state.arrays import Amounts

from koord_descheduler.plugins.defragmentation.packing import PackedPlace, Packing


class StepMove(NamedTuple):
    """A pod that goes from one node to another."""

    pod: int
    source: int
    target: int


class SearchStep(NamedTuple):
    """``units`` that are gained on ``node`` by moves, which cost so much together.

    Each move's target has room for it when its turn comes, before it leaves its source.
    """

    node: int
    units: int
    moves: tuple[StepMove, ...]
    cost: float


class _Goal(Protocol):
    weight: float


def step_since(
    packing: Packing, mark: int, goal: _Goal, node: int, units: int
) -> SearchStep | None:
    """The step that was made since ``mark``; ``None`` if it cannot be carried out one by one."""
    places = [
        (number, before, packing.pods[number])
        for number, before in packing.evicted_since(mark)
        if packing.pods[number] != before
    ]
    moves = _in_order(packing, places)
    if not moves:
        return None
    return SearchStep(node, units, moves, sum(after.pod.cost for _, _, after in places))


def _in_order(
    packing: Packing, places: Sequence[tuple[int, PackedPlace, PackedPlace]]
) -> tuple[StepMove, ...]:
    """Moves in an order in which each finds its room free; none if there is no such order."""
    nodes = {place.node for _, *both in places for place in both}
    free = {node: packing.free[:, node].copy() for node in nodes}
    cards = {node: packing.free_cards[node].copy() for node in nodes}

    def shift(place: PackedPlace, sign: int) -> None:
        free[place.node] += sign * packing.asked(place.pod.needs)
        cards[place.node][list(place.cards)] += sign * place.pod.needs.share

    for _, before, after in places:
        shift(after, 1)
        shift(before, -1)
    found: list[StepMove] = []
    left = list(places)
    while left:
        for place in left:
            number, before, after = place
            shift(after, -1)
            if _has_room(free[after.node], cards[after.node], after):
                shift(before, 1)
                found.append(StepMove(number, before.node, after.node))
                left.remove(place)
                break
            shift(after, 1)
        else:
            return ()
    return tuple(found)


def _has_room(free: Amounts, cards: Amounts, place: PackedPlace) -> bool:
    return bool((free >= 0).all() and (cards[list(place.cards)] >= 0).all())
