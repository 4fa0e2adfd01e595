"""The pods that wait for a node, and which of them is next. No IO.

In Kubernetes each pod moves between three queues. Here pods of one class share a queue: where the
first of them fits nowhere the others do not either, so the class is parked as a whole, at the same
cost for one pod as for ten thousand.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from koord_service.backoff import exponential

from koord_scheduler.extenders.refusal import ExtenderRefusal
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_reader import WaitingPod

FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 10.0
_STALE_ENTRIES = 64
"""Outdated entries of the ready heap, beyond one a class, from which on it is rebuilt."""
REPORT_AGAIN_SECONDS = 60.0
"""Interval of reports to the owners of all pods of a class: counts always change."""


class ClassKey(NamedTuple):
    """Pods of which none fits where the first one does not.

    A pod that waits for the room of its victims is alone, as ``nominated``. The pods of a ``gang``
    group that start together wait together, of whatever class they are (``pod_class`` is ``None``).
    """

    scheduler_name: str
    pod_class: PodClass | None
    preempts: bool = True
    nominated: str = ""
    gang: str = ""


@dataclass(eq=False, slots=True)
class GangAttempts:
    """Failed attempts of a gang group in a row, and the time of the next one.

    ``position`` is that of the nodes' journal when it was tried last, -1 if it could not be tried,
    ``objects`` what plugins depended on beside nodes (claims …).
    It did not fit ``since`` then, or since room was held for it in vain. ``victims`` are the keys
    of the pods that had to make room for it last, ``preempted_at`` then.
    """

    failures: int = 0
    since: float = 0.0
    victims: tuple[str, ...] = ()
    preempted_at: float = 0.0
    retry_at: float = 0.0
    position: int = -1
    objects: Hashable = None


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod that waits; ``added`` and ``retry_at`` are monotonic seconds.

    ``number`` is greater than those of all pods before it. ``attempts`` counts what went wrong
    with it itself (its binding failed), not with its class. ``reported`` is the message of
    the last report on it. ``extender_refusal`` is what extenders said of it last.
    ``gang`` is the gang group that it starts with, "" if it goes by itself.
    ``queue`` is the one of its class, while it is in one.
    Once it has left the queue, it never comes back: a copy of it may.
    """

    key: str
    uid: str
    priority: int
    waiting: WaitingPod
    number: int
    added: float
    attempts: int = 0
    retry_at: float = 0.0
    reported: str = ""
    is_nominated: bool = False
    in_queue: bool = False
    extender_refusal: ExtenderRefusal | None = None
    gang: str = ""
    queue: ClassQueue | None = field(default=None, repr=False)

    @property
    def scores_key(self) -> tuple[str, PodClass]:
        """The profile and the class by which nodes are asked about it."""
        return self.waiting.scheduler_name, self.waiting.pod_class

    @property
    def class_key(self) -> ClassKey:
        """The class that it waits with."""
        waiting = self.waiting
        if self.gang:
            return ClassKey("", None, gang=self.gang)
        nominated = self.key if self.is_nominated else ""
        return ClassKey(waiting.scheduler_name, waiting.pod_class, waiting.preempts, nominated)

    @property
    def turn(self) -> Turn:
        """Pods with a lesser one come first."""
        return -self.priority, self.waiting.created, self.number


Turn = tuple[int, float, int]
_Place = tuple[Turn, int, QueuedPod]


@dataclass(eq=False, slots=True)
class ClassQueue:
    """The waiting pods of a class, the next one first; ``is_parked`` while none fits anywhere.

    ``parked_at`` is when it was parked last, in monotonic seconds. ``offered`` is the turn at which
    it was offered to the queue of classes last. ``entered`` has the pods that came since
    ``take_unreported``, ``reported_at`` is when that returned all, ``reasons`` what was said. With
    ``has_defect`` a plugin failed on them. ``gone`` of those in ``heap`` wait no more.
    While it is parked, ``slot`` is its place in the columns of parked classes, ``has_news`` says
    that it waits for something else by now. ``woken_in`` is the round of looks in which it was
    woken last, ``is_woken`` that this was the reason for which it is tried now, and with
    ``in_vain`` it was parked again after that.
    """

    key: ClassKey
    heap: list[_Place] = field(default_factory=list)
    is_parked: bool = False
    offered: Turn | None = None
    parked_at: float = 0.0
    reported_at: float = float("-inf")
    has_defect: bool = False
    entered: list[QueuedPod] = field(default_factory=list)
    gang_attempts: GangAttempts = field(default_factory=GangAttempts)
    gone: int = 0
    slot: int = -1
    has_news: bool = False
    woken_in: int = 0
    is_woken: bool = False
    in_vain: bool = False
    reasons: frozenset[str] | None = None

    @property
    def size(self) -> int:
        """Number of pods that wait."""
        return len(self.heap) - self.gone

    def leave(self) -> None:
        """One of the pods waits no more; they are dropped once they are half of all."""
        self.gone += 1
        if 2 * self.gone > len(self.heap):
            self.heap = [place for place in self.heap if place[-1].in_queue]
            heapq.heapify(self.heap)
            self.gone = 0
        if len(self.entered) > 2 * self.size:
            self.entered = [pod for pod in self.entered if pod.in_queue]

    def take_unreported(self, now: float) -> list[QueuedPod]:
        """Take the pods that are due for a report that they fit nowhere: new ones, at times all."""
        entered, self.entered = self.entered, []
        if now - self.reported_at < REPORT_AGAIN_SECONDS:
            return [pod for pod in entered if pod.in_queue]
        self.reported_at = now
        return list(self.pods())

    def head(self) -> _Place | None:
        """The next pod; those that left the queue are dropped."""
        while self.heap and not self.heap[0][-1].in_queue:
            heapq.heappop(self.heap)
            self.gone -= 1
        return self.heap[0] if self.heap else None

    def pods(self) -> Iterator[QueuedPod]:
        """All of them, in no order."""
        return (pod for *_, pod in self.heap if pod.in_queue)


