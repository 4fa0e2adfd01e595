"""Protects what pods are promised of memory, and holds them back before their limit.

Koordinator's ``CgroupReconcile``: ``memory.min`` and ``memory.low`` of pods, containers and the
groups above all pods of a class (each at least the sum of what is in it), ``memory.high`` of
containers, and where the kernel has them (Anolis, Alibaba Cloud Linux) watermarks, priorities
and limits of page cache. Only what a class or a pod has enabled is set.

Watermarks reclaim in the background, before tasks have to. Mainline kernels have none.
``memory.high`` at the same place is not equivalent: the tasks reclaim themselves, and are made to
sleep where nothing is left to reclaim, for as long as they use more; one that fills its heap
hangs. So it stands in for them only where ``high_for_watermarks`` says so.

A pod in a virtual machine has one process here, the hypervisor: its group is protected as a
whole, and nothing else is done, since the guest would neither know of it nor give anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from koord_host.planning.desired_values import DesiredValue, Target
from koord_model import memory_qos
from koord_model.keys import MEMORY
from koord_model.memory_qos import MemoryQoS
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass

from koordlet.qos_manager.core.strategy import (
    ContainerView,
    Decision,
    Plan,
    PodView,
    StrategyView,
    Term,
    shown,
)
from koordlet.qos_manager.strategies.memory_qos import memory_knobs as knobs
from koordlet.qos_manager.strategies.memory_qos import memory_protection as amounts
from koordlet.qos_manager.strategies.memory_qos.memory_knobs import (
    BY_PRIORITY,
    HIGH,
    LOW,
    MIN,
    PRIORITY,
    RATIO,
)
from koordlet.qos_manager.strategies.memory_qos.memory_protection import MemoryProtection

GATE = "CgroupReconcile"
INTERVAL = "reconcile_interval_seconds"

_NOTHING = MemoryProtection()
_NO_PROTECTION = "there is no memory.min nor memory.low (cgroup v1 has none)"
_CLASS_ABOVE = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}
"""Class whose priorities the groups above all pods have; the first is above the others, too."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings beside those of classes, which are in ``memoryQOS`` and pods' annotations."""

    high_for_watermarks: bool = False
    """True to throttle containers at limit × wmarkRatio / 100 if the kernel has no watermarks."""


def settings(slo: NodeSLO) -> Settings:
    """Nothing of it is in Koordinator's sections."""
    return Settings()


class _Context(NamedTuple):
    """All inputs of the desired values except the pod."""

    slo: NodeSLO
    knobs: frozenset[str]
    top: int | None
    settings: Settings

    @property
    def protects(self) -> bool:
        """True if the kernel can keep memory for a group."""
        return MIN in self.knobs or LOW in self.knobs

    @property
    def instead(self) -> bool:
        """True if ``memory.high`` stands in for watermarks."""
        return self.settings.high_for_watermarks and RATIO not in self.knobs


@dataclass(frozen=True, slots=True)
class _PodMemory:
    """The desired values of a pod, computed once."""

    pod: PodView
    desired: tuple[DesiredValue, ...] = ()
    protection: MemoryProtection = _NOTHING
    decisions: tuple[Decision, ...] = ()
    watermark: bool = False


