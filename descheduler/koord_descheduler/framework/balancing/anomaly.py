"""Detection of loads that stay high, so that no pod moves for a peak. No IO."""

from __future__ import annotations

from collections.abc import Collection

from koord_descheduler.framework.balancing.pool_settings import AnomalyCondition


class _Detector:
    """Rounds in a row of one node; at most one of the counts is not 0."""

    def __init__(self, now: float) -> None:
        self.marked = now
        self._abnormal = 0
        self._normal = 0
        self._ends: float | None = None

    def mark(self, condition: AnomalyCondition, now: float, *, is_high: bool) -> bool:
        """Count a round; True if the load is an anomaly by now."""
        self.marked = now
        if self._ends is not None and self._ends < now:
            self._enter(None)
        self._abnormal = self._abnormal + 1 if is_high else 0
        self._normal = 0 if is_high else self._normal + 1
        if self._ends is None:
            needed = condition.abnormalities if condition.abnormalities > 1 else 0
            if self._abnormal > needed:
                self._enter(now + condition.timeout)
        elif self._normal > condition.normalities:
            self._enter(None)
        return self._ends is not None

    def _enter(self, ends: float | None) -> None:
        self._ends = ends
        self._abnormal = self._normal = 0


class AnomalyDetectors:
    """Detectors of a pool's nodes; each node is marked once a round.

    A detector is forgotten ``forgets`` seconds after its last mark, but not from one round to the
    next, however long that takes.
    """

    def __init__(self, condition: AnomalyCondition, forgets: float) -> None:
        self._condition = condition
        self._forgets = forgets
        self._known: dict[str, _Detector] = {}
        self._last = float("-inf")

    def mark(self, high: Collection[str], others: Collection[str], now: float) -> set[str]:
        """Count a round, in which the loads of some nodes are high; returns the anomalies."""
        last, self._last = self._last, now
        for name, detector in list(self._known.items()):
            if detector.marked < last and now - detector.marked > self._forgets:
                del self._known[name]
            elif name in others:
                detector.mark(self._condition, now, is_high=False)
        return {
            name
            for name in high
            if self._known.setdefault(name, _Detector(now)).mark(self._condition, now, is_high=True)
        }

    def reset(self, name: str) -> None:
        """A node's load is normal, whatever was before."""
        self._known.pop(name, None)
