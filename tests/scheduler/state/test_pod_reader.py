"""Copies share a class; what decides where a pod runs makes another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_LOAD_AFTER_SCHEDULED, ANNOTATION_LOAD_FACTORS
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.volumes.usage import VOLUMES, UsedClaim
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_reader import PodReader, WaitingPod
from koord_scheduler.state.workload_selectors import WorkloadReference

from tests.support.prepared import prepared

SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}


def waiting(reader: PodReader, owners: list[dict[str, Any]], **spec: Any) -> WaitingPod:
    metadata = {"name": "p", "namespace": "shop", "labels": {"app": "web"}}
    document = {"metadata": {**metadata, "ownerReferences": owners}, "spec": spec}
    found = reader.read(json.dumps(document).encode()).waiting
    assert found is not None
    return found


def owner(version: str, kind: str, name: str = "a", *, controls: bool = True) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": name, "controller": controls}


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        ([owner("v1", "ReplicationController")], "ReplicationController"),
        ([owner("apps/v1", "ReplicaSet")], "ReplicaSet"),
        ([owner("apps/v1", "StatefulSet")], "StatefulSet"),
        ([owner("batch/v1", "Job")], None),
        ([owner("apps/v1", "DaemonSet")], None),
        ([owner("example.com/v1", "ReplicaSet")], None),
        ([owner("apps/v1", "ReplicaSet", controls=False)], None),
        ([owner("v1", "Node", controls=False), owner("apps/v1", "ReplicaSet")], "ReplicaSet"),
        ([], None),
    ],
)
def test_a_controller_makes_a_class_only_if_it_decides(
    owners: list[dict[str, Any]], controller: str | None
) -> None:
    reader = PodReader(ClusterState())
    first = waiting(reader, owners)
    other = waiting(reader, [{**one, "name": "b"} for one in owners])
    expected = None if controller is None else WorkloadReference(controller, "shop/a")
    assert first.pod_class.controller == expected
    assert (first.pod_class is other.pod_class) == (controller is None)
    own = [waiting(reader, one, topologySpreadConstraints=[SPREAD]) for one in (owners, [])]
    assert own[0].pod_class is own[1].pod_class


def read(reader: PodReader, name: str, *volumes: dict[str, Any]) -> PodClass:
    metadata = {"name": name, "namespace": "a", "uid": f"uid of {name}"}
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    waiting = reader.read(json.dumps({"metadata": metadata, "spec": spec}).encode()).waiting
    assert waiting is not None
    return waiting.pod_class


def test_volumes_with_names_of_their_own_do_not_split_a_class() -> None:
    reader = PodReader(ClusterState())
    token: dict[str, Any] = {"projected": {"sources": []}}
    first = read(reader, "p1", {"name": "kube-api-access-1", **token})
    assert read(reader, "p2", {"name": "kube-api-access-2", **token}) is first


def test_pods_with_ephemeral_volumes_have_claims_of_their_own() -> None:
    reader = PodReader(prepared([VolumeBinding()]))
    scratch: dict[str, Any] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    claims = [read(reader, name, scratch).of(VOLUMES).claims for name in ("p1", "p2")]
    assert claims == [
        (UsedClaim("a/p1-scratch", "a/p1", "uid of p1"),),
        (UsedClaim("a/p2-scratch", "a/p2", "uid of p2"),),
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"spec": {"priority": 5500}},
        {"metadata": {"annotations": {ANNOTATION_LOAD_FACTORS: '{"cpu": 10}'}}},
        {"metadata": {"annotations": {ANNOTATION_LOAD_AFTER_SCHEDULED: "60"}}},
        {"metadata": {"ownerReferences": [owner("apps/v1", "DaemonSet")]}},
    ],
)
@pytest.mark.parametrize("is_used", [False, True])
def test_loads_split_classes_only_where_somebody_asks(other: dict[str, Any], is_used: bool) -> None:
    columns = ClusterState()
    if is_used:
        columns.use(NodeLoads).table(LoadAwareSchedulingArgs().settings())
    reader = PodReader(columns)
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec, metadata = {"containers": [container]}, {"name": "p", "namespace": "shop"}
    pods = [
        reader.read(
            json.dumps(
                {
                    "metadata": {**metadata, **one.get("metadata", {})},
                    "spec": {**spec, **one.get("spec", {})},
                }
            ).encode()
        )
        for one in ({}, other)
    ]
    first, second = (one.waiting for one in pods)
    assert first is not None
    assert second is not None
    assert (first.pod_class == second.pod_class) is not is_used
    assert (first.usage == second.usage) is not is_used


@pytest.mark.parametrize("node", ["", "n1"])
@pytest.mark.parametrize(("size", "count", "most"), [(1 << 20, 30, 8 << 20), (1, 3, 2 * 2048)])
def test_pods_are_not_remembered_for_ever(node: str, size: int, count: int, most: int) -> None:
    """A short one costs more than its JSON; the last is not measured yet."""
    reader = PodReader(ClusterState())
    containers = [{"name": "c", "image": "i"}]
    for number in range(count):
        selector = {f"example.com/{number}": "v" * size}
        spec = {"containers": containers, "nodeSelector": selector, "nodeName": node}
        metadata = {"name": "p", "namespace": "shop", "uid": "u"}
        reader.read(json.dumps({"metadata": metadata, "spec": spec}).encode())
    remembered = reader._usages if node else reader._classes
    assert most - size <= remembered.size <= most
