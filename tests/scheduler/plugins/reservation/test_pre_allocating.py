"""Reservations take over pods that run where they get a node."""

from __future__ import annotations

from typing import Any

import pytest
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.plugins.reservation.allocation import PreAllocatedOwners
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.settings import ReservationSettings
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from tests.support.reservations import OF_WEB, ReservationCluster, reservation

REQUIRED = {"scheduling.koordinator.sh/pre-allocation-required": "true"}
FOR_CLUSTER = {"pod.koordinator.sh/is-pre-allocatable": "true"}
SEVERAL = {"enableMultiple": True}
BUSY: dict[str, Any] = {"app": "db"}


def takes_over(cluster: ReservationCluster, name: str = "r", cpus: str = "4", **spec: Any) -> None:
    more = {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False, **spec}
    cluster.reservation(name, cpus, **more)


def pods_of(decision: Placement) -> list[str]:
    found = [one for one in decision.reserved if isinstance(one, PreAllocatedOwners)]
    return [key.partition("/")[2] for one in found for key, _ in one.pods]


def result(cluster: ReservationCluster) -> tuple[str, list[str]]:
    decision = cluster.decide()
    if not isinstance(decision, Placement):
        return "", [cluster.message(decision)]
    return decision.node, pods_of(decision)


def test_a_full_node_has_room_for_a_reservation_that_takes_a_pod_over() -> None:
    cluster = ReservationCluster("n1", "n2")
    cluster.pod("a", "3", "n1")
    for node, cpus in (("n1", "4"), ("n2", "8")):
        cluster.pod(f"busy-{node}", cpus, node, **BUSY)
    takes_over(cluster)
    assert result(cluster) == ("n1", ["a"])
    assert cluster.requested("n1") == 8000  # a and what is left of the reservation
    cluster.pod("a", "3", "n1", reservation="r")  # which is written first
    assert cluster.requested("n1") == 8000
    takes_over(cluster, node="n1")
    assert cluster.requested("n1") == 8000
    assert cluster.place("other", "1", preemptionPolicy="Never", **BUSY)[0] == ""
    assert cluster.place("b", "1") == ("n1", "r")
    cluster.scheduler.remove_pod("shop/a")  # what it had is the reservation's again
    assert cluster.requested("n1") == 8000


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_pod_that_ends_meanwhile_leaves_its_room_to_the_reservation(is_reported: bool) -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "4", "n1")
    cluster.pod("busy", "4", "n1", **BUSY)
    takes_over(cluster)
    assert result(cluster) == ("n1", ["a"])
    if is_reported:
        cluster.pod("a", "4", "n1", reservation="r")
    cluster.scheduler.remove_pod("shop/a")
    assert cluster.place("other", "1", preemptionPolicy="Never", **BUSY)[0] == ""
    takes_over(cluster, node="n1")
    assert cluster.requested("n1") == 8000


@pytest.mark.parametrize("is_reported", [True, False])
def test_what_cannot_be_written_is_undone(is_reported: bool) -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "3", "n1")
    cluster.pod("busy", "3", "n1", **BUSY)
    takes_over(cluster)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert cluster.requested("n1") == 7000
    if is_reported:
        cluster.pod("a", "3", "n1", reservation="r")
    cluster.scheduler.forget(decision.pod, 0.0)
    assert cluster.requested("n1") == 6000
    cluster.scheduler.tick(1e9)
    assert result(cluster) == ("n1", ["a"])  # though it has it already
    assert cluster.requested("n1") == 7000
    cluster.kinds["Reservation"].remove("r")
    assert cluster.requested("n1") == 6000


def test_of_reservations_made_together_one_takes_a_pod() -> None:
    """Also of pods that are alike, and whatever the API says of them meanwhile."""
    cluster = ReservationCluster("n1")
    for name in ("a", "b"):
        cluster.pod(name, "3", "n1")
    names = ("r", "s", "t")
    for name in names:
        takes_over(cluster, name)
    decisions = [cluster.decide() for _ in names]
    placed = [one for one in decisions if isinstance(one, Placement)]
    assert sorted(name for one in placed for name in pods_of(one)) == ["a", "b"]
    assert cluster.requested("n1") == 8000
    first = placed[0]
    [taken] = pods_of(first)
    [other] = {"a", "b"} - {taken}
    cluster.scheduler.remove_pod(f"shop/{other}")  # as much as the one that stays
    cluster.pod(taken, "2", "n1", labels={"changed": "yes"})
    cluster.scheduler.tick(1e9)
    cluster.scheduler.wake(1e9)
    assert result(cluster)[0] == ""
    cluster.scheduler.forget(first.pod, 0.0)
    cluster.scheduler.wake(1e9)
    assert result(cluster) == ("n1", [taken])


