from __future__ import annotations

import numpy as np
import pytest
from koordlet.metric_cache.core.aggregation import PointBlock, aggregate_block
from koordlet.metric_cache.core.interface import Aggregation
from koordlet.metric_cache.core.samples import Series

NODE = (Series("node_cpu_usage"),)


@pytest.mark.parametrize(
    ("n", "index"),
    [
        (1, 0),
        (2, 0),
        (10, 8),
        (20, 18),
        # In float32, 0.95 of 100 is 95 and of 40 is 38; in float64 neither would be less.
        (40, 37),
        (100, 94),
    ],
)
def test_a_percentile_is_a_value_that_was_seen(n: int, index: int) -> None:
    values = np.arange(n, dtype=np.float32)[None, ::-1]
    found = aggregate_block(PointBlock(NODE, np.arange(float(n)), values), [Aggregation.P95])
    assert found.values[Aggregation.P95].tolist() == [float(index)]


def test_an_average_of_many_counts_as_many() -> None:
    """Two points of which one stands for 60 are as 61 points."""
    block = PointBlock(
        NODE,
        np.array([0.0, 60.0]),
        np.array([[1.0, 5.0]], np.float32),
        lows=np.array([[0.5, 5.0]], np.float32),
        highs=np.array([[9.0, 5.0]], np.float32),
        weights=np.array([[60.0, 1.0]], np.float32),
    )
    found = aggregate_block(block, tuple(Aggregation)).row(NODE[0])
    assert found == {
        Aggregation.AVG: pytest.approx(65 / 61),
        Aggregation.P50: 1.0,
        Aggregation.P90: 1.0,
        Aggregation.P95: 1.0,
        Aggregation.P99: 1.0,
        Aggregation.LAST: 5.0,
        Aggregation.COUNT: 61.0,
        Aggregation.MIN: 0.5,
        Aggregation.MAX: 9.0,
    }


def test_weighted_percentiles_are_those_of_repeated_values() -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        weights = random.integers(0, 5, 12)
        values = random.random(12).astype(np.float32)
        if not weights.any():
            continue
        values[weights == 0] = np.nan
        repeated = np.repeat(values, weights)[None, :]
        times = np.arange(12.0)
        ours = PointBlock(NODE, times, values[None], weights=weights[None].astype(np.float32))
        plain = PointBlock(NODE, np.arange(float(repeated.size)), repeated)
        names = (Aggregation.P50, Aggregation.P90, Aggregation.P99, Aggregation.COUNT)
        assert aggregate_block(ours, names).row(NODE[0]) == aggregate_block(plain, names).row(
            NODE[0]
        )
