"""A node is emptied only as was proved and confirmed, and made as it was if that is undone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_descheduler.drain.drain_decision import decide
from koord_descheduler.drain.drain_objects import ANNOTATION_CLAIM
from koord_descheduler.drain.phases import TRANSITIONS, DrainPhase, DrainSignal, next_phase
from koord_descheduler.plugins.migration_controller.who_may_move import ANNOTATION_EVICT
from koord_model.times import rfc3339

from tests.descheduler.clusters import NOW, node
from tests.descheduler.drain.drain_world import DrainWorld


def world(**more: Any) -> DrainWorld:
    found = DrainWorld(**more)
    found.add_pod("p")
    found.add_pod("q")
    return found


def assert_undone(found: DrainWorld, *, cordoned: bool = False) -> None:
    assert not {**found.reservations, **found.jobs}
    assert found.node is not None
    assert ANNOTATION_CLAIM not in found.node["metadata"].get("annotations", {})
    assert found.is_cordoned is cordoned
    assert "True" not in found.conditions.values()


@pytest.mark.parametrize("reserves", [True, False])
def test_a_node_is_planned_proved_confirmed_and_drained(reserves: bool) -> None:
    found = world(reserves=reserves)
    phases = [found.step()]
    assert found.is_cordoned
    while phases[-1] != "Waiting":
        phases.append(found.step())
        found.others()
    assert list(dict.fromkeys(phases)) == ["Pending", "Planning", "Waiting"]
    assert found.status["message"].startswith(
        "2 pods have a place; confirmState Confirmed (koordctl"
    )
    assert len(found.reservations) == (2 if reserves else 0)
    assert all(each["spec"]["allocateOnce"] for each in found.reservations.values())
    assert {each["targetNode"] for each in found.status["pods"]} == {"b", "c"}
    assert found.settle() == "Waiting"
    assert not found.jobs, "nothing moves before it is confirmed"
    found.ask(confirmState="Confirmed")
    assert found.step() == "Running"
    assert found.conditions == {"DrainInProgress": "True"}
    assert {job["spec"]["mode"] for job in found.jobs.values()} == {
        "ReservationFirst" if reserves else "EvictDirectly"
    }
    assert found.status["message"] == "wave 0: 2 pods; 2 are left"
    assert found.settle() == "Drained"
    assert (found.status["message"], found.status["endTime"]) == ("no pod is left", rfc3339(NOW))
    found.wait(60)
    found.settle()
    assert found.status["endTime"] == rfc3339(NOW)
    assert found.evicted == ["p", "q"]
    assert found.conditions == {"DrainInProgress": "False", "Drained": "True"}
    assert found.status["counts"] | {"drained": 2} == found.status["counts"]
    assert found.is_cordoned


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("how", ["Aborted", "Rejected", "deleted"])
@pytest.mark.parametrize("confirm", ["WaitForConfirm", "Confirmed"])
def test_all_is_undone_and_a_node_that_was_cordoned_stays_so(
    cordoned: bool, how: str, confirm: str
) -> None:
    found = world(cordoned=cordoned, confirmState=confirm)
    found.failing = lambda pod: pod == "q"
    found.settle()
    assert found.reservations
    if how == "deleted":
        found.delete()
    else:
        found.ask(confirmState=how)
    if how != "deleted":
        found.step()
        assert found.status["message"] == "all that was done is being undone"
        assert found.status["endTime"] is None
    assert found.settle() == ("Aborted" if how != "deleted" else "")
    assert_undone(found, cordoned=cordoned)
    if found.drain is not None:
        assert found.drain["metadata"]["finalizers"] == []
        assert found.status["message"] == "all is undone"
        assert found.status["endTime"] == rfc3339(NOW)
        found.ask(confirmState="Confirmed")
        assert found.settle() == "Aborted", "an end is an end"


def test_a_pod_that_cannot_move_blocks_before_anything_is_confirmed() -> None:
    found = world(confirmState="Confirmed")
    found.add_pod("bare", owner=None)
    assert found.settle() == "Blocked"
    assert found.status["message"] == (
        "1 of 3 pods cannot move: default/bare: it is bare: nothing makes it anew"
    )
    assert found.status["pods"][0]["state"] == "Blocked"
    assert not found.jobs
    found.ask(podRules=[{"behavior": "Drain", "selector": {"matchLabels": {"app": "bare"}}}])
    assert found.settle() == "Drained"
    annotations = [job["metadata"]["annotations"] for job in found.jobs.values()]
    assert sum(ANNOTATION_EVICT in each for each in annotations) == 1


def test_a_drain_that_does_not_fit_as_a_whole_blocks() -> None:
    found = DrainWorld(reserves=False, confirmState="Confirmed")
    for name in ("p", "q", "r"):
        found.add_pod(name, cpu="3")
    assert found.settle() == "Blocked"
    assert not found.evicted
    found.end_pod("r")
    assert found.settle() == "Drained"


def test_pods_that_cannot_move_need_no_place() -> None:
    found = DrainWorld(reserves=False)
    found.add_pod("bare", cpu="4", owner=None)
    found.add_pod("p", cpu="4")
    found.add_pod("q", cpu="4")
    found.settle()
    assert [each.get("targetNode", "") for each in found.status["pods"]] in (
        ["", "b", "c"],
        ["", "c", "b"],
    )


def test_pods_that_are_evicted_need_no_place_and_others_stay() -> None:
    rules = [
        {"selector": {"matchLabels": {"app": "batch"}}, "behavior": "Evict"},
        {"behavior": "Skip"},
    ]
    found = world(confirmState="Confirmed", podRules=rules)
    found.add_pod("job", owner="batch", cpu="100")
    kept = {"scheduling.koordinator.sh/eviction-cost": str((1 << 31) - 1)}
    found.add_pod("kept", owner="batch", annotations=kept)
    assert found.settle() == "Blocked"
    assert found.evicted == []
    assert "kept" in found.status["message"]
    found.end_pod("kept")
    assert found.settle() == "Drained"
    assert found.evicted == ["job"]
    assert found.pods.keys() == {"p", "q"}
    assert not {**found.reservations, **found.jobs}


@pytest.mark.parametrize("end", ["Failed", "Pending"])
def test_another_place_is_planned_where_the_scheduler_finds_none(end: str) -> None:
    found = DrainWorld()
    found.schedules = False
    found.add_pod("p", owner="app")
    found.add_pod("q", "b", cpu="2", owner="app")
    found.settle()
    ((name, first),) = found.reservations.items()
    assert found.status["pods"][0]["why"] == f"Reservation {name}: Pending"
    condition = {"type": "Scheduled", "status": "False", "message": "no room"}
    first["status"] = {"phase": end, "conditions": [condition]}
    if end == "Pending":
        assert found.settle() == "Planning", "the scheduler has some time"
        found.wait(30)
    assert found.settle() == "Blocked"
    assert (
        found.status["pods"][0] | {"state": "Failed", "why": f"Reservation {name}: no room"}
        == (found.status["pods"][0])
    )
    found.schedules = True
    found.wait(60)
    assert found.settle() == "Waiting"
    assert found.reservations[name] is not first


def test_waves_follow_each_other_and_critical_pods_go_last() -> None:
    rules = [{"behavior": "Drain"}]
    found = world(confirmState="Confirmed", podRules=rules)
    found.add_pod("critical", spec={"priority": 2_000_000_000})
    assert found.settle() == "Drained"
    assert found.evicted == ["p", "q", "critical"]
    found = world(confirmState="Confirmed", podRules=rules)
    found.add_pod("critical", spec={"priority": 2_000_000_000})
    found.failing = lambda pod: pod == "p"
    assert found.settle() == "Blocked"
    assert found.evicted == ["q"]
    assert found.status["counts"] == {
        "total": 2, "ready": 1, "migrating": 0, "blocked": 1, "waiting": 0, "drained": 1,
    }  # fmt: skip


def test_a_failed_migration_blocks_and_is_tried_again() -> None:
    """It is not complete despite it."""
    found = world(confirmState="Confirmed")
    found.failing = lambda pod: pod == "p"
    assert found.settle() == "Blocked"
    assert (
        found.status["pods"][0] | {"state": "Failed", "why": "Timeout: no time"}
        == (found.status["pods"][0])
    )
    found.failing = lambda pod: False
    assert found.settle() == "Blocked"
    found.wait(61)
    assert found.settle() == "Drained"


def test_manual_uncordoning_pauses_and_is_not_undone() -> None:
    found = world()
    found.settle()
    found.cordon(False)
    found.ask(confirmState="Confirmed")
    assert found.settle() == "Blocked"
    assert "somebody uncordoned the node" in found.status["message"]
    assert not found.evicted
    assert not found.is_cordoned
    found.cordon(True)
    assert found.settle() == "Drained"
    found.cordon(False)
    found.add_pod("new", owner="app")
    assert found.settle() == "Blocked"
    assert "new" in found.pods
    assert found.conditions["Drained"] == "False"


@pytest.mark.parametrize(
    ("then", "phase", "left"), [("Stop", "Failed", 1), ("Delete", "Drained", 0)]
)
def test_at_the_deadline_pods_are_left_or_deleted(then: str, phase: str, left: int) -> None:
    found = world(confirmState="Confirmed", deadline={"duration": "10m", "then": then})
    found.failing = lambda pod: pod == "p"
    assert found.settle() == "Blocked"
    found.wait(599)
    assert found.settle() == "Blocked"
    found.wait(1)
    assert found.settle() == phase
    assert ("p" in found.pods) is bool(left)
    if left:
        assert found.status["message"].startswith("the deadline has passed; 1 pods are left.")
        assert not {**found.reservations, **found.jobs}
    assert found.is_cordoned


def test_pods_that_a_drain_may_not_move_are_not_deleted_at_its_deadline() -> None:
    deadline = {"duration": "10m", "then": "Delete"}
    found = world(confirmState="Confirmed", deadline=deadline)
    assert found.settle() == "Drained"
    found.add_pod("bare", owner=None)
    assert found.settle() == "Blocked"
    found.wait(600)
    assert found.settle() == "Failed"
    assert "bare" in found.pods


def test_pods_that_are_to_end_by_themselves_are_waited_for() -> None:
    found = world(confirmState="Confirmed", podRules=[{"behavior": "WaitCompleted"}])
    assert found.settle() == "Running"
    assert (found.status["counts"]["waiting"], found.status["counts"]["ready"]) == (2, 0)
    found.end_pod("p")
    found.end_pod("q")
    assert found.settle() == "Drained"
    assert not found.evicted


def test_a_dry_run_shows_its_plan_and_does_nothing() -> None:
    found = world(dryRun=True, confirmState="Confirmed")
    assert found.settle() == "Waiting"
    assert {each["targetNode"] for each in found.status["pods"]} == {"b", "c"}
    assert found.status["message"] == "dry run: 2 pods have a place; nothing is done"
    assert not found.conditions
    assert_undone(found)
    found.ask(dryRun=False)
    assert found.settle() == "Drained"


def test_pods_that_end_are_waited_for_and_not_moved() -> None:
    found = DrainWorld(confirmState="Confirmed")
    found.add_pod("p", deletionTimestamp=rfc3339(NOW))
    assert found.settle() == "Running"
    assert found.status["counts"]["migrating"] == 1
    assert not found.jobs
    found.end_pod("p")
    assert found.settle() == "Drained"


def test_one_drain_has_a_node_at_a_time() -> None:
    found = world()
    assert found.node is not None
    claim = '{"name":"x","uid":"other","cordonedBefore":true}'
    found.node["metadata"]["annotations"] = {ANNOTATION_CLAIM: claim}
    found.set_node(found.node)
    view = found.view()._replace(claimants=frozenset({"other"}))
    decision = decide(view)
    assert decision.status.message == "DrainNode x drains node a"
    assert [type(act).__name__ for act in decision.acts] == ["KeepFinalizer"]
    found.settle()
    assert found.status["cordonedBefore"], "the other is gone; who cordoned is remembered"


def test_a_node_that_is_gone_fails_and_one_that_was_drained_may_go() -> None:
    found = world()
    found.settle()
    found.set_node(None)
    assert found.settle() == "Failed"
    assert found.status["message"] == "node a is gone, or is not this drain's any more"
    found = world(confirmState="Confirmed")
    found.settle()
    found.set_node(None)
    assert found.settle() == "Drained"
    found.delete()
    found.settle()
    assert found.drain is None


def test_the_first_node_counts_once_it_is_cordoned() -> None:
    found = world(nodeName="typo")
    found.node, node_document = None, found.node
    assert found.settle() == "Pending"
    assert found.status["message"] == "there is no node typo"
    found.node = node_document
    found.ask(nodeName="a")
    assert found.settle() == "Waiting"
    found.ask(nodeName="b")
    assert found.settle() == "Waiting"
    found.ask(confirmState="Aborted")
    found.settle()
    assert_undone(found)


def test_a_proof_that_is_lost_is_made_anew_before_anything_moves() -> None:
    found = world()
    found.settle()
    found.reservations.popitem()
    found.ask(confirmState="Confirmed")
    assert found.step() == "Planning"
    assert not found.jobs
    assert found.settle() == "Drained"


def test_the_room_of_pods_that_are_gone_is_freed() -> None:
    found = world()
    found.settle()
    found.end_pod("p")
    found.settle()
    assert len(found.reservations) == 1
    found.ask(confirmState="WaitForConfirm")
    found.add_pod("late")
    assert found.settle() == "Waiting"
    assert len(found.reservations) == 2


def test_confirmation_can_be_taken_back() -> None:
    found = world(confirmState="Confirmed")
    found.failing = lambda pod: True
    assert found.settle() == "Blocked"
    found.ask(confirmState="WaitForConfirm")
    found.wait(61)
    found.failing = lambda pod: False
    assert found.settle() == "Waiting"
    assert not found.evicted


def test_the_status_lists_fifty_pods_and_counts_all() -> None:
    found = DrainWorld()
    for number in range(60):
        found.add_pod(f"p{number:02}", cpu="10m", memory="1Mi", owner="app" if number else None)
    found.settle(3)
    assert len(found.status["pods"]) == 50
    assert found.status["pods"][0]["name"] == "p00"
    assert (found.status["unlistedPods"], found.status["counts"]["total"]) == (10, 60)


@given(st.sampled_from(DrainPhase), st.sets(st.sampled_from(DrainSignal)))
def test_rules_of_the_table(phase: DrainPhase, signals: set[DrainSignal]) -> None:
    """Nothing runs unconfirmed, and nothing but an abort ends an end."""
    then = next_phase(phase, signals)
    if then is DrainPhase.RUNNING and phase is not DrainPhase.RUNNING:
        from_running = {DrainPhase.WAITING, DrainPhase.BLOCKED, DrainPhase.DRAINED}
        assert phase in from_running
        if phase is DrainPhase.WAITING:
            assert DrainSignal.CONFIRMED in signals
    if phase is not DrainPhase.ABORTED and DrainSignal.CANCELLED in signals:
        assert then is DrainPhase.ABORTED
    assert TRANSITIONS.keys() == set(DrainPhase)


_ACTS = st.sampled_from(
    ["step", "others"] * 6 + ["crash", "confirm", "add", "wait"] * 3 +
    ["unconfirm", "abort", "delete", "cordon", "uncordon", "end", "bare", "fail", "work", "rule",
     "node"]
)  # fmt: skip


@given(
    st.lists(st.tuples(_ACTS, st.integers(0, 5)), min_size=20, max_size=60),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "Stop", "Delete"]),
)
def test_whatever_happens(
    acts: list[tuple[str, int]], reserves: bool, cordoned: bool, then: str | None
) -> None:
    """Pods come and go, people change their minds, and the controller dies in between."""
    deadline = {"deadline": {"duration": "5m", "then": then}} if then else {}
    found = world(reserves=reserves, cordoned=cordoned, **deadline)
    people = _People(found, cordoned)
    for act, number in acts:
        getattr(people, act)(number)
        people.check()
    if found.drain is not None:
        people.abort(0)
    people.node(0)
    for _ in range(20):
        people.step(0)
        people.others(0)
    assert_undone(found, cordoned=people.cordons)


class _People:
    """All that happens around a drain; ``cordons`` is true while others want the node cordoned."""

    def __init__(self, found: DrainWorld, cordoned: bool) -> None:
        self.found = found
        self.cordons = self.did_cordon = cordoned
        self.was_confirmed = False
        self.is_fresh = False
        self.count = 0

    @property
    def is_claimed(self) -> bool:
        node = self.found.node
        return node is not None and ANNOTATION_CLAIM in node["metadata"].get("annotations", {})

    def check(self) -> None:
        found = self.found
        assert self.was_confirmed or not (found.evicted or found.jobs)
        phase = (found.drain or {}).get("status", {}).get("phase")
        if found.drain is None or found.node is None or phase != "Drained":
            return
        if found.conditions.get("Drained") == "True" and self.is_fresh:
            rules = found.drain["spec"].get("podRules", [{"behavior": "Drain"}])
            nodes = {each["spec"]["nodeName"] for each in found.pods.values()}
            assert "a" not in nodes or rules == [{"behavior": "Skip"}]

    def step(self, _: int) -> None:
        self.crash(1000)
        self.is_fresh = True

    def crash(self, number: int) -> None:
        if not self.is_claimed:
            self.did_cordon = self.found.is_cordoned
        self.found.step(crash_after=number)

    def others(self, _: int) -> None:
        self.found.others()
        self.is_fresh = False

    def confirm(self, _: int) -> None:
        if self.found.drain is not None:
            self.was_confirmed = True
            self.found.ask(confirmState="Confirmed")

    def unconfirm(self, _: int) -> None:
        self.found.ask(confirmState="WaitForConfirm")

    def abort(self, number: int) -> None:
        if not number:
            self.found.ask(confirmState="Aborted")

    def delete(self, number: int) -> None:
        if not number and self.found.drain is not None and self.found.drain.get("status"):
            self.found.delete()

    def cordon(self, _: int) -> None:
        if self.found.node is not None:
            self.cordons = self.did_cordon if self.is_claimed else True
            self.found.cordon(True)

    def uncordon(self, _: int) -> None:
        if self.found.node is not None:
            self.cordons = False
            self.found.cordon(False)

    def add(self, number: int) -> None:
        self.count += 1
        self.is_fresh = False
        self.found.add_pod(f"p{self.count}", cpu=f"{number}00m")

    def bare(self, number: int) -> None:
        if number > 3:
            self.count += 1
            self.is_fresh = False
            self.found.add_pod(f"p{self.count}", owner=None)

    def end(self, number: int) -> None:
        names = sorted(self.found.pods)
        if names:
            self.found.end_pod(names[number % len(names)])

    def fail(self, _: int) -> None:
        self.found.failing = lambda pod: True

    def work(self, _: int) -> None:
        self.found.failing = lambda pod: False

    def wait(self, number: int) -> None:
        self.found.wait(40.0 * number)

    def rule(self, number: int) -> None:
        self.is_fresh = False
        behavior = ("Drain", "Skip", "WaitCompleted")[number % 3]
        self.found.ask(podRules=[{"behavior": behavior}])

    def node(self, number: int) -> None:
        if self.found.node is None:
            self.found.set_node(node("a"))
        elif number > 4:
            self.found.set_node(None)
            self.cordons = False
