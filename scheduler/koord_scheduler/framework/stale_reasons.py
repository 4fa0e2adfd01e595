"""Parked classes that wait for other reasons than were reported for their pods. No IO.

A class is tried again once it may fit somewhere, or has waited for a minute. Until then its pods'
conditions would name what kept them off nodes before: a full node that is cordoned by now, a taint
that is gone. Numbers alone are no other reason: they change all the time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from koord_scheduler.framework.diagnosis import Diagnosis
from koord_scheduler.framework.queue.scheduling_queue import ClassQueue, QueuedPod, SchedulingQueue
from koord_scheduler.state.cluster_state import ClusterState

LOOKS = 8
"""Classes that are looked at in one call: some milliseconds."""
PAUSE_SECONDS = 5.0
"""Time for which a class is left alone after each attempt."""
_NUMBERS = re.compile(r"[0-9]+")


class ReasonsHost(Protocol):
    """The scheduler, as far as reasons are concerned."""

    nodes: ClusterState
    queue: SchedulingQueue

    def diagnosis(self, pod: QueuedPod) -> Diagnosis:
        """Reasons for which nodes reject a pod."""
        ...


class StaleReasons:
    """Has classes tried again whose reasons have changed, in turn."""

    def __init__(self, host: ReasonsHost) -> None:
        self._host = host
        self._turn: deque[ClassQueue] = deque()
        self._seen: dict[ClassQueue, int] = {}

    def reported(self, pod: QueuedPod, texts: Iterable[str]) -> None:
        """Record that these reasons of a class are reported now."""
        queue = self._host.queue.class_with(pod.class_key)
        if queue is not None:
            queue.reasons = _reasons(texts)

    def refresh(self, now: float) -> int:
        """Look at the next few classes; returns how many are tried again."""
        if not self._turn:
            self._turn.extend(self._host.queue.classes())
            self._seen = {one: self._seen[one] for one in self._turn if one in self._seen}
        found = 0
        for _ in range(min(LOOKS, len(self._turn))):
            found += self._look(self._turn.popleft(), now)
        return found

    def _look(self, queue: ClassQueue, now: float) -> bool:
        position, head = self._host.nodes.journal.position, queue.head()
        is_quiet = queue.has_defect or now - queue.parked_at < PAUSE_SECONDS
        if head is None or not queue.is_parked or queue.key.gang or is_quiet:
            return False
        if queue.reasons is None or self._seen.get(queue) == position:
            return False
        self._seen[queue] = position
        if _reasons(texts_of(self._host.diagnosis(head[-1]))) == queue.reasons:
            return False
        self._host.queue.try_again(queue.key)
        return True


def texts_of(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Reasons that keep pods off nodes."""
    return (diagnosis.pre_filter,) if diagnosis.pre_filter else tuple(diagnosis.reasons)


def _reasons(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_NUMBERS.sub("", text) for text in texts)
