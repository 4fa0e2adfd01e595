"""Reclaims cold memory of best-effort pods step by step, as long as they do not miss it.

Transparent memory offloading as Katalyst does it: every 30 s the kernel is asked to reclaim a
small part of a pod's memory (``memory.reclaim``), by one of three policies.

- ``psi``: the less, the nearer the time that its tasks wait for memory is to a target. What was
  reclaimed too soon is read again, which raises the pressure, which stops this.
- ``refault``: a little more each time, as long as the kernel finds what it looks for, and what
  it found is not read again; else less.
- ``integrated``: the smaller of the two.

A pod keeps its floor. Without swap page cache alone can go: nothing is reclaimed where most of
it is mapped.

``pressure`` is the pod's memory pressure (PSI, "some"): the average of the last 60 s, or the last
measurement if that is more. Our own; needs cgroup v2, Linux 5.19 and the gate PSICollector, and
for what is not ``psi`` MemoryStatCollector. Of a pod of which something is not known nothing is
reclaimed. Pods in virtual machines are left alone, and those on their way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, PodView, StrategyView, Term
from koordlet.qos_manager.reclaim import memory_reclaim
from koordlet.qos_manager.reclaim.memory_reclaim import Reclaim
from koordlet.qos_manager.strategies.memory_offload import offload_size as sizes
from koordlet.qos_manager.strategies.memory_offload.offload_size import Refaults

GATE = "MemoryOffload"
INTERVAL = 30.0

_SOME = ("mem", "avg10", "some")
_EARLY = 1.0
"""Seconds by which a round may come before its time."""
_STAT = ("inactive_anon", "inactive_file", "page_cache", "file_mapped", "swap_free")
_COUNTERS = ("pgscan", "pgsteal", "workingset_activate")
_AMOUNT = "amount = possible where possible ≥ least and possible > 0 else 0"


class OffloadPolicy(StrEnum):
    """Measurements that a pod's amount follows."""

    PSI = "psi"
    REFAULT = "refault"
    INTEGRATED = "integrated"


@dataclass(frozen=True, slots=True)
class Settings:
    """Classes whose memory is offloaded, and the speed."""

    classes: tuple[QoSClass, ...] = (QoSClass.BE,)
    """Pods of these quality classes, where the profile of their service says nothing."""
    policy: OffloadPolicy = OffloadPolicy.PSI
    """By pressure, by refaults, or the smaller of the two amounts."""
    target_percent: Annotated[float, Meta(gt=0, le=100)] = 0.1
    """Of the time that tasks of a pod may wait for memory: nothing is reclaimed beyond."""
    accuracy_percent: Annotated[float, Meta(ge=0, le=100)] = 99
    """Of reclaimed pages, so many must not be missed at once (refaults)."""
    efficiency_percent: Annotated[float, Meta(ge=0, le=100)] = 60
    """Of scanned pages, so many must have been reclaimed (refaults)."""
    share_percent: Annotated[float, Meta(gt=0, le=20)] = 1
    """Of a pod's memory: the most that is reclaimed at once."""
    window_seconds: Annotated[float, Meta(ge=10, le=600)] = 60
    """Over which the pressure is averaged."""
    floor_percent: Annotated[float, Meta(ge=0, le=1000)] = 50
    """Of its memory request: a pod keeps so much."""
    floor_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """A pod keeps so much in any case."""
    reserved_inactive_file_bytes: Annotated[int, Meta(ge=0)] = 0
    """Of its page cache that was not used lately, a pod keeps so much."""
    least_bytes: Annotated[int, Meta(ge=1)] = 1 << 20
    """Less is not worth a call."""
    most_bytes: Annotated[int, Meta(ge=1)] = 256 << 20
    """Of one pod at once: its memory is reclaimed piece by piece, one pod after the other."""


def settings(slo: NodeSLO) -> Settings:
    """The defaults: Koordinator has nothing of the kind."""
    return Settings()


class _Memory(NamedTuple):
    """Last decisions, their time by the steady clock, and possible amounts by pod UID."""

    steady: float
    decisions: tuple[Decision, ...]
    last: Mapping[str, float]


