"""What becomes of a waiting pod when the API says something new of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.pod_reader import PodReader

KEY = "d/pod"
NODE = json.dumps(
    {
        "metadata": {"name": "n1", "labels": {"host": "n1"}},
        "status": {"allocatable": {"cpu": "4", "pods": "9"}},
    }
).encode()


class OneWaitingPod:
    """A pod and a scheduler with a node."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(one.profile for one in default_scheduler_config().profiles)
        self.reader = PodReader(self.scheduler.nodes)
        self.scheduler.nodes.set(read_node(NODE))

    def say(self, status: Any = None, *, uid: str = "1", **spec: Any) -> QueuedPod:
        self.set(status, uid=uid, **spec)
        return self.scheduler.queue.pods[KEY]

    def set(self, status: Any = None, *, uid: str = "1", metadata: Any = None, **spec: Any) -> None:
        named = {"name": "pod", "namespace": "d", "uid": uid, **(metadata or {})}
        document = {"metadata": named, "spec": {"containers": [], **spec}, "status": status}
        pod = self.reader.read(json.dumps({k: v for k, v in document.items() if v}).encode())
        self.scheduler.set_pod(pod, 0.0)


@pytest.fixture
def waiting() -> OneWaitingPod:
    return OneWaitingPod()


def test_its_condition_and_the_nomination_made_here_leave_it_where_it_is(
    waiting: OneWaitingPod,
) -> None:
    before = waiting.scheduler.nominate(waiting.say(), "n1")
    condition = {"type": "PodScheduled", "status": "False", "message": "no room"}
    after = waiting.say({"conditions": [condition], "nominatedNodeName": "n1"})
    assert after is before
    assert (after.waiting.condition, after.waiting.nominated) == ("no room", "n1")


def test_the_nomination_of_somebody_else_counts_and_so_does_its_end(waiting: OneWaitingPod) -> None:
    waiting.say()
    nominated = waiting.say({"nominatedNodeName": "n1"})
    assert nominated.is_nominated
    assert [(one.key, one.node) for one in waiting.scheduler.nominations] == [(KEY, "n1")]
    waiting.say({"nominatedNodeName": "n2"})
    assert [(one.key, one.node) for one in waiting.scheduler.nominations] == [(KEY, "n2")]
    assert not waiting.say().is_nominated
    assert not len(waiting.scheduler.nominations)


def test_an_older_nomination_at_the_api_does_not_end_a_newer_one(waiting: OneWaitingPod) -> None:
    waiting.say({"nominatedNodeName": "n1"})
    waiting.scheduler.nominate(waiting.scheduler.queue.pods[KEY], "n2")
    assert waiting.say().is_nominated
    assert [one.node for one in waiting.scheduler.nominations] == ["n2"]


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


def test_what_was_said_of_a_pod_while_it_was_bound_counts_if_that_failed(
    waiting: OneWaitingPod,
) -> None:
    waiting.say()
    placed = waiting.scheduler.decide(0.0)
    assert isinstance(placed, Placement)
    waiting.set(nodeSelector={"disk": "fast"}, priority=7)
    waiting.scheduler.forget(placed.pod, 0.0)
    again = waiting.scheduler.queue.pods[KEY]
    assert again.priority == 7
    assert again.waiting.pod_class != placed.pod.waiting.pod_class
    assert isinstance(waiting.scheduler.decide(0.0), Refusal)


def test_labels_that_change_while_a_pod_is_bound_count_for_others(waiting: OneWaitingPod) -> None:
    waiting.say()
    assert isinstance(waiting.scheduler.decide(0.0), Placement)
    waiting.set(metadata={"labels": {"app": "web"}})
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    waiting.set(metadata={"name": "other"}, uid="2", affinity={"podAntiAffinity": anti})
    assert isinstance(waiting.scheduler.decide(0.0), Refusal)


def test_a_pod_that_was_deleted_while_it_was_bound_is_not_bound_again(
    waiting: OneWaitingPod,
) -> None:
    waiting.say()
    placed = waiting.scheduler.decide(0.0)
    assert isinstance(placed, Placement)
    waiting.set(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    waiting.scheduler.forget(placed.pod, 0.0)
    assert not waiting.scheduler.queue.pods


def test_later_pods_have_greater_numbers(waiting: OneWaitingPod) -> None:
    assert waiting.say().number == 1
    assert waiting.say(uid="2").number == 2
