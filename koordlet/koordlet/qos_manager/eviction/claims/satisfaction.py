"""Evictions because best-effort pods get much less CPU than they request. No IO.

Where they use up what they may have, and that is far below their requests, fewer of them are
to run (Koordinator, gate BECPUEvict)::

    need = request × (upper / 100 − limit / request)
           where limit / request ≤ lower / 100, and usage ≥ limit × usage threshold / 100
           or limit < 1 core

It must be so over the window and now; the smaller need counts. All in millicores.
"""

from __future__ import annotations

from typing import NamedTuple

_NEED = (
    "max(request{0} × upper / 100 − limit{0}, 0)"
    " where limit{0} > 0 and request{0} > 0 and limit{0} ≤ request{0} × lower / 100"
    " and (limit{0} < 1000 or usage{0} ≥ limit{0} × busy / 100) else 0"
)
_WINDOW = " over the window"
FORMULA = (
    f"need now = {_NEED.format('')}; need{_WINDOW} = {_NEED.format(_WINDOW)};"
    f" need = min(need now, need{_WINDOW})"
)

_ONE_CORE = 1000.0
LITTLE = 1.0
"""The limit in millicores if none are allocatable, so that a share can be computed."""


class BestEffortCPU(NamedTuple):
    """Best-effort pods together, in millicores."""

    usage: float
    request: float
    limit: float


class SatisfactionBounds(NamedTuple):
    """Percent: satisfaction from which is evicted and up to which, and use of the limit."""

    lower: int
    upper: int
    busy: int


class SatisfactionShortage(NamedTuple):
    """Millicores to be freed, and a few words on the reason for or against it."""

    need: float
    what: str


def need(pods: BestEffortCPU, bounds: SatisfactionBounds) -> SatisfactionShortage:
    """The amount to free for one set of numbers."""
    if pods.limit <= 0 or pods.request <= 0:
        return SatisfactionShortage(
            0.0, "no eviction: best-effort pods request no CPU, or may have none"
        )
    if pods.limit >= _ONE_CORE and 100 * pods.usage < pods.limit * bounds.busy:
        return SatisfactionShortage(0.0, "no eviction: best-effort pods do not use up their CPU")
    wanted = pods.request * bounds.upper / 100 - pods.limit
    if 100 * pods.limit > pods.request * bounds.lower or wanted <= 0:
        return SatisfactionShortage(0.0, "no eviction: best-effort pods have CPU enough")
    return SatisfactionShortage(wanted, "best-effort pods have too little CPU")


def smaller(over_window: SatisfactionShortage, now: SatisfactionShortage) -> SatisfactionShortage:
    """Return the smaller need; if only one of them has a need, there is none."""
    return min(over_window, now, key=lambda found: found.need)