@dataclass(frozen=True, slots=True)
class _Memory:
    """The last plan, and of what it was made."""

    context: _Context
    pods: Mapping[str, _PodMemory]
    desired: tuple[DesiredValue, ...]
    decisions: tuple[Decision, ...]
    pods_known: bool


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan the values of every pod, its containers and the groups above."""
    before = memory if isinstance(memory, _Memory) else None
    context = _Context(view.slo, view.node.kernel.knobs, _top(view), settings)
    pods = _pods(view, context, before)
    if (
        before is not None
        and view.pods_known
        and before.pods_known
        and _same(before, context, pods)
    ):
        return Plan(before.desired, before.decisions, memory=before)
    parts = list(pods.values())
    desired = [value for part in parts for value in part.desired]
    decisions = [decision for part in parts for decision in part.decisions]
    for values, decision in _above(view, context, parts):
        if values:
            desired += values
            decisions.append(decision)
    decisions += _missing(context, parts)
    now = _Memory(context, pods, tuple(desired), tuple(decisions), view.pods_known)
    return Plan(now.desired, now.decisions, memory=now)


def _top(view: StrategyView) -> int | None:
    """Return the limit of containers without one; an amplified node has less than it says."""
    found = [size for size in (view.allocatable.get(MEMORY), view.memory_bytes) if size]
    return min(found) if view.allocatable.get(MEMORY) else None


def _pods(view: StrategyView, context: _Context, before: _Memory | None) -> dict[str, _PodMemory]:
    """Every pod's part; one that has not changed is the same as in the last plan.

    While not all pods are known, those of the last plan stay.
    """
    kept = before.pods if before is not None else {}
    usable = kept if before is not None and before.context == context else {}
    pods = {} if view.pods_known else dict(kept)
    for pod in view.pods:
        part = usable.get(pod.uid)
        pods[pod.uid] = part if part is not None and part.pod is pod else _of_pod(pod, context)
    return pods


def _same(before: _Memory, context: _Context, pods: Mapping[str, _PodMemory]) -> bool:
    if before.context != context or len(before.pods) != len(pods):
        return False
    return all(before.pods.get(uid) is part for uid, part in pods.items())


# ---- a pod


def _of_pod(pod: PodView, context: _Context) -> _PodMemory:
    asked, ignored = memory_qos.of_pod(pod.record.pod, context.slo.of(pod.qos).memory)
    warned = tuple(
        Decision(line, pod=pod.name, aspect=f"annotation {index}")
        for index, line in enumerate(ignored)
    )
    if not asked.enable:
        return _PodMemory(pod, decisions=warned)
    if pod.demand is None:
        why = "memory QoS waits: what the pod requests is not known yet"
        return _PodMemory(pod, decisions=(*warned, Decision(why, pod=pod.name)))
    parts = (
        []
        if pod.in_vm
        else [_of_container(pod, container, asked, context) for container in pod.containers]
    )
    own = amounts.protection(amounts.amount(pod.requests, pod.qos), asked)
    least = amounts.larger(own, amounts.together(part.protection for part in parts))
    decision = _decided(pod, asked, least, context)
    values = knobs.protecting(least)
    if not pod.in_vm:
        limit = amounts.amount(pod.limits, pod.qos)
        values |= knobs.alike(asked) | knobs.caching(amounts.page_cache(limit, asked))
    desired = [*_desired_values(pod.group, values, decision, pod, context)]
    for part in parts:
        desired += part.desired
    throttled = [decision for part in parts for decision in part.decisions]
    watermark = bool(asked.wmark_ratio) and not pod.in_vm
    return _PodMemory(pod, tuple(desired), least, (*warned, decision, *throttled), watermark)


def _decided(
    pod: PodView, asked: MemoryQoS, least: MemoryProtection, context: _Context
) -> Decision:
    outcome = f"memory QoS: {least} of {pod.name} protected"
    if least != _NOTHING and not context.protects:
        outcome = f"memory QoS: nothing of {pod.name} protected: {_NO_PROTECTION}"
    if pod.in_vm:
        outcome += ", and nothing else done: it runs in a virtual machine"
    return Decision(
        outcome,
        amounts.PROTECTED,
        amounts.given(amounts.amount(pod.requests, pod.qos), asked),
        pod=pod.name,
    )


def _desired_values(
    group: str,
    values: Mapping[str, int],
    decision: Decision,
    pod: PodView | None,
    context: _Context,
) -> Iterator[DesiredValue]:
    why, name = str(decision), pod.name if pod else ""
    for knob, value in values.items():
        if knob in context.knobs:
            yield DesiredValue(Target(group, knob), value, why, name)


# ---- a container


def _of_container(
    pod: PodView, container_view: ContainerView, asked: MemoryQoS, context: _Context
) -> _PodMemory:
    demand, name = pod.demand, container_view.container.name
    requests = demand.container_requests.get(name, {}) if demand else {}
    limits = demand.container_limits.get(name, {}) if demand else {}
    request, limit = amounts.amount(requests, pod.qos), amounts.amount(limits, pod.qos)
    own = amounts.protection(request, asked)
    values = knobs.protecting(own) | knobs.alike(asked)
    outcome = f"memory QoS: {own} of {name} protected"
    why = Decision(
        outcome, amounts.PROTECTED, amounts.given(request, asked), pod.name, container_view.group
    )
    held = amounts.held_back(
        amounts.MemorySizes(request, limit, context.top), own.least, asked, instead=context.instead
    )
    throttled: tuple[Decision, ...] = ()
    desired = [*_desired_values(container_view.group, values, why, pod, context)]
    if held is not None and HIGH in context.knobs:
        at = "nowhere: the Node is not known yet"
        if held.size is not None:
            at = f"at {shown(held.size, 'bytes')}"
        outcome = f"memory QoS: {name} held back {at}"
        decided = Decision(outcome, held.formula, held.given, pod.name, container_view.group, HIGH)
        throttled = (decided,)
        if held.size is not None:
            desired += _desired_values(
                container_view.group, {HIGH: held.size}, decided, pod, context
            )
    return _PodMemory(pod, tuple(desired), own, throttled)


# ---- above pods


def _above(
    view: StrategyView, context: _Context, parts: Iterable[_PodMemory]
) -> Iterator[tuple[tuple[DesiredValue, ...], Decision]]:
    """The groups above all pods of one of Kubernetes' classes; the first has the others in it."""
    sums = dict.fromkeys(KubeQoS, _NOTHING)
    for part in parts:
        if part.protection != _NOTHING:
            sums[part.pod.kube] = amounts.together((sums[part.pod.kube], part.protection))
    sums[KubeQoS.GUARANTEED] = amounts.together(sums.values())
    for kube, needed in sums.items():
        group = view.layout.kube_qos_group(kube)
        yield _promised(view, context, group, needed)
        decision = Decision(
            f"memory QoS: priorities of class {_CLASS_ABOVE[kube]}", group=group, aspect=PRIORITY
        )
        desired = _desired_values(group, _priorities(kube, context.slo), decision, None, context)
        yield tuple(desired), decision


