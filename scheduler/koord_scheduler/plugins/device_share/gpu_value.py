"""Value of a node's free capacity: GPUs that future pods can be expected to use. No IO.

A card with little free waits for pods that fill it. It sees many pods and gets a good one of them,
as pods go where they fit best, so its value is what the best of some pods makes of it; how many
says ``_LOOKS``. CPU and memory have a price for each node: the one at which its cards, together,
would pay just for what the node has free (a Lagrange multiplier, found on a grid). Where CPU and
memory are plentiful it is 0, and a card is worth what its free share can be filled with.
ADR 44 says what else was tried.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from koord_scheduler.plugins.device_share.fragmentation import NodeValue
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes
from koord_scheduler.plugins.device_share.typical_workload import TypicalWorkload
from koord_scheduler.state.arrays import Amounts

_LOOKS = 72
"""Pods of which a card gets the best."""
_RARE = 0.02
"""Part of the pods. A card gets half as many looks if only so few pods fit on it: the others that
wait for these pods are many."""
_SOUGHT = 30.0
"""Value of a card that all pods accept over one that none does, in free parts.

That much, as pods that accept any model are to leave such cards free.
"""
_PRICES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.1, 1.7, 2.5)
"""Of CPU or memory; at 1 that of all pods with GPUs costs as much as their GPUs are worth."""

_Table = NDArray[np.float64]


def gpu_value(workload: TypicalWorkload) -> NodeValue:
    """Of each row, the free thousandths of cards that pods of the workload can be expected to use.

    It knows the free capacity of the node and the typical workload, and neither other nodes nor
    how many pods will come. It is 0 everywhere for a workload without GPUs.
    """
    kinds = workload.of(workload.cards > 0)
    prices = _prices(kinds)
    tables = _tables(kinds, prices)
    for_gpus = np.array([_part_for_gpus(workload, name) for name in ("cpu", "memory")])
    whole = kinds.of(kinds.cards > 1)
    several = WHOLE * whole.part * whole.cards
    accepts = whole.accepts.T.copy()

    def value(nodes: GpuNodes) -> Amounts:
        free = nodes.cards.astype(np.intp)
        by_price = tables[nodes.model[:, None], free].sum(axis=1)
        by_price += np.column_stack([nodes.cpu, nodes.memory]) * for_gpus @ prices.T
        found: Amounts = by_price.min(axis=1)
        if len(several):
            whole_cards = (nodes.cards >= WHOLE).sum(axis=1)[:, None]
            can_run = (whole_cards >= whole.cards) & (nodes.cpu[:, None] >= whole.cpu)
            found += (can_run & accepts[nodes.model]) @ several
        return found

    return value


def _part_for_gpus(workload: TypicalWorkload, name: str) -> float:
    """Return the part of a resource that is for pods with GPUs; the rest goes to others."""
    amounts = workload.part * getattr(workload, name)
    total = float(amounts.sum())
    return float(amounts[workload.cards > 0].sum()) / total if total else 1.0


def _prices(kinds: TypicalWorkload) -> _Table:
    """Thousandths of a card for a unit of CPU and of memory: one of them costs something."""
    cards = float((kinds.part * kinds.cards * kinds.share).sum())
    found = [(0.0, 0.0)]
    for resource in range(2):
        amounts = (kinds.part * (kinds.memory if resource else kinds.cpu)).sum()
        if amounts > 0:
            unit = cards / float(amounts)
            found += [(0.0, p * unit) if resource else (p * unit, 0.0) for p in _PRICES]
    return np.array(found)


def _tables(kinds: TypicalWorkload, prices: _Table) -> _Table:
    """By model, free thousandths of a card, and price: what the card is worth."""
    cards = kinds.part * kinds.cards
    accepted_by = kinds.accepts.T @ cards / cards.sum() if len(cards) else np.zeros(1)
    sought = _SOUGHT * (accepted_by - accepted_by.min())
    known: dict[bytes, _Table] = {}
    found = []
    for accepted in kinds.accepts.T:
        key = accepted.tobytes()
        if key not in known:
            known[key] = _card_values(kinds.of(accepted), prices)
        found.append(known[key])
    free = np.arange(WHOLE + 1.0)[:, None]
    by_model: _Table = np.array(found) + sought[:, None, None] * free
    return by_model


def _card_values(kinds: TypicalWorkload, prices: _Table) -> _Table:
    """By free thousandths and price; a pod with several cards counts as one for each of them.

    The value of a card is the expectation of the best of some pods: what a pod takes, less what its
    CPU and memory cost, and the value of what it leaves. If that is negative, it is worth 0.
    """
    share = kinds.share.astype(np.intp)
    part = kinds.part * kinds.cards
    part = part / part.sum() if len(part) else part
    cost = prices @ np.array([kinds.cpu, kinds.memory]) / np.maximum(kinds.cards, 1)
    found = np.zeros((WHOLE + 1, len(prices)))
    for free in range(1, WHOLE + 1):
        fitting = np.flatnonzero(share <= free)
        if not len(fitting):
            continue
        chance = part[fitting]
        taken = share[fitting]
        worth = np.maximum(taken - cost[:, fitting] + found[free - taken].T, 0.0)
        order = np.argsort(worth, axis=1, kind="stable")
        some = float(chance.sum())
        looks = _LOOKS / (1 + (_RARE / some) ** 2)
        # The best of n pods is one of the first k kinds with the chance of one being so, to the n.
        below = np.minimum(np.cumsum(chance[order], axis=1) + (1.0 - some), 1.0)
        none = np.full((len(prices), 1), max(1.0 - some, 0.0))
        best = np.diff(np.concatenate([none, below], axis=1) ** looks, axis=1)
        found[free] = (best * np.take_along_axis(worth, order, axis=1)).sum(axis=1)
    return found