@pytest.mark.parametrize("ends", ["Succeeded", "Failed", ""])
def test_a_pod_may_be_taken_over_again_when_its_reservation_has_ended(ends: str) -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "3", "n1")
    cluster.pod("busy", "4", "n1", **BUSY)
    takes_over(cluster)
    assert result(cluster) == ("n1", ["a"])
    takes_over(cluster, node="n1")
    if ends:
        takes_over(cluster, node="n1", phase=ends)
    else:
        cluster.kinds["Reservation"].remove("r")
    takes_over(cluster, "s")
    assert result(cluster) == ("n1", ["a"])


def test_one_pod_is_taken_over_or_as_many_as_it_needs() -> None:
    cluster = ReservationCluster("n1")
    for name, cpus in (("a", "2"), ("b", "3"), ("c", "3")):
        cluster.pod(name, cpus, "n1")
    takes_over(cluster, cpus="4")
    assert result(cluster)[0] == ""
    takes_over(cluster, "s", "5", preAllocationPolicy=SEVERAL)
    cluster.scheduler.tick(1e9)
    assert result(cluster) == ("n1", ["b", "a"])  # the fullest; c is too much beside b
    assert cluster.requested("n1") == 8000


@pytest.mark.parametrize(("prefers", "node", "pods"), [(False, "n1", ["a"]), (True, "n1", [])])
def test_where_there_is_room_without_a_pod(prefers: bool, node: str, pods: list[str]) -> None:
    settings = ReservationSettings(prefers_free_room=prefers)
    cluster = ReservationCluster("n1", settings=settings)
    cluster.pod("a", "3", "n1")
    takes_over(cluster)
    assert result(cluster) == (node, pods)
    assert cluster.requested("n1") == (7000 if prefers else 4000)


@pytest.mark.parametrize("several", [True, False])
def test_nodes_are_preferred_by_the_pods_there(several: bool) -> None:
    cluster = ReservationCluster("n1", "n2", "n3")
    cluster.pod("full", "4", "n1")
    cluster.pod("small", "1", "n2")
    policy = SEVERAL if several else {}
    takes_over(cluster, preAllocationPolicy=policy)
    # One by how full it is with the pod; of several, the fewer the better.
    assert result(cluster) == (("n3", []) if several else ("n1", ["full"]))


def test_a_node_without_such_pods_may_be_out_of_the_question() -> None:
    cluster = ReservationCluster("n1", "n2")
    takes_over(cluster, labels=REQUIRED)
    assert "no pod match reservation with pre allocation required" in result(cluster)[1][0]
    cluster.pod("a", "3", "n2")
    cluster.scheduler.wake(1.0)
    assert result(cluster) == ("n2", ["a"])


def test_the_mode_cluster_takes_pods_by_a_label() -> None:
    settings = ReservationSettings(cluster_mode=True)
    cluster = ReservationCluster("n1", settings=settings)
    pods = {"a": "1", "b": "7", "c": ""}
    for name, priority in pods.items():
        document = {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": f"u-{name}",
                "labels": FOR_CLUSTER if priority else {"app": "web"},
                "annotations": {"pod.koordinator.sh/pre-allocatable-priority": priority},
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
                "nodeName": "n1",
            },
        }
        cluster.put("Pod", f"shop/{name}", document)
    takes_over(cluster, preAllocationPolicy={"mode": "Cluster", **SEVERAL})
    assert result(cluster) == ("n1", ["b"])


def test_the_mode_cluster_is_off_by_default() -> None:
    cluster = ReservationCluster("n1")
    takes_over(cluster, preAllocationPolicy={"mode": "Cluster"})
    assert "enableClusterMode" in result(cluster)[1][0]


def test_a_pod_that_has_a_reservation_keeps_it() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "8", "n1", allocateOnce=False, allocatePolicy="Restricted")
    cluster.pod("a", "4", "n1", reservation="r")
    takes_over(cluster, "s")
    assert result(cluster)[0] == ""


def test_a_pod_that_acts_as_a_reservation_is_not_taken_over() -> None:
    cluster = ReservationCluster("n1")
    acting = {"scheduling.koordinator.sh/operating-mode": "Reservation"}
    cluster.pod("a", "6", "n1", labels=acting)
    takes_over(cluster, cpus="7")
    assert result(cluster)[0] == ""


