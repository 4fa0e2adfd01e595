"""Which pod is next."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader


class QueuedPods:
    """Pods of two classes, as they come and go."""

    def __init__(self) -> None:
        self.reader = PodReader(ClusterState())
        self.queue = SchedulingQueue()
        self.made = 0

    def add(self, scheduler_name: str, priority: int) -> QueuedPod:
        self.made += 1
        metadata = {"name": f"p{self.made}", "namespace": "d", "uid": str(self.made)}
        spec = {"schedulerName": scheduler_name, "priority": priority, "containers": []}
        pod = self.reader.read(json.dumps({"metadata": metadata, "spec": spec}).encode())
        assert pod.waiting is not None
        queued = QueuedPod(pod.key, pod.uid, priority, pod.waiting, self.made, 0.0)
        self.queue.set(queued)
        return queued


@given(st.integers(0, 1 << 32))
def test_the_most_important_pod_that_is_there_is_next(seed: int) -> None:
    rng, pods = Random(seed), QueuedPods()
    queue = pods.queue
    for _ in range(30):
        match rng.choice(["add", "add", "remove", "park", "unpark", "next"]):
            case "add":
                pods.add(rng.choice(["a", "b"]), rng.randrange(4))
            case "remove" if queue.pods:
                queue.remove(rng.choice(sorted(queue.pods)))
            case "park" if queue.pods:
                queue.park(rng.choice(list(queue.pods.values())).class_key, 0.0)
            case "unpark" if parked := [one for one in queue.classes() if one.is_parked]:
                queue.unpark(rng.choice(parked).key)
            case "next":
                ready = [one for one in queue.pods.values() if not queue.is_parked(one.class_key)]
                first = min(ready, key=lambda one: (-one.priority, one.number), default=None)
                assert queue.next() is first
        parked = [one for one in queue.pods.values() if queue.is_parked(one.class_key)]
        assert queue.counts()["unschedulable"] == len(parked)
    for key in list(queue.pods):
        queue.remove(key)
    assert not queue.classes()
    assert queue.next() is None


@given(st.lists(st.sampled_from(["add", "remove oldest", "remove newest"]), max_size=400))
def test_who_never_asks_for_the_next_pod_keeps_nothing_of_those_gone(steps: list[str]) -> None:
    """As on a replica that does not lead, or behind a pod that fits nowhere."""
    pods = QueuedPods()
    queue = pods.queue
    for number, step in enumerate(steps):
        if step == "add":
            pods.add("ab"[number % 2], 0)
        elif queue.pods:
            queue.remove(list(queue.pods)[0 if step == "remove oldest" else -1])
        waiting = len(queue.pods)
        assert sum(len(one.heap) for one in queue.classes()) <= 2 * waiting
        assert sum(len(one.entered) for one in queue.classes()) <= 2 * waiting
        assert len(queue._ready) <= 2 * len(queue.classes()) + 65


def test_each_failure_of_a_pod_costs_it_more_time() -> None:
    pods = QueuedPods()
    pod, now = pods.add("a", 0), 100.0
    for attempt, pause in enumerate([1.0, 2.0, 4.0, 8.0, 10.0, 10.0], 1):
        pod = pods.queue.back_off(pod, now)
        assert (pod.attempts, pod.retry_at) == (attempt, now + pause)
        assert pods.queue.tick(now + pause - 0.01) == now + pause
        assert pods.queue.next() is None
        now += pause
        assert pods.queue.tick(now) is None
        assert pods.queue.next() is pod


def test_where_pods_wait() -> None:
    pods = QueuedPods()
    queue = pods.queue
    for number in range(7):
        pods.add("a" if number < 4 else "b", 0)
    first, *_ = queue.pods.values()
    queue.back_off(first, 0.0)
    queue.back_off(queue.pods["d/p5"], 0.0)
    queue.set(queue.pods["d/p2"], is_gated=True)
    queue.park(queue.pods["d/p6"].class_key, 0.0)
    expected = {"active": 2, "backoff": 2, "unschedulable": 2, "gated": 1}
    assert queue.counts() == expected
    assert [queue.is_gated(f"d/p{number}") for number in (2, 3)] == [True, False]
    queue.remove("d/p5")
    queue.remove("d/p2")
    assert queue.counts() == expected | {"backoff": 1, "gated": 0}


def test_a_nominated_pod_is_a_class_of_its_own() -> None:
    pods = QueuedPods()
    one, other = pods.add("a", 0), pods.add("a", 0)
    assert one.class_key == other.class_key
    one.is_nominated = other.is_nominated = True
    assert one.class_key != other.class_key


def test_pods_that_come_and_go_in_turn_leave_nothing() -> None:
    pods = QueuedPods()
    for _ in range(3):
        pods.add("a", 0)
    for _ in range(50):
        pods.queue.remove(next(iter(pods.queue.pods)))
        pods.add("a", 0)
    [queue] = pods.queue.classes()
    assert len(queue.heap) + len(queue.entered) <= 4 * len(pods.queue.pods)
