from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.pod_webhook.extended_resource_spec import mutated
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.extended_resources import parse

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


def test_batch_resources_by_container_as_koordlet_reads_them() -> None:
    text = annotated(pod(ASKS, container("b", requests={"cpu": "1"}), other="stays"))
    assert text.pop("other") == "stays"
    assert json.loads(text[KEY]) == {"containers": {"a": SPEC}}
    read = parse(text[KEY])["a"]
    assert read.cpu_request is not None
    assert read.cpu_request.value == 500
    assert read.ignored == ()


def test_what_runs_beside_the_others_counts_with_them_and_what_ends_before_does_not() -> None:
    beside = {**ASKS, "name": "s", "restartPolicy": "Always"}
    text = annotated(pod(ASKS, inits=[{**ASKS, "name": "i"}, beside]))[KEY]
    spec = {"containers": {"a": SPEC, "s": SPEC}, "initContainers": {"i": SPEC, "s": SPEC}}
    assert json.loads(text) == spec


@pytest.mark.parametrize("given", [pod(container("a", requests={"cpu": "1"})), pod({"name": "a"})])
def test_a_pod_without_batch_resources_gets_none(given: Object) -> None:
    assert mutated(given, "ns", ClusterView(), []) is given


def test_nor_may_it_say_so_itself() -> None:
    assert annotated(pod({"name": "a"}, spec='{"containers":{}}', other="x")) == {"other": "x"}


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
