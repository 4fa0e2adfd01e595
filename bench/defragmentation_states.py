"""Fragmented clusters for ``bench.defragmentation``: pods of a trace come and go."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from koord_descheduler.plugins.defragmentation.goals import (
    DefragmentationGoal,
    EmptyNodes,
    FreeSlots,
)
from koord_descheduler.plugins.defragmentation.packing import PackedNeeds, PackedPod, Packing
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest
from koord_scheduler.plugins.device_share.gpu_scores import place, value_policy
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

from bench import gpu_baselines
from bench.gpu_simulation import GpuAnswer, Placing, ask
from bench.gpu_trace import arriving_pods, read_cluster, read_pods

FILLS = ("bestfit", "value")
FULL = 0.9
WAVES = ((0.35, (0.78,)), (0.4, (0.75,)), (0.25, (0.70, 0.75, 0.80)))
"""Parts of the pods that leave; then new ones come until so much of the GPUs is in use, by seed."""
LARGE = ("G2", "G3")
"""Models with the most CPU."""
PODS_OF_BUDGET, BUDGET = 20, 10
"""So many pods in a row have a disruption budget, which allows so many evictions; half have one."""
_MOST_MISSES = 300

IN_GANGS, GANG = 20, 4
"""Of so many pods in a row so many are a gang that runs, where a demand has gangs."""

Pods = dict[int, tuple[GpuRequest, int, tuple[int, ...]]]
"""Of each pod its request, node, and cards."""


class TraceDemand(NamedTuple):
    """A goal, and how many units of it are of use.

    Only whole gangs of so many ``members`` count, if it is more than one. If it ``has_gangs``, a
    fifth of the pods are in gangs that run; as none of these moves alone, none moves.
    """

    goal: DefragmentationGoal
    units: int = 1 << 30
    members: int = 1
    has_gangs: bool = False


class TraceCluster:
    """The cluster and the pods of one trace."""

    def __init__(self, folder: Path, trace: str) -> None:
        self.cluster = read_cluster(folder)
        self.requests = read_pods(folder, trace, self.cluster.models)
        workload = typical_workload(self.requests, len(self.cluster.models))
        policy = value_policy(workload)
        self._placings: dict[str, Placing] = {
            "bestfit": gpu_baselines.best_fit,
            "value": lambda pod, nodes: place(pod, nodes, policy),
        }
        self._large = frozenset(self.cluster.models.index(name) for name in LARGE)
        models = {pod.models for pod in self.requests} | {None, self._large}
        self._codes = {some: code for code, some in enumerate(sorted(models, key=_order))}

    def state(self, fill: str, seed: int) -> Packing:
        """Filled to 90 %, then pods left and came in three waves."""
        filling = _Filling(self.cluster.nodes, self._placings[fill])
        random = np.random.default_rng(seed)
        parts = (
            arriving_pods(self.requests, self.cluster.capacity, 100 * seed + part)
            for part in range(9)
        )
        coming = itertools.chain.from_iterable(parts)
        for leaves, levels in ((0.0, (FULL,)), *WAVES):
            numbers = random.permutation(sorted(filling.pods))
            for number in numbers[: int(leaves * len(numbers))].tolist():
                filling.remove(number)
            level, misses = levels[seed % len(levels)], 0
            while filling.used < level and misses < _MOST_MISSES:
                misses = 0 if filling.put(next(coming)) else misses + 1
        return self._packing(filling.pods)

    def _packing(self, pods: Pods) -> Packing:
        nodes = self.cluster.nodes
        model = nodes.model
        masks = [
            np.ones(len(model), np.bool_) if some is None else np.isin(model, list(some))
            for some in self._codes
        ]
        most = max(pods) + 1
        budgets = [BUDGET] * (most // (2 * PODS_OF_BUDGET) + 1)
        amounts = np.array([nodes.cpu, nodes.memory])
        packing = Packing(amounts, nodes.cards, masks, budgets, most)
        for number, (request, node, cards) in sorted(pods.items()):
            group, place_in_group = divmod(number, 2 * PODS_OF_BUDGET)
            budget = group if place_in_group < PODS_OF_BUDGET else -1
            packing.add(number, PackedPod(self._needs(request), 1.0, budget), node, cards)
        return packing

    def _needs(self, request: GpuRequest) -> PackedNeeds:
        amounts = request.cpu, request.memory
        return PackedNeeds(amounts, request.cards, request.share, self._codes[request.models])

    def demands(self) -> dict[str, TraceDemand]:
        """The demands by name."""
        gang = FreeSlots(PackedNeeds((24000.0, 65536.0), 1, WHOLE, self._codes[self._large]))
        return {
            "whole nodes": TraceDemand(FreeSlots(PackedNeeds((64200.0, 263168.0), 8, WHOLE)), 128),
            "CPU-bound gang": TraceDemand(gang, 64),
            "gangs of four": TraceDemand(gang, 256, members=4, has_gangs=True),
            "cards": TraceDemand(FreeSlots(PackedNeeds((0.0, 0.0), 1, WHOLE))),
            "usable cards": TraceDemand(FreeSlots(PackedNeeds((11400.0, 49152.0), 1, WHOLE))),
            "empty nodes": TraceDemand(EmptyNodes()),
        }


def _order(models: frozenset[int] | None) -> list[int]:
    return sorted(models) if models else []


@dataclass
class _Filling:
    empty: GpuNodes
    placing: Placing
    pods: Pods = field(default_factory=dict)
    _answers: dict[GpuRequest, GpuAnswer] = field(default_factory=dict)
    _changed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free = self.empty.rows(np.arange(len(self.empty.cpu)))
        self._numbers = itertools.count()

    @property
    def used(self) -> float:
        return 1.0 - float(self._free.cards.sum() / self.empty.cards.sum())

    def put(self, pod: GpuRequest) -> bool:
        found = ask(self._answers, self.placing, pod, self._free, self._changed)
        node = int(found.grade.argmax())
        if found.grade[node] == -np.inf:
            return False
        room = np.flatnonzero(self._free.cards[node] >= pod.share)
        first = tuple(room[: pod.cards].tolist()) if pod.cards else ()
        cards = (int(found.card[node]),) if pod.is_shared else first
        self._shift(pod, node, cards, -1)
        self.pods[next(self._numbers)] = pod, node, cards
        return True

    def remove(self, number: int) -> None:
        self._shift(*self.pods.pop(number), 1)

    def _shift(self, pod: GpuRequest, node: int, cards: tuple[int, ...], sign: int) -> None:
        self._free.cpu[node] += sign * pod.cpu
        self._free.memory[node] += sign * pod.memory
        self._free.cards[node, list(cards)] += sign * pod.share
        self._changed.append(node)
