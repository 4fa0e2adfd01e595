"""Time for which a container may exceed its limit: a bucket of tokens. No IO.

Koordinator's, in percent of the limit times seconds:

    capacity   period · (quota percent - 100)
    at first   a part of it below one half; here by the container's id, not by chance, so that
               many containers do not run dry together, and the same one begins alike
    spending   (use - 100) · seconds, while use is 100 or more
    saving     (100 - use) · seconds, while use is below 60
    allowed    while there are tokens; they stay within ± capacity

Unlike there, parts of seconds and percents count: rounded down, a round that comes a
millisecond early neither spends nor saves. After a silence of more than two periods the
bucket begins anew.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

SPENDING = 100.0
SAVING = 60.0
_SILENT_PERIODS = 2


class BurstTokens(NamedTuple):
    """Tokens left, in percent · seconds; ``at`` is CLOCK_MONOTONIC in seconds."""

    left: float
    capacity: float
    at: float

    @property
    def allow(self) -> bool:
        """True if the quota may be above the limit."""
        return self.left > 0


def begin(key: str, period: float, percent: float, steady: float) -> BurstTokens:
    """A new bucket; ``percent`` is how far the quota may grow, of the limit."""
    capacity = max(period * (percent - 100), 0.0)
    return BurstTokens(capacity * spread(key) / 2, capacity, steady)


def spend(
    before: BurstTokens | None,
    key: str,
    period: float,
    percent: float,
    use: float | None,
    steady: float,
) -> BurstTokens:
    """The bucket after what was used since; ``use`` in percent of the limit.

    Use that is not known neither spends nor saves.
    """
    capacity = max(period * (percent - 100), 0.0)
    if before is None or before.capacity != capacity:
        return begin(key, period, percent, steady)
    seconds = steady - before.at
    if not 0 <= seconds <= _SILENT_PERIODS * period:
        return begin(key, period, percent, steady)
    left = before.left
    if use is not None and (use >= SPENDING or use < SAVING):
        left += (100 - use) * seconds
    return BurstTokens(max(min(left, capacity), -capacity), capacity, steady)


def spread(key: str) -> float:
    """A number from 0 up to 1, evenly spread over keys and the same for the same one."""
    return crc32(key.encode(errors="surrogateescape")) / 2**32
