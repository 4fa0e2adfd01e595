"""Free resources of nodes for pods with GPUs, as columns. No IO."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from koord_scheduler.state.arrays import Amounts, Codes, Mask, Rows

WHOLE = 1000
"""Thousandths of a card."""


class GpuNodes(NamedTuple):
    """Free resources of nodes; a node is a row.

    ``cpu`` is in thousandths, ``memory`` in any unit that requests use as well. ``cards`` has a
    column for each card of the largest node: free thousandths, 0 also where a node has none.
    ``model`` is a code for the model of the node's cards, from 0.
    """

    cpu: Amounts
    memory: Amounts
    cards: Amounts
    model: Codes

    def rows(self, rows: Rows) -> GpuNodes:
        """A copy of these rows."""
        return GpuNodes(self.cpu[rows], self.memory[rows], self.cards[rows], self.model[rows])


class GpuRequest(NamedTuple):
    """Request of a pod: ``share`` of each of ``cards`` cards, beside CPU and memory.

    A pod without GPUs has no ``cards``. ``models`` are the codes of the models that it accepts;
    ``None``: any.
    """

    cpu: float
    memory: float
    cards: int = 0
    share: int = 0
    models: frozenset[int] | None = None

    @property
    def is_shared(self) -> bool:
        """True if it takes a part of one card."""
        return self.cards == 1 and self.share < WHOLE


def fits(request: GpuRequest, nodes: GpuNodes) -> Mask:
    """Of each row, whether the node has room for a pod."""
    found: Mask = (nodes.cpu >= request.cpu) & (nodes.memory >= request.memory)
    if request.cards:
        found &= (nodes.cards >= request.share).sum(axis=1) >= request.cards
        if request.models is not None:
            found &= np.isin(nodes.model, list(request.models))
    return found


def with_first_cards(request: GpuRequest, nodes: GpuNodes) -> GpuNodes:
    """The nodes once each has a pod more, on its first cards that have room for it.

    For requests that are not a part of a card: it does not matter then which of the cards.
    """
    room = nodes.cards >= request.share
    taken = room & (np.cumsum(room, axis=1) <= request.cards)
    return _without(request, nodes, nodes.cards - taken * float(request.share))


def with_card(request: GpuRequest, nodes: GpuNodes, card: Codes) -> GpuNodes:
    """The nodes once each has a pod more, a part of its card ``card``."""
    cards = nodes.cards.copy()
    cards[np.arange(len(card)), card] -= request.share
    return _without(request, nodes, cards)


def _without(request: GpuRequest, nodes: GpuNodes, cards: Amounts) -> GpuNodes:
    return GpuNodes(nodes.cpu - request.cpu, nodes.memory - request.memory, cards, nodes.model)


def different_cards(request: GpuRequest, nodes: GpuNodes) -> tuple[Rows, Codes]:
    """All pairs of a row and a card with room for a part of it; of equal cards the first."""
    row, card = np.nonzero(nodes.cards >= request.share)
    _, first = np.unique(row * (WHOLE + 1.0) + nodes.cards[row, card], return_index=True)
    first.sort()
    return row[first], card[first]
