"""Pods use the room that is reserved for them, and nobody else does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.plugins.reservation.columns import CandidateCount, ReservationColumns
from koord_scheduler.plugins.reservation.plugin import ReservationPlugin
from koord_scheduler.plugins.reservation.reservation import HIGHEST_PRIORITY
from koord_scheduler.plugins.reservation.settings import ReservationSettings

from tests.support.reservations import OF_WEB, ReservationCluster, allocated, reservation

NEVER_OUT = {"preemptionPolicy": "Never"}


def test_reserved_room_is_for_owners_alone() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "6", "n1", allocateOnce=False)
    assert cluster.place("other", "3", app="db", **NEVER_OUT)[0] == ""
    assert cluster.place("a", "3") == ("n1", "r")
    assert cluster.requested("n1") == 6000  # it is the reservation's room that it took
    assert cluster.place("b", "3") == ("n1", "r")
    assert cluster.place("c", "2") == ("n1", "r")  # it is used up, and the node fills it up
    assert cluster.requested("n1") == 8000


@pytest.mark.parametrize(("once", "left"), [(True, 0), (False, 3000)])
def test_an_owner_takes_all_of_what_is_allocated_once(once: bool, left: int) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", "n1", allocateOnce=once)
    assert cluster.place("a", "1") == ("n1", "r")
    assert cluster.requested("n1") == 1000 + left
    cluster.pod("a", "1", "n1", reservation="r")  # bound
    assert cluster.requested("n1") == 1000 + left
    assert cluster.place("b", "1") == ("n1", "" if once else "r")
    cluster.reservation("r", "4", "n1", phase="Succeeded", allocateOnce=once)
    assert cluster.requested("n1") == 2000
    cluster.scheduler.remove_pod("shop/a")
    assert cluster.requested("n1") == 1000


def test_a_binding_that_fails_gives_the_reservation_back() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", "n1")
    cluster.pod("a", "1")
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert allocated(decision) == "r"
    assert cluster.requested("n1") == 1000
    cluster.scheduler.forget(decision.pod, 0.0)
    assert cluster.requested("n1") == 4000


@pytest.mark.parametrize("order", ["watched", "listed"])
def test_one_for_one_pod_stays_used_up_when_that_pod_is_gone(order: str) -> None:
    cluster = ReservationCluster("n1")
    if order == "watched":
        cluster.reservation("r", "6", "n1")
    cluster.pod("a", "1", "n1", reservation="r")
    cluster.reservation("r", "6", "n1")
    assert cluster.place("other", "7", app="db") == ("n1", "")  # what is left of it is free
    cluster.scheduler.remove_pod("shop/a")
    assert cluster.requested("n1") == 7000
    assert cluster.place("b", "1") == ("n1", "")


def test_a_reservation_that_was_given_back_is_found_again() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.reservation("r", "4", "n1")
    cluster.pod("a", "1")
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    cluster.reservation("far", "1", "n2", owners=[{"object": {"name": "x"}}])
    assert cluster.place("b", "1")[1] == ""
    cluster.scheduler.forget(decision.pod, 0.0)
    assert cluster.place("c", "1") == ("n1", "r")


def test_a_node_with_a_reservation_wins() -> None:
    cluster = ReservationCluster("n1", "n2", "n3")
    cluster.reservation("r", "4", "n2")
    cluster.pod("busy", "3", "n2", app="db")
    assert cluster.place("a", "2") == ("n2", "r")
    assert cluster.place("b", "2")[1] == ""


def test_the_fuller_reservation_wins_and_an_order_more_so() -> None:
    cluster = ReservationCluster("n1", "n2", "n3")
    cluster.reservation("large", "6", "n1")
    cluster.reservation("small", "3", "n2")
    assert cluster.place("a", "2") == ("n2", "small")
    order = {"scheduling.koordinator.sh/reservation-order": "5"}
    cluster.reservation("ordered", "8", "n3", labels=order)
    assert cluster.place("b", "2") == ("n3", "ordered")
    assert cluster.place("c", "2") == ("n1", "large")


@pytest.mark.parametrize(("policy", "expected"), [("", "r"), ("Aligned", "r"), ("Restricted", "")])
def test_a_policy_decides_whether_the_node_fills_up(policy: str, expected: str) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "2", "n1", allocatePolicy=policy)
    assert cluster.place("a", "5") == ("n1", expected)
    assert cluster.requested("n1") == (5000 if expected else 7000)


def test_a_pod_with_affinity_takes_nothing_but_a_reservation() -> None:
    cluster = ReservationCluster("n1", "n2")
    node, why = cluster.place("a", affinity={"reservationSelector": {"pool": "x"}}, **NEVER_OUT)
    assert (node, why) == (
        "",
        "0/2 nodes are available: node(s) no reservations match reservation affinity.",
    )
    cluster.reservation("r", "4", "n2", labels={"pool": "x"})
    cluster.scheduler.wake(1.0)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert (decision.node, allocated(decision)) == ("n2", "r")


def test_a_pod_that_names_a_reservation_hears_what_it_lacks() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.reservation("r", "2", "n1", allocatePolicy="Restricted", allocateOnce=False)
    node, why = cluster.place("a", "3", affinity={"name": "r"}, **NEVER_OUT)
    assert node == ""
    assert "1 Reservation(s) Insufficient cpu, requested: 3000, used: 0, capacity: 2000" in why
    diagnosis = diagnose(cluster.scheduler.scores(cluster.scheduler.queue.pods["shop/a"]))
    notes = [note for miss in diagnosis.nearest for note in miss.notes]
    assert notes == ["reservation r lacks 1 cpu"]


def test_pods_that_ignore_reservations_use_all_room() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "6", "n1")
    ignores = {"scheduling.koordinator.sh/reservation-ignored": "true"}
    assert cluster.place("a", "7", labels=ignores) == ("n1", "")


def test_an_owner_by_name_waits_apart_from_its_like() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.pod("a")
    cluster.pod("b")
    owner = {"object": {"kind": "Pod", "namespace": "shop", "name": "b"}}
    cluster.reservation("r", "4", "n2", owners=[owner])
    found = {}
    for _ in range(2):
        decision = cluster.decide()
        assert isinstance(decision, Placement)
        found[decision.pod.key] = allocated(decision)
    assert found == {"shop/a": "", "shop/b": "r"}


def test_an_annotation_that_cannot_be_read_keeps_one_pod_waiting() -> None:
    cluster = ReservationCluster("n1")
    node, why = cluster.place("a", affinity=[1], **NEVER_OUT)
    assert node == ""
    assert "scheduling.koordinator.sh/reservation-affinity" in why
    assert cluster.place("b") == ("n1", "")


def test_what_was_written_of_a_reservation_is_removed() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", reservation="gone")
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    [(_, value)] = [pair for one in decision.reserved for pair in one.annotations]  # type: ignore[attr-defined]
    assert value is None


def test_affinity_of_a_reservation_counts_as_a_pods_until_its_owner_comes() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = ReservationCluster()
    for name in ("n1", "n2"):
        cluster.node(name, host=name)
    cluster.reservation("r", "4", "n1", pod={"affinity": apart}, pod_labels={"app": "web"})
    # Its owner is not kept away by what is reserved for it.
    cluster.pod("b", affinity={"name": "r"})
    columns, waiting = cluster.scheduler.nodes, cluster.scheduler.queue.pods["shop/b"]
    row = columns.row("n1")
    assert row is not None
    assert not cluster.scheduler.scores(waiting).rejects(row)
    cluster.scheduler.remove_pod("shop/b")
    assert cluster.place("a", affinity={"name": "r"}) == ("n1", "r")


# Reservations that have no node


def test_a_reservation_gets_a_node_and_then_holds_it() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.pod("busy", "6", "n1", app="db")
    cluster.reservation("r", "4")
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert (decision.pod.key, decision.node) == ("Reservation/r", "n2")
    room = decision.pod.waiting.stands_for
    assert room is not None
    assert (room.name, room.uid, room.resource_version) == ("r", "u-r", "7")
    assert room.allocatable == {"cpu": "4"}
    assert cluster.requested("n2") == 4000
    cluster.reservation("r", "4")  # an older event
    assert cluster.requested("n2") == 4000
    assert cluster.place("early", "4") == ("n2", "")  # not available yet
    cluster.reservation("r", "4", "n2")
    assert cluster.requested("n2") == 8000
    assert not cluster.scheduler.assumed.keys() & {"Reservation/r"}
    assert cluster.place("a", "4") == ("n2", "r")


def test_a_reservation_that_is_gone_leaves_nothing() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("waiting", "4")
    cluster.reservation("placed", "4", "n1")
    cluster.decide()
    for name in ("waiting", "placed"):
        cluster.kinds["Reservation"].remove(name)
    assert cluster.requested("n1") == 0
    assert not cluster.scheduler.queue.pods
    assert not len(cluster.scheduler.nodes.use(ReservationColumns))


def test_a_reservation_may_name_its_node() -> None:
    cluster = ReservationCluster("n1", "n2", "n3")
    cluster.reservation("r", "4", pod={"nodeName": "n2"})
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert decision.node == "n2"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"pod": {"nodeName": "n9"}}, "didn't match the nodeName specified by reservation"),
        ({"allocatePolicy": "Aligned"}, "node(s) reservation allocate policy conflict"),
        ({"preAllocation": True}, "pre allocation is unsupported with current attributes"),
        ({"cpus": "9"}, "Insufficient cpu"),
    ],
)
def test_why_a_reservation_waits(more: dict[str, Any], expected: str) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("there", "1", "n1")  # with the default policy
    cluster.reservation("r", **{"cpus": "4", **more})
    decision = cluster.decide()
    assert isinstance(decision, Refusal)
    assert [one.key for one in decision.unreported] == ["Reservation/r"]
    assert expected in cluster.message(decision)


@pytest.mark.parametrize("preempts", [True, False])
def test_a_reservation_preempts_only_if_that_is_enabled(preempts: bool) -> None:
    cluster = ReservationCluster("n1", settings=ReservationSettings(preempts))
    cluster.pod("low", "6", "n1", app="db", priority=5)
    cluster.reservation("r", "4", pod={"priority": 10})
    decision = cluster.decide()
    assert isinstance(decision, PreemptionPlan) is preempts
    if isinstance(decision, PreemptionPlan):
        assert [one.key for one in decision.preemption.victims] == ["shop/low"]


def test_nobody_preempts_a_reservation_or_its_owners() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", "n1", allocateOnce=False, pod={"priority": 1})
    cluster.pod("owner", "3", "n1", reservation="r", priority=1)
    cluster.pod("low", "2", "n1", app="db", priority=1)
    assert cluster.place("a", "5", app="db", priority=9)[0] == ""
    cluster.reservation("new", "1", pod={"priority": 1})
    decision = cluster.decide()
    assert isinstance(decision, Placement)  # assumed, and not in the API yet
    assert cluster.scheduler.placed.by_key["Reservation/new"].priority == HIGHEST_PRIORITY
    cluster.pod("b", "4", app="db", priority=9)
    assert isinstance(cluster.decide(), Refusal)
    cluster.pod("c", "2", app="db", priority=9)
    plan = cluster.decide()
    assert isinstance(plan, PreemptionPlan)
    assert [one.key for one in plan.preemption.victims] == ["shop/low"]


def test_owners_leave_room_to_pods_that_wait_for_victims() -> None:
    cluster = ReservationCluster("n1")
    for name in ("r", "s"):  # a pod gets one of them, not both
        cluster.reservation(name, "2", "n1", allocateOnce=False)
    cluster.pod("low", "4", "n1", app="db", priority=1)
    cluster.pod("high", "4", app="db", priority=9)
    assert isinstance(cluster.decide(), PreemptionPlan)
    cluster.scheduler.remove_pod("shop/low")  # its room is for the other one now
    assert cluster.place("large", "4", **NEVER_OUT)[0] == ""
    assert cluster.place("small", "2") == ("n1", "r")


def victims(cluster: ReservationCluster) -> list[str]:
    decision = cluster.decide()
    if not isinstance(decision, PreemptionPlan):
        return []
    return sorted(one.key.partition("/")[2] for one in decision.preemption.victims)


@pytest.mark.parametrize(
    ("policy", "requires", "expected"),
    [
        ("Aligned", True, ["low"]),
        ("Restricted", True, []),
        ("Restricted", False, ["low"]),  # it runs beside the reservation
    ],
)
def test_owners_preempt_where_their_reservation_is_too_small(
    policy: str, requires: bool, expected: list[str]
) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "2", "n1", allocatePolicy=policy, allocateOnce=False)
    cluster.pod("low", "5", "n1", app="db", priority=1)
    cluster.pod("a", "5", priority=9, affinity={"name": "r"} if requires else None)
    assert victims(cluster) == expected


@pytest.mark.parametrize("app", ["web", "db"])
def test_owners_of_a_reservation_preempt_each_other(app: str) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "6", "n1", allocatePolicy="Restricted", allocateOnce=False)
    for name, cpus, priority in (("first", "3", 1), ("second", "3", 2), ("equal", "1", 9)):
        reservation = "r" if name != "equal" else ""
        cluster.pod(name, cpus, "n1", reservation=reservation, priority=priority)
    cluster.pod("a", "3", app=app, priority=9)
    # What the victim had goes back to the reservation, and from there to its owners alone.
    assert victims(cluster) == (["first"] if app == "web" else [])
    cluster.scheduler.remove_pod("shop/first")
    cluster.scheduler.wake(1.0)
    decision = cluster.scheduler.decide(0.0)
    if app == "db":
        assert decision is None
        return
    assert isinstance(decision, Placement)
    assert allocated(decision) == "r"


def test_no_room_is_promised_to_a_pod_that_preempts_and_to_a_reservation() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.reservation("r", "4", "n1", allocateOnce=False, owners=[{"object": {"name": "x"}}])
    cluster.reservation("s", "2", "n1", allocateOnce=False)
    cluster.pod("of-r", "4", "n1", app="db", reservation="r", priority=0)
    cluster.pod("of-s", "2", "n1", reservation="s", priority=1)
    cluster.pod("n1-low", "2", "n1", app="db", priority=2)
    cluster.pod("n2-low", "8", "n2", app="db", priority=3)
    cluster.pod("a", "4", priority=9)
    plan = cluster.decide()
    assert isinstance(plan, PreemptionPlan)
    assert plan.preemption.node == "n1"
    assert [one.key for one in plan.preemption.victims] == ["shop/n1-low", "shop/of-s"]


@pytest.mark.parametrize(("enough", "expected"), [(1, "n1-low"), (2, "n2-low")])
def test_enough_nodes_with_reservations_are_looked_at(enough: int, expected: str) -> None:
    settings = ReservationSettings(enough_candidates=CandidateCount(0, enough))
    cluster = ReservationCluster("n1", "n2", settings=settings)
    for node, priority in (("n1", 2), ("n2", 1)):
        cluster.reservation(f"of-{node}", "2", node, allocateOnce=False)
        cluster.pod(f"{node}-low", "6", node, app="db", priority=priority)
    cluster.pod("a", "4", priority=9)
    assert victims(cluster) == [expected]


def test_the_owner_of_a_used_up_reservation_is_a_pod_like_others() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "8", "n1")
    cluster.pod("owner", "5", "n1", reservation="r", priority=1)
    cluster.pod("a", "5", app="db", priority=9)
    assert victims(cluster) == ["owner"]


@pytest.mark.parametrize("preempts", [True, False])
def test_a_label_keeps_pods_from_being_victims_of_reservations(preempts: bool) -> None:
    cluster = ReservationCluster("n1", settings=ReservationSettings(preempts=preempts))
    cluster.reservation("r", "1", "n2")
    label = {"scheduling.koordinator.sh/disable-preemptible": "true"}
    cluster.pod("kept", "3", "n1", app="db", priority=0, labels=label)
    cluster.pod("low", "5", "n1", app="db", priority=1)
    cluster.pod("a", "3", priority=9)
    assert victims(cluster) == (["low"] if preempts else ["kept"])


def test_pods_of_other_schedulers_reservations_are_only_counted() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", pod={"schedulerName": "other"})
    assert cluster.scheduler.decide(0.0) is None
    cluster.reservation("r", "4", "n1", pod={"schedulerName": "other"})
    assert cluster.requested("n1") == 4000


def test_a_page_shows_reservations() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", "n1", allocateOnce=False, allocatePolicy="Restricted")
    cluster.pod("a", "1500m", "n1", reservation="r")
    plugin: object = ReservationPlugin()
    page = plugin.services(cluster.scheduler.nodes)["/nodeReservations/:node"]
    assert page({"node": "n2"}) == {"items": []}
    [item] = page({"node": "n1"})["items"]
    assert item == {
        "name": "r",
        "uid": "u-r",
        "namespace": "",
        "kind": "Reservation",
        "available": True,
        "allocateOnce": False,
        "allocatePolicy": "Restricted",
        "allocatable": {"cpu": "4"},
        "allocated": {"cpu": "1500m"},
        "assignedPods": 1,
    }


BROKEN = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}


def test_a_template_that_cannot_be_used_costs_nothing_else() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("waits", pod=BROKEN)
    cluster.reservation("placed", "4", "n1", pod=BROKEN)
    decision = cluster.decide()
    assert isinstance(decision, Refusal)
    assert decision.pod.key == "Reservation/waits"
    assert "spec.template: " in cluster.message(decision)
    assert cluster.requested("n1") == 4000  # it keeps what it has
    assert cluster.place("a", "5", **NEVER_OUT)[0] == ""
    assert cluster.place("b", "4") == ("n1", "")
    warnings = cluster.scheduler.nodes.use(ReservationColumns).take_warnings()
    assert [one.partition(": ")[0] for one in warnings] == [
        "reservation waits",
        "reservation placed",
    ]


def test_what_the_status_says_for_people_changes_nothing() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", "n1")
    nodes = cluster.scheduler.nodes
    before = nodes.journal.position, nodes.use(ReservationColumns).version
    document = reservation("r", "4", "n1", owners=[OF_WEB])
    document["metadata"]["resourceVersion"] = "8"
    document["status"]["allocated"] = {"cpu": "1"}
    cluster.put("Reservation", "r", document)
    assert (nodes.journal.position, nodes.use(ReservationColumns).version) == before
    cluster.reservation("r", "4", "n1", unschedulable=True)
    assert nodes.use(ReservationColumns).version > before[1]
    assert nodes.journal.position > before[0]


# Pods that act as reservations


def operating(
    cluster: ReservationCluster, cpus: str = "6", *, ready: bool = True, **more: str
) -> None:
    owners = json.dumps([OF_WEB])
    metadata = {
        "name": "keeper",
        "namespace": "shop",
        "uid": "u-keeper",
        "labels": {"scheduling.koordinator.sh/operating-mode": "Reservation"},
        "annotations": {"scheduling.koordinator.sh/reservation-owners": owners, **more},
    }
    container = {"name": "c", "resources": {"requests": {"cpu": cpus}}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    document = {
        "metadata": metadata,
        "spec": {"containers": [container], "nodeName": "n1"},
        "status": {"phase": "Running", "conditions": conditions},
    }
    cluster.put("Pod", "shop/keeper", document)


def test_a_pod_may_act_as_a_reservation() -> None:
    cluster = ReservationCluster("n1", "n2")
    operating(cluster)
    assert cluster.requested("n1") == 6000
    assert cluster.place("other", "3", app="db") == ("n2", "")
    assert cluster.place("a", "5") == ("n1", "keeper")
    assert cluster.requested("n1") == 11000  # both, until it is deleted
    cluster.pod("a", "5", "n1", reservation="keeper")
    assert cluster.place("b", "5") == ("n2", "")  # it was for one
    cluster.scheduler.remove_pod("shop/keeper")
    assert cluster.requested("n1") == 5000
    assert not len(cluster.scheduler.nodes.use(ReservationColumns))


@pytest.mark.parametrize(
    "more",
    [
        {"ready": False},
        {"scheduling.koordinator.sh/reservation-current-owner": '{"name": "x"}'},
        {"scheduling.koordinator.sh/reservation-owners": "["},
        {"scheduling.koordinator.sh/reservation-owners": "[]"},
    ],
)
def test_it_does_so_only_while_it_can(more: dict[str, Any]) -> None:
    cluster = ReservationCluster("n1", "n2")
    operating(cluster)
    operating(cluster, **more)
    assert cluster.place("a", "5") == ("n2", "")
    assert cluster.requested("n1") == 6000


def test_it_is_no_victim() -> None:
    cluster = ReservationCluster("n1")
    operating(cluster)
    assert cluster.place("a", "5", app="db", priority=9)[0] == ""
    assert not cluster.scheduler.nominations.get("shop/a")
