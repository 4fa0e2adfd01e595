"""One series of a container over time: what is usual, and episodes in which it is not. No IO.

An episode begins with so many outliers in a row, and ends with as many points in a row that
are none; points between two beats change nothing. An outlier is so many spreads above the
mean (``baseline``) and above an absolute floor. Of a metric that grows with the container's own
use of CPU, a point at which the pod uses clearly more than usual begins none: it is its own load.
"""

from __future__ import annotations

from typing import NamedTuple

from koordlet.qos_manager.strategies.interference.antagonist import Antagonist
from koordlet.qos_manager.strategies.interference.baseline import Baseline, BaselineParameters
from koordlet.qos_manager.strategies.interference.suspicion import Uses

WINDOW = 12
"""The newest points by which antagonists are looked for: two minutes of pressure, one of delays."""

_MORE_USE = 1.25
"""Times the usual use: the pod's own load explains that it waits."""
_LEAST_USE_SHARE = 0.1
_SILENT_SECONDS = 300.0
"""Time after which the health of the container is unknown."""


class OutlierLimits(NamedTuple):
    """Limits of an outlier: more than ``deviations``, at least ``floor``; ``points`` in a row."""

    deviations: float
    points: int
    floor: float = 0.0


class InterferenceEpisode(NamedTuple):
    """A period in which a container runs worse than usual.

    ``blamed`` is the likely antagonist, ``None`` where none stands out; ``own`` how much a limit of
    its own held the container up, 0 where that is not the cause.
    """

    value: float
    usual: float
    spread: float
    deviations: float
    blamed: Antagonist | None = None
    own: float = 0.0


class SeriesWatch(NamedTuple):
    """A series as it is watched.

    ``seen_at`` is the wall-clock time of its newest point, only ever compared for being another;
    ``steady`` (CLOCK_MONOTONIC, seconds) is when that came. ``high`` and ``low`` count outliers
    and others in a row. ``points`` are the newest deviations with what pods used then. ``use`` is
    what the pod usually uses of the CPU itself, where that matters.
    """

    baseline: Baseline = Baseline()
    use: Baseline = Baseline()
    seen_at: float = 0.0
    steady: float = 0.0
    high: int = 0
    low: int = 0
    points: tuple[tuple[float, Uses], ...] = ()
    episode: InterferenceEpisode | None = None

    def after(
        self,
        value: float,
        seen_at: float,
        steady: float,
        uses: Uses,
        manner: BaselineParameters,
        limits: OutlierLimits,
        own_use: float | None = None,
    ) -> SeriesWatch:
        """With one more point; the same where it is not a new one.

        ``own_use`` is what the pod used of the CPU (cores), ``None`` where that does not matter.
        """
        if seen_at == self.seen_at:
            return self.unless_silent(steady)
        now = self.unless_silent(steady)
        deviations = now.baseline.deviations(value, manner)
        learnt = now.baseline.after(value, manner)
        use = now.use if own_use is None else now.use.after(own_use, _of_use(manner))
        if deviations is None:
            return SeriesWatch(learnt, use, seen_at, steady)
        outlier = deviations > limits.deviations and value >= limits.floor
        if now.episode is None and now.use.known and own_use is not None:
            outlier = outlier and own_use <= _MORE_USE * now.use.mean
        high, low = (now.high + 1, 0) if outlier else (0, now.low + 1)
        episode = now.episode
        if outlier and (high >= limits.points or episode is not None):
            usual = now.baseline
            found = InterferenceEpisode(
                value, usual.usual(manner), usual.spread(manner), deviations
            )
            kept = episode or found
            episode = found._replace(blamed=kept.blamed, own=kept.own)
        elif episode is not None and low >= limits.points:
            episode = None
        points = (*now.points[1 - WINDOW :], (deviations, uses))
        return SeriesWatch(learnt, use, seen_at, steady, high, low, points, episode)

    def unless_silent(self, steady: float) -> SeriesWatch:
        """The same, or after a long silence what was usual alone."""
        if steady - self.steady <= _SILENT_SECONDS:
            return self
        return SeriesWatch(self.baseline, self.use, self.seen_at, self.steady)


def _of_use(manner: BaselineParameters) -> BaselineParameters:
    """Learn as fast what a pod uses, in cores."""
    return BaselineParameters(manner.warm_up, manner.half_life, least_share=_LEAST_USE_SHARE)
