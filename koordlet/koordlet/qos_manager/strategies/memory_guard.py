"""Holds best-effort pods back (``memory.high``) before they take the memory that others need.

One value, on the group above them. As Katalyst computes it, from what each NUMA node has beyond
its critical watermark, which is left free:

    critical = max(low watermark × factor, least that is kept free)
    limit = current use + Σ max(free + idle page cache × part − critical, 0)
    high = limit × 95 %

What best-effort pods take or give back changes nothing in the limit; what others take lowers it,
at once, but never below the current use, and what they give back raises it, in steps. Who is
above ``memory.high`` reclaims its own memory and is slowed down, which kills nobody, while
``memory.max`` would: so pods can exceed it, and it does not follow them up.

Needs cgroup v2 and the gate ZoneInfoCollector. Where something is not measured, the value stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_host.knobs.table import KNOBS
from koord_model import cpuset
from koord_model.node_info import NodeMemoryInfo, NumaNode
from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, StrategyView, Term, desired_value

GATE = "MemoryGuard"
INTERVAL = "reconcile_interval_seconds"

_KNOB = "memory.high"
_PAGE = KNOBS[_KNOB].v2_form.unit
_LEAST = 256 << 20
"""Bytes that best-effort pods may have in any case: a container must be able to start."""
_FORMULA = (
    "wanted = max((use + room) × part / 100, least); "
    "target = min(wanted, before + step) where wanted > before "
    "else min(max(wanted, use), before); "
    "is near = before − step < target and target < before + step; "
    "high = before where is near else target"
)
_FORMULA_OF_NODE = "max(free of node {0} − critical of node {0}, 0)"


@dataclass(frozen=True, slots=True)
class Settings:
    """Memory that is kept free, and the speed at which the rest is given."""

    enable: bool = False
    """True to hold best-effort pods back."""
    watermark_factor: Annotated[float, Meta(ge=0, le=10)] = 1
    """Kept free of each NUMA node: its low watermark × this."""
    reserved_bytes: Annotated[int, Meta(ge=0)] = 4 << 30
    """Kept free of each NUMA node at least."""
    reserved_percent: Annotated[float, Meta(ge=0, le=100)] = 10
    """Bound of `reserved_bytes`: this part of the NUMA node's memory."""
    idle_cache_percent: Annotated[float, Meta(ge=0, le=100)] = 50
    """Part of the page cache that was not used lately: counts as free."""
    high_percent: Annotated[float, Meta(gt=0, le=100)] = 95
    """Part of the memory that best-effort pods may use: there they are held back."""
    release_percent: Annotated[float, Meta(gt=0, le=100)] = 1
    """Part of the node's memory: a second's rise at most, and the least change."""


def settings(slo: NodeSLO) -> Settings:
    """On as far as best-effort pods are to be held down; Koordinator has nothing of the kind."""
    return Settings(slo.threshold.enable)


class _Room(NamedTuple):
    """Free memory of one NUMA node, and how much of it is kept free, in bytes."""

    node: int
    free: float
    critical: float

    @property
    def bytes(self) -> float:
        return max(self.free - self.critical, 0.0)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan the value; ``memory`` is the one in force."""
    if not settings.enable:
        return _off("the NodeSLO does not enable it")
    if view.layout.version != 2 or _KNOB not in view.node.kernel.knobs:
        return _off(f"this node has no {_KNOB}")
    before = memory if isinstance(memory, int) else _found(view)
    use = view.latest.value("be_memory_current")
    rooms = _rooms(view, settings)
    if use is None or not rooms:
        return _held(view, before, "free memory of NUMA nodes is not known")
    step = int((view.memory_bytes or 0) * settings.release_percent / 100)
    room = sum(one.bytes for one in rooms)
    wanted = max((use + room) * settings.high_percent / 100, _LEAST)
    # Before the first value there is nothing to fall or to rise from.
    before = _pages(max(wanted, use)) if before is None else before
    target = min(wanted, before + step) if wanted > before else min(max(wanted, use), before)
    high = before if abs(target - before) < step else _pages(target)
    given = (
        *(term for one in rooms for term in _terms(one)),
        Term("use", use, "bytes"),
        Term("room", room, "bytes"),
        Term("part", settings.high_percent, "%"),
        Term("least", _LEAST, "bytes"),
        Term("before", before, "bytes"),
        Term("step", step, "bytes"),
        Term("high", high, "bytes"),
    )
    outcome = "best-effort pods are held back where the node would run short of memory"
    formula = f"room = {' + '.join(_FORMULA_OF_NODE.format(one.node) for one in rooms)}; {_FORMULA}"
    return _written(view, high, Decision(outcome, formula, given, group=view.be_group))


def _pages(size: float) -> int:
    """Whole pages, as the kernel has it, and not fewer than are in use."""
    return -(-int(size) // _PAGE) * _PAGE


def _terms(room: _Room) -> Iterator[Term]:
    yield Term(f"free of node {room.node}", room.free, "bytes")
    yield Term(f"critical of node {room.node}", room.critical, "bytes")


def _written(view: StrategyView, high: int, decision: Decision) -> Plan:
    """The value, or a lower one that was there before koordlet."""
    base = view.cgroups.base(view.be_group, _KNOB)
    value = min(high, base) if isinstance(base, int) and base >= 0 else high
    desired = (desired_value(view.be_group, _KNOB, value, decision),)
    return Plan(desired, (decision,), memory=high)


def _off(reason: str) -> Plan:
    return Plan(decisions=(Decision(f"best-effort pods are not held back: {reason}"),))


def _held(view: StrategyView, before: int | None, reason: str) -> Plan:
    if before is None:
        return _off(reason)
    decision = Decision(f"the value stays: {reason}", group=view.be_group)
    return _written(view, before, decision)


def _found(view: StrategyView) -> int | None:
    """The value that an earlier run left; ``None`` if it is not ours."""
    now = view.cgroups.now(view.be_group, _KNOB)
    changed = now != view.cgroups.base(view.be_group, _KNOB)
    return now if changed and isinstance(now, int) and now >= 0 else None


def _rooms(view: StrategyView, settings: Settings) -> list[_Room]:
    """Of each NUMA node that best-effort pods may use; empty if one is not known."""
    info = view.latest.info(NodeMemoryInfo)
    allowed = _allowed(view)
    nodes = [
        node
        for node in (info.nodes if info else ())
        if node.memory and (not allowed or node.id in allowed)
    ]
    rooms = [_room(view, node, settings) for node in nodes]
    known = [room for room in rooms if room is not None]
    return known if len(known) == len(rooms) else []


def _room(view: StrategyView, node: NumaNode, settings: Settings) -> _Room | None:
    free, low, idle = (
        view.latest.value(f"node_numa_memory_{name}", str(node.id))
        for name in ("free", "low_watermark", "inactive_file")
    )
    if free is None or low is None or idle is None:
        return None
    reserved = min(settings.reserved_bytes, node.memory * settings.reserved_percent / 100)
    critical = max(low * settings.watermark_factor, reserved)
    return _Room(node.id, free + idle * settings.idle_cache_percent / 100, critical)


def _allowed(view: StrategyView) -> frozenset[int]:
    """NUMA nodes that the best-effort group is bound to; none: all."""
    mems = view.cgroups.now(view.be_group, "cpuset.mems")
    return cpuset.parse(mems) if isinstance(mems, str) else frozenset()
