"""The pauses of a hook server's breaker."""

from __future__ import annotations

from koord_service.breaker import Breaker

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
"""Seconds between probes of a server that does not answer."""


def hook_breaker() -> Breaker:
    """A breaker of one hook server; times are seconds of a monotonic clock."""
    return Breaker(FIRST_PAUSE, LONGEST_PAUSE)
