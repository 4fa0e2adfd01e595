"""Time for which a threshold has been exceeded, and the pods warned. No IO.

All times are the steady clock's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

FORGET_SECONDS = 30.0
"""Time after which an episode ends whose signal is unknown."""


@dataclass(frozen=True, slots=True)
class ThresholdEpisode:
    """The time from which on a threshold is passed, without a break.

    ``seen`` is when that was last known, ``going`` when a pod was last on its way out, and
    ``warned`` are the UIDs of pods that were warned.
    """

    since: float
    seen: float
    going: float = float("-inf")
    warned: frozenset[str] = frozenset()

    def lasted(self, now: float) -> float:
        """Seconds."""
        return now - self.since

    def with_warned(self, uids: Iterable[str]) -> ThresholdEpisode:
        """Add pods that were warned."""
        more = self.warned.union(uids)
        return self if more == self.warned else replace(self, warned=more)


def advance(
    before: ThresholdEpisode | None, passed: bool | None, now: float, going: bool = False
) -> ThresholdEpisode | None:
    """The episode as it is now; ``passed`` is ``None`` where that is not known.

    What is not known for a moment ends no episode, but begins none either.
    """
    if passed is None:
        forgotten = before is None or now - before.seen > FORGET_SECONDS
        return None if forgotten else before
    if not passed:
        return None
    episode = ThresholdEpisode(now, now) if before is None else replace(before, seen=now)
    return replace(episode, going=now) if going else episode
