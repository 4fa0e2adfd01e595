"""Gangs start whole or not at all, whatever else happens."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework import gang_cycle
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.gang_hold import HOLD_AFTER_SECONDS
from koord_scheduler.framework.gang_planner import GangCandidate, GangRequest
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.queue.scheduling_queue import MOST_BACKOFF_SECONDS
from koord_scheduler.framework.recording import Record, read_inputs, recording_line
from koord_scheduler.framework.replay import Replay
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.plugin import CannotReserve, Plugin
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from tests.support.gangs import GangCluster, gang_annotations

BOUND_CLAIM = (
    (
        "PersistentVolume",
        "v",
        {
            "metadata": {"name": "v", "resourceVersion": "1"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "claimRef": {"namespace": "d", "name": "c", "uid": "u-c"},
            },
        },
    ),
    (
        "PersistentVolumeClaim",
        "d/c",
        {
            "metadata": {
                "name": "c",
                "namespace": "d",
                "uid": "u-c",
                "resourceVersion": "1",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "v"},
            "status": {"phase": "Bound"},
        },
    ),
)


def test_a_gang_waits_for_its_pods_and_for_room_for_all() -> None:
    cluster = GangCluster("n1", cpus=2)
    cluster.gang("g", 2, minimum=3)
    assert cluster.placed() == []
    assert cluster.refusals() == [], "more pods may be about to come"
    (refusal,) = cluster.refusals(6.0)
    assert "needs 3 pods: 2 there" in refusal.gang
    cluster.pod("g-2", gang_annotations("g", 3))
    (refusal,) = cluster.refusals()
    assert "needs nodes for 3 pods at once, 2 fit; d/g-2 does not" in refusal.gang
    assert "Insufficient cpu" in refusal.gang
    assert cluster.requested() == 0
    cluster.node("n2")
    assert cluster.placed(0.5) == [], "it backs off"
    assert cluster.placed(1.0) == ["g-0", "g-1", "g-2"]


def test_two_gangs_of_which_each_fits_only_alone_never_hold_a_half() -> None:
    cluster = GangCluster("n1", cpus=4)
    for number in range(3):
        for name in ("a", "b"):
            cluster.pod(f"{name}-{number}", gang_annotations(name, 3))
    assert cluster.placed() == ["a-0", "a-1", "a-2"]
    assert cluster.requested() == 3
    assert cluster.placed(60.0) == []
    for number in range(3):
        cluster.remove(f"d/a-{number}")
    assert sorted(cluster.placed(60.0)) == ["b-0", "b-1", "b-2"]


def test_what_is_released_stays_so_and_the_others_follow_one_by_one() -> None:
    cluster = GangCluster("n1", "n2", cpus=2)
    cluster.gang("g", 4)
    placements = [one for one in cluster.decisions() if isinstance(one, Placement)]
    assert {one.release for one in placements} == {placements[0].release}
    assert placements[0].release is not None
    assert placements[0].release.size == 4
    cluster.bind(placements[0])
    cluster.scheduler.forget(placements[1].pod, cluster.now)
    cluster.scheduler.forget(placements[2].pod, cluster.now)
    cluster.pod("other", cpus=2)
    assert cluster.placed() == [], "one core is left on each node"
    cluster.pod("small")
    assert cluster.placed() == ["small"]
    (again,) = cluster.placed(2.0)
    assert again in (placements[1].pod.key[2:], placements[2].pod.key[2:])


@pytest.mark.parametrize("policy", ["only-waiting", "waiting-and-running", "once-satisfied"])
def test_a_new_scheduler_completes_what_was_bound_in_part(policy: str) -> None:
    cluster = GangCluster("n1", "n2", cpus=2)
    cluster.gang("g", 4, match_policy=policy)
    first, second, *_ = (one for one in cluster.decisions() if isinstance(one, Placement))
    cluster.bind(first)
    cluster.bind(second)
    successor = GangCluster("n1", "n2", cpus=2)
    for key, document in cluster.documents.items():
        successor.documents[key] = document
        successor.put("Pod", key, document)
    assert len(successor.placed()) == 2


def test_pods_that_come_later_wait_for_as_many_again_if_only_waiting_ones_count() -> None:
    for policy, placed in (("only-waiting", 0), ("waiting-and-running", 1), ("once-satisfied", 1)):
        cluster = GangCluster("n1", cpus=8)
        cluster.gang("g", 2, match_policy=policy)
        for one in list(cluster.decisions()):
            assert isinstance(one, Placement)
            cluster.bind(one)
        cluster.pod("g-2", gang_annotations("g", 2))
        assert len(cluster.placed()) == placed, policy


def test_gangs_of_a_group_start_together() -> None:
    cluster, group = GangCluster("n1", cpus=3), json.dumps(["d/b", "d/a"])
    cluster.gang("a", 2, groups=group)
    assert cluster.placed() == []
    cluster.gang("b", 2, groups=group)
    assert cluster.placed() == []
    cluster.node("n2")
    assert sorted(cluster.placed(2.0)) == ["a-0", "a-1", "b-0", "b-1"]


@pytest.mark.parametrize(("mode", "placed"), [("Strict", []), ("NonStrict", ["g-1", "g-2"])])
def test_one_pod_that_does_not_fit_holds_up_a_strict_gang_alone(
    mode: str, placed: list[str]
) -> None:
    cluster = GangCluster("n1", cpus=2)
    annotations = gang_annotations("g", 2, mode=mode)
    cluster.pod("g-0", annotations, cpus=9)
    cluster.pod("g-1", annotations)
    cluster.pod("g-2", annotations)
    assert cluster.placed() == placed


def test_pods_beyond_the_minimum_come_along_if_they_fit() -> None:
    cluster = GangCluster("n1", cpus=3)
    cluster.gang("g", 4, minimum=2)
    assert len(cluster.placed()) == 3
    cluster.node("n2")
    assert len(cluster.placed(2.0)) == 1


def test_a_pod_group_counts_more_than_annotations_and_its_pods_need_it() -> None:
    cluster = GangCluster("n1")
    label = {"pod-group.scheduling.sigs.k8s.io": "g"}
    for number in range(2):
        cluster.pod(f"g-{number}", labels=label)
    (refusal,) = cluster.refusals(6.0)
    assert "PodGroup" in refusal.gang
    cluster.pod_group("g", 3)
    assert cluster.placed(1.0) == []
    cluster.pod_group("g", 2)
    assert cluster.placed(1.0) == ["g-0", "g-1"]


def test_a_gang_that_needs_fewer_pods_by_now_is_tried_at_once() -> None:
    cluster = GangCluster("n1")
    label = {"pod-group.scheduling.sigs.k8s.io": "g"}
    cluster.pod_group("g", 3)
    for number in range(3):
        cluster.pod(f"g-{number}", labels=label, cpus=2)
    for _ in range(12):  # its back-off is at its longest by now
        assert cluster.placed(1.0) == []
    cluster.pod_group("g", 2)
    assert cluster.placed(0.1) == ["g-0", "g-1"]


def test_a_gang_is_tried_once_its_claims_are_bound() -> None:
    cluster = GangCluster("n1", more=[EnabledPlugin(VolumeBinding())])
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    for number in range(2):
        cluster.pod(f"g-{number}", gang_annotations("g", 2), volumes=volumes)
    for _ in range(12):
        assert cluster.placed(1.0) == []
    for kind, key, document in BOUND_CLAIM:
        cluster.put(kind, key, document)
    assert cluster.placed(11.0) == ["g-0", "g-1"]


def test_gates_and_other_schedulers_count_but_are_not_placed() -> None:
    cluster = GangCluster("n1")
    annotations = gang_annotations("g", 2)
    cluster.pod("g-0", annotations)
    cluster.pod("g-1", annotations, schedulingGates=[{"name": "later"}])
    assert cluster.placed() == []
    cluster.pod("g-1", annotations)
    assert sorted(cluster.placed()) == ["g-0", "g-1"]
    cluster.gang("h", 1, minimum=2)
    cluster.pod("h-1", gang_annotations("h", 2), schedulerName="other")
    assert cluster.placed() == []
    cluster.pod("h-1", gang_annotations("h", 2), schedulerName="other", nodeName="n1")
    assert cluster.placed() == ["h-0"], "once-satisfied: one of them is bound"


class HalvesPlanner:
    """Tries a gang on the nodes with an even row, then on the others."""

    def __init__(self) -> None:
        self.slots: list[float] = []

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate]:
        rows = request.feasible(request.pods[0])
        self.slots = request.slots(request.pods[0], rows).tolist()
        return [GangCandidate(rows[rows % 2 == half]) for half in (0, 1)]

    def rows_to_free(self, request: GangRequest) -> None:
        return None

    def domains(self, request: GangRequest) -> None:
        return None


class FixedPlanner:
    """Gives each pod the row of the node n2."""

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        row = request.nodes.row("n2")
        if row is None:
            return "n2 is not there"
        return [GangCandidate(plan={one.key: row for one in request.pods})]

    def rows_to_free(self, request: GangRequest) -> None:
        return None

    def domains(self, request: GangRequest) -> None:
        return None


def test_a_planner_says_where_a_gang_is_tried() -> None:
    cluster = GangCluster("n1", "n2", "n3", cpus=2)
    planner = cluster.scheduler.gang_cycle.planner = HalvesPlanner()
    cluster.gang("g", 4)
    rows = {cluster.scheduler.nodes.row(name): name for name in ("n1", "n2", "n3")}
    larger = max(rows, key=lambda row: sum(row % 2 == one % 2 for one in rows))
    placements = [one for one in cluster.decisions() if isinstance(one, Placement)]
    assert {one.node for one in placements} == {n for r, n in rows.items() if r % 2 == larger % 2}
    assert planner.slots == [2, 2, 2]


def test_a_planner_may_give_each_pod_its_node_or_say_why_not() -> None:
    cluster = GangCluster("n1", cpus=8)
    cluster.scheduler.gang_cycle.planner = FixedPlanner()
    cluster.gang("g", 3)
    (refusal,) = cluster.refusals()
    assert "n2 is not there" in refusal.gang
    cluster.node("n2")
    placements = [one for one in cluster.decisions(2.0) if isinstance(one, Placement)]
    assert [one.node for one in placements] == ["n2"] * 3


class RandomGangs:
    """Gangs and nodes come and go at random; each gang's pods ask for the same."""

    def __init__(self, seed: int, record: Record | None = None) -> None:
        self.rng = Random(seed)
        self.cluster = GangCluster(record=record)
        self.sizes: dict[str, tuple[int, int, int]] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.unbound: list[Placement] = []

    def step(self) -> None:
        rng = self.rng
        match rng.choice(["node", "gang", "gang", "pod", "single", "end", "bind", "time"]):
            case "node":
                self.cluster.node(f"n{rng.randrange(6)}", rng.randrange(1, 6))
            case "gang":
                self.new_group()
            case "pod" if self.sizes:
                name = rng.choice(list(self.sizes))
                self.member(name)
            case "single":
                self.cluster.pod(f"single-{rng.randrange(9)}", cpus=rng.randrange(1, 3))
            case "end":
                self.end()
            case "bind":
                for one in self.unbound[: rng.randrange(4)]:
                    self.unbound.remove(one)
                    if self.cluster.scheduler.assumed.get(one.pod.key) is one.pod:
                        self.cluster.bind(one)
        decided = self.cluster.decisions(rng.choice([0.0, 0.05, 3.0, 11.0]))
        self.unbound += [one for one in decided if isinstance(one, Placement)]

    def new_group(self) -> None:
        first, rng = len(self.groups), self.rng
        names = tuple(f"g{first + number}" for number in range(rng.choice([1, 1, 2])))
        for name in names:
            total = rng.randrange(1, 6)
            self.sizes[name] = rng.randrange(1, total + 1), total, rng.randrange(1, 3)
            self.groups[name] = names
        for name in names:
            for _ in range(self.sizes[name][1]):
                self.member(name)

    def member(self, name: str) -> None:
        minimum, _, cpus = self.sizes[name]
        mode = "Strict" if len(name) % 2 else "NonStrict"
        more = {"groups": json.dumps([f"d/{one}" for one in self.groups[name]]), "mode": mode}
        known = sum(key.startswith(f"d/{name}-") for key in self.cluster.documents)
        self.cluster.pod(f"{name}-{known}", gang_annotations(name, minimum, **more), cpus=cpus)

    def end(self) -> None:
        """A whole group is gone, or a pod that is in none."""
        key = self.rng.choice([*self.cluster.documents] or [""])
        name = key[2:].partition("-")[0]
        group = self.groups.get(name, ())
        for one in list(self.cluster.documents):
            owner = one[2:].partition("-")[0]
            if one == key if name == "single" else owner in group:
                self.cluster.remove(one)
        for one in group:
            self.sizes.pop(one, None)

    def placed(self, name: str) -> int:
        gang = self.cluster.scheduler.gangs.by_key.get(f"d/{name}")
        return len(gang.assumed) + len(gang.bound) if gang is not None else 0

    def slots(self, cpus: int) -> int:
        nodes = self.cluster.scheduler.nodes
        free = (nodes.resources.allocatable[0] - nodes.resources.requested[0])[nodes.is_node]
        return int(np.floor(free / (1000 * cpus)).sum())


