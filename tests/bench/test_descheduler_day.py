"""The simulated day that compares deschedulers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from bench.day_cluster import DayCluster
from bench.day_loads import MINUTES, WARM_UP, DayLoads, draw_loads
from bench.day_policies import SETTINGS, PlannedPolicy, nobody
from bench.peak_loads import made_up_series


def busy_from_ten(*cores: float) -> DayLoads:
    """A pod of each; until ten o'clock all of them idle."""
    usage = np.full((len(cores), MINUTES), 0.1)
    usage[:, WARM_UP + 600 :] = np.array(cores)[:, None]
    return DayLoads(np.arange(len(cores)), np.ones(len(cores)), usage)


LOADS = busy_from_ten(4.9, 4.9, 4.9, 0.5, 0.5, 0.5)
"""On two nodes one has at least two of the large ones, and is hot with them."""


def test_a_hot_spot_is_counted_until_a_pod_moves() -> None:
    run = DayCluster(2, LOADS, seed=1).play(nobody)
    assert run.hot == pytest.approx([0.0] * 10 + [1.0] * 14)
    assert run.evictions == 0
    relieved = DayCluster(2, LOADS, seed=1).play(PlannedPolicy(SETTINGS[0]))
    assert relieved.evictions == 1
    assert 0 < relieved.hot_hours < 0.2
    assert relieved.imbalance < run.imbalance


def test_a_successor_waits_while_its_node_is_hot_and_then_returns() -> None:
    rounds = iter(range(1440))

    def evict_all_at_noon(cluster: DayCluster) -> Iterable[str]:
        return list(cluster.documents) if next(rounds) == 720 else ()

    run = DayCluster(1, LOADS, seed=1).play(evict_all_at_noon)
    assert run.evictions == run.returned == 6
    assert 0 < run.waited < 1


def test_loads_are_as_large_as_asked_for() -> None:
    loads = draw_loads(made_up_series(1), 300.0, 400.0, seed=1)
    assert loads.usage[:, WARM_UP:].mean(axis=1).sum() == pytest.approx(300, rel=0.1)
    assert loads.request.sum() == pytest.approx(400, rel=0.1)
    assert loads.usage.shape == (len(loads.request), MINUTES)
