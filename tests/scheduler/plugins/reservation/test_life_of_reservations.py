"""Whatever comes and goes: no room is promised twice, and kept answers are fresh ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.held_scores import class_scores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.recording import Record, read_inputs, recording_line
from koord_scheduler.framework.replay import Replay
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord_scheduler.plugins.node_affinity import NodeAffinity
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.reservation.allocation import PreAllocatedOwners
from koord_scheduler.plugins.reservation.plugin import ReservationPlugin

from tests.support.reservations import OF_WEB, ReservationCluster, allocated

NODES = ("n1", "n2", "n3")
CPUS = 8000
POLICIES = ("Aligned", "Restricted")
AFFINITIES = (None, None, {}, {"name": "a"}, {"reservationSelector": {"pool": "x"}})


class Life:
    """Pods and reservations of an API that is behind by some events."""

    def __init__(self, rng: Random, record: Record | None = None) -> None:
        self.rng = rng
        self.cluster = ReservationCluster(*NODES, record=record)
        self.pods: dict[str, tuple[str, str, str]] = {}  # by name: app, CPUs, node
        self.owners: dict[str, str] = {}
        self.priorities: dict[str, int] = {}
        self.cpus: dict[str, str] = {}
        self.nodes: dict[str, str] = {}
        self.specs: dict[str, dict[str, object]] = {}
        self.made = 0
        self.behind: list[Callable[[], None]] = []  # what the API is going to say

    def change(self) -> None:
        rng, cluster = self.rng, self.cluster
        while self.behind and rng.random() < 0.5:
            self.behind.pop(0)()
        match rng.choice(["pod", "pod", "pod", "decide", "end", "reservation", "succeed", "gone"]):
            case "pod":
                self.made += 1
                app, cpus = rng.choice(["web", "db"]), str(rng.randint(1, 5))
                name = f"p{self.made}"
                self.pods[name] = app, cpus, ""
                self.priorities[name] = rng.choice([0, 0, 0, 5])
                affinity, priority = rng.choice(AFFINITIES), self.priorities[name]
                cluster.pod(name, cpus, app=app, affinity=affinity, priority=priority)
            case "end" if self.pods:
                self.end(rng.choice(sorted(self.pods)))
            case "reservation":
                self.new_reservation(rng.choice("abc"))
            case "succeed" if self.nodes:
                name = rng.choice(sorted(self.nodes))
                self.put(name, self.nodes.pop(name), "Succeeded")
            case "gone":
                name = rng.choice("abc")
                cluster.kinds["Reservation"].remove(name)
                self.nodes.pop(name, None)
                self.specs.pop(name, None)
        self.decide()

    def end(self, name: str) -> None:
        if name in self.pods:
            del self.pods[name]
            self.owners.pop(name, None)
            self.cluster.kinds["Pod"].remove(f"shop/{name}")

    def new_reservation(self, name: str) -> None:
        if name in self.nodes or f"Reservation/{name}" in self.cluster.scheduler.assumed:
            return
        self.cpus[name] = str(self.rng.randint(1, 6))
        self.specs[name] = {
            "owners": [OF_WEB],
            "labels": self.rng.choice([{}, {"pool": "x"}]),
            "allocateOnce": self.rng.random() < 0.5,
            "allocatePolicy": self.rng.choice(POLICIES),
        }
        if self.rng.random() < 0.4:
            several = {"enableMultiple": self.rng.random() < 0.5}
            more = {"preAllocation": True, "preAllocationPolicy": several}
            self.specs[name] |= {**more, "allocatePolicy": "Restricted"}
            self.cpus[name] = str(self.rng.randint(4, 8))  # seldom free
        self.put(name)

    def put(self, name: str, node: str = "", phase: str = "") -> None:
        self.cluster.reservation(name, self.cpus[name], node, phase=phase, **self.specs[name])  # type: ignore[arg-type]

    def decide(self) -> None:
        scheduler = self.cluster.scheduler
        while (decision := scheduler.decide(0.0)) is not None:
            if isinstance(decision, Refusal):
                assert not decision.defect
                continue
            if isinstance(decision, PreemptionPlan):
                victims = [one.key.partition("/")[2] for one in decision.preemption.victims]
                assert max(self.priorities[one] for one in victims) < decision.pod.priority
                self.behind += [partial(self.end, one) for one in victims]
                continue
            assert isinstance(decision, Placement)
            namespace, _, name = decision.pod.key.partition("/")
            if self.rng.random() < 0.2:
                scheduler.forget(decision.pod, 0.0)
            elif namespace == "Reservation":
                self.place(name, decision)
            else:
                app, cpus, _ = self.pods[name]
                self.owners[name] = allocated(decision)
                self.pods[name] = app, cpus, decision.node
                self.put_pod(name, self.owners[name])
        scheduler.tick(1e9)
        scheduler.wake(1e9)

    def place(self, name: str, decision: Placement) -> None:
        """What is written comes back at once, or bit by bit later."""
        found = (one for one in decision.reserved if isinstance(one, PreAllocatedOwners))
        keys = [key for one in found for key, _ in one.pods]
        steps = [partial(self.take_over, key.partition("/")[2], name) for key in keys]
        steps.append(partial(self.become_available, name, decision.node, self.specs[name]))
        self.behind += steps
        if self.rng.random() < 0.5:
            while self.behind:
                self.behind.pop(0)()

    def take_over(self, pod: str, name: str) -> None:
        if pod in self.pods:
            self.owners[pod] = name
            self.put_pod(pod, name)

    def put_pod(self, name: str, reservation: str) -> None:
        app, cpus, node = self.pods[name]
        priority = self.priorities[name]
        self.cluster.pod(name, cpus, node, app=app, reservation=reservation, priority=priority)

    def become_available(self, name: str, node: str, spec: dict[str, object]) -> None:
        if self.specs.get(name) is spec:
            self.nodes[name] = node
            self.put(name, node)

    def check(self) -> None:
        requested = {node: self.cluster.requested(node) for node in NODES}
        used: Counter[str] = Counter()
        for _, cpus, node in self.pods.values():
            if node:
                used[node] += 1000 * int(cpus)
        for node in NODES:
            assert used[node] <= requested[node] <= CPUS


@given(st.integers(0, 1 << 32))
def test_no_room_is_promised_twice(seed: int) -> None:
    life = Life(Random(seed))
    check = SelfCheck(life.cluster.scheduler.nodes, life.cluster.scheduler.placed)
    for _ in range(30):
        life.change()
        life.check()
        for _ in range(ROUND_SECONDS // 60):
            assert check.check_some() == []


def answers(scores: ClassScores) -> tuple[list[int], list[float], dict[int, list[str]]]:
    rows = scores.feasible()
    everywhere = np.flatnonzero(scores.nodes.is_node).tolist()
    rejections = {row: scores.rejections(row) for row in everywhere}
    assert all(scores.rejects(row) is bool(found) for row, found in rejections.items())
    return rows.tolist(), scores.totals(rows).tolist(), rejections


@given(st.integers(0, 1 << 32))
def test_kept_answers_are_fresh_ones(seed: int) -> None:
    life = Life(Random(seed))
    scheduler = life.cluster.scheduler
    for _ in range(20):
        life.change()
        for pod in list(scheduler.queue.pods.values()):
            plugins = (
                EnabledPlugin(NodeResourcesFit()),
                EnabledPlugin(NodeAffinity()),
                EnabledPlugin(InterPodAffinity()),
                EnabledPlugin(ReservationPlugin(), weight=5000),
            )
            fresh = class_scores(pod.waiting.pod_class, scheduler.nodes, plugins)
            kept = scheduler.scores(pod)
            assert answers(kept) == answers(fresh)
            everywhere = np.flatnonzero(scheduler.nodes.is_node)
            rejected = np.zeros(len(everywhere), np.bool_)
            for one in kept.reasons(everywhere):
                rejected |= one.rejects
            assert everywhere[~rejected].tolist() == kept.feasible().tolist()


@given(st.integers(0, 1 << 32))
def test_recordings_replay(seed: int) -> None:
    lines: list[bytes] = []
    life = Life(Random(seed), lambda one: lines.append(recording_line(one)))
    for _ in range(20):
        life.change()
    again = Scheduler(ReservationCluster().profiles)
    replayed = [*Replay(again, lambda *_: None).run(read_inputs(lines))]
    assert all(one.is_same for one in replayed)
    requested = [scheduler.nodes.resources for scheduler in (again, life.cluster.scheduler)]
    first, second = (one.requested[one.column("cpu")] for one in requested)
    assert first.tolist() == second.tolist()
