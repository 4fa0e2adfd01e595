"""Copies share a class; what decides where a pod runs makes another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.classes.pod_reader import PodReader, WaitingPod
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.workload_selectors import WorkloadReference

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
    reader = PodReader(NodeColumns())
    first = waiting(reader, owners)
    other = waiting(reader, [{**one, "name": "b"} for one in owners])
    expected = None if controller is None else WorkloadReference(controller, "shop/a")
    assert first.pod_class.controller == expected
    assert (first.pod_class is other.pod_class) == (controller is None)
    own = [waiting(reader, one, topologySpreadConstraints=[SPREAD]) for one in (owners, [])]
    assert own[0].pod_class is own[1].pod_class
