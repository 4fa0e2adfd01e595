"""Seconds to wait before a retry: exponential, with jitter. No IO."""

from __future__ import annotations

import random
from collections.abc import Callable

_RANDOM = random.SystemRandom()
_MOST_DOUBLINGS = 32


def exponential(first: float, cap: float, failures: int) -> float:
    """Return ``first`` after one failure, twice as much after each further one, at most ``cap``."""
    return min(cap, first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))


class Backoff:
    """Seconds to wait: ``exponential``, each time reduced at random by up to half."""

    def __init__(
        self,
        first: float = 1.0,
        cap: float = 30.0,
        *,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """``chance`` returns random numbers from 0 to 1."""
        self._first = first
        self._cap = cap
        self._chance = chance
        self._failures = 0

    def next(self) -> float:
        """Return how long to wait after one more failure."""
        self._failures += 1
        return exponential(self._first, self._cap, self._failures) * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start again with ``first``, after a success."""
        self._failures = 0
