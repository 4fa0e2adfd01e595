from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_simulation.node_model.latency import Latency, latency, throttled


def one(
    load: float = 0.0,
    cpus: float = 8,
    throttle: float = 0.0,
    behind: float = 0.0,
    service: float = 5.0,
) -> Latency:
    numbers = (service, load, cpus, 1.0, throttle, behind)
    return latency(*(np.array([number]) for number in numbers))


def throttle(wanted: float, quota: float, burst: float = 0.0, burstiness: float = 0.2) -> float:
    numbers = (wanted, quota, burst, burstiness)
    return float(throttled(*(np.array([number]) for number in numbers))[0])


@pytest.mark.parametrize(
    ("given", "p50", "p99"),
    [
        ({}, 5.0, 12.5),
        # M/M/1: W = S·ρ/(1−ρ)
        ({"load": 0.5, "cpus": 1}, 10.0, None),
        # What is left over is waited for, but not for ever.
        ({"behind": 2}, 2005, None),
        ({"behind": 1e9}, None, 10_012.5),
        # Throttling costs half a period, and the unlucky a whole one.
        ({"throttle": 0.1}, 10.0, 112.5),
    ],
)
def test_times(given: dict[str, float], p50: float | None, p99: float | None) -> None:
    found = one(**given)
    assert p50 is None or found.p50[0] == pytest.approx(p50)
    assert p99 is None or found.p99[0] == pytest.approx(p99)
    assert given or found.waiting[0] == 0


@pytest.mark.parametrize(
    ("load", "low", "high"), [(0.5, 5.0, 5.2), (0.8, 5.5, 7.5), (0.95, 12, 20), (5.0, 50, 90)]
)
def test_waiting_grows_with_load_and_stays_finite(load: float, low: float, high: float) -> None:
    assert low <= one(load).p50[0] <= high


@pytest.mark.parametrize(
    ("wanted", "quota", "burst", "low", "high"),
    [
        (1, np.inf, 0, 0, 0),
        (0, 1, 0, 0, 0),
        (1, 4, 0, 0, 1e-6),
        (1, 1.2, 0, 0.05, 0.2),
        (1, 1.2, 1, 0, 0.08),
        (2, 1, 0, 1, 1),
        (2, 1, 5, 1, 1),
    ],
)
def test_throttled_periods(
    wanted: float, quota: float, burst: float, low: float, high: float
) -> None:
    assert low <= throttle(wanted, quota, burst) <= high


def test_demand_without_bursts_is_throttled_only_above_its_quota() -> None:
    assert throttle(0.99, 1, burstiness=0.0) < 0.01
    assert throttle(1.01, 1, burstiness=0.0) == 1


@given(st.floats(0, 2), st.floats(0, 2), st.floats(1, 64), st.floats(0, 1), st.floats(0, 20))
def test_more_of_anything_bad_is_never_better(
    load: float, more: float, cpus: float, part: float, behind: float
) -> None:
    base = one(load, cpus, part, behind)
    for worse in (
        one(load + more, cpus, part, behind),
        one(load, cpus, min(part + more, 1), behind),
        one(load, cpus, part, behind + more),
        one(load, cpus, part, behind, service=5 + more),
    ):
        assert worse.p50[0] >= base.p50[0]
        assert worse.p99[0] >= base.p99[0]
    assert base.p99[0] > base.p50[0]
