from __future__ import annotations

import numpy as np
import pytest
from koord_simulation.node_model.curves import (
    Constant,
    DemandCurve,
    Noise,
    Ramp,
    RecordedCurve,
    Sine,
    Spikes,
)

TIMES = np.arange(100, dtype=np.float64)


def values(curve: DemandCurve, seed: int = 0) -> np.ndarray:
    return curve.values(TIMES, np.random.RandomState(seed))


@pytest.mark.parametrize(
    ("curve", "second", "value"),
    [
        (Constant(3), 50, 3.0),
        (Sine(4, 2, period=40, peak_at=10), 10, 6.0),
        (Sine(4, 2, period=40, peak_at=10), 30, 2.0),
        (Ramp(1, 5, 20, 60), 10, 1.0),
        (Ramp(1, 5, 20, 60), 40, 3.0),
        (Ramp(1, 5, 20, 60), 90, 5.0),
        (Spikes(7, every=30, lasts=5, first=10), 9, 0.0),
        (Spikes(7, every=30, lasts=5, first=10), 14, 7.0),
        (Spikes(7, every=30, lasts=5, first=10), 15, 0.0),
        (Spikes(7, every=30, lasts=5, first=10), 41, 7.0),
        (Spikes(7, every=30, lasts=5, first=10, once=True), 41, 0.0),
        (Constant(1) + Ramp(0, 99, 0, 99) + Constant(2), 50, 53.0),
    ],
)
def test_a_curve_has_a_value_at_each_time(curve: DemandCurve, second: int, value: float) -> None:
    assert values(curve)[second] == pytest.approx(value)


def test_noise_is_the_same_for_the_same_seed_and_as_large_as_asked() -> None:
    long = np.arange(20_000, dtype=np.float64)
    noise = Noise(0.5, lasts=5).values(long, np.random.RandomState(1))
    assert np.array_equal(noise, Noise(0.5, lasts=5).values(long, np.random.RandomState(1)))
    assert not np.array_equal(noise, Noise(0.5, lasts=5).values(long, np.random.RandomState(2)))
    assert noise.std() == pytest.approx(0.5, rel=0.1)
    assert np.corrcoef(noise[:-1], noise[1:])[0, 1] == pytest.approx(np.exp(-1 / 5), abs=0.05)


def test_what_was_recorded_is_joined_by_straight_lines_and_nothing_beyond() -> None:
    recorded = RecordedCurve(np.array([10.0, 20.0, 30.0]), np.array([1.0, 3.0, np.nan]))
    found = values(recorded)
    assert found[15] == 2.0
    assert np.isnan(found[9])
    assert np.isnan(found[25])
    assert np.isnan(found[31])
