"""Events on pods: that one was evicted or is to be, and of what numbers. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_kube import events
from koord_kube.api import Object
from koord_kube.resources import PODS
from koord_model.pod import Pod

from koordlet.deciding.contract import Notice, shown
from koordlet.evicting.choosing import Eviction, Warned
from koordlet.evicting.ways import End, Outcome

SUCCESS, FAILURE = "evictPodSuccess", "evictPodFail"
"""Koordinator's reasons."""
SOON, STAYS = "evictPodSoon", "evictPodLate"
"""Our own: it will be evicted unless the node has more room; it was, and has not gone."""

COMPONENT = "koordlet"


class Saying(NamedTuple):
    """What is to be said of a pod: ``reason`` is one CamelCase word, ``message`` one line."""

    pod: Pod
    reason: str
    message: str
    warning: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """What makes two the same, whatever their numbers."""
        return self.pod.uid, self.reason


def of_outcome(eviction: Eviction, outcome: Outcome, way: str) -> Saying:
    """What became of an eviction, with the numbers that it was decided of."""
    why = f"{eviction.strategy}: {_numbers(eviction)}"
    pod = eviction.pod.record.pod
    if outcome.end is End.EVICTED:
        return Saying(pod, SUCCESS, f"evicted by {way} for {why}")
    return Saying(pod, FAILURE, f"not evicted ({outcome.reason}), wanted for {why}")


def of_warned(warned: Warned) -> Saying:
    """That a pod is to go, in time to do something about it."""
    in_ = shown(warned.seconds, "s")
    message = f"is evicted in {in_} if nothing changes, for {warned.strategy}"
    return Saying(warned.pod.record.pod, SOON, f"{message}: {warned.claim.decision}")


def of_notice(strategy: str, notice: Notice) -> Saying:
    """What a strategy has to say of a pod."""
    message = f"{notice.message} ({strategy})"
    return Saying(notice.pod.record.pod, notice.reason, message, notice.warning)


def event(saying: Saying, node: str, at: float, count: int = 1) -> Object:
    """The object to create, at ``at`` seconds since the epoch."""
    pod = saying.pod
    return events.event(
        events.reference(PODS, pod.name, pod.namespace, pod.uid),
        saying.reason,
        saying.message,
        events.Reporter(COMPONENT, node),
        at,
        warning=saying.warning,
        count=count,
    )


def _numbers(eviction: Eviction) -> str:
    """The decision without its first words, which say that there is one."""
    return str(eviction.decision).partition(": ")[2]