@given(st.integers(0, 1 << 32))
def test_each_gang_of_a_group_has_its_minimum_or_none_has_anything(seed: int) -> None:
    gangs = RandomGangs(seed)
    for _ in range(40):
        gangs.step()
        for group in {gangs.groups[name] for name in gangs.sizes}:
            placed = {name: gangs.placed(name) for name in group}
            enough = all(placed[name] >= gangs.sizes[name][0] for name in group)
            assert enough or not any(placed.values()), (placed, gangs.sizes)
    scheduler = gangs.cluster.scheduler
    check = SelfCheck(scheduler.nodes, scheduler.placed)
    assert [name for _ in range(ROUND_SECONDS) for name in check.check_some()] == []
    gangs.unbound += [one for one in gangs.cluster.decisions(99.0) if isinstance(one, Placement)]
    assert list(gangs.cluster.decisions(0.0)) == []
    is_held = len(scheduler.nominations) > 0  # for another gang
    for name, (minimum, _, cpus) in () if is_held else gangs.sizes.items():
        pods = sum(key.startswith(f"d/{name}-") for key in gangs.cluster.documents)
        if len(gangs.groups[name]) == 1 and pods >= minimum and not gangs.placed(name):
            assert gangs.slots(cpus) < minimum, f"{name} fits and waits"


