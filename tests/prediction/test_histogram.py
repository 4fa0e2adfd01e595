import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_prediction.histogram import CPU, MEMORY, Buckets, Histograms

HOUR = 3600.0
FRACTIONS = (0.0, 0.1, 0.37, 0.5, 0.6, 0.9, 0.95, 0.98, 1.0)
buckets = st.sampled_from([CPU, MEMORY])


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(numbers, dtype=np.intp)


def one(kind: Buckets, halflife: float = 12 * HOUR, *samples: tuple[float, float]) -> Histograms:
    """A histogram of one row; samples are values and times."""
    made = Histograms(kind, halflife, 1)
    for value, at in samples:
        made.add(rows(0), np.array([value]), at)
    return made


def percentile(of: Histograms, fraction: float) -> float:
    return float(of.percentiles(rows(0), (fraction,))[0, 0])


@pytest.mark.parametrize(("kind", "count"), [(CPU, 158), (MEMORY, 205)])
def test_as_many_buckets_as_koordinator_has(kind: Buckets, count: int) -> None:
    assert kind.count == count
    assert kind.starts[-2] < kind.maximum <= kind.starts[-1]


def test_where_buckets_start_and_which_values_they_have() -> None:
    starts = [0.0, 0.025, 0.05125, 0.0788125]
    assert list(CPU.starts[:4]) == pytest.approx(starts, rel=1e-5)
    assert CPU.starts[10] == pytest.approx(0.314447, rel=1e-5)
    values = np.array([-1.0, 0.0, 0.0249, 0.025, 0.0512, 0.05125, 1e9])
    assert list(CPU.find(values)) == [0, 0, 0, 1, 1, 2, 157]


@given(st.lists(st.floats(0, 900), min_size=1, max_size=50))
def test_percentiles_grow_and_are_never_below_the_samples(values: list[float]) -> None:
    whole = one(CPU, 12 * HOUR, *((value, 1000.0) for value in values))
    found = whole.percentiles(rows(0), FRACTIONS)[0]
    assert list(found) == sorted(found)
    for fraction, got in zip(FRACTIONS, found, strict=True):
        exact = sorted(values)[max(math.ceil(fraction * len(values) - 1e-6) - 1, 0)]
        assert exact < got <= exact * 1.05 + CPU.first * 1.01


def test_the_last_bucket_returns_its_start_and_an_empty_row_nothing() -> None:
    assert percentile(one(CPU, HOUR, (5000.0, 0.0)), 0.5) == CPU.starts[-1]
    whole = Histograms(CPU, HOUR, 2)
    whole.add(rows(1), np.array([1.0]), 0.0)
    found = whole.percentiles(rows(0, 1), (0.5, 1.0))
    assert (np.isnan(found[0]).all(), np.isnan(found[1]).any()) == (True, False)


def test_a_sample_counts_half_after_a_halflife() -> None:
    """One old sample against two new ones and then three, at the border of the median."""
    old, new = (8.0, 0.0), (1.0, 12 * HOUR)
    # The old one weighs 1/2 of a new one: a third of all with one, a fifth with two.
    assert percentile(one(CPU, 12 * HOUR, old, new), 0.66) < 1.1
    assert percentile(one(CPU, 12 * HOUR, old, new), 0.67) > 8
    assert percentile(one(CPU, 12 * HOUR, old, new, new), 0.79) < 1.1
    assert percentile(one(CPU, 12 * HOUR, old, new, new), 0.81) > 8


def test_the_reference_moves_before_weights_grow_too_large() -> None:
    whole = one(CPU, HOUR, *((float(n), n * HOUR) for n in range(1, 101)))
    reference, _ = whole.weights(0)
    whole.add(rows(0), np.array([1.0]), reference + 101 * HOUR)
    moved, weights = whole.weights(0)
    assert moved > reference
    assert weights.sum() < 4


def test_after_long_silence_only_the_new_counts_and_a_clock_may_jump_back() -> None:
    whole = one(MEMORY, HOUR, (2.0**40, 0.0), (2.0**30, 5000 * HOUR))
    assert percentile(whole, 1.0) == pytest.approx(2**30, rel=0.06)
    whole = one(CPU, HOUR, (4.0, 1e9), (1.0, 1e9 - 3000 * HOUR))
    assert percentile(whole, 0.95) == pytest.approx(4, rel=0.06)
    # A row that is used again starts with the clock as it is.
    whole.clear(0)
    whole.add(rows(0), np.array([1.0]), 1e9 - 3000 * HOUR)
    assert percentile(whole, 0.95) == pytest.approx(1, rel=0.06)


def test_rows_are_apart() -> None:
    whole = Histograms(CPU, HOUR, 2)
    whole.add(rows(0, 1), np.array([1.0, 2.0]), 0.0)
    whole.clear(0)
    whole.grow(5)
    whole.add(rows(4), np.array([7.0]), 0.0)
    found = whole.percentiles(rows(0, 1, 4), (1.0,))[:, 0]
    assert np.isnan(found[0])
    assert found[1:] == pytest.approx([2, 7], rel=0.06)


def test_weights_given_and_put_back_are_the_same() -> None:
    whole, other = one(CPU, HOUR, (1.0, 0.0), (3.0, 9 * HOUR)), Histograms(CPU, HOUR, 1)
    other.put(0, *whole.weights(0))
    assert (other.percentiles(rows(0), FRACTIONS) == whole.percentiles(rows(0), FRACTIONS)).all()
    whole.clear(0)
    assert percentile(other, 1.0) > 3, "a copy"
