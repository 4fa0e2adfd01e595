"""The metric cache as its users see it; a backend is one class that does this. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from koordlet.metric_cache.core.samples import Sample, Series


class Aggregation(StrEnum):
    """Function from the points of a window to one number.

    Percentiles are Koordinator's: of n ascending values that with index
    max(int(n·p) - 1, 0). ``LAST`` is the value with the newest time.
    """

    AVG = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    LAST = "last"
    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From ``start`` to ``end``, both included, in seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class AggregatedSeries:
    """One row a series that has points in the window; NaN nowhere.

    ``values`` are numbers by aggregation, in the kind's unit. ``first`` and ``last`` are
    the times of the oldest and newest point, ``count`` how many there are.
    """

    series: tuple[Series, ...]
    values: Mapping[Aggregation, NDArray[np.float64]]
    count: NDArray[np.int64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    def row(self, series: Series) -> Mapping[Aggregation, float] | None:
        """One series' numbers; ``None`` where it has no points."""
        try:
            index = self.series.index(series)
        except ValueError:
            return None
        return {name: float(column[index]) for name, column in self.values.items()}


@dataclass(frozen=True, slots=True)
class Points:
    """A series' points in time order: seconds since the epoch, and values."""

    times: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CacheState:
    """Fill of the cache, for ``/metrics`` and people.

    ``refused`` counts samples that found no room or were bad, ``problem`` says why nothing is kept
    on disk ("" where it is).
    """

    series: int
    capacity: int
    memory_bytes: int
    disk_bytes: int
    refused: int = 0
    problem: str = ""


class MetricCache(Protocol):
    """Keeps samples at the step of their kind for an hour, and by 60 steps for twelve.

    Safe to use from several threads.
    """

    def load(self) -> None:
        """Take up what earlier runs kept on disk, once, before the first ``append``.

        It may take a second; what is asked meanwhile is answered from what is there.
        """
        ...

    def append(self, at: float, samples: Iterable[Sample]) -> None:
        """Keep what was measured at ``at``, seconds since the epoch.

        Of several points of a series in one step the newest stays. Never raises for
        what is wrong with the disk: memory is kept, and ``state().problem`` says it.
        """
        ...

    def aggregate(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> AggregatedSeries:
        """Each series of a kind whose labels equal those given, by itself.

        Raises:
            KeyError: no such kind, or no such label of it.
        """
        ...

    def merged(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> Mapping[Aggregation, float]:
        """The points of all matching series together, as Koordinator's queries do.

        Empty where there are no points, but for ``COUNT``.

        Raises:
            KeyError: no such kind, or no such label of it.
        """
        ...

    def points(
        self, kind: str, window: TimeWindow, labels: Mapping[str, str] | None = None
    ) -> Mapping[Series, Points]:
        """The points themselves, for curves.

        Raises:
            KeyError: no such kind, or no such label of it.
        """
        ...

    def retain_pods(self, present: Set[str]) -> None:
        """Forget the samples of all pods but these, by UID; their files are not changed."""
        ...

    def state(self) -> CacheState:
        """Return the fill of the cache."""
        ...

    def close(self) -> None:
        """Write what is not written yet, and let go of the disk."""
        ...
