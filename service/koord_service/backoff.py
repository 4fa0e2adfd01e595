"""How long to wait before a retry: exponential, with jitter."""

from __future__ import annotations

import random
from collections.abc import Callable

_RANDOM = random.SystemRandom()


class Backoff:
    """Seconds to wait: ``first``, doubling up to ``cap``, each reduced at random by up to half."""

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
        self._whole = first

    def next(self) -> float:
        """How long to wait now; longer at the next call."""
        whole = self._whole
        self._whole = min(self._cap, whole * 2)
        return whole * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start again with ``first``, after a success."""
        self._whole = self._first
