"""What is usual for a series, and how far points are from it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.strategies.interference.baseline import Baseline, BaselineParameters

MANNER = BaselineParameters(warm_up=10, half_life=100)


def learnt(
    values: Iterable[float], manner: BaselineParameters = MANNER, one: Baseline | None = None
) -> Baseline:
    one = one or Baseline()
    for value in values:
        one = one.after(value, manner)
    return one


def noise(count: int, mean: float = 10.0, spread: float = 1.0, seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(mean, spread) for _ in range(count)]


def test_it_learns_mean_and_spread_once_it_has_warmed_up() -> None:
    warming = learnt(noise(9))
    assert warming.deviations(1000.0, MANNER) is None
    assert len(warming.first) == 9
    known = warming.after(10.0, MANNER)
    assert (known.known, known.first) == (True, ())
    one = learnt(noise(2000))
    assert one.mean == pytest.approx(10, abs=0.3)
    assert one.spread(MANNER) == pytest.approx(1, abs=0.2)
    assert one.deviations(one.mean + 2 * one.spread(MANNER), MANNER) == pytest.approx(2)
    # Outliers while it warms up do not spoil it.
    one = learnt([10, 11, 9, 10, 500, 11, 9, 10, 700, 10])
    assert one.mean == 10.0
    assert 1.4 < one.spread(MANNER) < 2.5


def test_an_episode_leaves_it_alone_and_a_new_time_becomes_usual() -> None:
    usual = learnt(noise(1000))
    episode = learnt([40.0] * 10, one=usual)
    assert episode.mean - usual.mean < 0.5
    assert (episode.deviations(40.0, MANNER) or 0) > 10
    later = learnt(noise(1000, mean=40.0), one=usual)
    assert later.mean == pytest.approx(40, abs=1)
    assert abs(later.deviations(40.0, MANNER) or 9) < 1


def test_what_never_moves_has_a_least_spread() -> None:
    still = learnt([2.0] * 20)
    assert still.deviations(2.1, MANNER) is None
    share = MANNER._replace(least_share=0.1)
    assert learnt([2.0] * 20, share).deviations(2.6, share) == pytest.approx(3.0)
    least = MANNER._replace(least_spread=0.5)
    assert learnt([0.0] * 20, least).deviations(1.0, least) == pytest.approx(2.0)


finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=10, max_size=60))
def test_the_mean_is_never_outside_what_was_seen(values: list[float]) -> None:
    one = learnt(values)
    assert min(values) - 1e-6 <= one.mean <= max(values) + 1e-6
    assert one.variance >= 0


@given(st.lists(finite, min_size=10, max_size=30), finite, finite)
def test_more_deviates_more(values: list[float], this: float, that: float) -> None:
    manner = MANNER._replace(least_spread=1.0)
    one = learnt(values, manner)
    low, high = (one.deviations(value, manner) for value in sorted((this, that)))
    assert low is not None
    assert high is not None
    assert low <= high


@given(st.lists(st.floats(5, 15), min_size=30, max_size=60), st.floats(1e3, 1e9))
def test_one_outlier_moves_it_by_a_little_whatever_its_size(
    values: list[float], outlier: float
) -> None:
    one = learnt(values)
    moved = one.after(outlier, MANNER).mean - one.mean
    assert 0 <= moved <= 0.03 * one.spread(MANNER) + 1e-9
