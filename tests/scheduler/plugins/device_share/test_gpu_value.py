"""What free GPUs are worth: by the formula, and as one would expect it to behave."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest
from koord_scheduler.plugins.device_share.gpu_value import gpu_value
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

from tests.scheduler.plugins.device_share.gpu_cases import (
    MODELS,
    one_node,
    some_nodes,
    some_requests,
)
from tests.support.examples import fewer

_SMALL, _LARGE = GpuRequest(1000, 10, 1, 300), GpuRequest(8000, 10, 1, 700)


def _accepts(kind: GpuRequest, model: int) -> bool:
    return kind.models is None or model in kind.models


def _card(
    kinds: list[GpuRequest], free: float, for_cpu: float, for_memory: float, model: int
) -> float:
    """Worth of a card at a price, straight from its definition."""
    usable = [kind for kind in kinds if _accepts(kind, model)]
    pods = [kind for kind in usable for _ in range(kind.cards)]

    @cache
    def worth(left: float) -> float:
        fitting = [pod for pod in pods if pod.share <= left]
        if not fitting:
            return 0.0
        some = len(fitting) / len(pods)
        looks = 72 / (1 + (0.02 / some) ** 2)
        values = [
            max(
                pod.share
                - (for_cpu * pod.cpu + for_memory * pod.memory) / pod.cards
                + worth(left - pod.share),
                0.0,
            )
            for pod in fitting
        ]
        # The mean of the best of some draws, by the chance that it is at most a value.
        found, below = 0.0, 1 - some
        for value in sorted(set(values)):
            upto = 1 - sum(other > value for other in values) / len(pods)
            found += value * (upto**looks - below**looks)
            below = upto
        return found

    return worth(free)


def _by_definition(nodes: GpuNodes, row: int, pods: list[GpuRequest]) -> float:
    kinds = [pod for pod in pods if pod.cards]
    shares = sum(pod.cards * pod.share for pod in kinds)
    prices = [(0.0, 0.0)]
    cpu, memory = sum(pod.cpu for pod in kinds), sum(pod.memory for pod in kinds)
    grid = (0.1, 0.2, 0.35, 0.5, 0.75, 1.1, 1.7, 2.5)
    prices += [(price * shares / cpu, 0.0) for price in grid if cpu]
    prices += [(0.0, price * shares / memory) for price in grid if memory]
    all_cpu, all_memory = sum(pod.cpu for pod in pods), sum(pod.memory for pod in pods)
    for_gpus = cpu / all_cpu if all_cpu else 1, memory / all_memory if all_memory else 1
    model = int(nodes.model[row])
    cards = [sum(p.cards for p in kinds if _accepts(p, m)) for m in range(MODELS)]
    sought = 30 * (cards[model] - min(cards)) / max(sum(pod.cards for pod in kinds), 1)
    found = sought * nodes.cards[row].sum() + min(
        for_cpu * nodes.cpu[row] * for_gpus[0]
        + for_memory * nodes.memory[row] * for_gpus[1]
        + sum(_card(kinds, free, for_cpu, for_memory, model) for free in nodes.cards[row].tolist())
        for for_cpu, for_memory in prices
    )
    whole = (nodes.cards[row] == WHOLE).sum()
    for pod in kinds:
        if 1 < pod.cards <= whole and _accepts(pod, model) and nodes.cpu[row] >= pod.cpu:
            found += WHOLE * pod.cards / len(pods)
    return float(found)


@given(some_nodes(), st.lists(some_requests(), min_size=1, max_size=5))
@fewer(2)  # a workload takes a tenth of a second
def test_of_all_nodes_at_once_as_of_each(nodes: GpuNodes, pods: list[GpuRequest]) -> None:
    expected = [_by_definition(nodes, row, pods) for row in range(len(nodes.cpu))]
    assert gpu_value(typical_workload(pods, MODELS))(nodes) == pytest.approx(expected, abs=1e-6)


def test_what_nobody_fits_on_is_worth_nothing() -> None:
    value = gpu_value(typical_workload([_SMALL, _LARGE], 1))
    assert value(one_node((299.0, 0.0))) == [0.0]
    assert value(one_node((300.0,)))[0] == pytest.approx(300, rel=1e-3)


def test_the_less_cpu_the_less_are_cards_worth() -> None:
    value = gpu_value(typical_workload([_SMALL, _LARGE], 1))
    values = [value(one_node((1000.0, 1000.0), cpu=cpu))[0] for cpu in (0, 1000, 9000, 64000)]
    assert values[0] < values[3] / 10
    assert values[0] < values[1] < values[2] < values[3]


def test_pods_without_gpus_need_cpu_too() -> None:
    alone = gpu_value(typical_workload([_SMALL, _LARGE], 1))
    beside = gpu_value(typical_workload([_SMALL, _LARGE, GpuRequest(9000, 10)], 1))
    node = one_node((1000.0, 1000.0), cpu=9000)
    assert beside(node)[0] < alone(node)[0]


def test_a_workload_without_gpus() -> None:
    assert gpu_value(typical_workload([GpuRequest(9000, 10)], 1))(one_node((1000.0,))) == [0.0]


def test_whole_cards_are_kept_together_for_those_who_need_several() -> None:
    value = gpu_value(typical_workload([_SMALL, GpuRequest(1000, 10, 2, 1000)], 1))
    both, one = value(one_node((1000.0, 1000.0)))[0], value(one_node((1000.0, 0.0)))[0]
    assert both > 2 * one + 100
    assert np.isfinite(one)


def test_cards_that_more_pods_accept_are_worth_more() -> None:
    value = gpu_value(typical_workload([_SMALL, _SMALL._replace(models=frozenset({1}))], 2))
    sought, other = value(one_node((1000.0,), model=1)), value(one_node((1000.0,), model=0))
    assert sought > other + WHOLE