class BusyCluster:
    """Four nodes that small pods keep full: each that ends is followed by another at once."""

    def __init__(self, seed: int, longest: int) -> None:
        self._rng, self._longest = Random(seed), longest
        self.cluster = GangCluster("n0", "n1", "n2", "n3", cpus=4)
        self._ends: dict[str, float] = {}
        self._made = 0

    def second(self) -> list[str]:
        """Who gets a node in the next second, without small pods."""
        cluster = self.cluster
        for key, end in list(self._ends.items()):
            if end <= cluster.now:
                del self._ends[key]
                cluster.remove(key)
        for _ in range(3):
            self._made += 1
            cluster.pod(f"small-{self._made}")
        found = []
        for one in cluster.decisions(1.0):
            if isinstance(one, Placement):
                cluster.bind(one)
                if one.pod.key.startswith("d/small"):
                    self._ends[one.pod.key] = cluster.now + self._rng.randrange(1, self._longest)
                else:
                    found.append(one.pod.key)
        return found


@given(st.integers(0, 1 << 32), st.integers(10, 40))
def test_small_pods_do_not_starve_a_gang(seed: int, longest: int) -> None:
    busy = BusyCluster(seed, longest)
    for _ in range(30):
        busy.second()
    busy.cluster.gang("g", 3, cpus=4)
    waited = next(second for second in range(200) if busy.second())
    assert waited <= HOLD_AFTER_SECONDS + MOST_BACKOFF_SECONDS + longest + 3


