"""Aggregates and curves."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.http_api.documents.curves import (
    MOST_CURVES,
    MOST_POINTS,
    TimeGrid,
    query_document,
    usage_document,
)
from koordlet.metric_cache.core.interface import Aggregation, Points
from koordlet.metric_cache.core.samples import Sample, Series

from tests.support.observed import GIB, NOW, ObservedNode, busy_node

BOTH = (Aggregation.AVG, Aggregation.MAX)


@given(
    now=st.floats(1e6, 2e9),
    window=st.floats(1, 43200),
    step=st.floats(1, 43200),
)
def test_grids_are_of_whole_steps_and_bounded(now: float, window: float, step: float) -> None:
    grid = TimeGrid.of(now, window, step)
    assert 1 <= grid.count <= MOST_POINTS
    end = grid.start + grid.count * grid.step
    assert now - grid.step - 0.01 <= end <= now + 0.01
    assert len(grid.times) == grid.count
    later = TimeGrid.of(now + grid.step, window, step)
    assert later.start == pytest.approx(grid.start + grid.step)
    assert TimeGrid.of(NOW, 3600, 20).step == 20
    assert TimeGrid.of(NOW, 3601, 20).step == 60, "older than an hour, a point a minute"


@given(st.lists(st.tuples(st.integers(-20, 80), st.floats(0, 1e12)), max_size=60))
def test_means(points: list[tuple[int, float]]) -> None:
    grid = TimeGrid(0.0, 10.0, 6)
    times = np.array([float(at) for at, _ in points])
    means = grid.means(Points(times, np.array([value for _, value in points])))
    for place in range(6):
        inside = [value for at, value in points if place * 10 <= at < place * 10 + 10]
        if inside:
            assert means[place] == pytest.approx(sum(inside) / len(inside))
        else:
            assert np.isnan(means[place])


def test_a_query() -> None:
    node = busy_node(120)
    found = query_document(node.observed(), "pod_cpu_usage", 60, BOTH)
    json.dumps(found, allow_nan=False)
    assert (found["unit"], found["window_seconds"]) == ("cores", 60)
    assert "times" not in found
    web = next(one for one in found["series"] if one["who"] == "shop/web-7c9d8b5f4-x2x9k")
    assert web["labels"] == {"pod_uid": "uid-web-7c9d8b5f4-x2x9k"}
    assert set(web["values"]) == {"avg", "max"}
    assert (web["count"], web["last"]) == (6, NOW - 1)


def test_a_query_by_label_with_curves() -> None:
    found = query_document(
        busy_node(120).observed(), "node_psi", 60, BOTH, {"psi_resource": "io"}, step=10
    )
    assert [one["labels"]["psi_degree"] for one in found["series"]] == ["some", "full"]
    assert (len(found["times"]), found["step_seconds"], found["left_out"]) == (6, 10, 0)
    assert all(len(one["points"]) == 6 for one in found["series"])
    assert None not in found["series"][0]["points"]


def test_names_of_containers_and_of_what_has_ended() -> None:
    node = busy_node(1200)
    found = query_document(node.observed(), "container_cpu_usage", 60, BOTH)
    assert "shop/web-7c9d8b5f4-p8m2q/envoy" in {one["who"] for one in found["series"]}
    ended = query_document(node.observed(), "pod_cpu_usage", 1200, BOTH, {"pod_uid": "uid-ended"})
    assert [one["who"] for one in ended["series"]] == [""]


def test_curves_are_bounded_in_number() -> None:
    node = ObservedNode()
    node.cache.append(
        NOW - 20, [Sample(Series("pod_cpu_usage", (str(i),)), 1.0) for i in range(MOST_CURVES + 7)]
    )
    found = query_document(node.observed(), "pod_cpu_usage", 60, BOTH, step=10)
    assert (len(found["series"]), found["left_out"]) == (MOST_CURVES, 7)
    assert len(query_document(node.observed(), "pod_cpu_usage", 60, BOTH)["series"]) == 107


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_classes_system_and_host_applications_make_the_node(resource: str) -> None:
    usage = usage_document(busy_node(1200).observed(), resource, 1200, 20)
    json.dumps(usage, allow_nan=False)
    assert list(usage["classes"]) == ["system", "host", "LSE", "LSR", "LS", "BE", "ended"]
    assert usage["capacity"] == {"cpu": 16, "memory": 64 * GIB}[resource]
    assert set(usage["peaks"]) == {"prod"}
    for i, whole in enumerate(usage["node"]):
        parts = [curve[i] or 0 for curve in usage["classes"].values()]
        assert whole == pytest.approx(sum(parts), rel=0.01)


def test_usage_of_a_node_never_looked_at_and_pods_that_have_ended() -> None:
    usage = usage_document(ObservedNode().observed(), "cpu", 900, 10)
    known = [usage[name] for name in ("classes", "node", "capacity", "peaks")]
    assert known == [{}, [], None, {}]
    assert len(usage["times"]) == 90
    ended = usage_document(busy_node(1200).observed(), "cpu", 1200, 60)["classes"]["ended"]
    assert ended[2] > 0
    assert ended[-3:] == [None, None, None]


def test_two_pods_of_a_class_where_one_is_not_measured() -> None:
    node = busy_node(0)
    whole = usage_document(node.observed(), "cpu", 100, 10)["classes"]["LS"]
    for series in [one for one in node.cache.kept if one.labels == ("uid-web-7c9d8b5f4-x2x9k",)]:
        del node.cache.kept[series]
    less = usage_document(node.observed(), "cpu", 100, 10)["classes"]["LS"]
    assert [one is None for one in less] == [one is None for one in whole]
    assert max(one or 0 for one in less) < max(one or 0 for one in whole)
