"""Chains: a pod makes room for a victim and goes elsewhere, if need be the same way. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from koord_scheduler.state.arrays import Amounts, Rows

from koord_descheduler.plugins.defragmentation.packing import CPU, PackedPod, Packing

TRIES = (40, 12, 6)
"""Kinds of pods that may make room for a victim, for such a pod, and so on."""


def put_with_chain(
    packing: Packing,
    number: int,
    pod: PackedPod,
    source: int,
    avoid: Amounts,
    tries: Sequence[int] = TRIES,
) -> bool:
    """Put a pod where another one makes room; False, and nothing is done, if there is none."""
    for other in _kinds(packing, pod, source, avoid, tries[0]):
        mark = packing.mark()
        moved, node, _ = packing.evict(other)
        packing.add(number, pod, node, packing.cards_for(pod.needs, node))
        if packing.put(other, moved, node, avoid):
            return True
        if len(tries) > 1 and put_with_chain(packing, other, moved, node, avoid, tries[1:]):
            return True
        packing.undo(mark)
    return False


def _kinds(
    packing: Packing, pod: PackedPod, source: int, avoid: Amounts, most: int
) -> Iterator[int]:
    """Pods that leave enough room, each of another kind: cheap and small ones first."""
    columns = packing.columns
    others = _smaller(packing, pod, source)
    keys = (columns.amounts[CPU], columns.gpu, columns.cost)
    order = np.lexsort((*(key[others] for key in keys), avoid[columns.node[others]]))
    seen = set()
    for other in others[order].tolist():
        needs = packing.pods[other].pod.needs
        if needs not in seen and packing.may_leave(other):
            seen.add(needs)
            yield other
            if len(seen) >= most:
                return


def _smaller(packing: Packing, pod: PackedPod, source: int) -> Rows:
    """Pods that are easier to place than ``pod``, and in whose place it fits."""
    columns, needs = packing.columns, pod.needs
    others = np.flatnonzero((columns.node >= 0) & (columns.cost < np.inf))
    node, gpu = columns.node[others], columns.gpu[others]
    cpu = columns.amounts[CPU, others]
    room = packing.free[:, node] + columns.amounts[:, others] >= packing.asked(needs)[:, None]
    fits = room.all(axis=0) & ~packing.closed[node] & packing.places[needs.places][node]
    fits &= (node != source) & ((gpu < needs.gpu) | (gpu <= needs.gpu) & (cpu < needs.amounts[CPU]))
    if needs.cards:
        free, card, whole = packing.free_cards[node], columns.card[others], columns.whole[others]
        on_card = np.where(card >= 0, free[np.arange(len(node)), card] + gpu, 0.0)
        fits_card = (free >= needs.share).sum(axis=1) + whole
        fits_card += (on_card >= needs.share) & (on_card - gpu < needs.share)
        fits &= fits_card >= needs.cards
    found: Rows = others[fits]
    return found
