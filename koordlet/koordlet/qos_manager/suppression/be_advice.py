"""Advice on best-effort pods' CPU: bounds that strategies publish, and the least of them. No IO.

Any strategy may advise, ours or a third party's: it publishes the signal ``be_cpu_cores`` of the
node, in cores, for as long as it has an opinion. ``cpu_suppress`` never gives more than the least.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import StrategySignal, StrategyView

_SIGNAL = "be_cpu_cores"


class Advice(NamedTuple):
    """A bound in cores, and the strategy that it is from."""

    cores: float
    strategy: str


def advice(cores: float) -> StrategySignal:
    """The signal by which a strategy advises."""
    return StrategySignal(_SIGNAL, cores)


def least_advice(view: StrategyView) -> Advice | None:
    """The least bound of the last round; what is no finite number is nobody's opinion."""
    given = (
        Advice(signal.value, strategy)
        for strategy, signals in view.signals.items()
        for signal in signals
        if signal.name == _SIGNAL and not signal.pod and math.isfinite(signal.value)
    )
    return min(given, default=None)
