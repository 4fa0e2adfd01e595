"""Reclaims cold memory of best-effort pods step by step, as long as their pressure stays low.

Transparent memory offloading as Katalyst does it by pressure: every 30 s the kernel is asked to
reclaim a small part of a pod's memory (``memory.reclaim``), the less the nearer the time that its
tasks wait for memory is to a target, and nothing above it:

    amount = max(0, 1 − pressure / target) × share × use, and the pod keeps its floor

``pressure`` is the pod's memory pressure (PSI, "some"): the average of the last 60 s, or the last
measurement if that is more. What was reclaimed too soon is read again, which raises the
pressure, which stops this. Page cache goes first; memory of processes only where there is swap.

Our own; needs cgroup v2, Linux 5.19 and the gate PSICollector. Where the pressure or the use of
a pod is unknown, nothing is reclaimed from it. Pods in virtual machines are left alone, and
those on their way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_host.planning.desired_values import DesiredValue
from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    PodView,
    StrategySignal,
    StrategyView,
    Term,
    desired_value,
)

GATE = "MemoryOffload"
INTERVAL = 30.0

_KNOB = "memory.reclaim"
_SOME = ("mem", "avg10", "some")
_EARLY = 1.0
"""Seconds by which a round may come before its time."""
_FORMULA = (
    "possible = min(max(0, 1 − pressure / target) × share / 100 × use, use − floor, most); "
    "amount = possible where possible ≥ least and possible > 0 else 0"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Classes whose memory is offloaded, and the speed."""

    classes: tuple[QoSClass, ...] = (QoSClass.BE,)
    """Pods of these quality classes."""
    target_percent: Annotated[float, Meta(gt=0, le=100)] = 10
    """Of the time that tasks of a pod may wait for memory: nothing is reclaimed beyond."""
    share_percent: Annotated[float, Meta(gt=0, le=20)] = 1
    """Of a pod's memory: the most that is reclaimed at once."""
    window_seconds: Annotated[float, Meta(ge=10, le=600)] = 60
    """Over which the pressure is averaged."""
    floor_percent: Annotated[float, Meta(ge=0, le=1000)] = 50
    """Of its memory request: a pod keeps so much."""
    floor_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """A pod keeps so much in any case."""
    least_bytes: Annotated[int, Meta(ge=1)] = 1 << 20
    """Less is not worth a call."""
    most_bytes: Annotated[int, Meta(ge=1)] = 256 << 20
    """Of one pod at once: its memory is reclaimed piece by piece, one pod after the other."""


def settings(slo: NodeSLO) -> Settings:
    """The defaults: Koordinator has nothing of the kind."""
    return Settings()


class _Memory(NamedTuple):
    """Last decisions and their time by the steady clock."""

    steady: float
    decisions: tuple[Decision, ...]


class _PodOffload(NamedTuple):
    """The result for one pod; ``amount`` is in bytes, 0 for nothing."""

    pod: PodView
    amount: int
    decision: Decision


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan the memory to reclaim now, of each pod by itself."""
    if isinstance(memory, _Memory) and 0 <= view.steady - memory.steady < INTERVAL - _EARLY:
        # The settings changed before the interval ended: the kernel has just reclaimed.
        return Plan(decisions=memory.decisions, memory=memory)
    why = _why_not(view)
    if why:
        return Plan(decisions=(Decision(f"nothing is reclaimed: {why}"),))
    found = list(_all(view, settings))
    done = [pod_offload for pod_offload in found if pod_offload.amount]
    decisions = tuple(pod_offload.decision for pod_offload in found)
    return Plan(
        one_shot=tuple(_reclaim(pod_offload) for pod_offload in done),
        decisions=decisions,
        signals=tuple(
            StrategySignal("offload_bytes", float(pod_offload.amount), pod_offload.pod.name)
            for pod_offload in done
        ),
        memory=_Memory(view.steady, decisions),
    )


def _why_not(view: StrategyView) -> str:
    if view.layout.version != 2:
        return f"cgroup v1 has no {_KNOB}"
    if _KNOB not in view.node.kernel.knobs:
        return f"this kernel has no {_KNOB} (Linux 5.19 has)"
    return ""


def _all(view: StrategyView, settings: Settings) -> Iterator[_PodOffload]:
    pressures = view.history.windows("pod_psi", settings.window_seconds)
    for pod in view.pods:
        if pod.qos not in settings.classes or pod.in_vm or pod.uid in view.evicting:
            continue
        found = pressures.get((pod.uid, *_SOME))
        pressure = None if found is None else max(found.avg, found.last)
        yield _of_pod(pod, _use(view, pod), pressure, settings)


def _of_pod(
    pod: PodView, use: float | None, pressure: float | None, settings: Settings
) -> _PodOffload:
    if pressure is None or use is None:
        missing = "pressure" if pressure is None else "use"
        said = f"nothing is reclaimed: its memory {missing} is not known"
        return _PodOffload(pod, 0, Decision(said, pod=pod.name))
    floor = _floor(pod, settings)
    ease = max(0.0, 1 - pressure / settings.target_percent)
    possible = int(min(ease * settings.share_percent / 100 * use, use - floor, settings.most_bytes))
    amount = possible
    if not ease:
        outcome, amount = "nothing is reclaimed: it waits for memory already", 0
    elif use <= floor:
        outcome, amount = "nothing is reclaimed: it has no more than it keeps", 0
    elif amount < settings.least_bytes:
        outcome, amount = "nothing is reclaimed: it would be too little", 0
    else:
        outcome = "memory that it does not miss is reclaimed"
    given = (
        Term("pressure", pressure, "%"),
        Term("target", settings.target_percent, "%"),
        Term("share", settings.share_percent, "%"),
        Term("use", use, "bytes"),
        Term("floor", floor, "bytes"),
        Term("most", settings.most_bytes, "bytes"),
        Term("possible", possible, "bytes"),
        Term("least", settings.least_bytes, "bytes"),
        Term("amount", amount, "bytes"),
    )
    return _PodOffload(pod, amount, Decision(outcome, _FORMULA, given, pod=pod.name))


def _reclaim(pod_offload: _PodOffload) -> DesiredValue:
    return desired_value(pod_offload.pod.group, _KNOB, pod_offload.amount, pod_offload.decision)


def _use(view: StrategyView, pod: PodView) -> float | None:
    """All its memory in bytes; without its page cache where that is not measured: less."""
    whole = view.latest.value("pod_memory_usage_with_page_cache", pod.uid)
    return whole if whole is not None else view.latest.value("pod_memory_usage", pod.uid)


def _floor(pod: PodView, settings: Settings) -> float:
    requests = pod.requests
    request = requests.get(BATCH_MEMORY, 0) or requests.get(MEMORY, 0)
    return max(request * settings.floor_percent / 100, float(settings.floor_bytes))