def test_without_held_room_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_cycle, "HOLD_AFTER_SECONDS", float("inf"))
    busy = BusyCluster(1, 20)
    for _ in range(30):
        busy.second()
    busy.cluster.gang("g", 3, cpus=4)
    assert not any(busy.second() for _ in range(300))


def test_room_is_held_for_one_gang_and_for_its_waiting_time_if_none_becomes_free() -> None:
    cluster = GangCluster("n1", "n2", cpus=2)
    for number in range(4):
        cluster.pod(f"old-{number}", nodeName=f"n{number % 2 + 1}")
    cluster.gang("a", 2, cpus=2, waiting_time="100s")
    cluster.gang("b", 2, cpus=2)
    while not len(cluster.scheduler.nominations):
        cluster.placed(1.0)
        assert cluster.now < HOLD_AFTER_SECONDS + 2 * MOST_BACKOFF_SECONDS
    held = {one.key: one.node for one in cluster.scheduler.nominations}
    assert held.keys() == {"d/a-0", "d/a-1"}
    assert set(held.values()) == {"n1", "n2"}
    cluster.remove("d/old-0")
    cluster.pod("small")
    assert cluster.placed(1.0) == [], "it is not more important"
    cluster.pod("urgent", priority=1)
    assert cluster.placed(1.0) == ["urgent"]
    began = cluster.now
    while {one.key for one in cluster.scheduler.nominations} == held.keys():
        cluster.placed(1.0)
        assert cluster.now < began + 102
    for number in range(1, 4):
        cluster.remove(f"d/old-{number}")
    cluster.remove("d/urgent")
    assert len(cluster.placed(MOST_BACKOFF_SECONDS + 1)) >= 2


