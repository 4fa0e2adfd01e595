"""Amounts to reclaim with ``memory.reclaim``, as one-shot actions, decisions and signals. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    StrategySignal,
    StrategyView,
    desired_value,
)

KNOB = "memory.reclaim"


class Reclaim(NamedTuple):
    """The result for one cgroup; ``amount`` is in bytes, 0 for nothing."""

    group: str
    amount: int
    decision: Decision


def why_not(view: StrategyView) -> str:
    """The reason for which nothing can be reclaimed on this node; "" if it can."""
    if view.layout.version != 2:
        return f"cgroup v1 has no {KNOB}"
    if KNOB not in view.node.kernel.knobs:
        return f"this kernel has no {KNOB} (Linux 5.19 has)"
    return ""


def off(reason: str) -> Plan:
    """The plan of a node on which nothing is reclaimed."""
    return Plan(decisions=(Decision(f"nothing is reclaimed: {reason}"),))


def plan(reclaims: Iterable[Reclaim], signal: str, memory: object) -> Plan:
    """Reclaim these amounts once; ``signal`` has their sum by pod."""
    every = tuple(reclaims)
    by_pod: Counter[str] = Counter()
    for reclaim in every:
        by_pod[reclaim.decision.pod] += reclaim.amount
    return Plan(
        one_shot=tuple(
            desired_value(reclaim.group, KNOB, reclaim.amount, reclaim.decision)
            for reclaim in every
            if reclaim.amount
        ),
        decisions=tuple(reclaim.decision for reclaim in every),
        signals=tuple(
            StrategySignal(signal, float(amount), pod) for pod, amount in by_pod.items() if amount
        ),
        memory=memory,
    )