class _Measured(NamedTuple):
    """Measurements of one pod; ``None`` and missing keys are not known."""

    use: float | None
    pressure: float | None
    stat: Mapping[str, float]
    refaults: Refaults | None


class _Bound(NamedTuple):
    """An upper bound of what is reclaimed, with its arithmetic."""

    name: str
    amount: float
    formula: str = ""
    given: tuple[Term, ...] = ()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan the memory to reclaim now, of each pod by itself."""
    before = memory if isinstance(memory, _Memory) else _Memory(float("-inf"), (), {})
    if 0 <= view.steady - before.steady < INTERVAL - _EARLY:
        # The settings changed before the interval ended: the kernel has just reclaimed.
        return Plan(decisions=before.decisions, memory=before)
    why = memory_reclaim.why_not(view)
    if why:
        return memory_reclaim.off(why)
    reclaims, last = [], {}
    for pod, measured in _measured(view, settings):
        reclaim, possible = _of_pod(pod, measured, before.last.get(pod.uid, 0), settings)
        reclaims.append(reclaim)
        if possible is not None:
            last[pod.uid] = possible
    decisions = tuple(reclaim.decision for reclaim in reclaims)
    return memory_reclaim.plan(reclaims, "offload_bytes", _Memory(view.steady, decisions, last))


# ---- measurements


def _measured(view: StrategyView, settings: Settings) -> Iterator[tuple[PodView, _Measured]]:
    pressures = view.history.windows("pod_psi", settings.window_seconds)
    rates = view.history.windows("pod_memory_reclaim", INTERVAL)
    for pod in view.pods:
        if not _is_offloaded(view, pod, settings) or pod.in_vm or pod.uid in view.evicting:
            continue
        found = pressures.get((pod.uid, *_SOME))
        pressure = None if found is None else max(found.avg, found.last)
        counts = [window.avg for name in _COUNTERS if (window := rates.get((pod.uid, name)))]
        refaults = Refaults(*counts) if len(counts) == len(_COUNTERS) else None
        yield pod, _Measured(_use(view, pod), pressure, _stat(view, pod), refaults)


def _is_offloaded(view: StrategyView, pod: PodView, settings: Settings) -> bool:
    """True if its service's profile says so, or its class where no profile says anything."""
    said = (profile.offloads(pod.record.pod) for profile in view.slo.services)
    word = next((word for word in said if word is not None), None)
    return pod.qos in settings.classes if word is None else word


def _stat(view: StrategyView, pod: PodView) -> Mapping[str, float]:
    """Its ``pod_memory_stat`` by name; all, or nothing."""
    found = {}
    for name in _STAT:
        size = view.latest.value("pod_memory_stat", pod.uid, name)
        if size is None:
            return {}
        found[name] = size
    return found


def _use(view: StrategyView, pod: PodView) -> float | None:
    """All its memory in bytes; without its page cache where that is not measured: less."""
    whole = view.latest.value("pod_memory_usage_with_page_cache", pod.uid)
    return whole if whole is not None else view.latest.value("pod_memory_usage", pod.uid)


def _missing(measured: _Measured, policy: OffloadPolicy) -> str:
    if measured.pressure is None and policy is not OffloadPolicy.REFAULT:
        return "memory pressure is"
    if measured.use is None:
        return "memory use is"
    if policy is not OffloadPolicy.PSI and (measured.refaults is None or not measured.stat):
        return "refaults are"
    return ""


# ---- the amount


