"""Aggregations of a series' points, against Koordinator's metric cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from koordlet.metric_cache.core.aggregation import PointBlock, aggregate_block
from koordlet.metric_cache.core.interface import Aggregation
from koordlet.metric_cache.core.samples import Series

from tests.conformance.vectors import Object, Vector, replay

NAMES = {
    "avg": Aggregation.AVG,
    "p50": Aggregation.P50,
    "p90": Aggregation.P90,
    "p95": Aggregation.P95,
    "p99": Aggregation.P99,
    "last": Aggregation.LAST,
    "count": Aggregation.COUNT,
}


def ours(vector: Vector) -> dict[str, Any]:
    times, values = zip(*vector.given["points"], strict=True)
    series = Series("node_cpu_usage")
    block = PointBlock((series,), np.array(times, float), np.array([values], np.float32))
    found = aggregate_block(block, tuple(NAMES.values()))
    reported = {name: float(found.values[one][0]) for name, one in NAMES.items()}
    return flat(reported | {"seconds": times[-1] - times[0]})


def theirs(recorded: Object) -> dict[str, Any]:
    return flat(recorded)


def flat(reported: Object) -> dict[str, Any]:
    return reported | {"avg": float(f"{reported['avg']:.6g}")}


def test_aggregations() -> None:
    replay("aggregation", ours, theirs)
