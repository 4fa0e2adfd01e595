"""Quota of best-effort pods for so many cores. No IO.

Microseconds in a period; quotas are of the cgroup above all of them.
"""

from __future__ import annotations

from koord_host.knobs.forms import NO_LIMIT

LEAST = 2_000
"""As little as they may have (Koordinator's)."""

USUAL_PERIOD = 100_000
"""The kernel's own period."""


def quota_of(cores: float, period: int = USUAL_PERIOD) -> int:
    """The quota of so many cores, rounded to millicores as Koordinator does."""
    # 2.9999999996 cores are 3, and noise of floating point.
    return max(int(cores * 1000 + 1e-6) * period // 1000, LEAST)


def next_quota(had: int, wanted: int, least: int, change: float, growth: float) -> int:
    """The next quota on the way from one to another.

    One that would change by less than ``change`` stays, unless it is to be ``LEAST``. It grows by
    ``growth`` at most, but from no limit goes where it is wanted at once, and it is never
    below ``least``.
    """
    if had == NO_LIMIT:
        return max(wanted, least)
    if is_kept(had, wanted, change):
        return max(had, least)
    return max(min(wanted, had + int(growth)), least)


def is_kept(had: int, wanted: int, change: float) -> bool:
    """True if a quota is near enough to stay."""
    return abs(wanted - had) < change and wanted != LEAST