def test_room_stays_held_as_long_as_more_of_it_becomes_free() -> None:
    cluster = GangCluster("n1", cpus=6)
    for number in range(6):
        cluster.pod(f"old-{number}", nodeName="n1")
    cluster.gang("g", 2, cpus=3, waiting_time="10s")
    while not len(cluster.scheduler.nominations):
        cluster.placed(1.0)
    for number in range(6):
        assert cluster.placed(8.0) == [], "longer than its waiting time in all"
        cluster.pod(f"small-{number}")
        cluster.remove(f"d/old-{number}")
    assert sorted(cluster.placed(2.0)) == ["g-0", "g-1"]


def test_no_room_stays_held_once_a_gang_has_started() -> None:
    cluster = GangCluster("n1", cpus=6)
    cluster.pod("old", cpus=3, nodeName="n1")
    annotations = gang_annotations("g", 2, mode="NonStrict")
    cluster.pod("g-0", annotations, cpus=2)
    cluster.pod("g-1", annotations, cpus=2)
    assert not any(cluster.placed(1.0) for _ in range(80))
    assert len(cluster.scheduler.nominations) == 2
    cluster.pod("g-2", annotations)
    assert cluster.placed(1.0) == ["g-0", "g-2"]
    assert not len(cluster.scheduler.nominations)


def test_the_report_says_what_a_gang_lacks_and_changes_nothing() -> None:
    cluster = GangCluster("n1", cpus=2)
    cluster.gang("g", 3)
    list(cluster.decisions())
    pod = cluster.scheduler.queue.pods["d/g-0"]
    found = cluster.scheduler.gang_cycle.report(pod)
    assert (found.waiting, found.needed, found.fitted, found.failed) == (3, 3, 2, "d/g-2")
    assert found.diagnosis is not None
    assert found.diagnosis.reasons == {"Insufficient cpu": 1}
    cluster.node("n2")
    assert cluster.scheduler.gang_cycle.report(pod).fitted == 3
    assert cluster.requested() == 0
    assert cluster.placed(2.0) == ["g-0", "g-1", "g-2"]


@given(st.integers(0, 1 << 32))
def test_a_recording_of_gangs_is_replayed(seed: int) -> None:
    lines: list[bytes] = []
    gangs = RandomGangs(seed, lambda one: lines.append(recording_line(one)))
    for _ in range(20):
        gangs.step()
    again = Replay(Scheduler(gangs.cluster.profiles), lambda *_: None)
    assert all(one.is_same for one in again.run(read_inputs(lines)))


def test_a_gang_preempts_for_all_of_its_pods_or_for_none() -> None:
    cluster = GangCluster("n1", "n2", cpus=2, gangs_preempt=True)
    for number in range(4):
        cluster.pod(f"old-{number}", nodeName=f"n{number % 2 + 1}")
    annotations = gang_annotations("g", 3)
    for number in range(3):
        cluster.pod(f"g-{number}", annotations, priority=1)
    plans = [one for one in cluster.decisions() if isinstance(one, PreemptionPlan)]
    victims = [victim.key for plan in plans for victim in plan.preemption.victims]
    assert len(victims) == len(set(victims)) == 3
    assert cluster.requested() == 4, "they are still there"
    assert len(cluster.scheduler.nominations) == 3
    cluster.pod("small")
    assert list(cluster.decisions(5.0)) != plans, "it waits for its victims"
    assert not any(isinstance(one, PreemptionPlan) for one in cluster.decisions(1.0))
    for key in victims:
        cluster.remove(key)
    assert cluster.placed(10.0) == ["g-0", "g-1", "g-2"], "its room was kept"

    larger = GangCluster("n1", "n2", cpus=2, gangs_preempt=True)
    for number in range(4):
        larger.pod(f"old-{number}", nodeName=f"n{number % 2 + 1}")
    for number in range(5):
        larger.pod(f"g-{number}", gang_annotations("g", 5), priority=1)
    assert [type(one) for one in larger.decisions()] == [Refusal], "not even so all of it fits"
    assert (larger.requested(), len(larger.scheduler.nominations)) == (4, 0)


