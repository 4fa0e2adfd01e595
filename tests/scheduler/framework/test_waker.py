"""Parked pods that fit get their turn in order, and all of them get it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.queue.scheduling_queue import ClassQueue
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.wake_budget import CountedBudget
from koord_scheduler.framework.waker import FLUSH_SECONDS, Look
from koord_scheduler.state.pod_reader import PodReader

from tests.scheduler.framework.test_scheduler import Cluster


class Watched:
    """A random cluster, whose parked classes are looked at with so many looks at a time."""

    def __init__(self, seed: int, looks: int) -> None:
        self.rng = Random(seed)
        self.cluster = Cluster(self.rng, preempts=False)
        self.scheduler = self.cluster.scheduler
        self.budget = looks
        self.look, self.scheduler.look = self.scheduler.look, self.check  # type: ignore[method-assign]

    def fits(self, queue: ClassQueue) -> bool:
        head = queue.head()
        return head is not None and len(self.cluster.fresh(head[-1]).feasible()) > 0

    def parked(self) -> list[ClassQueue]:
        """Those that are parked and known to be; others came too late to be looked at."""
        return [one for one in self.scheduler.queue.classes() if one.is_parked and one.slot >= 0]

    def check(self, queue: ClassQueue, now: float) -> Look:
        """Nobody comes before a class that fits, unless that had its turn in this round."""
        waker = self.scheduler._waker
        number, had_turns = waker._round, waker._columns._round
        turn = queue.heap[0][0]
        for other in self.parked():
            had_turn = max(had_turns[other.slot], other.woken_in) >= number
            assert other.heap[0][0] >= turn or had_turn or not self.fits(other)
        return self.look(queue, now)

    def wake(self) -> int:
        self.cluster.now += 11
        self.scheduler.tick(self.cluster.now)
        woken = self.scheduler.wake(self.cluster.now, CountedBudget(self.budget, 0))
        while self.scheduler.decide(self.cluster.now) is not None:
            pass
        return woken


@given(st.integers(0, 1 << 32), st.integers(1, 4))
def test_nobody_who_fits_is_passed_over_and_all_have_their_turn(seed: int, looks: int) -> None:
    watched = Watched(seed, looks)
    for _ in range(60):
        watched.cluster.change()
        watched.wake()
    waiting = 4 * len(watched.scheduler.queue.pods) + 4
    for _ in range(waiting):
        if not watched.wake() and not watched.scheduler.is_waking:
            break
    assert not any(map(watched.fits, watched.scheduler.queue.classes()))


class Waiting:
    """Nodes and pods that name what they need, and who is looked at."""

    def __init__(self, plugins: str = "[]") -> None:
        config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{multiPoint: {{enabled: {plugins}}}}}}}]
"""
        profiles = read_scheduler_config(config).profiles
        self.scheduler = Scheduler([one.profile for one in profiles])
        self.reader = PodReader(self.scheduler.nodes)
        self.kinds = {one.name: one for one in cluster_kinds(self.scheduler)}
        self.look, self.scheduler.look = self.scheduler.look, self.note  # type: ignore[method-assign]
        self.looked_at: list[str] = []
        self.now = 0.0

    def note(self, queue: ClassQueue, now: float) -> Look:
        self.looked_at.append(queue.heap[0][-1].key.partition("/")[2])
        return self.look(queue, now)

    def put(self, kind: str, name: str, spec: dict[str, Any], **more: Any) -> None:
        document = {"metadata": {"name": name, "labels": more.pop("labels", {})}, "spec": spec}
        read = self.kinds[kind].read(json.dumps({**document, **more}).encode())
        self.kinds[kind].put(name, read)

    def node(self, name: str, cpu: str = "4", **labels: str) -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "9"}
        self.put("Node", name, {}, labels=labels, status={"allocatable": amounts})

    def pod(self, name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> None:
        """Each is of a class of its own."""
        metadata = {"name": name, "namespace": "d", "uid": name}
        memory = f"{1 + len(self.scheduler.queue.pods)}Mi"
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
        spec = {**spec, "containers": containers, "priority": priority}
        raw = json.dumps({"metadata": metadata, "spec": spec}).encode()
        self.scheduler.set_pod(self.reader.read(raw), self.now)

    def wake(self, seconds: float = 1.0, **budget: int) -> list[str]:
        """Who is looked at."""
        self.now += seconds
        self.looked_at.clear()
        self.scheduler.wake(
            self.now, CountedBudget(budget.get("looks", 99), budget.get("retries", 0))
        )
        return list(self.looked_at)

    def decide(self) -> list[str]:
        """Who gets a node."""
        found = []
        while (one := self.scheduler.decide(self.now)) is not None:
            assert isinstance(one, Placement | Refusal)
            found += [one.pod.key.partition("/")[2]] if isinstance(one, Placement) else []
        return found


def test_only_those_are_looked_at_whom_a_changed_node_may_have() -> None:
    cluster = Waiting()
    cluster.node("n1", cpu="1", pool="a")
    for name, cpu, pool in (("big", "8", "a"), ("other", "2", "b"), ("small", "2", "a")):
        cluster.pod(name, cpu, nodeSelector={"pool": pool})
    assert cluster.decide() == []
    cluster.wake()
    assert cluster.wake() == []
    cluster.node("n2", cpu="4", pool="a")
    assert cluster.wake() == ["small"]
    assert cluster.decide() == ["small"]


def test_no_more_are_woken_than_there_is_room_for() -> None:
    cluster = Waiting()
    cluster.node("n1", cpu="0")
    for number in range(9):
        cluster.pod(f"p{number}")
    assert cluster.decide() == []
    cluster.wake()
    cluster.node("n2", cpu="2")
    assert cluster.wake() == ["p0", "p1"]
    assert cluster.decide() == ["p0", "p1"]
    assert cluster.wake() == []
    assert not cluster.scheduler.is_waking


def test_a_round_goes_on_where_the_budget_ended() -> None:
    cluster = Waiting()
    cluster.node("n1", cpu="0")
    for name, priority in (("low", 0), ("high", 9), ("middle", 5)):
        affinity = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
        required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity]}}
        cluster.pod(name, "0", priority=priority, affinity=required)
    assert cluster.decide() == []
    cluster.wake()
    assert [cluster.wake(looks=1) for _ in range(4)] == [["high"], ["middle"], ["low"], ["high"]]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_those_parked_for_long_are_tried_again_a_few_at_a_time(retries: int) -> None:
    cluster = Waiting()
    for name in ("p1", "p2"):
        cluster.pod(name)
    assert cluster.decide() == []
    cluster.wake()
    cluster.wake(FLUSH_SECONDS, retries=retries)
    tried = [one.is_woken for one in cluster.scheduler.queue.classes()]
    assert sum(tried) == min(retries, 2)


def test_a_class_that_is_looked_at_may_need_what_no_other_one_needed() -> None:
    cluster = Waiting()
    taint = {"key": "x", "effect": "NoSchedule"}
    amounts = {"cpu": "4", "memory": "64Gi", "pods": "9"}
    cluster.put("Node", "n1", {"taints": [taint]}, status={"allocatable": amounts})
    for number in range(20):
        cluster.pod(f"p{number}", tolerations=[{"key": f"t{number}", "operator": "Exists"}])
    for queue in list(cluster.scheduler.queue.classes()):  # before plugins were asked about it
        cluster.scheduler.queue.park(queue.key, 0.0)
    assert len(cluster.wake()) == 20
