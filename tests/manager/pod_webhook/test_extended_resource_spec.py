from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.pod_webhook.extended_resource_spec import mutated
from koord_manager.webhooks.cluster_view import ClusterView

Object = dict[str, Any]
KEY = "node.koordinator.sh/extended-resource-spec"
CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


def container(name: str, *, beside: bool = False, **resources: Object) -> Object:
    more = {"restartPolicy": "Always"} if beside else {}
    return {"name": name, "resources": resources, **more}


def pod(*containers: Object, inits: list[Object] | None = None, **annotations: str) -> Object:
    spec = {"containers": list(containers), "initContainers": inits}
    noted = {KEY if name == "spec" else name: text for name, text in annotations.items()}
    return {"metadata": {"annotations": noted}, "spec": spec}


def annotated(given: Object) -> Object:
    found: Object = mutated(given, "ns", ClusterView(), [])["metadata"]["annotations"]
    return found


ASKS = container("a", requests={CPU: "500", MEMORY: "1Gi", "cpu": "1"}, limits={CPU: "1000"})
SPEC = {"limits": {CPU: "1000"}, "requests": {CPU: "500", MEMORY: "1Gi"}}


@pytest.mark.parametrize("said", ["{", "[]", json.dumps({"containers": {"a": {}}}), "[" * 100_000])
def test_what_a_batch_pod_says_itself_is_written_over(said: str) -> None:
    assert json.loads(annotated(pod(ASKS, spec=said))[KEY]) == {"containers": {"a": SPEC}}


def test_a_megabyte_of_the_same_is_written_over_unread() -> None:
    said = json.dumps({"containers": {"a": SPEC}}) + " " * 1_000_000
    assert len(annotated(pod(ASKS, spec=said))[KEY]) < 1000


def test_the_same_said_otherwise_stays() -> None:
    given = pod(ASKS, spec=json.dumps({"containers": {"a": SPEC}}, indent=2))
    assert mutated(given, "ns", ClusterView(), []) is given


def test_the_gate_turns_it_off() -> None:
    view = ClusterView(gates={"DisableExtendedResourceSpec": True})
    given = pod(ASKS)
    assert mutated(given, "ns", view, []) is given


def test_a_pod_without_batch_resources_may_not_say_so_itself() -> None:
    plain = pod({"name": "a"})
    assert mutated(plain, "ns", ClusterView(), []) is plain
    assert annotated(pod({"name": "a"}, spec='{"containers":{}}', other="x")) == {"other": "x"}
