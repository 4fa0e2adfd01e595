"""For how long a threshold has been passed, and who was told of it. No IO.

All times are the steady clock's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

FORGET_SECONDS = 30.0
"""After which an episode is over that nobody could see the end of: its signal is not known."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The time from which on a threshold is passed, without a break.

    ``seen`` is when that was last known, ``going`` when a pod was last on its way out, and
    ``told`` are the UIDs of pods that know.
    """

    since: float
    seen: float
    going: float = float("-inf")
    told: frozenset[str] = frozenset()

    def lasted(self, now: float) -> float:
        """Seconds."""
        return now - self.since

    def with_told(self, uids: Iterable[str]) -> Episode:
        """The same, with more pods that know."""
        more = self.told.union(uids)
        return self if more == self.told else replace(self, told=more)


def advance(
    before: Episode | None, passed: bool | None, now: float, going: bool = False
) -> Episode | None:
    """The episode as it is now; ``passed`` is ``None`` where that is not known.

    What is not known for a moment ends no episode, but begins none either.
    """
    if passed is None:
        forgotten = before is None or now - before.seen > FORGET_SECONDS
        return None if forgotten else before
    if not passed:
        return None
    episode = Episode(now, now) if before is None else replace(before, seen=now)
    return replace(episode, going=now) if going else episode