def _of_pod(
    pod: PodView, measured: _Measured, last: float, settings: Settings
) -> tuple[Reclaim, float | None]:
    """Amounts of a pod: reclaimed, and possible; ``None`` where that is not known."""
    missing = _missing(measured, settings.policy)
    if missing:
        said = f"nothing is reclaimed: its {missing} not known"
        return Reclaim(pod.group, 0, Decision(said, pod=pod.name)), None
    use = measured.use or 0.0
    floor = _floor(pod, settings)
    bounds = [
        *_by_policy(measured, use, last, settings),
        *_by_cache(measured.stat, settings),
        _Bound("use − floor", use - floor, given=(Term("floor", floor, "bytes"),)),
        _Bound("most", settings.most_bytes, given=(Term("most", settings.most_bytes, "bytes"),)),
    ]
    possible = min(bound.amount for bound in bounds)
    amount = int(possible) if possible >= settings.least_bytes else 0
    decision = Decision(
        _outcome(bounds, amount, use <= floor),
        _formula(bounds),
        (
            Term("use", use, "bytes"),
            *(term for bound in bounds for term in bound.given),
            Term("share", settings.share_percent, "%"),
            Term("possible", possible, "bytes"),
            Term("least", settings.least_bytes, "bytes"),
            Term("amount", amount, "bytes"),
        ),
        pod=pod.name,
    )
    return Reclaim(pod.group, amount, decision), max(possible, 0.0)


def _formula(bounds: list[_Bound]) -> str:
    names = ", ".join(bound.name for bound in bounds)
    equations = (bound.formula for bound in bounds if bound.formula)
    return "; ".join((*equations, f"possible = min({names})", _AMOUNT))


def _outcome(bounds: list[_Bound], amount: int, at_floor: bool) -> str:
    by_name = {bound.name: bound.amount for bound in bounds}
    if amount:
        return "memory that it does not miss is reclaimed"
    reason = "it would be too little"
    if by_name.get("by pressure") == 0:
        reason = "it waits for memory already"
    elif by_name.get("by cache") == 0:
        reason = "without swap it would be page cache that is mapped"
    elif at_floor:
        reason = "it has no more than it keeps"
    return f"nothing is reclaimed: {reason}"


def _by_policy(
    measured: _Measured, use: float, last: float, settings: Settings
) -> Iterator[_Bound]:
    share, policy = settings.share_percent / 100, settings.policy
    if measured.pressure is not None and policy is not OffloadPolicy.REFAULT:
        yield _Bound(
            "by pressure",
            sizes.by_pressure(measured.pressure, settings.target_percent, share, use),
            sizes.BY_PRESSURE,
            (
                Term("pressure", measured.pressure, "%"),
                Term("target", settings.target_percent, "%"),
            ),
        )
    if measured.refaults is not None and policy is not OffloadPolicy.PSI:
        inactive = measured.stat["inactive_anon"] + measured.stat["inactive_file"]
        targets = settings.accuracy_percent / 100, settings.efficiency_percent / 100
        yield _Bound(
            "by refault",
            sizes.by_refault(last, inactive, use, share, measured.refaults, *targets),
            sizes.BY_REFAULT,
            (
                Term("last", last, "bytes"),
                Term("inactive", inactive, "bytes"),
                Term("scanned", measured.refaults.scanned, "pages/s"),
                Term("reclaimed", measured.refaults.reclaimed, "pages/s"),
                Term("activated", measured.refaults.activated, "pages/s"),
                Term("accuracy target", settings.accuracy_percent, "%"),
                Term("efficiency target", settings.efficiency_percent, "%"),
            ),
        )


def _by_cache(stat: Mapping[str, float], settings: Settings) -> Iterator[_Bound]:
    """The bounds of page cache, as far as it is measured."""
    if not stat:
        return
    if not stat["swap_free"]:
        cache, mapped = stat["page_cache"], stat["file_mapped"]
        terms = Term("cache", cache, "bytes"), Term("mapped", mapped, "bytes")
        yield _Bound("by cache", sizes.by_cache(cache, mapped), sizes.BY_CACHE, terms)
    reserved = settings.reserved_inactive_file_bytes
    if reserved:
        idle = stat["inactive_file"]
        terms = Term("idle cache", idle, "bytes"), Term("reserved", reserved, "bytes")
        yield _Bound("idle cache − reserved", idle - reserved, given=terms)


def _floor(pod: PodView, settings: Settings) -> float:
    requests = pod.requests
    request = requests.get(BATCH_MEMORY, 0) or requests.get(MEMORY, 0)
    return max(request * settings.floor_percent / 100, float(settings.floor_bytes))
