"""Measurements: samples of series. No IO."""

from __future__ import annotations

from typing import NamedTuple


class Series(NamedTuple):
    """One thing that is measured over and over.

    ``kind`` is a row of ``metric_kinds.KINDS``; ``labels`` are the values of its
    labels, in the row's order.
    """

    kind: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """A series and its value now, in its kind's unit."""

    series: Series
    value: float
