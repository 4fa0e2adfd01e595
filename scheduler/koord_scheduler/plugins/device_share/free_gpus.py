"""Free resources of rows for pods with GPUs. No IO."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.gpu_nodes import GpuNodes
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState


def free_gpus(nodes: ClusterState, rows: Rows, model_code: Callable[[str], int]) -> GpuNodes:
    """Free CPU, memory and cards of these rows; cards are in the order of their numbers."""
    resources = nodes.resources
    cpu, memory = (
        resources.allocatable[number][rows] - resources.requested[number][rows]
        for number in map(resources.column, (CPU, MEMORY))
    )
    states = list(map(nodes.use(DeviceColumns).state, rows.tolist()))
    free = [() if state is None else state.free_cards for state in states]
    cards = np.zeros((len(free), max(map(len, free), default=0)))
    for place, one in enumerate(free):
        cards[place, : len(one)] = one
    models = [0 if state is None else model_code(state.labels.model) for state in states]
    return GpuNodes(cpu, memory, cards, np.array(models, np.intp))
