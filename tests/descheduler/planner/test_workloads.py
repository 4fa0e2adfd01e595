"""Replicas are read when somebody asks for them, and again when they are old."""

from __future__ import annotations

import pytest
from koord_descheduler.objects.observed_pod import WorkloadName
from koord_descheduler.planner.workloads import Replicas, Workloads

from tests.descheduler.clusters import TestCluster, pod


def named(name: str) -> WorkloadName:
    return WorkloadName("apps/v1", "Deployment", "default", name)


def test_replicas_are_due_where_they_are_asked_for_and_old() -> None:
    workloads = Workloads(fresh=30.0)
    assert workloads.replicas(named("a")) == Replicas()
    assert list(workloads.due(0.0)) == [named("a")]
    workloads.learn(named("a"), Replicas(3), 0.0)
    assert workloads.replicas(named("a")).desired == 3
    assert list(workloads.due(29.0)) == []
    workloads.replicas(named("a"))
    assert list(workloads.due(30.0)) == [named("a")]
    assert list(workloads.due(60.0)) == []


def test_the_number_of_workloads_is_bounded() -> None:
    workloads = Workloads(most=2)
    for place, name in enumerate("abc"):
        workloads.replicas(named(name))
        workloads.learn(named(name), Replicas(place + 1), 0.0)
    assert list(workloads.due(100.0)) == [named("a"), named("b")]
    assert [workloads.replicas(named(name)).desired for name in "abc"] == [None, 2, 3]


@pytest.mark.parametrize(
    ("labels", "kind", "name"),
    [
        ({"pod-template-hash": "x1"}, "Deployment", "web"),
        ({"pod-template-hash": "other"}, "ReplicaSet", "web-x1"),
        ({}, "ReplicaSet", "web-x1"),
    ],
)
def test_copies_of_a_deployment_are_found_by_the_names_of_its_replica_sets(
    labels: dict[str, str], kind: str, name: str
) -> None:
    cluster, seen = TestCluster(), list[str]()
    cluster.cluster.subscribe(seen.append)
    cluster.put(pod("p", "a", owner="web-x1", labels=labels))
    workload = WorkloadName("apps/v1", kind, "default", name)
    assert [known.view.name for known in cluster.cluster.copies(workload)] == ["p"]
    cluster.remove("Pod", "default/p")
    assert list(cluster.cluster.copies(workload)) == []
    assert seen == ["default/p", "default/p"]
