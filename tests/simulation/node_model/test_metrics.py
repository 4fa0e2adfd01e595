from __future__ import annotations

import numpy as np
import pytest
from koord_simulation.node_model.metrics import SimulatedMetrics

A, B = ("a",), ("b",)


def fed(*values: float, kind: str = "pod_cpu_usage") -> SimulatedMetrics:
    found = SimulatedMetrics()
    for second, value in enumerate(values):
        found.turn(1000.0 + second, second)
        found.put(kind, (A,), np.array([value]))
    return found


def test_the_newest_value_counts_until_it_is_too_old() -> None:
    measured = fed(1, 2, 3)
    for second, value in ((2, 3), (12, 3), (13, None)):
        measured.turn(1000.0 + second, second)
        assert measured.value("pod_cpu_usage", "a") == measured.total("pod_cpu_usage") == value
    assert measured.value("pod_cpu_usage", "b") is None
    assert measured.value("no_such_kind") is None
    with pytest.raises(KeyError):
        measured.windows("no_such_kind", 10)


def test_totals_are_of_all_that_is_new_enough() -> None:
    measured = fed(1)
    measured.turn(1001, 1)
    measured.put("pod_cpu_usage", (A, B), np.array([2.0, 5.0]))
    assert measured.total("pod_cpu_usage") == 7
    assert measured.series("pod_cpu_usage") == {A: 2, B: 5}


def test_a_window_has_average_last_most_and_times() -> None:
    found = fed(1, 5, 3).windows("pod_cpu_usage", 1)[A]
    assert found == (4.0, 3.0, 5.0, 2, 1001.0, 1002.0)
    assert fed(1, 5, 3).windows("pod_cpu_usage", 60)[A].points == 3


def test_what_was_not_measured_is_no_point() -> None:
    measured = fed(1, np.nan, 3, np.nan)
    found = measured.windows("pod_cpu_usage", 60)[A]
    assert (found.points, found.last, found.last_at, found.avg) == (2, 3.0, 1002.0, 2.0)
    assert measured.windows("pod_cpu_usage", 0.5) == {}
    assert measured.value("pod_cpu_usage", "a") == 3


def test_series_come_and_go() -> None:
    measured = fed(1)
    for second in range(1, 8):
        measured.turn(1000 + second, second)
        labels = tuple((str(number),) for number in range(second))
        measured.put("pod_cpu_usage", labels, np.arange(second, dtype=float))
    found = measured.windows("pod_cpu_usage", 60)
    assert found[("5",)].points == 2
    assert found[A].points == 1
    assert A not in measured.windows("pod_cpu_usage", 3)


def test_a_clock_that_is_put_back_forgets_what_is_later() -> None:
    measured = fed(1, 2, 3)
    measured.turn(1000.5, 3)
    measured.put("pod_cpu_usage", (A,), np.array([9.0]))
    found = measured.windows("pod_cpu_usage", 60)[A]
    assert (found.points, found.last) == (2, 9.0)


def test_an_hour_is_remembered() -> None:
    measured = fed(*range(8000))
    found = measured.windows("pod_cpu_usage", 1e6)[A]
    assert 3600 <= found.points <= 7200
    assert found.last == 7999
