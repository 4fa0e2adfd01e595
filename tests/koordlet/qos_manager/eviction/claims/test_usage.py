"""Eviction because the node is used too much: the arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims import usage
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand

from tests.support.views import FakeLatest, cpu_info, memory_info, pod_view, view


@pytest.mark.parametrize(
    ("used", "capacity", "band", "expected"),
    [
        # Koordinator's own examples: 100 CPUs of which 81 are used.
        (81.0, 100.0, ThresholdBand(80, 78), 3.0),
        (80.0, 100.0, ThresholdBand(80, 78), 2.0),
        (79.99, 100.0, ThresholdBand(80, 78), 0.0),
        (11.0, 100.0, ThresholdBand(80, 78), 0.0),
        (7.0, 10.0, ThresholdBand(70, 50), 2.0),
        (70e9, 100e9, ThresholdBand(70, 68), 2e9),
        (100.0, 100.0, ThresholdBand(100, 0), 100.0),
    ],
)
def test_what_is_above_the_lower_threshold_is_to_be_freed(
    used: float, capacity: float, band: ThresholdBand, expected: float
) -> None:
    assert usage.need(used, capacity, band) == pytest.approx(expected)


bands = st.integers(1, 100).flatmap(
    lambda top: st.builds(ThresholdBand, st.just(top), st.integers(0, top - 1))
)


@given(st.floats(0, 1e15), st.floats(0, 1e15), st.floats(1e-3, 1e15), bands)
def test_need_is_never_negative_and_grows_with_use(
    one: float, other: float, capacity: float, band: ThresholdBand
) -> None:
    less, more = sorted((one, other))
    assert 0 <= usage.need(less, capacity, band) <= usage.need(more, capacity, band)


@given(st.floats(0, 1e6), st.floats(1, 1e6), bands)
def test_what_is_freed_brings_the_node_below_its_threshold(
    used: float, capacity: float, band: ThresholdBand
) -> None:
    left = used - usage.need(used, capacity, band)
    assert left <= max(capacity * band.threshold / 100, 0) * (1 + 1e-9)


def test_a_node_without_capacity_has_none_that_is_known() -> None:
    empty = view()
    nothing = view(latest=FakeLatest({}, cpu_info(0), memory_info(0)))
    full = view(latest=FakeLatest({}, cpu_info(8, offline=[3]), memory_info(1024)))
    for measure, expected in ((usage.CPU, 7.0), (usage.MEMORY, 1024.0)):
        assert usage.capacity(empty, measure) is None
        assert usage.capacity(nothing, measure) is None
        assert usage.capacity(full, measure) == expected


def test_a_pod_releases_what_it_uses_now() -> None:
    seen = view(latest=FakeLatest(pod_memory_usage={"a": 5.0}, pod_cpu_usage={"a": 0.5}))
    assert usage.used_by(seen, usage.MEMORY)(pod_view("a")) == 5.0
    assert usage.used_by(seen, usage.CPU)(pod_view("a")) == 0.5
    assert usage.used_by(seen, usage.CPU)(pod_view("b")) is None
