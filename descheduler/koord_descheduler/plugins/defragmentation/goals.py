"""Goals of plans: room for pods that wait, or nodes without pods. No IO."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from koord_scheduler.state.arrays import Amounts

from koord_descheduler.plugins.defragmentation.packing import PackedNeeds, Packing

MOST_UNITS = 8
"""Units of one step."""


class Candidate(NamedTuple):
    """Units that a node would have if its ``victims`` left it."""

    units: int
    victims: list[int]


class DefragmentationGoal(Protocol):
    """A kind of units; ``weight`` is the value of one."""

    weight: float

    def units_on(self, packing: Packing, node: int) -> int:
        """Units that a node has without any move."""
        ...

    def take(self, packing: Packing, node: int, units: int) -> None:
        """Take units, so that nothing counts twice and no victim goes there."""
        ...

    def candidates(self, packing: Packing, node: int, most: int) -> Iterator[Candidate]:
        """Candidates of a node, each with about as few victims as possible."""
        ...


def slots_on(needs: PackedNeeds, amounts: Amounts, cards: Amounts) -> Amounts:
    """Pods with these needs that fit in such amounts and cards, by node."""
    found = np.full(amounts.shape[1], float(MOST_UNITS * 16))
    for asked, each in zip(needs.amounts, amounts, strict=True):
        if asked:
            np.minimum(found, np.floor(np.maximum(each, 0.0) / asked), out=found)
    if needs.cards:
        np.minimum(found, (cards >= needs.share).sum(axis=1) // needs.cards, out=found)
    return found


class FreeSlots:
    """Units are places for one more pod with these needs."""

    def __init__(self, needs: PackedNeeds, weight: float | None = None) -> None:
        self.needs = needs
        self.weight = float(needs.cards or 1) if weight is None else weight

    def units_on(self, packing: Packing, node: int) -> int:
        """Units that a node has without any move."""
        needs = self.needs
        if packing.closed[node] or not packing.places[needs.places][node]:
            return 0
        found = math.inf
        if needs.cards:
            found = (packing.free_cards[node] >= needs.share).sum() // needs.cards
        for asked, free in zip(needs.amounts, packing.free[:, node].tolist(), strict=True):
            if asked:
                found = min(found, free // asked)
        return int(min(found, MOST_UNITS * 16))

    def take(self, packing: Packing, node: int, units: int) -> None:
        """Take units, so that nothing counts twice and no victim goes there."""
        for _ in range(units):
            packing.take(self.needs, node)

    def candidates(
        self, packing: Packing, node: int, most: int = MOST_UNITS
    ) -> Iterator[Candidate]:
        """First victims that free the most cards for their cost, then those with most amounts."""
        needs = self.needs
        if packing.closed[node] or not packing.places[needs.places][node]:
            return
        movable = [number for number in packing.on[node] if packing.may_leave(number)]
        groups = _card_groups(packing, node, set(movable)) if needs.cards else []
        whole = int((packing.free_cards[node] >= needs.share).sum())
        chosen: list[int] = []
        for units in range(1, most + 1):
            while whole < units * needs.cards and groups:
                _, _, pods, freed = groups.pop()
                chosen, whole = chosen + pods, whole + freed
            if whole < units * needs.cards:
                return
            victims = with_amounts(packing, node, chosen, movable, needs, units)
            if victims is None:
                return
            if victims:
                yield Candidate(units, victims)


def _card_groups(
    packing: Packing, node: int, movable: set[int]
) -> list[tuple[float, float, list[int], int]]:
    """Sets of pods that free cards, and how many; the best one is the last."""
    per_card: dict[int, list[int]] = defaultdict(list)
    for number in packing.on[node]:
        for card in packing.pods[number].cards:
            per_card[card].append(number)
    found = []
    for card, pods in per_card.items():
        if not movable.issuperset(pods):
            continue
        places = [packing.pods[number] for number in pods]
        cards = places[0].cards if len(pods) == 1 else (card,)
        if card == cards[0]:
            cost = sum(place.pod.cost for place in places) / len(cards)
            cpu = sum(place.pod.needs.amounts[0] for place in places)
            found.append((-cost, cpu, pods, len(cards)))
    return sorted(found, key=lambda group: group[:2])


def with_amounts(
    packing: Packing,
    node: int,
    chosen: Sequence[int],
    movable: Sequence[int],
    needs: PackedNeeds,
    units: int,
) -> list[int] | None:
    """Victims that leave enough of all amounts, the chosen ones among them; ``None``: too few."""
    victims = list(dict.fromkeys(chosen))
    free = packing.free[:, node] - units * packing.asked(needs)
    for number in victims:
        free = free + packing.asked(packing.pods[number].pod.needs)
    for resource in range(len(free)):
        if free[resource] >= 0:
            continue
        rest = set(movable).difference(victims)
        for victim in sorted(rest, key=lambda victim: _worth(packing, victim, resource)):
            victims.append(victim)
            free = free + packing.asked(packing.pods[victim].pod.needs)
            if free[resource] >= 0:
                break
    return victims if (free >= 0).all() else None


def _worth(packing: Packing, number: int, resource: int) -> tuple[float, int]:
    """The most of a resource for its cost comes first: what is left over serves more units."""
    pod = packing.pods[number].pod
    return -pod.needs.amounts[resource] / pod.cost, number


class EmptyNodes:
    """Units are nodes without pods; one that is empty is closed."""

    weight: float = 1.0

    def units_on(self, packing: Packing, node: int) -> int:
        """Units that a node has without any move."""
        return int(not packing.on[node] and not packing.closed[node])

    def take(self, packing: Packing, node: int, units: int) -> None:
        """Take units, so that nothing counts twice and no victim goes there."""
        if units:
            packing.close(node)

    def candidates(self, packing: Packing, node: int, most: int = 1) -> Iterator[Candidate]:
        """All pods of the node, if they all may leave."""
        pods = sorted(packing.on[node])
        if pods and not packing.closed[node] and all(map(packing.may_leave, pods)):
            yield Candidate(1, pods)