def test_a_look_at_a_gang_changes_nothing() -> None:
    cluster = GangCluster("n1", cpus=2)
    cluster.gang("g", 3)
    assert cluster.placed() == []
    scheduler = cluster.scheduler
    pod = scheduler.queue.pods["d/g-0"]
    queue = scheduler.queue.class_of(pod)
    assert queue.gang_attempts.position == scheduler.nodes.journal.position
    assert scheduler.gang_cycle.report(pod).fitted == 2
    assert queue.gang_attempts.position == scheduler.nodes.journal.position, "no node changed"


def test_members_that_do_not_fit_beside_their_gang_wait_as_any_pod() -> None:
    cluster = GangCluster("n1", cpus=2)
    cluster.gang("g", 3, minimum=2)
    decisions = list(cluster.decisions())
    assert [type(one) for one in decisions] == [Placement, Placement, Refusal]
    refusal = decisions[-1]
    assert isinstance(refusal, Refusal)
    assert (refusal.pod.key, refusal.gang) == ("d/g-2", "")


class Fails(Plugin):
    """It cannot filter until it is mended."""

    name = "Fails"
    is_mended = False

    def filter(self, pod: PodClass, nodes: ClusterState) -> None:
        if not self.is_mended:
            raise RuntimeError("not yet")


def test_a_gang_is_tried_again_soon_after_a_plugin_has_failed() -> None:
    plugin = Fails()
    cluster = GangCluster("n1", more=[EnabledPlugin(plugin)])
    cluster.gang("g", 5)
    (refusal,) = cluster.refusals()
    assert "not yet" in refusal.defect
    plugin.is_mended = True
    (refusal,) = cluster.refusals(61.0)
    assert (refusal.defect, bool(refusal.gang)) == ("", True)
    cluster.node("n2")
    assert len(cluster.placed(MOST_BACKOFF_SECONDS)) == 5


class Late(Plugin):
    """Finds out only when a pod is to get n1 that it cannot have it."""

    name = "Late"

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> None:
        if nodes.name(row) == "n1":
            raise CannotReserve("no such card")


def test_members_get_other_nodes_than_those_that_cannot_have_them_after_all() -> None:
    cluster = GangCluster("n1", more=[EnabledPlugin(Late())])
    cluster.gang("g", 3)
    (refusal,) = cluster.refusals()
    assert (refusal.defect, bool(refusal.gang)) == ("", True)
    cluster.node("n2")
    assert len(cluster.placed(MOST_BACKOFF_SECONDS)) == 3


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"mode": "Foo"}, 'mode is "Foo"; expected Strict or NonStrict'),
        ({"groups": "[broken"}, 'groups is "[broken"; expected a list'),
        ({"total-number": "many"}, 'total-number is "many"; expected a number'),
    ],
)
def test_what_counts_as_not_given_is_said(annotations: dict[str, str], expected: str) -> None:
    cluster = GangCluster("n1", cpus=1)
    noted = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in annotations.items()}
    for name in ("a", "b"):
        cluster.pod(name, annotations={**gang_annotations("g", 2), **noted})
    assert expected in cluster.refusals()[0].gang
    (line,) = cluster.scheduler.gangs.take_warnings()
    assert line.startswith("gang d/g: annotation ")
    assert expected in line


def test_a_minimum_that_is_none_is_named() -> None:
    cluster = GangCluster("n1")
    cluster.pod("a", annotations={**gang_annotations("g", 2), MINIMUM: "x"})
    assert 'min-available is "x"; expected a number from 0' in cluster.refusals(6.0)[0].gang


def test_a_pod_group_with_a_negative_minimum_is_reported() -> None:
    cluster = GangCluster("n1")
    cluster.pod_group("g", -1)
    cluster.pod_group("g", -1)
    (line,) = cluster.scheduler.gangs.take_warnings()
    assert line == (
        "PodGroup d/g: the minimum of members is -1; expected a number from 0 (ignored)"
    )


MINIMUM = "gang.scheduling.koordinator.sh/min-available"
