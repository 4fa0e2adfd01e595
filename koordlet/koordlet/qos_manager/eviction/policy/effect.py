"""Stops evictions that do not lower what they are for. No IO.

A claim's need is compared before its evictions and once their pods have gone. Where it fell by
less than half of what they were to free, they were in vain: something else takes what becomes free,
or the need is of what no pod has. After ``MOST_IN_VAIN`` pods in a row the claim is not served for
``PAUSE_SECONDS``, and then for one more pod at a time. Only amounts of CPU and memory: of pressure
it is not known how much one pod makes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from koordlet.qos_manager.eviction.policy.account import Reason, family

MOST_IN_VAIN = 5
PAUSE_SECONDS = 300.0
_AMOUNTS = ("cpu", "memory")
_SHARE = 0.5
"""Part of the expected release that must show.

Measurements are some seconds apart, and others use more meanwhile.
"""


class _Trial(NamedTuple):
    """An eviction whose effect is not known yet: the need before it, and what the pod frees."""

    need: float
    frees: float


class EvictionEffect:
    """Judgement of claims whose evictions do not help; times are of a steady clock."""

    def __init__(self) -> None:
        self._trials: dict[tuple[Reason, str], _Trial] = {}
        self._in_vain: dict[Reason, int] = {}
        self._until: dict[Reason, float] = {}

    def book(self, reason: Reason, need: float, uid: str, frees: float) -> None:
        """A pod is being evicted for a claim that has this need."""
        if family(reason[-1]) in _AMOUNTS:
            self._trials[reason, uid] = _Trial(need, frees)

    def refused(self, uid: str) -> None:
        """A pod stays."""
        self._trials = {key: trial for key, trial in self._trials.items() if key[1] != uid}

    def observe(
        self, needs: Mapping[Reason, float], going: Container[str], now: float
    ) -> tuple[Reason, ...]:
        """Compare, once pods have gone; return whose evictions stop now."""
        self._until = {reason: until for reason, until in self._until.items() if now < until}
        ended = [key for key in self._trials if key[1] not in going]
        for reason, uid in ended:
            if _is_in_vain(self._trials.pop((reason, uid)), needs.get(reason)):
                self._in_vain[reason] = self._in_vain.get(reason, 0) + 1
            else:
                self._in_vain.pop(reason, None)
        stopped = [reason for reason, number in self._in_vain.items() if number >= MOST_IN_VAIN]
        for reason in stopped:
            self._in_vain[reason] = MOST_IN_VAIN - 1
            self._until[reason] = now + PAUSE_SECONDS
        return tuple(stopped)

    def paused(self, now: float) -> Mapping[Reason, float]:
        """Seconds for which claims are not served."""
        return {reason: until - now for reason, until in self._until.items() if now < until}


def _is_in_vain(trial: _Trial, need: float | None) -> bool:
    """True if the need is almost as before; ``None``: there is none any more."""
    return need is not None and trial.need - need < _SHARE * min(trial.frees, trial.need)
