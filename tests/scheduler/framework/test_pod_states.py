"""What becomes of a waiting pod when the API says something new of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.classes.pod_reader import PodReader
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node
from koord_scheduler.queue.scheduling_queue import QueuedPod

KEY = "d/pod"


class OneWaitingPod:
    """A pod and a scheduler with a node."""

    def __init__(self) -> None:
        self.scheduler = Scheduler([Profile("default-scheduler", ())])
        self.reader = PodReader(self.scheduler.nodes)
        self.scheduler.nodes.set(Node(AnnotatedMeta(name="n1")))

    def say(self, status: Any = None, *, uid: str = "1", **spec: Any) -> QueuedPod:
        metadata = {"name": "pod", "namespace": "d", "uid": uid}
        document = {"metadata": metadata, "spec": {"containers": [], **spec}, "status": status}
        pod = self.reader.read(json.dumps({k: v for k, v in document.items() if v}).encode())
        self.scheduler.set_pod(pod, 0.0)
        return self.scheduler.queue.pods[KEY]


@pytest.fixture
def waiting() -> OneWaitingPod:
    return OneWaitingPod()


def test_its_condition_and_nomination_leave_it_where_it_is(waiting: OneWaitingPod) -> None:
    before = waiting.say()
    condition = {"type": "PodScheduled", "status": "False", "message": "no room"}
    after = waiting.say({"conditions": [condition], "nominatedNodeName": "n1"})
    assert after is before
    assert (after.waiting.condition, after.waiting.nominated) == ("no room", "n1")


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "fast"}},
        {"schedulingGates": [{"name": "later"}]},
        {"preemptionPolicy": "Never"},
    ],
)
def test_what_decides_about_it_puts_it_in_its_place_anew(
    waiting: OneWaitingPod, spec: dict[str, Any]
) -> None:
    before = waiting.say()
    after = waiting.say(**spec)
    assert after is not before
    assert (before.in_queue, after.in_queue) == (False, True)
    assert (after.number, after.added) == (before.number, before.added)
    assert waiting.scheduler.queue.is_gated(KEY) == ("schedulingGates" in spec)


def test_a_pod_that_failed_is_tried_at_once_when_it_is_another(waiting: OneWaitingPod) -> None:
    waiting.say()
    placed = waiting.scheduler.decide(0.0)
    assert isinstance(placed, Placement)
    waiting.scheduler.forget(placed.pod, 0.0)
    assert waiting.scheduler.queue.next() is None
    again = waiting.say(nodeSelector={"disk": "fast"})
    assert (again.attempts, again.retry_at) == (0, 0.0)
    assert waiting.scheduler.queue.next() is again
    assert waiting.scheduler.queue.counts()["backoff"] == 0


def test_later_pods_have_greater_numbers(waiting: OneWaitingPod) -> None:
    assert waiting.say().number == 1
    assert waiting.say(uid="2").number == 2
