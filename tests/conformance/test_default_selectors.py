"""Which pods are spread with a pod by default, against Kubernetes' DefaultSelector."""

from __future__ import annotations

import json

from koord_scheduler.classes.pod_class import pod_class
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.objects.pod import read_pod

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.workloads import set_workloads


def ours(vector: Vector) -> Fields:
    nodes = NodeColumns()
    set_workloads(nodes, vector.given)
    pod = pod_class(read_pod(json.dumps(vector.given["pod"]).encode()))
    found = nodes.workloads.selector(pod.labels, pod.controller)
    rows = [(one.key, str(one.operator), sorted(one.values)) for one in found.requirements]
    return {
        "requirements": sorted(rows),
        "empty": not rows,
        "matches": [found.matches(labels) for labels in vector.given["others"]],
    }


def theirs(recorded: Object) -> Fields:
    rows = [(key, operator, sorted(values)) for key, operator, values in recorded["requirements"]]
    return {**recorded, "requirements": sorted(rows)}


def test_the_pods_that_belong_together_are_those_of_kubernetes() -> None:
    replay("default_selectors", ours, theirs)
