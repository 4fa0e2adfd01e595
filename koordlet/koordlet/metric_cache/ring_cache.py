"""The metric cache: rings in memory, and a log of them on disk."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import numpy as np

from koordlet.metric_cache.core.aggregation import PointBlock, aggregate_block
from koordlet.metric_cache.core.interface import (
    AggregatedSeries,
    Aggregation,
    CacheState,
    Points,
    TimeWindow,
)
from koordlet.metric_cache.core.rings import Rings
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.core.tier import SampleBatch
from koordlet.metric_cache.segment_log import SegmentLog


class RingCache:
    """``MetricCache`` in numpy; values are float32, and a point's time is that of its step.

    ``path`` is the directory of the log; ``None`` or "" keeps nothing over a restart.
    ``max_bytes`` bounds its files. ``on_warning`` hears what is wrong with it, a line each.
    What earlier runs wrote is not known before ``load``.

    Of the last hour all points are remembered. Before that there is a point for each 60
    steps: ``AVG``, ``MIN``, ``MAX`` and ``COUNT`` are those of all the points it was made
    of, percentiles and ``LAST`` take it as so many points of its average.
    """

    def __init__(self, path: str | None, max_bytes: int, on_warning: Callable[[str], None]) -> None:
        self._rings = Rings()
        self._lock = threading.Lock()
        self._log = SegmentLog(path, max_bytes, on_warning) if path else None
        self._log_lock = threading.Lock()
        self._unwritten: deque[SampleBatch] = deque()

    def load(self) -> None:
        """Take up what earlier runs wrote, once, before the first sample is kept."""
        if self._log is None:
            return
        with self._log_lock, self._lock:
            for batch in self._log.load():
                self._unwritten += self._rings.replay(batch)
            self._rings.replayed()

    def append(self, at: float, samples: Iterable[Sample]) -> None:
        """Keep samples; what is wrong with one is counted in ``state().refused``."""
        with self._lock:
            kept = self._rings.put(at, samples)
            if self._log is not None:
                self._unwritten += kept
        self._write()

    def aggregate(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> AggregatedSeries:
        """Each matching series by itself."""
        return aggregate_block(self._read(kind, window, labels), aggregations)

    def merged(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> Mapping[Aggregation, float]:
        """All matching series together."""
        found = aggregate_block(self._read(kind, window, labels).together(), aggregations)
        if not found.series:
            return {name: 0.0 for name in aggregations if name is Aggregation.COUNT}
        return {name: float(column[0]) for name, column in found.values.items()}

    def points(
        self, kind: str, window: TimeWindow, labels: Mapping[str, str] | None = None
    ) -> Mapping[Series, Points]:
        """The points themselves."""
        block = self._read(kind, window, labels)
        there = ~np.isnan(block.values)
        return {
            series: Points(block.times[some], values[some].astype(np.float64))
            for series, some, values in zip(block.series, there, block.values, strict=True)
            if some.any()
        }

    def retain_pods(self, present: Set[str]) -> None:
        """Forget the samples of all other pods."""
        with self._lock:
            self._rings.retain_pods(present)

    def state(self) -> CacheState:
        """Return the fill of the cache."""
        with self._lock:
            rings = self._rings
            kept = (rings.series, rings.capacity, rings.memory_bytes)
            refused = rings.refused
        if self._log is None:
            return CacheState(*kept, 0, refused)
        return CacheState(*kept, self._log.disk_bytes, refused, self._log.problem)

    def close(self) -> None:
        """Write what is not written yet, and let go of the disk."""
        self._write()
        if self._log is not None:
            with self._log_lock:
                self._log.close()

    def _read(self, kind: str, window: TimeWindow, labels: Mapping[str, str] | None) -> PointBlock:
        with self._lock:
            return self._rings.read(kind, window, labels)

    def _write(self) -> None:
        """Bring to disk what memory has taken, in its order; readers need not wait."""
        if self._log is None:
            return
        with self._log_lock:
            batches = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
            if batches:
                self._log.write(batches)
