"""Small packings, and the execution of plans on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from koord_descheduler.plugins.defragmentation.goals import DefragmentationGoal
from koord_descheduler.plugins.defragmentation.packing import PackedNeeds, PackedPod, Packing
from koord_descheduler.plugins.defragmentation.steps import SearchStep
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE


def needs(cpu: float, cards: int = 0, share: int = WHOLE, places: int = 0) -> PackedNeeds:
    """Needs of CPU, as much memory, and cards."""
    return PackedNeeds((cpu, cpu), cards, share if cards else 0, places)


def packed(
    cpu: Sequence[float],
    pods: Sequence[tuple[int, PackedNeeds] | tuple[int, PackedNeeds, float]],
    cards: int = 0,
    budgets: Sequence[int] = (),
    budget: int = -1,
) -> Packing:
    """Nodes with so much CPU and memory and so many cards, and pods by (node, needs, cost)."""
    total = np.array([cpu, cpu], np.float64)
    found = Packing(total, np.full((len(cpu), cards), float(WHOLE)), budgets=budgets)
    for number, (node, asked, *cost) in enumerate(pods):
        assert found.fits(asked, np.array([node]))[0]
        pod = PackedPod(asked, cost[0] if cost else 1.0, budget)
        found.add(number, pod, node, found.cards_for(asked, node))
    return found


def carried_out(start: Packing, goal: DefragmentationGoal, steps: Sequence[SearchStep]) -> None:
    """Make moves one after the other: room is free before a pod leaves, and units at the end."""
    for step in steps:
        for move in step.moves:
            pod, node, _ = start.pods[move.pod]
            assert node == move.source != move.target
            assert not start.closed[move.target]
            assert start.may_leave(move.pod)
            assert start.fits(pod.needs, np.array([move.target]))[0]
            start.evict(move.pod)
            start.add(move.pod, pod, move.target, start.cards_for(pod.needs, move.target))
        assert goal.units_on(start, step.node) >= step.units
        goal.take(start, step.node, step.units)
