"""Part of nodes' free GPUs that the typical workload cannot use. No IO.

The measure of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, sections 3.1 and 4.2. For a kind that a node
can run, the cards with less free than its share are fragments; for one that it cannot run, and for
kinds without GPUs, all free capacity is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes
from koord_scheduler.plugins.device_share.typical_workload import TypicalWorkload
from koord_scheduler.state.arrays import Amounts, Mask

NodeValue = Callable[[GpuNodes], Amounts]
"""Of each row, what the free capacity of the node is worth, in thousandths of a card."""


def fragmentation(workload: TypicalWorkload) -> NodeValue:
    """Of each row, the free thousandths that are fragments, expected over the workload.

    It is summed by why they are fragments, as the public simulator does. Differences of it are
    rounded to whole scores at 0, where the last bit decides.
    """
    shares, number = np.unique(workload.share, return_inverse=True)
    uses_gpus, accepts = workload.cards > 0, workload.accepts.T.copy()

    def measure(nodes: GpuNodes) -> Amounts:
        cards = nodes.cards[:, None, :]
        has_room = cards >= shares[:, None]
        enough_cards = has_room.sum(axis=2)[:, number] >= workload.cards
        too_small = np.where(has_room, 0.0, cards).sum(axis=2)[:, number]
        enough_cpu = nodes.cpu[:, None] >= workload.cpu
        can_use = uses_gpus & accepts[nodes.model]
        idle = workload.part * nodes.cards.sum(axis=1)[:, None]
        lacks_gpus = np.where(enough_cards, workload.part * too_small, idle)
        return (
            _sum(can_use & ~enough_cards & ~enough_cpu, idle)
            + _sum(can_use & enough_cpu, lacks_gpus)
            + _sum(can_use & enough_cards & ~enough_cpu, idle)
            + _sum(~uses_gpus & enough_cpu, idle)
            + _sum(~uses_gpus & ~enough_cpu, idle)
            + _sum(uses_gpus & ~accepts[nodes.model], idle)
        )

    return measure


def _sum(kinds: Mask, amounts: Amounts) -> Amounts:
    """One kind after the other: numpy's own sums add in another order."""
    found: Amounts = np.cumsum(np.where(kinds, amounts, 0.0), axis=1)[:, -1]
    return found


def fragmentation_scores(before: Amounts, after: Amounts) -> Amounts:
    """The paper's scores, 0 to 100: how much less fragmented a placement leaves a node.

    100 times the logistic function of the decrease in whole cards, rounded down.
    """
    found: Amounts = np.floor(100 / (1 + np.exp(-(before - after) / WHOLE)))
    return found
