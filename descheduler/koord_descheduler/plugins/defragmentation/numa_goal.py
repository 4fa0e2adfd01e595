"""The goal of pods that need all that they ask for from one NUMA node. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from koord_scheduler.state.arrays import Amounts, Codes

from koord_descheduler.plugins.defragmentation.goals import (
    MOST_UNITS,
    Candidate,
    FreeSlots,
    with_amounts,
)
from koord_descheduler.plugins.defragmentation.numa_zones import NodeZones
from koord_descheduler.plugins.defragmentation.packing import PackedNeeds, Packing


class NUMASlots(FreeSlots):
    """Units are places for one more pod with these needs, each in one NUMA node.

    Pods that come to a node are not counted in its NUMA nodes: which one they get is not known.
    """

    def __init__(
        self, needs: PackedNeeds, zones: Sequence[NodeZones | None], weight: float | None = None
    ) -> None:
        super().__init__(needs, weight)
        self._zones = zones
        self._zone_of: dict[int, int] = {}
        """The NUMA nodes of units, by their numbers; those that were undone are on no node."""

    def units_on(self, packing: Packing, node: int) -> int:
        """Units that a node has without any move."""
        units, zones = super().units_on(packing, node), self._zones[node]
        if zones is None or not units:
            return units
        return min(units, int(self._slots(packing, node, zones).sum()))

    def take(self, packing: Packing, node: int, units: int) -> None:
        """Take units in the NUMA nodes that have room for the fewest."""
        zones = self._zones[node]
        for _ in range(units):
            slots = self._slots(packing, node, zones) if zones is not None else np.zeros(0)
            if zones is None or not slots.any():
                packing.take(self.needs, node)
                continue
            zone = int(np.where(slots > 0, slots, np.inf).argmin())
            free, share = packing.free_cards[node], self.needs.share
            cards = [card for card in zones.cards[zone] if free[card] >= share]
            number = packing.take(self.needs, node, tuple(cards[: self.needs.cards]))
            self._zone_of[number] = zone

    def candidates(
        self, packing: Packing, node: int, most: int = MOST_UNITS
    ) -> Iterator[Candidate]:
        """For each NUMA node victims that free much of what it lacks for their cost."""
        zones = self._zones[node]
        if zones is None:
            yield from super().candidates(packing, node, most)
        elif not packing.closed[node] and packing.places[self.needs.places][node]:
            for zone in range(len(zones.free)):
                yield from self._in_zone(packing, node, zones, zone, most)

    def _in_zone(
        self, packing: Packing, node: int, zones: NodeZones, zone: int, most: int
    ) -> Iterator[Candidate]:
        movable = [number for number in packing.on[node] if packing.may_leave(number)]
        chosen: list[int] = []
        for units in range(1, most + 1):
            while self._slots(packing, node, zones, chosen)[zone] < units:
                lacks = self._lacks(packing, node, zones, zone, units, chosen)
                reliefs = [
                    (self._relief(packing, zones, zone, number, lacks), -number)
                    for number in set(movable).difference(chosen)
                ]
                relief, number = max(reliefs, default=(0.0, 0))
                if relief <= 0:
                    return
                chosen.append(-number)
            victims = with_amounts(packing, node, chosen, movable, self.needs, units)
            if victims is None:
                return
            if victims:
                yield Candidate(units, victims)

    def _lacks(
        self,
        packing: Packing,
        node: int,
        zones: NodeZones,
        zone: int,
        units: int,
        chosen: Collection[int],
    ) -> Amounts:
        """Amounts that a NUMA node lacks for units, and at the end thousandths of cards."""
        free, cards = self._free(packing, node, zones, chosen)
        amounts = units * packing.asked(self.needs) - free[zone]
        missing = units * self.needs.cards - (cards[zones.cards[zone]] >= self.needs.share).sum()
        found: Amounts = np.maximum(np.append(amounts, missing * self.needs.share), 0.0)
        return found

    def _relief(
        self, packing: Packing, zones: NodeZones, zone: int, number: int, lacks: Amounts
    ) -> float:
        """Parts of a unit that a victim gives of what is lacking, for a cost of 1."""
        place, asked = packing.pods[number], np.append(packing.asked(self.needs), self.needs.gpu)
        on_zone = len(set(place.cards).intersection(zones.cards[zone]))
        gives = np.append(zones.held[number][zone], on_zone * place.pod.needs.share)
        part = np.minimum(gives, lacks)[asked > 0] / asked[asked > 0]
        return float(part.sum()) / place.pod.cost

    def _slots(
        self, packing: Packing, node: int, zones: NodeZones, without: Collection[int] = ()
    ) -> Codes:
        """Units that each NUMA node has ``without`` some pods."""
        free, cards = self._free(packing, node, zones, without)
        asked, needs = packing.asked(self.needs), self.needs
        found = np.floor(free[:, asked > 0] / asked[asked > 0]).min(axis=1, initial=MOST_UNITS)
        if needs.cards:
            fits = [(cards[columns] >= needs.share).sum() // needs.cards for columns in zones.cards]
            found = np.minimum(found, fits)
        slots: Codes = np.maximum(found, 0.0).astype(np.int64)
        return slots

    def _free(
        self, packing: Packing, node: int, zones: NodeZones, without: Collection[int]
    ) -> tuple[Amounts, Amounts]:
        """Free amounts by NUMA node, and thousandths of cards, ``without`` some pods."""
        free, cards, on = zones.free.copy(), packing.free_cards[node].copy(), packing.on[node]
        for number, held in zones.held.items():
            if number not in on or number in without:
                free += held
        for number in without:
            cards[list(packing.pods[number].cards)] += packing.pods[number].pod.needs.share
        for number in on:
            if number in self._zone_of:
                free[self._zone_of[number]] -= packing.asked(self.needs)
        return free, cards
