"""Events on pods about evictions, with the numbers behind them. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_model.pod import Pod

from koordlet.qos_manager.core.strategy import PodNotice, shown
from koordlet.qos_manager.eviction.policy.selection import Eviction, EvictionWarning

SUCCESS, FAILURE = "evictPodSuccess", "evictPodFail"
"""Koordinator's reasons."""
SOON, STAYS = "evictPodSoon", "evictPodLate"
"""Our own: it will be evicted unless the node has more room; it was, and has not gone."""

COMPONENT = "koordlet"


class PodEvent(NamedTuple):
    """Event about a pod: ``reason`` is one CamelCase word, ``message`` one line."""

    pod: Pod
    reason: str
    message: str
    warning: bool = True


def of_outcome(eviction: Eviction, outcome: EvictionOutcome, backend: str) -> PodEvent:
    """An Event with the result of an eviction and the numbers behind the decision."""
    why = f"{eviction.strategy}: {_numbers(eviction)}"
    pod = eviction.pod.record.pod
    if outcome.end is EvictionResult.EVICTED:
        return PodEvent(pod, SUCCESS, f"evicted by {backend} for {why}")
    return PodEvent(pod, FAILURE, f"not evicted ({outcome.reason}), wanted for {why}")


def of_warned(warned: EvictionWarning) -> PodEvent:
    """An Event that announces an eviction, in time to prevent it."""
    in_ = shown(warned.seconds, "s")
    message = f"is evicted in {in_} if nothing changes, for {warned.strategy}"
    return PodEvent(warned.pod.record.pod, SOON, f"{message}: {warned.claim.decision}")


def of_notice(strategy: str, notice: PodNotice) -> PodEvent:
    """An Event for a strategy's notice."""
    message = f"{notice.message} ({strategy})"
    return PodEvent(notice.pod.record.pod, notice.reason, message, notice.warning)


def _numbers(eviction: Eviction) -> str:
    """The decision without its first words, which say that there is one."""
    return str(eviction.decision).partition(": ")[2]