def _promised(
    view: StrategyView, context: _Context, group: str, needed: MemoryProtection
) -> tuple[tuple[DesiredValue, ...], Decision]:
    """Protection of a group that is enough for all in it."""
    outcome = f"memory QoS: what the pods in {group} are promised is protected above them"
    given = (
        Term("sum of memory.min", needed.least, "bytes"),
        Term("sum of memory.low", needed.low, "bytes"),
    )
    if not view.pods_known and (needed != _NOTHING or _protects(context.slo)):
        outcome += ", and no less than before: not all pods are known yet"
        needed = _no_less(view, group, needed)
    decision = Decision(outcome, "", given, group=group)
    return tuple(
        _desired_values(group, knobs.protecting(needed), decision, None, context)
    ), decision


def _protects(slo: NodeSLO) -> bool:
    asked = (class_qos.memory for class_qos in slo.classes.values())
    return any(memory.min_limit or memory.low_limit for memory in asked)


def _no_less(view: StrategyView, group: str, needed: MemoryProtection) -> MemoryProtection:
    found = [view.cgroups.now(group, knob) for knob in (MIN, LOW)]
    least, low = (value if isinstance(value, int) else 0 for value in found)
    return amounts.larger(needed, MemoryProtection(least, low))


def _priorities(kube: KubeQoS, slo: NodeSLO) -> dict[str, int]:
    """Return the switch of kills by priority in these groups, and their own priorities.

    Not the one above all: what is in it is not of one class. And none of them is killed as
    a whole (``memory.oom.group``): that would be every pod of a class, or of the node.
    """
    asked = slo.of(_CLASS_ABOVE[kube]).memory
    found = {BY_PRIORITY: asked.priority_enable}
    if kube is not KubeQoS.GUARANTEED:
        found[PRIORITY] = asked.priority
    return {knob: value for knob, value in found.items() if value is not None}


def _missing(context: _Context, parts: Iterable[_PodMemory]) -> Iterator[Decision]:
    """Says once what stands for watermarks, if any pod asks for them."""
    if RATIO not in context.knobs and any(part.watermark for part in parts):
        outcome = "this kernel has no memory watermarks: only memory_watermark reclaims there"
        if context.instead:
            outcome = "this kernel has no memory watermarks: containers are held back there instead"
        yield Decision(outcome, aspect="watermarks")