def test_why_it_waits_names_the_pods_that_it_may_take_over() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "1", "n1")
    cluster.pod("busy", "6", "n1", **BUSY)
    takes_over(cluster)
    decision = cluster.decide()
    assert isinstance(decision, Refusal)
    diagnosis = diagnose(cluster.scheduler.scores(decision.pod))
    notes = [note for miss in diagnosis.nearest for note in miss.notes]
    assert notes == ["reservation r may take over shop/a"]


def test_what_its_status_says_of_an_attempt_is_no_reason_for_another() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("busy", "8", "n1", **BUSY)
    more = {"preAllocation": True, "allocatePolicy": "Restricted"}
    document = reservation("r", "4", owners=[OF_WEB], **more)
    cluster.put("Reservation", "r", document)
    assert result(cluster)[0] == ""
    reported = {"type": "Scheduled", "status": "False", "message": "0/1 nodes are available"}
    document["metadata"]["resourceVersion"] = "8"
    document["status"]["conditions"] = [reported]
    cluster.put("Reservation", "r", document)
    assert cluster.scheduler.decide(0.0) is None
    document["spec"]["template"]["spec"]["containers"] = []
    cluster.put("Reservation", "r", document)
    assert result(cluster) == ("n1", [])


def test_it_is_tried_again_once_others_leave() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "1", "n1")
    for name in ("busy", "more"):
        cluster.pod(name, "3", "n1", **BUSY)
    takes_over(cluster, cpus="3")
    assert result(cluster)[0] == ""
    cluster.scheduler.remove_pod("shop/busy")
    cluster.scheduler.wake(1.0)
    assert result(cluster) == ("n1", ["a"])


def test_it_leaves_room_to_pods_that_wait_for_victims() -> None:
    cluster = ReservationCluster("n1")
    for name in ("a", "b"):
        cluster.pod(name, "2", "n1")
    cluster.pod("low", "4", "n1", priority=1, **BUSY)
    cluster.pod("high", "4", priority=9, **BUSY)
    assert isinstance(cluster.decide(), PreemptionPlan)
    cluster.scheduler.remove_pod("shop/low")
    takes_over(cluster, pod={"priority": 5})  # with one of both pods there would be room for it
    assert result(cluster)[0] == ""


def test_it_preempts_nobody() -> None:
    cluster = ReservationCluster("n1", settings=ReservationSettings(preempts=True))
    cluster.pod("a", "1", "n1")
    cluster.pod("low", "6", "n1", priority=1, **BUSY)
    takes_over(cluster, pod={"priority": 10})
    assert isinstance(cluster.decide(), Refusal)


def test_one_whose_owners_cannot_be_read_waits() -> None:
    cluster = ReservationCluster("n1")
    takes_over(cluster, owners=[{"labelSelector": {"matchLabels": 5}}])
    assert "spec.owners[0].labelSelector" in result(cluster)[1][0]


def test_another_reservation_of_the_same_name_stays_as_it_is() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "3", "n1")
    takes_over(cluster)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    document = reservation("r", "2", "n1", owners=[OF_WEB])
    document["metadata"]["uid"] = "u-other"
    cluster.put("Reservation", "r", document)
    undone = cluster.scheduler.nodes.use(ReservationColumns).undo_pre_allocation
    undone("r", "n1", "u-r")
    assert cluster.requested("n1") == 5000


def test_the_policy_has_to_be_restricted() -> None:
    cluster = ReservationCluster("n1")
    takes_over(cluster, allocatePolicy="Aligned")
    assert "set spec.allocatePolicy to Restricted" in result(cluster)[1][0]


class Opaque(Plugin):
    """A filter that cannot be said as limits: dry runs take pods off their nodes."""

    name = "Opaque"

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter:
        return lambda rows: nodes.is_node[rows]


def test_a_dry_run_leaves_pods_that_are_about_to_be_taken_over_as_they_are() -> None:
    cluster = ReservationCluster("n1", more=[EnabledPlugin(Opaque())])
    cluster.pod("a", "3", "n1", priority=5)
    cluster.pod("busy", "4", "n1", app="db", priority=1)
    cluster.reservation(
        "r", "4", preAllocation=True, allocatePolicy="Restricted", allocateOnce=False
    )
    assert isinstance(cluster.decide(), Placement)
    before = cluster.requested("n1")
    cluster.pod("hi", "3", app="db", priority=100)
    assert isinstance(cluster.decide(), PreemptionPlan)
    assert cluster.requested("n1") == before
