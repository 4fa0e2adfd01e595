"""The cache against a list of all points."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.ring_cache import RingCache

T0 = 1_700_000_000.0
ALL = tuple(Aggregation)
SHARES = {
    Aggregation.P50: 0.5,
    Aggregation.P90: 0.9,
    Aggregation.P95: 0.95,
    Aggregation.P99: 0.99,
}
SERIES = [
    *(Series("container_cpu_usage", (pod, name)) for pod in ("a", "b") for name in ("x", "y")),
    Series("container_cpu_throttled", ("a", "x")),
    *(Series("node_psi", ("cpu", "avg10", degree)) for degree in ("some", "full")),
]
STEPS = {"container_cpu_usage": 1, "container_cpu_throttled": 1, "node_psi": 10}


def memory() -> RingCache:
    return RingCache(None, 0, print)


def expected(points: Mapping[float, float]) -> dict[Aggregation, float]:
    """The aggregations of points by time, as written in the protocol."""
    ascending = sorted(points.values())
    found = {
        Aggregation.AVG: math.fsum(ascending) / len(ascending),
        Aggregation.LAST: points[max(points)],
        Aggregation.COUNT: float(len(points)),
        Aggregation.MIN: ascending[0],
        Aggregation.MAX: ascending[-1],
    }
    for name, share in SHARES.items():
        index = int(np.float32(len(ascending)) * np.float32(share)) - 1
        found[name] = ascending[max(index, 0)]
    return found


class Model:
    """Every point, and the rule of the clock."""

    def __init__(self) -> None:
        self.points: dict[Series, dict[float, float]] = {}
        self.newest = 0.0

    def append(self, at: float, samples: list[Sample]) -> None:
        if at < self.newest - 60:
            return
        self.newest = max(self.newest, at)
        for series, value in samples:
            step = STEPS[series.kind]
            self.points.setdefault(series, {})[at // step * step] = float(np.float32(value))

    def between(self, series: Series, window: TimeWindow) -> dict[float, float]:
        points = self.points.get(series, {})
        return {time: points[time] for time in points if window.start <= time <= window.end}


values = st.floats(-1e9, 1e9, width=32)
batches = st.lists(
    st.tuples(
        # Mostly the next second; gaps, and late ones.
        st.one_of(st.just(1.0), st.floats(-70, 90), st.floats(0, 900)),
        st.lists(st.builds(Sample, st.sampled_from(SERIES), values), max_size=6),
    ),
    min_size=1,
    max_size=60,
)


@given(batches, st.floats(0, 3540), st.floats(0, 3600), st.data())
def test_it_answers_as_a_list_of_all_points(given_batches, back, length, data):
    cache: MetricCache = memory()
    model = Model()
    at, behind = T0, 0
    for after, samples in given_batches:
        behind = behind + 1 if at + after < model.newest - 60 else 0
        if behind >= 9:
            break
        at += after
        cache.append(at, samples)
        model.append(at, samples)
    start = model.newest - back
    window = TimeWindow(start, min(start + length, model.newest + 10))
    kind = data.draw(st.sampled_from(sorted(STEPS)))
    wanted = {one: model.between(one, window) for one in SERIES if one.kind == kind}
    wanted = {one: points for one, points in wanted.items() if points}
    check_aggregate(cache, kind, window, wanted)
    check_merged(cache, kind, window, wanted)
    found = cache.points(kind, window)
    assert {
        one: dict(zip(some.times, some.values, strict=True)) for one, some in found.items()
    } == wanted
    assert all(list(some.times) == sorted(some.times) for some in found.values())


def check_aggregate(
    cache: MetricCache, kind: str, window: TimeWindow, wanted: Mapping[Series, dict[float, float]]
) -> None:
    found = cache.aggregate(kind, window, ALL)
    assert set(found.series) == set(wanted)
    for index, series in enumerate(found.series):
        assert found.row(series) == pytest.approx(expected(wanted[series]), rel=1e-9, abs=1e-6)
        assert found.count[index] == len(wanted[series])
        assert found.first[index] == min(wanted[series])
        assert found.last[index] == max(wanted[series])


def check_merged(
    cache: MetricCache, kind: str, window: TimeWindow, wanted: Mapping[Series, dict[float, float]]
) -> None:
    merged = dict(cache.merged(kind, window, ALL))
    if not wanted:
        assert merged == {Aggregation.COUNT: 0.0}
        return
    flat = {
        (time, number): value
        for number, points in enumerate(wanted.values())
        for time, value in points.items()
    }
    numbers = expected(flat)  # type: ignore[arg-type]
    newest = max(time for time, _ in flat)
    assert merged.pop(Aggregation.LAST) in [flat[one] for one in flat if one[0] == newest]
    del numbers[Aggregation.LAST]
    assert merged == pytest.approx(numbers, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (None, {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}),
        ({}, {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}),
        ({"pod_uid": "a"}, {("a", "x"), ("a", "y")}),
        ({"container_id": "y"}, {("a", "y"), ("b", "y")}),
        ({"pod_uid": "b", "container_id": "x"}, {("b", "x")}),
        ({"pod_uid": "c"}, set()),
    ],
)
def test_labels_choose_series(labels, names):
    cache = memory()
    cache.append(T0, [Sample(one, 1.0) for one in SERIES])
    window = TimeWindow(T0, T0)
    found = cache.aggregate("container_cpu_usage", window, [Aggregation.LAST], labels)
    assert {one.labels for one in found.series} == names
    assert {one.labels for one in cache.points("container_cpu_usage", window, labels)} == names
    merged = cache.merged("container_cpu_usage", window, [Aggregation.COUNT], labels)
    assert merged == {Aggregation.COUNT: float(len(names))}


@pytest.mark.parametrize(
    ("kind", "labels", "said"),
    [
        ("container_cpu_use", None, "container_cpu_use"),
        ("container_cpu_usage", {"pod": "a"}, "pod_uid, container_id"),
        ("node_cpu_usage", {"pod_uid": "a"}, "it has none"),
    ],
)
def test_unknown_names_are_errors(kind, labels, said):
    cache, window = memory(), TimeWindow(T0, T0)
    with pytest.raises(KeyError, match=said):
        cache.aggregate(kind, window, ALL, labels)
    with pytest.raises(KeyError, match=said):
        cache.merged(kind, window, ALL, labels)
    with pytest.raises(KeyError, match=said):
        cache.points(kind, window, labels)


@pytest.mark.parametrize(
    "sample",
    [
        Sample(Series("no_such_kind"), 1.0),
        Sample(Series("node_cpu_usage", ("a",)), 1.0),
        Sample(Series("pod_cpu_usage"), 1.0),
        Sample(Series("pod_cpu_usage", ("\udc80",)), 1.0),
        Sample(Series("node_cpu_usage"), math.nan),
        Sample(Series("node_cpu_usage"), math.inf),
        Sample(Series("node_cpu_usage"), 1e39),
    ],
)
def test_bad_samples_are_counted_and_the_others_kept(sample):
    cache = memory()
    good = Series("sys_cpu_usage")
    cache.append(T0, [Sample(good, 1.0), sample, Sample(good, 2.0)])
    assert cache.state().refused == 1
    assert cache.merged("sys_cpu_usage", TimeWindow(T0, T0), [Aggregation.LAST]) == {
        Aggregation.LAST: 2.0
    }
    if sample.series.kind == "node_cpu_usage":
        assert cache.merged("node_cpu_usage", TimeWindow(T0, T0), ALL) == {Aggregation.COUNT: 0.0}


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0, 1e300])
def test_no_time_is_refused(at):
    cache = memory()
    cache.append(at, [Sample(Series("node_cpu_usage"), 1.0)])
    assert cache.state().refused == 1
    assert cache.state().series == 0


def test_windows_may_be_anything():
    cache = memory()
    for window in (TimeWindow(T0, T0), TimeWindow(T0, T0 - 1), TimeWindow(-math.inf, math.inf)):
        assert cache.aggregate("node_cpu_usage", window, ALL).series == ()
        assert cache.points("node_cpu_usage", window) == {}
    cache.append(T0, [Sample(Series("node_cpu_usage"), 1.0)])
    assert cache.aggregate(
        "node_cpu_usage", TimeWindow(-math.inf, math.inf), ALL
    ).count.tolist() == [1]
    assert cache.aggregate("node_cpu_usage", TimeWindow(T0, T0 - 1), ALL).series == ()


def test_without_a_directory_memory_works():
    cache = memory()
    cache.load()
    assert cache.state().problem == ""
    assert cache.state().disk_bytes == 0
    cache.close()


def test_readers_and_writers_may_be_many(tmp_path):
    cache = RingCache(str(tmp_path), 1 << 20, print)
    series = [Series("pod_cpu_usage", (str(number),)) for number in range(20)]
    wrong: list[object] = []

    clock = itertools.count()

    def write() -> None:
        for second in itertools.islice(clock, 300):
            cache.append(T0 + second, [Sample(one, float(second)) for one in series])

    def read() -> None:
        while not done.is_set():
            found = cache.points("pod_cpu_usage", TimeWindow(T0, T0 + 999))
            wrong.extend(one for one in found.values() if (one.values != one.times - T0).any())
            cache.state()

    done = threading.Event()
    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write) for _ in range(2)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    cache.close()
    assert wrong == []
    again = RingCache(str(tmp_path), 1 << 20, print)
    again.load()
    assert again.points("pod_cpu_usage", TimeWindow(T0, T0 + 999)).keys() == set(series)
    again.close()
