"""Katalyst's aggregates over the points of a metric, and how metric selectors choose them. No IO.

After katalyst-core at d8c28ea, ``pkg/custom-metric/store/data/internal``: all points of all series
are one sample, and a percentile is that of montanaflynn/stats. On purpose different: ``_agg_p95``
works without a selector too, and the window says what the points themselves average over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from koord_model.label_selector import LabelSelector, Operator, parse_text

GROUP_BY = "groupBy"
"""Key in a metric selector whose values are the labels by which aggregates are grouped."""


class Point(NamedTuple):
    """A value at ``time``, seconds since the epoch, that is of the ``window`` seconds before."""

    time: float
    value: float
    window: float


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Points of one set of labels, oldest first."""

    labels: Mapping[str, str]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class MetricSelector:
    """Selection of series by their labels, and the labels that aggregates are grouped by."""

    labels: LabelSelector
    group_by: frozenset[str]

    @property
    def keys(self) -> frozenset[str]:
        """All labels that it names."""
        return self.group_by | {requirement.key for requirement in self.labels.requirements}


def read_selector(text: str) -> MetricSelector:
    """The selector in a text such as ``container=web,groupBy in (container,node_name)``.

    Raises:
        ValueError: it is none; one line says what of it.
    """
    requirements = parse_text(text, "metricLabelSelector").requirements
    group_by: frozenset[str] = frozenset()
    for requirement in requirements:
        if requirement.key == GROUP_BY:
            if requirement.operator is not Operator.IN:
                raise ValueError(f"metricLabelSelector has {GROUP_BY} without labels to group by")
            group_by = requirement.values
    others = tuple(given for given in requirements if given.key != GROUP_BY)
    return MetricSelector(LabelSelector(others), group_by)


def percentile(values: Iterable[float], percent: float) -> float:
    """Percentile of values, as montanaflynn/stats computes it.

    Between two values it is their mean, wherever between them; NaN below the first one.
    """
    ordered = sorted(values)
    if len(ordered) == 1:
        return ordered[0]
    index = percent / 100 * len(ordered)
    place = int(index)
    if index == place and place:
        return ordered[place - 1]
    return (ordered[place - 1] + ordered[place]) / 2 if index > 1 else math.nan


def _average(points: Sequence[Point]) -> float:
    return sum(point.value for point in points) / len(points)


def _percentile(percent: float) -> Callable[[Sequence[Point]], float]:
    return lambda points: percentile((point.value for point in points), percent)


AGGREGATES: Mapping[str, Callable[[Sequence[Point]], float]] = {
    "_agg_avg": _average,
    "_agg_max": lambda points: max(point.value for point in points),
    "_agg_min": lambda points: min(point.value for point in points),
    "_agg_p99": _percentile(99),
    "_agg_p95": _percentile(95),
    "_agg_p90": _percentile(90),
    "_agg_latest": lambda points: max(points, key=lambda point: point.time).value,
}
"""By the suffix of a metric's name."""


def split(name: str) -> tuple[str, str]:
    """Return a metric's name without the suffix of an aggregate, and that suffix or ""."""
    suffix = next((suffix for suffix in AGGREGATES if name.endswith(suffix)), "")
    return name.removesuffix(suffix), suffix


def aggregate(
    given: Iterable[MetricSeries], suffix: str, selector: MetricSelector
) -> list[MetricSeries]:
    """An aggregate of the selected series, with one point for each group of them.

    MetricSeries without any of the labels to group by are left out.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for series in given:
        kept = {key: series.labels[key] for key in selector.group_by & series.labels.keys()}
        if selector.labels.matches(series.labels) and (kept or not selector.group_by):
            groups.setdefault(tuple(sorted(kept.items())), []).extend(series.points)
    found = ((dict(labels), points) for labels, points in sorted(groups.items()) if points)
    made = [(labels, _summary(points, AGGREGATES[suffix])) for labels, points in found]
    return [MetricSeries(labels, (point,)) for labels, point in made if not math.isnan(point.value)]


def latest(given: Iterable[MetricSeries]) -> list[MetricSeries]:
    """The newest point of all series, as a series of its own."""
    newest = max(given, key=lambda series: series.points[-1].time, default=None)
    return [MetricSeries(newest.labels, newest.points[-1:])] if newest else []


def _summary(points: Sequence[Point], of: Callable[[Sequence[Point]], float]) -> Point:
    """An aggregate's window reaches from where its first point's begins to its last point."""
    newest = max(point.time for point in points)
    oldest = min(point.time - point.window for point in points)
    return Point(newest, of(points), newest - oldest)
