"""Each rule that keeps a pod has a line that names it, and an argument that lifts it."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.who_may_move import (
    ANNOTATION_EVICT,
    MovementRules,
    lasting_obstacle,
    passing_obstacle,
    scheduler_obstacle,
    workload_state,
)
from koord_scheduler.arguments.problems import convert

from tests.descheduler.clusters import TestCluster, pod

LOCAL = {"volumes": [{"name": "v", "emptyDir": {}}]}
PVC = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
ANNOTATED = {"annotations": {ANNOTATION_EVICT: ""}}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def rules(**fields: Any) -> MovementRules:
    return MovementRules(convert(fields, MigrationControllerArgs))


class Workload:
    """A workload "app" of some pods, and what is known of its replicas."""

    def __init__(self, replicas: int | None = 3, problem: str = "", **of_first: Any) -> None:
        self.cluster = TestCluster()
        self.cluster.put(pod("p0", "a", **of_first), pod("p1", "b"), pod("p2", "c"))
        self.pod = self.view("p0")
        if self.pod.template.workload is not None:
            known = Replicas(replicas, problem)
            self.cluster.cluster.workloads.learn(self.pod.template.workload, known, 0.0)

    def view(self, name: str) -> ObservedPod:
        return self.cluster.cluster.pods[f"default/{name}"].view

    def lasting(self, **fields: Any) -> str:
        state = workload_state(self.pod, self.cluster.cluster)
        return lasting_obstacle(self.pod, rules(**fields), state)

    def passing(self, *moving: ObservedPod, **fields: Any) -> str:
        state = workload_state(self.pod, self.cluster.cluster)
        return passing_obstacle(self.pod, rules(**fields), moving, state)


@pytest.mark.parametrize(
    ("of_pod", "said", "lifted_by"),
    [
        ({"owner": None}, "no owner", {"evictAllBarePods": True}),
        ({"owner": None}, "no owner", {"skipEvictionGates": ["BarePods"]}),
        ({"spec": LOCAL}, "local storage", {"evictLocalStoragePods": True}),
        ({"spec": LOCAL}, "local storage", {"skipEvictionGates": ["LocalStorage"]}),
    ],
)
def test_rules_without_arguments(
    of_pod: dict[str, Any], said: str, lifted_by: dict[str, Any]
) -> None:
    workload = Workload(**of_pod)
    assert said in workload.lasting()
    assert workload.lasting(**lifted_by) == ""
    assert Workload(**of_pod, **ANNOTATED).lasting() == ""


@pytest.mark.parametrize(
    ("of_pod", "fields", "said", "gate"),
    [
        ({"spec": PVC}, {"ignorePvcPods": True}, "PersistentVolumeClaim", "PVC"),
        ({"spec": {"priority": 10}}, {"priorityThreshold": {"value": 10}}, "not below", ""),
        ({}, {"priorityThreshold": {"name": "high"}}, "is not known", "PriorityThreshold"),
        ({}, {"labelSelector": {"matchLabels": {"a": "b"}}}, "does not select", "LabelSelector"),
        ({}, {"namespaces": {"include": ["other"]}}, "is not among", "Namespaces"),
        ({}, {"namespaces": {"exclude": ["default"]}}, "is excluded", "Namespaces"),
    ],
)
def test_rules_with_arguments(
    of_pod: dict[str, Any], fields: dict[str, Any], said: str, gate: str
) -> None:
    workload = Workload(**of_pod)
    assert workload.lasting() == ""
    assert said in workload.lasting(**fields)
    if gate:
        assert workload.lasting(**fields, skipEvictionGates=[gate]) == ""


def test_failed_bare_pods_may_move_by_themselves() -> None:
    fields = {"evictFailedBarePods": True}
    assert Workload(owner=None).lasting(**fields) == "it has no owner, and has not failed"
    assert Workload(owner=None, status={"phase": "Failed"}).lasting(**fields) == ""


def test_nothing_lifts_the_list_of_pods_that_never_go() -> None:
    """Not even the annotation, with which Koordinator evicts pods of DaemonSets."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
    of_daemon_set = Workload(ownerReferences=[owner | {"controller": True}], **ANNOTATED)
    assert "DaemonSet" in of_daemon_set.lasting()
    ends = Workload(deletionTimestamp="2026-01-01T00:00:00Z")
    assert ends.lasting() == "ends already"


@pytest.mark.parametrize(
    ("replicas", "fields", "said"),
    [
        (1, {}, "ReplicaSet default/app has one replica"),
        (2, {}, ""),
        (2, {"maxMigratingPerWorkload": 2}, "2 replicas, as many as maxMigratingPerWorkload"),
        (3, {"maxUnavailablePerWorkload": 3}, "3 replicas, as many as maxUnavailablePerWorkload"),
        (1, {"skipEvictionGates": ["ExpectedReplicas"]}, ""),
        (1, {"skipCheckExpectedReplicas": True}, ""),
    ],
)
def test_expected_replicas(replicas: int, fields: dict[str, Any], said: str) -> None:
    found = Workload(replicas).lasting(**fields)
    assert found.startswith(said) if not said else said in found
    assert bool(found) is bool(said)


