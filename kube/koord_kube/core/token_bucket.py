"""Rate limit of writes to the API: the token bucket of Kubernetes' clients. No IO."""

from __future__ import annotations


class TokenBucket:
    """Lets ``burst`` through at once, then ``qps`` a second; others wait."""

    def __init__(self, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(
                f"kube-api-qps {qps} and kube-api-burst {burst} have to be more than 0"
            )
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = 0.0

    def take(self, now: float) -> float:
        """Take a turn at ``now``, monotonic seconds; returns how many seconds to wait for it."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def allow(self, now: float) -> bool:
        """Take a turn if one is free at ``now``; otherwise nothing changes."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._qps)
        self._at = now
