"""Measured values that evictions may go by: new ones, and averages over enough points. No IO."""

from __future__ import annotations

from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.qos_manager.core.strategy import StrategyView, WindowStats

_LONGEST_GAP = 10.0
"""Seconds that a point may stand for: what is older than that counts as outdated elsewhere."""

_LEAST_SHARE = 1 / 3
"""Of a window that must be covered by points, as Koordinator has it."""


def average(
    view: StrategyView, kind: str, *labels: str, seconds: float | None = None
) -> float | None:
    """The average over the last ``seconds``; the newest value where none are given.

    ``None`` where there is no new value, or where points cover less than a third of the window:
    a window over a start, or a gap, would say of a moment that it lasted.
    """
    newest = view.latest.value(kind, *labels)
    if newest is None or seconds is None or seconds <= KINDS[kind].step:
        return newest
    found = view.history.windows(kind, seconds).get(labels)
    if found is None or covered(found, KINDS[kind].step) < seconds * _LEAST_SHARE:
        return None
    return found.avg


def covered(stats: WindowStats, step: float) -> float:
    """Seconds for which the points of a window stand: their number by the mean time between them.

    ``step`` is what one point alone stands for, in seconds.
    """
    if stats.points < 2:
        return stats.points * step
    gap = (stats.last_at - stats.first_at) / (stats.points - 1)
    return stats.points * min(max(gap, 0.0), _LONGEST_GAP)