class SchedulingQueue:
    """Pods by priority, then in the order in which they were created.

    A pod is in its class, gated (it has scheduling gates), or waits until its ``retry_at``.
    """

    def __init__(
        self, first: float = FIRST_BACKOFF_SECONDS, most: float = MOST_BACKOFF_SECONDS
    ) -> None:
        """``first`` and ``most``: seconds of back-off after the first failure, and at most."""
        self._first = first
        self._most = most
        self._pods: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._classes: dict[ClassKey, ClassQueue] = {}
        self._ready: list[tuple[Turn, int, ClassQueue]] = []
        self._backoff: list[tuple[float, int, QueuedPod]] = []
        self._backing_off = 0
        self._unschedulable = 0
        self._changed: dict[ClassQueue, None] = {}
        self._entries = itertools.count()  # so that heaps compare nothing else
        self.pods: Mapping[str, QueuedPod] = MappingProxyType(self._pods)

    def set(self, pod: QueuedPod, *, is_gated: bool = False) -> None:
        """A pod waits, in place of what was known of it."""
        before = self._take(pod.key)
        self._pods[pod.key] = pod
        pod.in_queue, pod.queue = True, None
        if is_gated:
            self._gated[pod.key] = pod
        else:
            self._enter(pod)
        if before is not None:
            self._drop_if_empty(before)

    def move(self, pod: QueuedPod, waiting: WaitingPod) -> None:
        """A pod waits with others from now on; it stays parked if it was, but is looked at."""
        if pod.retry_at or pod.key in self._gated:
            pod.waiting = waiting  # it is in no class
            return
        before = self._classes[pod.class_key]
        was_parked, since = before.is_parked, before.parked_at
        again = replace(pod, waiting=waiting)
        there = self._classes.get(again.class_key)
        was_parked &= there is None or there.is_parked or not there.size
        self.set(again)
        if was_parked:
            self.park(again.class_key, since)
            self.note_change(again.class_key)

    def remove(self, key: str) -> QueuedPod | None:
        """A pod does not wait any more; returns it if it did."""
        pod = self._pods.get(key)
        queue = self._take(key)
        if queue is not None:
            self._drop_if_empty(queue)
        return pod

    def _take(self, key: str) -> ClassQueue | None:
        """Take a pod out; returns the queue of the class in which it waited."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        pod.in_queue = False
        queue, pod.queue = pod.queue, None
        if queue is None:
            if self._gated.pop(key, None) is None:
                self._backing_off -= 1
            return None
        queue.leave()
        self._unschedulable -= queue.is_parked
        return queue

    def next(self) -> QueuedPod | None:
        """The pod whose turn it is; it stays until it is removed, or its class is parked."""
        while self._ready:
            turn, _, queue = self._ready[0]
            head = queue.head()
            if head is not None and not queue.is_parked and turn == head[0]:
                return head[-1]
            heapq.heappop(self._ready)
            if turn == queue.offered:
                queue.offered = None
            if head is None:
                self._drop(queue)
            elif not queue.is_parked:
                self._offer(queue)
        return None

    def park(self, key: ClassKey, now: float) -> ClassQueue:
        """The pods of a class fit nowhere."""
        queue = self._classes[key]
        queue.has_defect = False
        queue.parked_at = now
        queue.in_vain, queue.is_woken = queue.is_woken, False
        self._set_parked(queue, is_parked=True)
        return queue

    def unpark(self, key: ClassKey) -> None:
        """A pod of a class may fit now."""
        queue = self._classes[key]
        queue.is_woken = True
        self._set_parked(queue, is_parked=False)
        self._offer(queue)

    def try_again(self, key: ClassKey) -> None:
        """The owners of a class's pods are to hear anew why these wait."""
        queue = self._classes[key]
        queue.reported_at = float("-inf")
        self._set_parked(queue, is_parked=False)
        self._offer(queue)

    def note_change(self, key: ClassKey) -> None:
        """A class waits for something else than before, if it is parked."""
        queue = self._classes.get(key)
        if queue is not None and queue.is_parked:
            queue.has_news = True
            self._changed[queue] = None

    def take_changed(self) -> dict[ClassQueue, None]:
        """The classes that were parked since the last call, or changed, or are not parked now."""
        found, self._changed = self._changed, {}
        return found

    def _set_parked(self, queue: ClassQueue, *, is_parked: bool) -> None:
        if queue.is_parked != is_parked:
            self._unschedulable += queue.size if is_parked else -queue.size
            queue.is_parked = is_parked
            self._changed[queue] = None
        elif is_parked:
            self._changed[queue] = None

    def back_off(self, pod: QueuedPod, now: float) -> QueuedPod:
        """Something went wrong with a pod itself: its turn comes again, later each time.

        Returns it as it waits now.
        """
        self.remove(pod.key)
        pause = self.pause(pod.attempts)
        again = replace(pod, attempts=pod.attempts + 1, retry_at=now + pause, in_queue=True)
        self._pods[pod.key] = again
        self._backing_off += 1
        heapq.heappush(self._backoff, (again.retry_at, next(self._entries), again))
        return again

    def pause(self, failures: int) -> float:
        """The seconds of back-off after so many earlier failures."""
        return exponential(self._first, self._most, failures + 1)

    def tick(self, now: float) -> float | None:
        """Let those come whose time has come; returns when the next one's does."""
        while self._backoff:
            at, _, pod = self._backoff[0]
            if not pod.in_queue:
                heapq.heappop(self._backoff)
                continue
            if at > now:
                return at
            heapq.heappop(self._backoff)
            pod.retry_at = 0.0
            self._backing_off -= 1
            self._enter(pod)
        return None

    def counts(self) -> Mapping[str, int]:
        """Return the number of waiting pods, by the names of kube-scheduler's queues."""
        unschedulable = self._unschedulable
        gated, backoff = len(self._gated), self._backing_off
        active = len(self._pods) - unschedulable - gated - backoff
        return {
            "active": active,
            "backoff": backoff,
            "unschedulable": unschedulable,
            "gated": gated,
        }

    def classes(self) -> Collection[ClassQueue]:
        """All classes, parked or not; some may have no pods any more."""
        return self._classes.values()

    def class_of(self, pod: QueuedPod) -> ClassQueue:
        """The queue of a pod that waits in one."""
        return self._classes[pod.class_key]

    def class_with(self, key: ClassKey) -> ClassQueue | None:
        """The queue of the pods with a key."""
        return self._classes.get(key)

    def waiting_with(self, key: ClassKey) -> Iterator[QueuedPod]:
        """The pods of a class, in no order."""
        queue = self._classes.get(key)
        return queue.pods() if queue is not None else iter(())

    def is_gated(self, key: str) -> bool:
        """True if a pod waits for its gates."""
        return key in self._gated

    def is_parked(self, key: ClassKey) -> bool:
        """True if the pods of a class fit nowhere, as far as is known."""
        queue = self._classes.get(key)
        return queue is not None and queue.is_parked

    def _enter(self, pod: QueuedPod) -> None:
        key = pod.class_key
        queue = self._classes.get(key)
        if queue is None:
            queue = self._classes[key] = ClassQueue(key)
        self._set_parked(queue, is_parked=False)  # the pod's owner is to hear why it waits
        pod.queue = queue
        heapq.heappush(queue.heap, (pod.turn, next(self._entries), pod))
        queue.entered.append(pod)
        queue.is_woken = False
        self._offer(queue)

    def _offer(self, queue: ClassQueue) -> None:
        """Put a class where its first pod's turn is."""
        head = queue.head()
        if head is None:
            self._drop(queue)
        elif head[0] != queue.offered:
            queue.offered = head[0]
            heapq.heappush(self._ready, (head[0], next(self._entries), queue))
            if len(self._ready) > 2 * len(self._classes) + _STALE_ENTRIES:
                self._ready = [one for one in self._ready if one[0] == one[-1].offered]
                heapq.heapify(self._ready)

    def _drop_if_empty(self, queue: ClassQueue) -> None:
        if not queue.heap:
            self._drop(queue)

    def _drop(self, queue: ClassQueue) -> None:
        if self._classes.get(queue.key) is queue:
            del self._classes[queue.key]
            queue.offered = None
            self._set_parked(queue, is_parked=False)
