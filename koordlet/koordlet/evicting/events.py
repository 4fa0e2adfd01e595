"""Events on pods: that one was evicted or is to be, and of what numbers. No IO.

Core v1, as Koordinator's koordlet writes them, reasons and all: what an Event needs there is
less than in ``events.k8s.io``, and ``kubectl describe`` shows both alike.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import NamedTuple

from koord_kube.api import Object
from koord_model.pod import Pod

from koordlet.deciding.contract import Notice, shown
from koordlet.evicting.choosing import Eviction, Warned
from koordlet.evicting.ways import End, Outcome

SUCCESS, FAILURE = "evictPodSuccess", "evictPodFail"
"""Koordinator's reasons."""
SOON, STAYS = "evictPodSoon", "evictPodLate"
"""Our own: it will be evicted unless the node has more room; it was, and has not gone."""

COMPONENT = "koordlet"
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_REPEAT_SECONDS = 300.0
_MOST_REMEMBERED = 1024


class Saying(NamedTuple):
    """What is to be said of a pod: ``reason`` is one CamelCase word, ``message`` one line."""

    pod: Pod
    reason: str
    message: str
    warning: bool = True


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
    when = datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    suffix = f".{int(at * 1e9):x}"
    name = pod.name[: _LONGEST_NAME - len(suffix)].rstrip(".-")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}{suffix}", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
        },
        "reason": saying.reason,
        "message": _cut(saying.message),
        "type": "Warning" if saying.warning else "Normal",
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": count,
    }


class Repeated:
    """Keeps what is said over and over from becoming one Event a second.

    The same reason about the same pod is said again after five minutes, with how often that was.
    """

    def __init__(self) -> None:
        self._said: OrderedDict[Hashable, list[float]] = OrderedDict()

    def count(self, saying: Saying, now: float) -> int:
        """How often it was to be said since it last was; 0: not now. ``now`` is steady seconds."""
        key = saying.pod.uid, saying.reason
        known = self._said.get(key)
        if known is not None and now - known[0] < _REPEAT_SECONDS:
            known[1] += 1
            return 0
        self._said[key] = [now, 0]
        self._said.move_to_end(key)
        if len(self._said) > _MOST_REMEMBERED:
            self._said.popitem(last=False)
        return 1 if known is None else int(known[1]) + 1


def _numbers(eviction: Eviction) -> str:
    """The decision without its first words, which say that there is one."""
    return str(eviction.decision).partition(": ")[2]


def _cut(message: str) -> str:
    words = " ".join(message.split())
    encoded = words.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return words
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