def test_a_kind_without_replicas_says_why_and_can_be_moved() -> None:
    """Its running pods count as its replicas then."""
    workload = Workload(None, "it has no scale subresource")
    assert workload.lasting() == (
        "the replicas of ReplicaSet default/app cannot be known: it has no scale subresource"
    )
    fields = {"skipEvictionGates": ["ExpectedReplicas"]}
    assert workload.lasting(**fields) == workload.passing(**fields) == ""
    assert "p1" not in workload.passing(workload.view("p1"), **fields)
    assert "maxMigratingPerWorkload is 1" in workload.passing(workload.view("p1"), **fields)


def test_replicas_that_are_not_read_yet_are_waited_for() -> None:
    workload = Workload(None)
    assert workload.lasting() == ""
    assert workload.passing() == "the replicas of ReplicaSet default/app are not known yet"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"maxMigratingGlobally": 1}, "maxMigratingGlobally is 1"),
        ({"maxMigratingGlobally": 0}, ""),
        ({"maxMigratingGlobally": 2}, ""),
        ({"maxMigratingPerNode": 1}, "maxMigratingPerNode is 1"),
        ({"maxMigratingPerNamespace": 1}, "maxMigratingPerNamespace is 1"),
    ],
)
def test_limits_of_pods_that_move(fields: dict[str, Any], said: str) -> None:
    workload = Workload()
    workload.cluster.put(pod("q", "a", owner="other"))
    other = workload.view("q")
    assert said in workload.passing(other, other, workload.pod, **fields)
    assert bool(workload.passing(other, **fields)) is bool(said)
    (name,) = fields
    gate = name[0].upper() + name[1:]
    assert workload.passing(other, **fields, skipEvictionGates=[gate]) == ""
    assert Workload(**ANNOTATED).passing(other, **fields) == ""


def test_limits_of_a_workload() -> None:
    workload = Workload(4)
    assert workload.passing() == ""
    assert workload.passing(workload.view("p1")) == ""
    both = workload.view("p1"), workload.view("p2")
    assert "2 pods of ReplicaSet default/app move already" in workload.passing(*both)
    lifted = {"skipEvictionGates": ["MaxMigratingPerWorkload"]}
    assert "2 pods of ReplicaSet default/app are away" in workload.passing(*both, **lifted)
    lifted["skipEvictionGates"].append("MaxUnavailablePerWorkload")
    assert workload.passing(*both, **lifted) == ""


def test_those_that_move_with_it_do_not_count_for_its_workload() -> None:
    workload = Workload(3)
    others = workload.view("p1"), workload.view("p2")
    state = workload_state(workload.pod, workload.cluster.cluster)
    given = rules(maxMigratingPerNode=0)
    fellows = {"default/p1", "default/p2"}
    assert passing_obstacle(workload.pod, given, others, state, fellows) == ""
    one_stays = passing_obstacle(workload.pod, given, others, state, {"default/p1"})
    assert one_stays.startswith("1 pods of ReplicaSet default/app move already")


def test_pods_that_are_away_are_those_that_do_not_serve() -> None:
    workload = Workload(3)
    workload.cluster.put(pod("p1", "b", status=NOT_READY))
    assert "maxUnavailablePerWorkload is 1" in workload.passing()
    workload.cluster.put(pod("p1", "b", status={"phase": "Failed"}))
    assert workload.passing() == "", "another one runs in its place"
    workload.cluster.put(pod("p1", "b", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert "maxUnavailablePerWorkload is 1" in workload.passing()


def test_reservations_are_for_pods_of_their_scheduler() -> None:
    view = Workload().pod
    assert "its scheduler is default-scheduler" in scheduler_obstacle(view, rules().args)
    for fields in (
        {"schedulerNames": ["default-scheduler"]},
        {"defaultJobMode": "EvictDirectly"},
    ):
        assert scheduler_obstacle(view, rules(**fields).args) == ""


def test_replica_sets_of_a_deployment_are_one_workload() -> None:
    """Koordinator counts the replicas of all of them, and moving pods of one."""
    cluster = TestCluster()
    for place, template in enumerate(("x", "x", "y", "y")):
        labels = {"pod-template-hash": template}
        cluster.put(pod(f"p{place}", "a", owner=f"web-{template}", labels=labels))
    views = [cluster.cluster.pods[f"default/p{place}"].view for place in range(4)]
    workload = views[0].template.workload
    assert workload is not None
    cluster.cluster.workloads.learn(workload, Replicas(4), 0.0)
    state = workload_state(views[0], cluster.cluster)
    assert state is not None
    assert len(state.pods) == 4
    found = passing_obstacle(views[0], rules(maxMigratingPerNode=0), views[2:], state)
    assert "2 pods of Deployment default/web move already" in found


def test_a_pod_without_a_node_is_on_none() -> None:
    workload = Workload()
    workload.cluster.put(pod("q", "", owner="other"), pod("r", "", owner="another"))
    state = workload_state(workload.view("q"), workload.cluster.cluster)
    given = rules(maxMigratingPerNode=1, skipEvictionGates=["ExpectedReplicas"])
    assert state is not None
    known = state._replace(replicas=Replicas(4))
    assert passing_obstacle(workload.view("q"), given, [workload.view("r")], known) == ""
