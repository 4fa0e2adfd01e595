"""Rate limit: the token bucket of Kubernetes' clients. No IO."""

from __future__ import annotations

import math


class TokenBucket:
    """Lets ``burst`` through at once, then ``qps`` a second; others wait."""

    def __init__(self, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(
                f"kube-api-qps {qps} and kube-api-burst {burst} have to be more than 0"
            )
        self.qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = 0.0

    def take(self, now: float) -> float:
        """Take a turn at ``now``, monotonic seconds; returns how many seconds to wait for it."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self.qps)

    def allow(self, now: float) -> bool:
        """Take a turn if one is free at ``now``; otherwise nothing changes."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def wait(self, now: float, number: int = 1) -> float:
        """Seconds until so many turns are free at once; infinite if that never is."""
        if number > self._burst:
            return math.inf
        self._fill(now)
        return max(0.0, (number - self._tokens) / self.qps)

    def turns(self, now: float) -> int:
        """The turns that are free."""
        self._fill(now)
        return max(0, int(self._tokens))

    def empty(self, now: float) -> None:
        """Take all turns: they come together anew."""
        self._tokens, self._at = 0.0, now

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self.qps)
        self._at = max(self._at, now)
