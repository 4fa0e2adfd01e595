"""Wait of latency-sensitive pods for CPU. No IO.

Of each pod the kernel says for how much of the time some task of it was ready to run and had no
CPU (PSI, "some", average of 10 s). The node's number is their root mean square, each pod with
the weight of its CPU: what it uses, or what it requests if that is more, for a pod that
starves uses little. The worst pod alone would be noise: a small one with a single busy thread
waits a lot on any node. A plain mean would hide one large pod that waits among many that do
not. This moves smoothly, and lies between the mean and the worst.

Left out are pods that say nothing of best-effort pods: LSE pods with CPUs of their own, those in
virtual machines, and those that their own CPU limit throttles, for throttled tasks count as
waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from koord_model.keys import CPU
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import PodView, StrategyView
from koordlet.qos_manager.suppression.be_cpus import own_cpus

_CLASSES = (QoSClass.LS, QoSClass.LSR, QoSClass.LSE)
_SOME = ("cpu", "avg10", "some")
_LEAST_WEIGHT = 0.01  # cores: a pod without use and request counts a little


class LSPressure(NamedTuple):
    """Pressure: percent of the time, of so many pods; the worst of them.

    ``throttled`` is how many were left out because their own limit holds them.
    """

    percent: float
    pods: int
    worst: str
    worst_percent: float
    throttled: int


def waiting(
    view: StrategyView, seconds: float, most_throttled: float, at_least: Mapping[str, float]
) -> LSPressure | None:
    """Measure these pods' wait; ``None`` if none was measured in the last ``seconds``.

    ``most_throttled`` is the part of its periods in which a pod may be throttled and still
    count. ``at_least`` are percent by pod ("namespace/name") that count where it waits for less.
    """
    measured = view.history.windows("pod_psi", seconds)
    squares = weights = worst = 0.0
    name, pods, throttled = "", 0, 0
    for pod in _sensitive(view):
        found = measured.get((pod.uid, *_SOME))
        least = at_least.get(pod.name)
        if found is None and least is None:
            continue
        if (view.latest.value("pod_cpu_throttled", pod.uid) or 0.0) > most_throttled:
            throttled += 1
            continue
        percent = max(found.last if found else 0.0, least or 0.0)
        weight = _weight(pod, view)
        squares += weight * percent * percent
        weights += weight
        pods += 1
        if not name or percent > worst:
            name, worst = pod.name, percent
    if not pods:
        return None
    return LSPressure(math.sqrt(squares / weights), pods, name, worst, throttled)


def _sensitive(view: StrategyView) -> Iterator[PodView]:
    for pod in view.pods:
        alone = pod.qos is QoSClass.LSE and own_cpus(pod.record.pod)
        if pod.qos in _CLASSES and not pod.in_vm and not alone:
            yield pod


def _weight(pod: PodView, view: StrategyView) -> float:
    used = view.latest.value("pod_cpu_usage", pod.uid) or 0.0
    return max(used, pod.requests.get(CPU, 0) / 1000, _LEAST_WEIGHT)
