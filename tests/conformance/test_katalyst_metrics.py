"""Aggregates of custom metrics, against those of Katalyst's server."""

from __future__ import annotations

from typing import Any

from koord_manager.metrics_apis.core.aggregates import (
    MetricSeries,
    Point,
    aggregate,
    latest,
    read_selector,
    split,
)

from tests.conformance import vectors
from tests.conformance.vectors import Vector, replay


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    selector = read_selector(given["selector"])
    _, suffix = split(given["name"])
    series = [read(each_series, given["expired"]) for each_series in given["series"]]
    present = [each_series for each_series in series if each_series.points]
    if suffix:
        return shown(aggregate(present, suffix, selector))
    if selector.group_by:
        return {}  # which the server refuses
    chosen = [each_series for each_series in present if selector.labels.matches(each_series.labels)]
    return shown(latest(chosen) if given["latest"] else chosen)


def read(series: Any, expired: float) -> MetricSeries:
    """Katalyst's points are of a moment, its times are in milliseconds."""
    points = (Point(time / 1000, value, 0.0) for value, time in series["points"] if time > expired)
    return MetricSeries(series["labels"], tuple(sorted(points)))


def shown(found: list[MetricSeries]) -> dict[str, Any]:
    return {
        f"{sorted(each_series.labels.items())} {place} {name}": value
        for each_series in found
        for place, point in enumerate(each_series.points)
        for name, value in (
            ("value", f"{point.value:.9g}"),
            ("time", round(point.time * 1000)),
            ("window", int(point.window + 1e-6)),
        )
    }


def theirs(recorded: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in recorded["items"]:
        points = zip(item["values"], item["times"], item["windows"], strict=True)
        for place, (value, time, window) in enumerate(points):
            at = f"{sorted((item['labels'] or {}).items())} {place}"
            found |= {
                f"{at} value": f"{value:.9g}",
                f"{at} time": time,
                f"{at} window": window or 0,
            }
    return found


def p95_needs_no_selector(
    vector: Vector, _field: str, _here: vectors.Fields, there: vectors.Fields
) -> bool:
    """Katalyst computes the other aggregates ahead, and has only those then."""
    return vector.given["name"].endswith("_agg_p95") and not vector.given["selector"] and not there


def test_aggregates() -> None:
    replay("katalyst_metrics", ours, theirs, (p95_needs_no_selector,))
