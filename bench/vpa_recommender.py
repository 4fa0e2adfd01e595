"""The targets of VPA's own recommender, by its defaults (vertical-pod-autoscaler 1.5).

CPU: p90 of all samples, in buckets from 1 millicore on that grow by 5 %. Memory: p90 of the peaks
of each 24 h, in buckets from 10 MB on; a kill is a peak of what was there times 1.2, or plus
100 MiB. Both decay by half in 24 h, and get 15 %; 25 millicores and 250 MiB at least. Its
confidence multipliers bound when VPA's updater acts, and not the target.
"""

from __future__ import annotations

import numpy as np
from koord_prediction.histogram import Buckets, Floats, Histograms

_CPU, _MEMORY = Buckets(0.001, 1000.0), Buckets(1e7, 1e12)
_DAY = 86_400.0
_PERCENTILE, _MARGIN = 0.9, 1.15
_LEAST_CPU, _LEAST_MEMORY = 0.025, 250 * 2.0**20
_BUMP, _LEAST_BUMP = 1.2, 100 * 2.0**20


class VpaRecommender:
    """Workloads of one container, a row each, whose samples begin together; times in seconds."""

    def __init__(self, workloads: int, start: float) -> None:
        self._cpu = Histograms(_CPU, _DAY, workloads)
        self._rows = np.arange(workloads)
        self._start = start
        self._peaks = np.zeros((workloads, 0))
        """A column for each window; the last one is not over yet."""

    def learn(self, cpu: Floats, memory: Floats, at: float) -> None:
        """A sample of each workload, in cores and bytes."""
        self._cpu.add(self._rows, cpu, at)
        if at >= self._start + self._peaks.shape[1] * _DAY:
            self._peaks = np.pad(self._peaks, ((0, 0), (0, 1)))
        self._peaks[:, -1] = np.maximum(self._peaks[:, -1], memory)

    def killed(self, workload: int, limit: float) -> None:
        """Its container has run out of memory, with this limit in bytes."""
        needed = max(limit + _LEAST_BUMP, limit * _BUMP)
        self._peaks[workload, -1] = max(self._peaks[workload, -1], needed)

    def targets(self) -> tuple[Floats, Floats]:
        """Requests in cores and bytes."""
        [cpu] = self._cpu.percentiles(self._rows, [_PERCENTILE]).T
        memory = Histograms(_MEMORY, _DAY, len(self._rows))
        for number in range(self._peaks.shape[1]):
            memory.add(self._rows, self._peaks[:, number], self._start + (number + 1) * _DAY)
        [peak] = memory.percentiles(self._rows, [_PERCENTILE]).T
        return np.maximum(cpu * _MARGIN, _LEAST_CPU), np.maximum(peak * _MARGIN, _LEAST_MEMORY)
