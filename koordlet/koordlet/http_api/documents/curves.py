"""Measurements over time: aggregates and curves of series, usage by class. No IO.

Curves are on a common grid, so that they can be drawn and added: each value is the mean
of the points in its step, ``None`` where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from koordlet.http_api.documents.node import Document, DocumentSources, capacity
from koordlet.http_api.documents.top import CLASSES, class_of
from koordlet.metric_cache.core.interface import Aggregation, Points, TimeWindow
from koordlet.metric_cache.core.metric_kinds import KINDS, MetricKind
from koordlet.metric_cache.core.samples import Series
from koordlet.states_informer.state.pod_inventory import PodRecord

MOST_CURVES = 100
"""Series in one answer; the rest is counted."""
MOST_POINTS = 1000
_MINUTE_AFTER = 3600.0

_Curve = NDArray[np.float64]
_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """``count`` steps of ``step`` seconds from ``start``, on whole multiples of the step.

    Thus the grid of the next request is the same, moved on by whole steps.
    """

    start: float
    step: float
    count: int

    @classmethod
    def of(cls, now: float, window: float, step: float) -> TimeGrid:
        """The last ``window`` seconds, without the step that is under way.

        Older than an hour there is a point a minute only.
        """
        step = max(step, 60.0 if window > _MINUTE_AFTER else 1.0, window / MOST_POINTS)
        count = max(int(window // step), 1)
        return cls((now // step - count) * step, step, count)

    @property
    def window(self) -> TimeWindow:
        """All of it; the end belongs to the next step."""
        return TimeWindow(self.start, self.start + self.count * self.step - 0.001)

    @property
    def times(self) -> list[float]:
        """Starts of the steps, seconds since the epoch."""
        return [self.start + i * self.step for i in range(self.count)]

    def sums(self, points: Points) -> tuple[_Curve, _Counts]:
        """The sum of the points in each step, and how many they are."""
        places = ((points.times - self.start) // self.step).astype(np.int64)
        inside = (places >= 0) & (places < self.count)
        sums = np.bincount(places[inside], points.values[inside], minlength=self.count)
        counts = np.bincount(places[inside], minlength=self.count)
        return sums.astype(np.float64), counts.astype(np.int64)

    def means(self, points: Points) -> _Curve:
        """The mean of the points in each step, NaN where there are none."""
        return _divided(*self.sums(points))


def kinds_document() -> Document:
    """The table of what is measured."""
    names = [field.name for field in fields(MetricKind)]
    return {"kinds": [{name: getattr(item, name) for name in names} for item in KINDS.values()]}


def query_document(
    observed: DocumentSources,
    kind: str,
    window: float,
    aggregations: Sequence[Aggregation],
    labels: Mapping[str, str] | None = None,
    step: float | None = None,
) -> Document:
    """Aggregates of each series over the last ``window`` seconds; with ``step`` curves too.

    Raises:
        KeyError: no such kind, or no such label of it.
    """
    now, row = observed.clock(), KINDS[kind]
    found = observed.cache.aggregate(kind, TimeWindow(now - window, now), aggregations, labels)
    pods = {record.pod.uid: record for record in observed.pods()}
    document: Document = {
        "kind": kind,
        "unit": row.unit,
        "meaning": row.meaning,
        "at": now,
        "window_seconds": window,
        "series": [
            {
                "labels": dict(zip(row.labels, series.labels, strict=True)),
                "who": _who(row, series, pods),
                "values": {name: float(found.values[name][i]) for name in aggregations},
                "count": int(found.count[i]),
                "last": float(found.last[i]),
            }
            for i, series in enumerate(found.series)
        ],
    }
    if step is None:
        return document
    grid = TimeGrid.of(now, window, step)
    points = observed.cache.points(kind, grid.window, labels)
    shown = document["series"][:MOST_CURVES]
    for item, series in zip(shown, found.series, strict=False):
        item["points"] = _shown(grid.means(points[series])) if series in points else []
    grown = {"times": grid.times, "step_seconds": grid.step}
    return document | grown | {"series": shown, "left_out": len(found.series) - len(shown)}


def usage_document(
    observed: DocumentSources, resource: str, window: float, step: float
) -> Document:
    """CPU or memory by quality class over time.

    Pods that have ended meanwhile are a row of their own, "ended": nobody remembers
    which class they had.
    """
    grid = TimeGrid.of(observed.clock(), window, step)
    rows: dict[str, list[tuple[_Curve, _Counts]]] = {}
    for name, points in _users(observed, resource, grid.window):
        rows.setdefault(name, []).append(grid.sums(points))
    whole = observed.cache.points(f"node_{resource}_usage", grid.window)
    # One that ran through half a step was seen in half the looks.
    looks = np.zeros(grid.count, dtype=np.int64)
    for _, counts in (row for found in rows.values() for row in found):
        np.maximum(looks, counts, out=looks)
    order = ["system", "host", *(item.value for item in CLASSES), "ended"]
    peaks = observed.peaks() or {}
    return {
        "resource": resource,
        "unit": KINDS[f"node_{resource}_usage"].unit,
        "times": grid.times,
        "step_seconds": grid.step,
        "classes": {name: _shown(_together(rows[name], looks)) for name in order if name in rows},
        "node": next((_shown(grid.means(points)) for points in whole.values()), []),
        "capacity": capacity(observed.latest)[resource],
        "peaks": {name: peak[resource] for name, peak in peaks.items() if resource in peak},
    }


def _users(
    observed: DocumentSources, resource: str, window: TimeWindow
) -> Iterator[tuple[str, Points]]:
    """Each user's points, and the row it belongs to."""
    classes = {record.pod.uid: class_of(record.pod).value for record in observed.pods()}
    cache = observed.cache
    for series, points in cache.points(f"pod_{resource}_usage", window).items():
        yield classes.get(series.labels[0], "ended"), points
    for points in cache.points(f"host_application_{resource}_usage", window).values():
        yield "host", points
    for points in cache.points(f"sys_{resource}_usage", window).values():
        yield "system", points


def _together(rows: Sequence[tuple[_Curve, _Counts]], looks: _Counts) -> _Curve:
    """Return the users' common curve, NaN where none of them was seen."""
    sums = np.sum([sums for sums, _ in rows], axis=0)
    seen = np.sum([counts for _, counts in rows], axis=0) > 0
    return _divided(sums, np.where(seen, looks, 0))


def _divided(sums: _Curve, counts: _Counts) -> _Curve:
    means = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _shown(curve: _Curve) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 4) for value in curve]


def _who(kind: MetricKind, series: Series, pods: Mapping[str, PodRecord]) -> str:
    """The pod's or container's name, where it is one that runs; else ""."""
    labels = dict(zip(kind.labels, series.labels, strict=True))
    record = pods.get(labels.get("pod_uid", ""))
    if record is None:
        return ""
    container = record.containers.get(labels.get("container_id", ""))
    return record.pod.full_name + (f"/{container.name}" if container is not None else "")
