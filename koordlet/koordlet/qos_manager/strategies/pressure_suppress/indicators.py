"""The table of indicators: how each is measured of a pod. No IO.

A new indicator is a new row, and a word of ``koord_model.service_targets.Indicator``. Values are
by pod UID, lower is better. What is not measured has no value, and neither has a 0, except for
psi: the kernel says 0 where nobody waits, while the others divide by work that was done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from koord_model.keys import CPU
from koord_model.service_targets import Indicator

from koordlet.qos_manager.core.strategy import StrategyView
from koordlet.qos_manager.suppression.be_cpus import own_cpus

_PSI = ("cpu", "avg10", "some")
_WAIT_SECONDS = 15.0
"""More than one interval of the collector; psi itself is an average of 10 s."""
_CPI_SECONDS = 150.0
"""Windows of cycles are a minute apart."""


class IndicatorRow(NamedTuple):
    """One row.

    ``scale`` is the part of the target by which a value above it is as bad as the whole target is
    for psi: a few percent more cycles are much. ``by_quota`` is whether a pod's own CPU limit
    raises the value too. ``read`` has the values of pods; of the last ``seconds``, where it is
    measured often.
    """

    unit: str
    scale: float
    proportional: float
    by_quota: bool
    read: Callable[[StrategyView, float], Mapping[str, float]]


def values(row: IndicatorRow, view: StrategyView, seconds: float) -> Mapping[str, float]:
    """Return the finite values by pod UID."""
    return {uid: value for uid, value in row.read(view, seconds).items() if math.isfinite(value)}


def _psi(view: StrategyView, seconds: float) -> Mapping[str, float]:
    found = view.history.windows("pod_psi", seconds)
    return {uid: window.last for (uid, *of), window in found.items() if tuple(of) == _PSI}


def _sched_wait(view: StrategyView, seconds: float) -> Mapping[str, float]:
    found = view.history.windows("pod_cpu_sched_wait", min(seconds, _WAIT_SECONDS))
    return {uid: window.avg for (uid,), window in found.items() if window.avg > 0}


def _cpi(view: StrategyView, seconds: float) -> Mapping[str, float]:
    found = view.history.windows("container_cpi", _CPI_SECONDS)
    sums: dict[str, tuple[float, float]] = {}
    for (uid, container, of), cycles in found.items():
        instructions = found.get((uid, container, "instruction"))
        # Of two different windows they make no ratio.
        if of == "cycle" and instructions and instructions.last_at == cycles.last_at:
            before = sums.get(uid, (0.0, 0.0))
            sums[uid] = before[0] + cycles.last, before[1] + instructions.last
    return {uid: many / done for uid, (many, done) in sums.items() if many > 0 and done > 0}


def _usage(view: StrategyView, seconds: float) -> Mapping[str, float]:
    found = view.history.windows("pod_cpu_usage", min(seconds, _WAIT_SECONDS))
    shares = {}
    for pod in view.pods:
        used = found.get((pod.uid,))
        whole = len(own_cpus(pod.record.pod)) or pod.requests.get(CPU, 0) / 1000
        if used is not None and used.avg > 0 and whole > 0:
            shares[pod.uid] = used.avg / whole
    return shares


ROWS: Mapping[Indicator, IndicatorRow] = {
    Indicator.PSI: IndicatorRow("%", 1.0, 1, by_quota=True, read=_psi),
    # Found in simulation (simulation/results/indicators.md).
    Indicator.SCHED_WAIT: IndicatorRow("ms/s", 0.3, 4, by_quota=True, read=_sched_wait),
    Indicator.CPI: IndicatorRow("", 0.1, 1, by_quota=False, read=_cpi),
    Indicator.USAGE: IndicatorRow("", 0.2, 1, by_quota=False, read=_usage),
}
