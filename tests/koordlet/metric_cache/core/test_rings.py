"""What is remembered, for how long, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from koordlet.metric_cache.core.aggregation import aggregate_block
from koordlet.metric_cache.core.interface import AggregatedSeries, Aggregation, TimeWindow
from koordlet.metric_cache.core.page_ring import PAGE_BYTES
from koordlet.metric_cache.core.rings import Rings
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.core.timeline import BELIEVED_AFTER

T0 = 1_700_000_400.0
HOUR = 3600.0
NODE = Series("node_cpu_usage")
PSI = Series("node_psi", ("cpu", "avg10", "some"))
ALL = tuple(Aggregation)


def answer(rings: Rings, kind: str, start: float, end: float) -> AggregatedSeries:
    return aggregate_block(rings.read(kind, TimeWindow(start, end), None), ALL)


def number(rings: Rings, name: Aggregation, start: float, end: float) -> float | None:
    row = answer(rings, "node_cpu_usage", start, end).row(NODE)
    return None if row is None else row[name]


def pods(count: int, first: int = 0) -> list[Series]:
    return [Series("pod_cpu_usage", (f"pod-{number}",)) for number in range(first, first + count)]


@pytest.mark.parametrize(("series", "step"), [(NODE, 1), (PSI, 10)])
def test_twelve_hours_are_kept_more_coarsely(series, step):
    """Of every window since then the average, count, least and greatest are exact."""
    rings = Rings()
    wide, hours = 60 * step, 13
    # Aligned, so that windows of whole coarse slots are windows of whole points.
    start = T0 // wide * wide
    ends = start + hours * HOUR
    random = np.random.default_rng(3)
    every = max(5, step)
    values = random.random(int(hours * HOUR) // every).astype(np.float32)
    for index, value in enumerate(values):
        rings.put(start + index * every, [Sample(series, float(value))])
    for back, length in ((12.0, 1.0), (12.0, 12.0), (6.0, 0.5), (1.5, 1.5), (0.5, 0.5)):
        first = (ends - back * HOUR - start) // wide * wide + start
        last = min(first + length * HOUR, ends) - every
        points = values[int(first - start) // every : int(last - start) // every + 1]
        row = answer(rings, series.kind, first, last).row(series)
        assert row is not None
        assert row[Aggregation.COUNT] == len(points)
        assert row[Aggregation.MIN] == points.min()
        assert row[Aggregation.MAX] == points.max()
        assert row[Aggregation.AVG] == pytest.approx(points.astype(float).mean(), rel=1e-5)
        assert points.min() <= row[Aggregation.P50] <= points.max()


def test_what_is_older_is_forgotten_and_its_rows_are_free():
    rings = Rings()
    rings.put(T0, [Sample(one, 1.0) for one in (NODE, PSI, *pods(5))])
    for tenth in range(12 * 6):
        rings.put(T0 + tenth * 600, [Sample(NODE, 1.0)])
    assert rings.series == 7
    for tenth in range(12 * 6, 18 * 6):
        rings.put(T0 + tenth * 600, [Sample(NODE, 1.0)])
    assert rings.series == 1


def test_a_late_point_finds_its_place_and_an_older_one_none():
    rings = Rings()
    rings.put(T0, [Sample(NODE, 1.0)])
    rings.put(T0 - 60, [Sample(NODE, 2.0)])
    rings.put(T0 - 61, [Sample(NODE, 3.0)])
    assert number(rings, Aggregation.COUNT, T0 - 100, T0) == 2
    assert number(rings, Aggregation.LAST, T0 - 100, T0) == 1.0
    assert number(rings, Aggregation.MAX, T0 - 100, T0) == 2.0
    assert rings.refused == 1


def test_late_points_are_in_the_coarse_slot():
    rings = Rings()
    rings.put(T0 + 59, [Sample(NODE, 1.0)])
    rings.put(T0 + 119, [Sample(NODE, 1.0)])
    rings.put(T0 + 59 + 0.5, [Sample(NODE, 7.0)])
    for minute in range(1, 90):
        rings.put(T0 + minute * 60, [Sample(NODE, 1.0)])
    assert number(rings, Aggregation.MAX, T0, T0 + 59) == 7.0


@pytest.mark.parametrize("seconds", [1, 30, 700])
@pytest.mark.parametrize("off", [300.0, 1000 * HOUR, -300.0, -4 * HOUR, 100 - T0])
def test_a_clock_that_is_wrong_for_a_while_costs_seconds_and_no_history(off, seconds):
    rings = Rings()
    for second in range(1000):
        rings.put(T0 + second, [Sample(NODE, 1.0)])
    for second in range(1000, 1000 + seconds):
        rings.put(T0 + off + second, [Sample(NODE, 2.0)])
    for second in range(1000 + seconds, 1100 + seconds):
        rings.put(T0 + second, [Sample(NODE, 3.0)])
    now = T0 + 1099 + seconds
    # Every sample counts, but for those while the clock was doubted, or a minute's of a wrong one.
    lost = 2 * BELIEVED_AFTER + (min(seconds, 60) if off == 300.0 else 0)
    whole = number(rings, Aggregation.COUNT, now - 3 * HOUR, now)
    assert whole is not None
    assert 1100 + seconds - lost <= whole <= 1100 + seconds
    assert number(rings, Aggregation.LAST, now - HOUR, now) == 3.0
    # What comes now is as old as it is.
    recent = number(rings, Aggregation.COUNT, now - 80, now)
    assert recent == 81
    early = number(rings, Aggregation.COUNT, T0 - 300, T0 + 600)
    assert early is not None
    assert early > 250


def test_a_clock_that_was_set_takes_history_along():
    rings = Rings()
    for second in range(600):
        rings.put(100.0 + second, [Sample(NODE, float(second))])
    for second in range(600, 700):
        rings.put(T0 + second, [Sample(NODE, float(second))])
    points = rings.read("node_cpu_usage", TimeWindow(T0 - HOUR, T0 + HOUR), None)
    found = {t - T0: v for t, v in zip(points.times, points.values[0], strict=True) if v == v}
    assert len(found) == 700 - (BELIEVED_AFTER - 1)
    assert all(abs(at - value) <= 5 for at, value in found.items())


def test_one_late_collector_is_no_clock_put_back():
    rings = Rings()
    for second in range(200):
        rings.put(T0 + second, [Sample(NODE, 1.0)])
        rings.put(T0 + second - 90, [Sample(PSI, 1.0)])
    assert number(rings, Aggregation.COUNT, T0, T0 + 200) == 200


def test_pods_that_are_gone_leave_nothing():
    rings = Rings()
    psi = [Series("container_psi", (f"pod-{n}", "c", "cpu", "avg10", "some")) for n in range(50)]
    for minute in range(120):
        here = [*pods(50), *psi] if minute < 60 else [*pods(10), *psi[:10]]
        rings.put(T0 + minute * 60, [Sample(one, 1.0) for one in (NODE, *here)])
    before = rings.memory_bytes
    rings.retain_pods({f"pod-{number}" for number in range(10)})
    assert rings.series == 21
    assert number(rings, Aggregation.COUNT, 0, T0 * 2) == 120
    # Their pages are the next ones'.
    for minute in range(120, 180):
        here = [*pods(10), *psi[:10], *pods(40, 100)]
        rings.put(T0 + minute * 60, [Sample(one, 1.0) for one in (NODE, *here)])
    assert rings.memory_bytes <= before


def test_many_short_lives_stay_within_bounds():
    rings = Rings(pool_bytes=1 << 20, rows=512)
    pages = (1 << 20) // PAGE_BYTES
    for turn in range(1000):
        at = T0 + turn * 30
        rings.put(at, [Sample(one, 1.0) for one in (NODE, *pods(10, turn * 10 // 2))])
        assert rings.series <= 512
    assert rings.memory_bytes <= (pages + 1) * PAGE_BYTES + 512 * 1000
    # Those that live are all remembered, and nothing that lives was refused.
    assert rings.refused == 0
    newest = answer(rings, "pod_cpu_usage", at, at)
    assert len(newest.series) == 10
    assert number(rings, Aggregation.COUNT, at - 600, at) == 21


def test_more_living_series_than_rows_are_refused():
    rings = Rings(rows=100)
    for second in range(10):
        rings.put(T0 + second, [Sample(one, 1.0) for one in pods(130)])
    assert rings.series == 100
    assert rings.refused == 300
    assert len(answer(rings, "pod_cpu_usage", T0, T0 + 9).series) == 100
    # A quarter of an hour later the others have their turn.
    rings.put(T0 + 900, [Sample(one, 1.0) for one in pods(6, 200)])
    assert len(answer(rings, "pod_cpu_usage", T0 + 900, T0 + 900).series) == 6


def test_a_row_that_comes_to_life_again_keeps_it_while_others_are_admitted():
    rings = Rings(rows=100)
    rings.put(T0, [Sample(one, 1.0) for one in pods(100)])
    late = [Sample(one, 2.0) for one in (*pods(50), *pods(60, 1000))]
    rings.put(T0 + 600, late)
    found = answer(rings, "pod_cpu_usage", T0 + 600, T0 + 600)
    assert {one.labels for one in found.series} >= {one.labels for one in pods(50)}
    assert found.values[Aggregation.LAST].tolist() == [2.0] * 100
    assert rings.refused == 10


def test_more_than_memory_holds_costs_the_oldest_points_first():
    # Room for 20 pages a series; an hour takes 61.
    rings = Rings(pool_bytes=100 * 20 * PAGE_BYTES)
    for second in range(0, 3600, 5):
        rings.put(T0 + second, [Sample(one, float(second)) for one in pods(100)])
    assert rings.refused == 0
    end = T0 + 3595
    recent = answer(rings, "pod_cpu_usage", end - 595, end)
    assert recent.count.tolist() == [120] * 100
    # The rest is still there, by the minute.
    whole = answer(rings, "pod_cpu_usage", T0, end)
    assert whole.count.tolist() == [720] * 100


def test_less_memory_than_one_page_a_series_refuses_the_rest():
    rings = Rings(pool_bytes=50 * PAGE_BYTES)
    for second in range(200):
        rings.put(T0 + second, [Sample(one, 1.0) for one in pods(100)])
    assert len(answer(rings, "pod_cpu_usage", T0 + 199, T0 + 199).series) == 50
    assert rings.refused > 0


def test_a_day_of_points_costs_no_more_than_half_of_it():
    rings = Rings()
    series = [NODE, *pods(40)]
    values = [Sample(one, 1.5) for one in series]
    halfway = 0
    for second in range(0, 24 * 3600, 60):
        rings.put(T0 + second, values)
        if second == 14 * 3600:
            halfway = rings.memory_bytes
    assert rings.memory_bytes == halfway
    assert rings.series == 41
    # 61 raw pages, 49 coarse ones; and a little while a page is turned.
    assert rings.memory_bytes <= 41 * (112 * PAGE_BYTES + 1000)
