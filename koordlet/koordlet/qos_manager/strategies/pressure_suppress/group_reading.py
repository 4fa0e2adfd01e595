"""Targets of groups of latency-sensitive pods, and what an indicator says of a group. No IO.

A pod belongs to the service of its annotation, else to that of its profile, which the manager
found, else to the first of the settings that selects it, else to the rest, which has the settings'
own target.

A group's number is the root mean square of its pods', each with the weight of its CPU: what it
uses, or what it requests if that is more, for a pod that starves uses little. The worst pod alone
would be noise: a small one with a single busy thread waits a lot on any node. A plain mean would
hide one large pod that waits among many that do not. This moves smoothly, and lies between the
mean and the worst.

Left out are pods that say nothing of best-effort pods: LSE pods with CPUs of their own, those in
virtual machines, and, of how much they wait, those that their own CPU limit throttles, for
throttled tasks count as waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from koord_model.keys import CPU
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.service_targets import Indicator, ServiceTargets, of_pod

from koordlet.qos_manager.core.strategy import Decision, PodView, StrategyView
from koordlet.qos_manager.suppression.be_cpus import own_cpus

REST = ""
"""Name of the group of all that belong to no service."""

_CLASSES = (QoSClass.LS, QoSClass.LSR, QoSClass.LSE)
_LEAST_WEIGHT = 0.01  # cores: a pod without use and request counts a little


class GroupTarget(NamedTuple):
    """An indicator of a group of pods, and the highest value that it may have."""

    group: str
    indicator: Indicator
    value: float

    def __str__(self) -> str:
        words = f"{self.indicator} {self.value:g}"
        return f"{self.group} {words}" if self.group else words


class GroupReading(NamedTuple):
    """An indicator's value, in its unit, of so many pods; the worst of them.

    ``throttled`` is how many were left out because their own limit holds them.
    """

    value: float
    pods: int
    worst: str
    worst_value: float
    throttled: int


def pods_by_target(
    view: StrategyView, services: Iterable[ServiceTargets], rest: GroupTarget
) -> tuple[Mapping[GroupTarget, list[PodView]], list[Decision]]:
    """The targets on this node with their pods, ``rest`` if there is no other; notes on pods.

    Pods of one service that disagree have two targets: neither is lost.
    """
    found: dict[GroupTarget, list[PodView]] = {}
    notes: list[Decision] = []
    for pod in _sensitive(view):
        own, ignored = of_pod(pod.record.pod)
        notes += (
            Decision(line, pod=pod.name, aspect=f"annotation {place}")
            for place, line in enumerate(ignored)
        )
        service = own or _of_others(view, services, pod.record.pod)
        targets = [rest]
        if service is not None:
            targets = [GroupTarget(service.name, *target) for target in service.targets.items()]
        for target in targets:
            found.setdefault(target, []).append(pod)
    return found or {rest: []}, notes


def measure(
    view: StrategyView,
    pods: Iterable[PodView],
    values: Mapping[str, float],
    most_throttled: float | None,
    at_least: Mapping[str, float],
) -> GroupReading | None:
    """Combine the ``values`` (by pod UID) of these pods; ``None`` if none has any.

    ``most_throttled`` is the part of its periods in which a pod may be throttled and still
    count, ``None``: all. ``at_least`` are values by pod ("namespace/name") that count where its
    own is less.
    """
    squares = weights = worst = 0.0
    name, count, throttled = "", 0, 0
    for pod in pods:
        value, least = values.get(pod.uid), at_least.get(pod.name)
        if value is None and least is None:
            continue
        if most_throttled is not None and _throttling(pod, view) > most_throttled:
            throttled += 1
            continue
        value = max(value or 0.0, least or 0.0)
        weight = _weight(pod, view)
        squares += weight * value * value
        weights += weight
        count += 1
        if not name or value > worst:
            name, worst = pod.name, value
    if not count:
        return None
    return GroupReading(math.sqrt(squares / weights), count, name, worst, throttled)


def _of_others(
    view: StrategyView, services: Iterable[ServiceTargets], pod: Pod
) -> ServiceTargets | None:
    """A pod's targets that are not its own."""
    profiles = (profile for profile in view.slo.services if profile.sets_targets(pod))
    return next(profiles, None) or next((of for of in services if of.selects(pod)), None)


def _sensitive(view: StrategyView) -> Iterator[PodView]:
    for pod in view.pods:
        alone = pod.qos is QoSClass.LSE and own_cpus(pod.record.pod)
        if pod.qos in _CLASSES and not pod.in_vm and not alone:
            yield pod


def _throttling(pod: PodView, view: StrategyView) -> float:
    return view.latest.value("pod_cpu_throttled", pod.uid) or 0.0


def _weight(pod: PodView, view: StrategyView) -> float:
    used = view.latest.value("pod_cpu_usage", pod.uid) or 0.0
    return max(used, pod.requests.get(CPU, 0) / 1000, _LEAST_WEIGHT)
