"""Scores of rows for pods with devices: by usage, or by a typical workload. No IO."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from koord_scheduler.plugins.device_share.candidates import candidates
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.device_room import takes_any
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.free_gpus import free_gpus
from koord_scheduler.plugins.device_share.gpu_nodes import GpuRequest
from koord_scheduler.plugins.device_share.learned_workload import (
    GPUScores,
    LearnedWorkload,
    accepted_models,
    gpu_request,
)
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

MANY = 64
"""Rows; fewer are asked one by one."""


class DeviceNodeScores:
    """Scores before they are normalized, of one profile; ``workload`` is what it has learned."""

    def __init__(self, scorer: DeviceScorer, scores: GPUScores) -> None:
        self._scorer = scorer
        self.workload = LearnedWorkload(scores)

    def count(self, pod: PodClass, nodes: ClusterState, row: int) -> None:
        """A pod of a class gets a row's node."""
        request = self._request(pod)
        if request is not None:
            state = nodes.use(DeviceColumns).state(row)
            model = "" if state is None else state.labels.model
            self.workload.count(request, model, accepted_models(pod.required))

    def of(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> Amounts:
        """Of each of these rows, for a class that needs devices."""
        request, workload = self._request(pod), self.workload
        if request is not None and request.cards and workload.policy is not None:
            raw = workload.raw_scores(request, free_gpus(nodes, rows, workload.model_code))
            if raw is not None:
                return raw
        return workload.plain_scores(self._plain(pod.of(DEVICE_NEEDS), nodes, rows))

    def best_card(self, pod: PodClass, nodes: ClusterState, row: int) -> int | None:
        """The number of the card that is best for a part of one; ``None``: any will do."""
        request, state = self._request(pod), nodes.use(DeviceColumns).state(row)
        if request is None or state is None:
            return None
        here = free_gpus(nodes, np.array([row]), self.workload.model_code)
        place = self.workload.card(request, here)
        return None if place is None else list(state.devices[GPU_TYPE])[place]

    def _request(self, pod: PodClass) -> GpuRequest | None:
        """Return the request in terms of the typical workload; none where there is none."""
        if not self.workload.scores:
            return None
        return gpu_request(dict(pod.amounts), pod.of(DEVICE_NEEDS))

    def _plain(self, needs: PodDeviceNeeds, nodes: ClusterState, rows: Rows) -> Amounts:
        if len(rows) >= MANY and takes_any(needs):
            return nodes.use(DeviceColumns).room().scores(needs, self._scorer, rows)
        states = map(nodes.use(DeviceColumns).state, rows.tolist())
        found = [
            0 if state is None else _node_score(needs, state, self._scorer) for state in states
        ]
        return np.array(found, np.float64)


@lru_cache(maxsize=1 << 13)
def _node_score(needs: PodDeviceNeeds, state: NodeDeviceState, scorer: DeviceScorer) -> int:
    """The sum over the types that a pod needs."""
    return sum(
        scorer.of_node(need.amounts, candidates(need, state).values()) for need in needs.needs
    )
