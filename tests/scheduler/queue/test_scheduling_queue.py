"""Which pod is next."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.classes.pod_reader import PodReader
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue


class Pods:
    """Pods of two classes, as they come and go."""

    def __init__(self) -> None:
        self.reader = PodReader(NodeColumns())
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
    rng, pods = Random(seed), Pods()
    queue = pods.queue
    for _ in range(30):
        match rng.choice(["add", "add", "remove", "park", "unpark", "next"]):
            case "add":
                pods.add(rng.choice(["a", "b"]), rng.randrange(4))
            case "remove" if queue.pods:
                queue.remove(rng.choice(sorted(queue.pods)))
            case "park" if queue.pods:
                queue.park(rng.choice(list(queue.pods.values())).class_key, 0.0)
            case "unpark" if parked := queue.parked():
                queue.unpark(rng.choice(parked).key)
            case "next":
                ready = [one for one in queue.pods.values() if not queue.is_parked(one.class_key)]
                first = min(ready, key=lambda one: (-one.priority, one.number), default=None)
                assert queue.next() is first
