from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.colocated_resources import renamed

Object = dict[str, Any]


def batch(resources: Object, priority: int = 5500, /, **spec: Any) -> Object:
    containers = [{"name": "c", "resources": resources}]
    return {"metadata": {}, "spec": {"priority": priority, "containers": containers, **spec}}


def mutated(pod: Object) -> Object:
    before = copy.deepcopy(pod)
    warnings: list[str] = []
    after = renamed(pod, document.read(pod), warnings)
    assert pod == before
    assert warnings == []
    assert renamed(after, document.read(after), warnings) == after
    return after


def resources(pod: Object) -> Object:
    found: Object = mutated(pod)["spec"]["containers"][0]["resources"]
    return found


CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"requests": {"cpu": "0.0001"}}, {"requests": {CPU: "1"}}),
        (
            {"requests": {"memory": "1"}, "limits": {"cpu": "1"}},
            {"requests": {MEMORY: "1", CPU: "1k"}, "limits": {CPU: "1k"}},
        ),
        ({"requests": {"cpu": "much"}}, {"requests": {"cpu": "much"}}),
        ({"requests": None, "claims": []}, {"requests": None, "claims": []}),
        ({}, {}),
    ],
)
def test_a_batch_pods_resources(given: Object, expected: Object) -> None:
    assert resources(batch(given)) == expected


def test_resources_of_the_pod_as_a_whole_stay_with_a_warning() -> None:
    pod = batch({}, resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}})
    warnings: list[str] = []
    assert renamed(pod, document.read(pod), warnings)["spec"]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"memory": "1Gi"},
    }
    (line,) = warnings
    assert line.startswith("spec.resources has cpu and memory, which Kubernetes takes under no")
