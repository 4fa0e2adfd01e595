"""Times of samples, whatever the wall clock says: a timeline that only goes on. No IO.

The clock is believed as long as it goes on: up to ``AHEAD_SECONDS`` in one step, which a node
that was busy or stopped may have missed, and up to ``LATE_SECONDS`` back, where a late
batch finds its place. Anything else is a clock that was set, and is believed when
``BELIEVED_AFTER`` times in a row agree. Then:

1. It stepped ahead less than a minute of samples ago, and these are the times that should have
   come instead: the samples since the step are undone.
2. Nothing has agreed with the timeline since a restart, and these are later: nobody was here
   meanwhile, and the gap stays. (Earlier ones cannot be: a clock that begins in 1970.)
3. Otherwise the timeline goes on where it was, and the clock is ``ahead`` of it from then on: all
   that was measured stays as long ago as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LATE_SECONDS = 60.0
AHEAD_SECONDS = 900.0
BELIEVED_AFTER = 10

END_OF_TIME = float(1 << 40)


class Place(NamedTuple):
    """A time on the timeline; what is later than ``undone`` was measured by a wrong clock."""

    at: float
    undone: float | None = None


class Timeline:
    """Places times of the wall clock (seconds since the epoch); ``grain`` divides ``ahead``."""

    def __init__(self, grain: int) -> None:
        self.newest = -math.inf
        self.ahead = 0.0
        """Seconds by which the wall clock is ahead of the timeline."""
        self._grain = grain
        self._replayed = 0.0
        self._agreed = False
        self._step: tuple[float, float] | None = None
        self._doubted: list[float] = []

    def place(self, at: float) -> Place | None:
        """Return the place of a time; ``None`` while it is doubted, or if it cannot be any."""
        if not 0 <= at < END_OF_TIME:
            return None
        if self._goes_on(at - self.ahead):
            self._agreed = self._agreed or self.ahead == self._replayed
            return self._take(at)
        if self._doubted and not -LATE_SECONDS <= at - self._doubted[-1] <= AHEAD_SECONDS:
            self._doubted.clear()
        self._doubted.append(at)
        return self._believe(at) if len(self._doubted) >= BELIEVED_AFTER else None

    def replay(self, at: float, ahead: float) -> bool:
        """Take over a time of an earlier run; whether later ones were of a wrong clock."""
        back = at < self.newest - LATE_SECONDS
        self.newest = at if back else max(self.newest, at)
        self.ahead = self._replayed = ahead
        self._agreed = False
        return back

    def _goes_on(self, here: float) -> bool:
        return self.newest == -math.inf or -LATE_SECONDS <= here - self.newest <= AHEAD_SECONDS

    def _take(self, at: float) -> Place:
        self._doubted.clear()
        here = at - self.ahead
        if here - self.newest > LATE_SECONDS:
            self._step = (self.newest, here)
        self.newest = max(self.newest, here)
        return Place(here)

    def _believe(self, at: float) -> Place:
        """The clock was set to the doubted times."""
        first = self._doubted[0]
        if (before := self._before_step(first - self.ahead)) is not None:
            self.newest, self._step = before, None
            return self._take(at)._replace(undone=before)
        if not self._agreed and first - self._replayed > self.newest:
            self.ahead = self._replayed
        elif self._goes_on(first):
            self.ahead = 0.0
        else:
            self.ahead = round((first - self.newest) / self._grain) * float(self._grain)
        return self._take(at)

    def _before_step(self, here: float) -> float | None:
        """The newest time before a step that was wrong, if a time undoes it."""
        if self._step is None:
            return None
        before, after = self._step
        lately = self.newest - after <= LATE_SECONDS
        return before if lately and before - LATE_SECONDS <= here < after else None
